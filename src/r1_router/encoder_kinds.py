"""The encoders that a config can name, by their kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from r1_router.retrieval.instructions import MODALITIES, read_instructions
from r1_router.sections import EncoderConfig

if TYPE_CHECKING:
    from r1_router.retrieval.vectors import PassageEncoder

Make = Callable[[EncoderConfig, str], "PassageEncoder"]
"""From a section whose names are resolved, and a device."""


def make_encoder(section: EncoderConfig, find: Callable[[str], str]) -> PassageEncoder:
    """The section's encoder, a copy on each of its devices; `find` turns a model's name into a folder or a hub name."""
    from r1_router.retrieval.devices import SpreadEncoder

    base = section.base and find(section.base)
    make: Callable[[str], PassageEncoder] = partial(
        KINDS[section.kind], replace(section, model=find(section.model), base=base)
    )
    copies = [make(device) for device in section.devices or (best_device(),)]
    return copies[0] if len(copies) == 1 else SpreadEncoder(copies)


def best_device() -> str:
    """The GPU where there is one."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def _sentence(section: EncoderConfig, device: str) -> PassageEncoder:
    from r1_router.retrieval.encoders import SentenceEncoder

    return SentenceEncoder(
        section.model,
        max_tokens=section.max_tokens,
        pooling=section.pooling,
        query_prompt=section.query_prompt,
        passage_prompt=section.passage_prompt,
        **_placed(section, device),
    )


def _fused(section: EncoderConfig, device: str) -> PassageEncoder:
    from r1_router.retrieval.encoders import FusedEncoder
    from r1_router.retrieval.images import EfficientNetEncoder

    assert section.image_model is not None  # the config was checked
    images = EfficientNetEncoder(section.image_model)
    return FusedEncoder(images, _sentence(section, device), image_weight=section.image_weight)


def _clip(section: EncoderConfig, device: str) -> PassageEncoder:
    from r1_router.retrieval.clip_encoder import Asking, ClipEncoder
    from r1_router.retrieval.clip_model import OPENAI

    return ClipEncoder(
        section.model,
        section.base or OPENAI,
        asking=Asking(section.clip.query, section.clip.candidate, _instructions(section)),
        max_tokens=section.max_tokens,
        **_placed(section, device),
    )


def _instructions(section: EncoderConfig) -> dict[str, str]:
    if section.clip.instructions is not None:
        return read_instructions(section.clip.instructions, section.clip.dataset, section.clip.candidate)
    return dict.fromkeys(MODALITIES, section.query_prompt or "")


def _table(section: EncoderConfig, device: str) -> PassageEncoder:
    from r1_router.retrieval.table_encoder import BERT, TableEncoder

    return TableEncoder(Path(section.model), section.base or BERT, **_placed(section, device))


def _placed(section: EncoderConfig, device: str) -> dict[str, Any]:
    return {"batch_size": section.batch, "device": device, "dtype": section.dtype}


KINDS: Mapping[str, Make] = {"sentence": _sentence, "fused": _fused, "clip": _clip, "table": _table}
