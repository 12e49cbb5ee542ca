"""The released checkpoints by name: what they weigh and under which licence, and fetching them from the model hub.

Facts come from the hub when it is asked, and are noted beside the files: the revision of the first download is the one
that every later download, and every check, is held to.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from r1_router.errors import ConfigError, DownloadError, MissingDependency
from r1_router.fetch import require_space
from r1_router.files import sha256_of, write_atomically

if TYPE_CHECKING:
    from huggingface_hub import HfApi

Answered = TypeVar("Answered")
NOTE = "downloaded.json"
PLAIN = ("*.safetensors", "*.json", "*.txt", "*.model", "*.jinja")
"""Weights, configuration and tokenizer: no pickled weights, no code."""
TOKENIZER = (
    "config.json",
    "tokenizer*",
    "vocab.*",
    "merges.txt",
    "special_tokens_map.json",
    "preprocessor_config.json",
)
"""What weights alone lack."""
BGE = (*TOKENIZER, "*sentence*", "modules.json", "1_Pooling/*", "model.safetensors", "pytorch_model.bin")
CLIP_SF = ("checkpoint/CLIP_SF/Large/Instruct/InBatch/clip_sf_large.pth", "checkpoint/CLIP_SF/clip_sf_large.pth")
"""Where the file has been; one of these is there."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A released model on the hub, and which of its files are fetched, by patterns of their paths.

    A pickled weights file is fetched where a pattern names it and no `.safetensors` stands beside it; it is only ever
    read as tensors (`weights_only`).
    """

    repository: str
    wanted: tuple[str, ...] = PLAIN


CHECKPOINTS = {
    "R1-Router-7B": Checkpoint("hmhm1229/R1-Router"),
    "MoRE-3B": Checkpoint("hmhm1229/MoRE-3B"),
    "Qwen2.5-VL-7B-Instruct": Checkpoint("Qwen/Qwen2.5-VL-7B-Instruct"),
    "Qwen2.5-VL-3B-Instruct": Checkpoint("Qwen/Qwen2.5-VL-3B-Instruct"),
    "bge-m3": Checkpoint("BAAI/bge-m3", BGE),
    "clip-sf-large": Checkpoint("TIGER-Lab/UniIR", CLIP_SF),
    "clip-vit-large-patch14": Checkpoint("openai/clip-vit-large-patch14", TOKENIZER),
    "table-retriever": Checkpoint(
        "hmhm1229/table-retriever", ("*model.safetensors", "*pytorch_model.bin", "*splitted_tables.json")
    ),
    "bert-large-uncased": Checkpoint("google-bert/bert-large-uncased", TOKENIZER),
}
"""By the names used here: the two released ones and the models they were trained from, then the retrievers."""
GROUPS = {
    "retrievers": ("bge-m3", "clip-sf-large", "clip-vit-large-patch14", "table-retriever", "bert-large-uncased"),
}
"""Several under one name; clip-vit-large-patch14 and bert-large-uncased are tokenizers for the released weights."""


@dataclass(frozen=True, slots=True)
class Listing:
    """One checkpoint as the hub has it: `files` maps names to (bytes, sha256 or "")."""

    name: str
    repository: str
    revision: str
    licence: str
    files: dict[str, tuple[int, str]]

    @property
    def size(self) -> int:
        return sum(size for size, _ in self.files.values())


def named(names: Sequence[str]) -> list[str]:
    """The checkpoints of these names, a group's name standing for all of it; raises ConfigError for an unknown one."""
    for name in names:
        if name not in CHECKPOINTS and name not in GROUPS:
            raise ConfigError(f"no checkpoint is named {name!r}; there are {', '.join([*CHECKPOINTS, *GROUPS])}.")
    return list(dict.fromkeys(one for name in names for one in GROUPS.get(name, (name,))))


def look_up(name: str, folder: Path) -> Listing:
    """Ask the hub about one of `CHECKPOINTS`, at the revision noted in `folder` where there is one."""
    checkpoint = CHECKPOINTS[name]
    note = folder / name / NOTE
    revision = json.loads(note.read_text("utf-8"))["revision"] if note.is_file() else None
    info = _asked(lambda: _hub().model_info(checkpoint.repository, revision=revision, files_metadata=True), name)
    wanted = _wanted([file.rfilename for file in info.siblings or ()], checkpoint.wanted)
    files = {
        file.rfilename: (file.size or 0, file.lfs.sha256 if file.lfs else "")
        for file in info.siblings or ()
        if file.rfilename in wanted
    }
    if not files:
        raise DownloadError(f"{name}: {checkpoint.repository} has none of {', '.join(checkpoint.wanted)} any more.")
    licence = str(info.card_data.get("license") if info.card_data else "") or "none stated"
    return Listing(name, checkpoint.repository, info.sha or "", licence, files)


def _wanted(paths: Sequence[str], patterns: Sequence[str]) -> set[str]:
    """The paths to fetch: safe ones that a pattern fits, without the pickled twin of a safe weights file."""
    fit = {path for path in paths if ".." not in Path(path).parts and any(fnmatchcase(path, one) for one in patterns)}
    return fit - {str(Path(path).with_name("pytorch_model.bin")) for path in fit if path.endswith("model.safetensors")}


def download(listing: Listing, folder: Path) -> Path:
    """Fetch into `folder/NAME` what is not there yet, going on where a download was cut, and check the weights."""
    from huggingface_hub import hf_hub_download

    target = folder / listing.name
    target.mkdir(parents=True, exist_ok=True)
    require_space(target, sum(size for file, (size, _) in listing.files.items() if not (target / file).is_file()))
    write_atomically(target / NOTE, json.dumps(asdict(listing), indent=1) + "\n")
    for file, (_, digest) in listing.files.items():
        fetch = partial(hf_hub_download, listing.repository, file, revision=listing.revision, local_dir=target)
        _asked(fetch, listing.name)
        if digest and sha256_of(target / file) != digest:
            (target / file).unlink()
            raise DownloadError(f"{target / file}: wrong checksum; the file was removed, run the same command again.")
    return target


def _hub() -> HfApi:
    try:
        from huggingface_hub import HfApi
    except ModuleNotFoundError as error:
        raise MissingDependency("fetching checkpoints needs the hub's client: pip install huggingface_hub") from error
    return HfApi()


def _asked(question: Callable[[], Answered], name: str) -> Answered:
    """What the hub answers; its failures as a DownloadError that says what to do."""
    import httpx
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    try:
        return question()
    except OfflineModeIsEnabled as error:
        raise DownloadError(f"{name}: HF_HUB_OFFLINE is set; unset it to fetch from the hub.") from error
    except (HfHubHTTPError, httpx.HTTPError, OSError) as error:
        raise DownloadError(
            f"{name}: the hub gave no answer ({error}); connect, and run the same command again."
        ) from error


def describe(listings: Sequence[Listing]) -> str:
    """A line a checkpoint: size, licence, revision, hub id."""
    return "\n".join(
        f"{one.name:24} {one.size / 1e9:6.1f} GB  {one.licence:12} {one.revision[:10]}  {one.repository}"
        for one in listings
    )
