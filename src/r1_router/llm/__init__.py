"""Language models behind one protocol (`r1_router.types.LLM`); each engine is its own module, loaded when asked for."""
