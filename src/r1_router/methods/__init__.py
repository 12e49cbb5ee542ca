"""Methods: each a coroutine that works on one question; run many of them at once with `r1_router.run`."""

from r1_router.methods.registry import METHODS, make_method
from r1_router.methods.work import Event, OnEvent, Settings

__all__ = ["METHODS", "Event", "OnEvent", "Settings", "make_method"]
