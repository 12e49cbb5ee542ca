"""The Factbook world: three knowledge bases and routed questions, rebuilt byte for byte from public-domain packages."""
