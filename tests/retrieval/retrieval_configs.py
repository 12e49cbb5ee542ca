"""A config with one source, as small as a config may be."""

from pathlib import Path
from typing import Any

import yaml

from r1_router.types import TEXT


def config_with(at: Path, **source: Any) -> Path:
    path = at / "config.yaml"
    told = {"name": TEXT.name, "tag": TEXT.tag, "purpose": "facts", **source}
    llm = {"name": "none", "model": "none"}
    encoders = {"text": {"kind": "sentence", "model": "none"}}
    path.write_text(yaml.safe_dump({"llm": llm, "encoders": encoders, "sources": [told], "benchmarks": {}}))
    return path
