"""Methods: each a coroutine that works on one question; run many of them at once with `r1_router.run`."""

from r1_router.methods.blocks import Event, OnEvent, Settings
from r1_router.methods.registry import METHODS, make_method

__all__ = ["METHODS", "Event", "OnEvent", "Settings", "make_method"]
