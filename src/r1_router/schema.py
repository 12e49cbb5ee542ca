"""Plain YAML values to dataclasses: every key known, every type right, or a ConfigError that names the key."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from r1_router.errors import ConfigError

T = TypeVar("T")
EXPONENT = re.compile(r"[+-]?\d+\.?\d*[eE][+-]?\d+")
"""A number that YAML 1.1 takes for a text, as it wants 1.0e-3 for 1e-3."""


def read_dataclass(cls: type[T], value: Any, where: str, root: Path) -> T:
    """An instance of the dataclass `cls` from a mapping; `where` names it in errors, paths are taken from `root`."""
    if not isinstance(value, Mapping):
        raise ConfigError(f"{where}: expected keys and values, found {value!r}.")
    known = {field.name: field for field in fields(cls)}  # type: ignore[arg-type]
    for key in value:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}."
            raise ConfigError(f"{where}: there is no key {key!r}; {hint}")
    for name, field in known.items():
        if name not in value and field.default is MISSING and field.default_factory is MISSING:
            raise ConfigError(f"{where}: the key {name!r} is missing.")
    hints = get_type_hints(cls)
    return cls(**{key: _read(hints[key], item, f"{where}.{key}", root) for key, item in value.items()})


def _read(hint: Any, value: Any, where: str, root: Path) -> Any:
    if hint is Any:
        return value
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        if value is None and NoneType in arguments:
            return None
        return _read(next(argument for argument in arguments if argument is not NoneType), value, where, root)
    if is_dataclass(hint):
        return read_dataclass(hint, value, where, root)  # type: ignore[arg-type]
    if origin is tuple and (isinstance(value, list) or (isinstance(value, str) and arguments[0] is str)):
        items = [value] if isinstance(value, str) else value  # one text may stand for a list of one
        return tuple(_read(arguments[0], item, f"{where}[{n}]", root) for n, item in enumerate(items))
    if origin is dict and isinstance(value, dict):
        return {str(key): _read(arguments[1], item, f"{where}.{key}", root) for key, item in value.items()}
    return _read_scalar(hint, value, where, root)


def _read_scalar(hint: Any, value: Any, where: str, root: Path) -> Any:
    if hint is Path and isinstance(value, str):
        return root / value
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint is float and isinstance(value, str) and EXPONENT.fullmatch(value):
        return float(value)
    if isinstance(hint, type) and isinstance(value, hint) and (hint is bool or not isinstance(value, bool)):
        return value
    wanted = getattr(hint, "__name__", str(hint)) if get_origin(hint) is None else str(get_origin(hint).__name__)
    raise ConfigError(f"{where}: expected {wanted}, found {value!r}.")
