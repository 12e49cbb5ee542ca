"""One safetensors file that holds a training run between two steps; replaced whole, so a kill leaves the old one."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from r1_router.errors import DataError


@dataclass(frozen=True, slots=True)
class Progress:
    """Steps done and seconds spent by the run named `run` (a digest of its settings and data)."""

    run: str
    step: int = 0
    seconds: float = 0.0


def save(path: Path, progress: Progress, parameters: Sequence[Tensor], optimizer: torch.optim.Optimizer) -> None:
    """Write parameters, optimiser state and progress, on disk before the old file goes."""
    tensors = {f"parameter.{index}": value.detach() for index, value in enumerate(parameters)}
    for index, state in optimizer.state_dict()["state"].items():
        tensors |= {f"{key}.{index}": value for key, value in state.items()}
    metadata = {"run": progress.run, "step": str(progress.step), "seconds": str(progress.seconds)}
    partial = path.with_suffix(".partial")
    save_file(tensors, partial, metadata)
    replace(partial, path)


def load(path: Path, run: str, parameters: Sequence[Tensor], optimizer: torch.optim.Optimizer) -> Progress:
    """Put the saved state into `parameters` and `optimizer`; a missing file is a run at its start.

    Raises DataError when the file belongs to a run of other settings or data.
    """
    if not path.exists():
        return Progress(run)
    with safe_open(path, "pt") as file:
        metadata = file.metadata()
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (not a mapping)
    if metadata["run"] != run:
        raise DataError(f"{path} was left by a run with other settings or data; delete it or choose another output")
    with torch.no_grad():
        for index, parameter in enumerate(parameters):
            parameter.copy_(tensors.pop(f"parameter.{index}"))
    _restore(optimizer, tensors)
    return Progress(run, int(metadata["step"]), float(metadata["seconds"]))


def replace(partial: Path, path: Path) -> None:
    """Move a finished file over `path` after its bytes are on disk."""
    with partial.open("rb") as file:
        os.fsync(file.fileno())
    os.replace(partial, path)


def _restore(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        key, _, index = name.rpartition(".")
        state.setdefault(int(index), {})[key] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
