"""R1-Router: stepwise question answering routed over text, image and table knowledge bases."""

from r1_router.errors import R1RouterError
from r1_router.types import (
    IMAGE,
    TABLE,
    TEXT,
    Answer,
    Passage,
    Plan,
    Query,
    Question,
    Source,
    Step,
    Trajectory,
    Usage,
)

__version__ = "0.1.0"

__all__ = [
    "IMAGE",
    "TABLE",
    "TEXT",
    "Answer",
    "Passage",
    "Plan",
    "Query",
    "Question",
    "R1RouterError",
    "Source",
    "Step",
    "Trajectory",
    "Usage",
    "__version__",
]
