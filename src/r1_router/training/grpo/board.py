"""A run's log for TensorBoard, where that is installed: `tensorboard --logdir OUTPUT/tensorboard`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

FOLDER = "tensorboard"


def board_of(output: Path) -> Callable[[Mapping[str, Any]], None]:
    """What takes each row of the log, its measures as scalars at the row's step."""
    if find_spec("tensorboard") is None:
        return lambda row: None
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(output / FOLDER))

    def add(row: Mapping[str, Any]) -> None:
        for name, value in row.items():
            if name != "step":
                writer.add_scalar(name, value, row["step"])
        writer.flush()

    return add
