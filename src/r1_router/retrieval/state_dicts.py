"""Weights files of other makers: read without running what they hold, compared with the model before they go in."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from r1_router.errors import ConfigError

if TYPE_CHECKING:
    from torch import Tensor

FETCH = "Fetch it again: bash scripts/download_checkpoints.sh retrievers"
SHOWN = 20
"""Keys named of each kind of difference; a file of another model differs in hundreds."""


class _Blank:
    """Stands where a file has an object of a class that tensors do not need: it keeps nothing and does nothing."""

    def __new__(cls, *_: object) -> _Blank:
        return super().__new__(cls)

    def __init__(self, *_: object) -> None: ...

    def __setstate__(self, state: object) -> None: ...


def read_state(path: Path) -> dict[str, Any]:
    """What a `.safetensors` or `torch.save` file holds, on the CPU; of a pickle only tensors and plain values.

    Raises ConfigError where there is no such file, where it was cut, or where it is something else.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        state = _read_pickled(path)
    except (OSError, EOFError, RuntimeError, ValueError, pickle.UnpicklingError, SafetensorError) as error:
        reason = str(error).partition("\n")[0]
        raise ConfigError(f"{path} cannot be read as weights ({reason}). {FETCH}") from error
    if not isinstance(state, dict):
        raise ConfigError(f"{path} holds a {type(state).__name__}, not tensors by name. {FETCH}")
    return state


def _read_pickled(path: Path) -> Any:
    """What `torch.save` wrote, with a blank for every class that is not safe; none of them is looked up or called.

    Training states hold such objects beside their tensors: UniIR's has its OmegaConf configuration.
    """
    from torch import load
    from torch.serialization import get_unsafe_globals_in_checkpoint, safe_globals

    strangers = get_unsafe_globals_in_checkpoint(str(path))
    with safe_globals([(_Blank, name) for name in strangers]):
        return load(str(path), map_location="cpu", weights_only=True, mmap=True)


def weights_in(folder: Path, names: Sequence[str]) -> Path:
    """The one file in `folder`, at any depth, of the first of `names` that has any; a file's path is taken as it is.

    Names may be patterns. Raises ConfigError where there is none, or several.
    """
    if folder.is_file():
        return folder
    for name in names:
        found = sorted(folder.rglob(name))
        if len(found) > 1:
            raise ConfigError(
                f"{folder} holds several {name}: give one of them as the encoder's `model` in the config."
            )
        if found:
            return found[0]
    raise ConfigError(f"{folder} holds no weights: none of {', '.join(names)}. {FETCH}")


def require_layout(found: Mapping[str, Tensor], expected: Mapping[str, Tensor], path: Path) -> None:
    """Raise ConfigError, with the keys that differ, unless `found` has the names and shapes of `expected`."""
    resized = [
        f"{key} {tuple(found[key].shape)} for {tuple(expected[key].shape)}"
        for key in expected
        if key in found and found[key].shape != expected[key].shape
    ]
    differences = (
        ("missing", [key for key in expected if key not in found]),
        ("unknown", [key for key in found if key not in expected]),
        ("of another shape", resized),
    )
    if any(keys for _, keys in differences):
        listed = "; ".join(f"{len(keys)} keys {kind}: {_listed(keys)}" for kind, keys in differences if keys)
        raise ConfigError(f"{path} does not hold the weights of this model: {listed}. {FETCH}")


def _listed(keys: Sequence[str]) -> str:
    more = f" and {len(keys) - SHOWN} more" if len(keys) > SHOWN else ""
    return ", ".join(keys[:SHOWN]) + more
