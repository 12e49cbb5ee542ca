"""An index in pyserini's layout beside M-BEIR's candidate pool, opened as a knowledge base by one config line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from openai_clip import TINY, save_base, tiny_clip
from retrieval_worlds import draw_flag

from r1_router.bases import KnowledgeBases
from r1_router.config import load_config
from r1_router.errors import DataError, KnowledgeBaseError
from r1_router.retrieval.clip_encoder import Asking, ClipEncoder
from r1_router.types import Query

faiss = pytest.importorskip("faiss", reason="faiss is not installed")
POOL = [
    {"did": "6:10", "txt": "alpha river", "img_path": None, "modality": "text", "src_content": None},
    {"did": "6:7", "txt": None, "img_path": "images/a.jpg", "modality": "image", "src_content": None},
    {"did": "6:12", "txt": "beta \u00e9t\u00e9", "img_path": None, "modality": "text", "src_content": None},
    {"did": "6:13", "txt": "not in the index", "img_path": None, "modality": "text", "src_content": None},
]
ORDER = ["6:12", "6:10", "6:7"]


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """Index, pool, and the tiny CLIP that made the index."""
    save_base(tmp_path / "base")
    torch.save({"model": {f"clip_model.{k}": v for k, v in tiny_clip().state_dict().items()}}, tmp_path / "clip.pth")
    (tmp_path / "images").mkdir()
    draw_flag(1).save(tmp_path / "images" / "a.jpg")
    (tmp_path / "pool.jsonl").write_text("".join(json.dumps(row) + "\n" for row in POOL))
    encoder = clip_of(tmp_path)
    by_id = {
        row["did"]: Query(row["txt"] or "", str(tmp_path / str(row["img_path"])) * bool(row["img_path"]))
        for row in POOL
    }
    index = faiss.IndexFlatIP(encoder.dim)
    index.add(encoder.encode_passages([by_id[docid] for docid in ORDER]))
    (tmp_path / "index").mkdir()
    faiss.write_index(index, str(tmp_path / "index" / "index"))
    (tmp_path / "index" / "docid").write_text("".join(f"{docid}\n" for docid in ORDER))
    return tmp_path


def clip_of(world: Path) -> ClipEncoder:
    return ClipEncoder(str(world / "clip.pth"), str(world / "base"), asking=Asking(candidate="image,text"))


def bases_of(world: Path) -> KnowledgeBases:
    section = {
        "name": "text image retriever",
        "tag": "tir",
        "purpose": "p",
        "passages": "pool.jsonl",
        "folder": "index",
    }
    clip: dict[str, Any] = {"kind": "clip", "model": "clip.pth", "base": "base", "clip": {"candidate": "image,text"}}
    config = {
        "llm": {"name": "none", "model": "none"},
        "encoders": {"clip": clip},
        "sources": [section | {"encoder": "clip"}],
        "benchmarks": {},
    }
    path = world / "c.yaml"
    path.write_text(yaml.safe_dump(config))
    return KnowledgeBases(load_config(path))


def test_rows_are_found_by_their_ids_whatever_the_pools_order(world: Path) -> None:
    bases = bases_of(world)
    assert bases.build() == {"text image retriever": 3}
    (base,) = bases.load().values()
    queries = [Query("alpha river"), Query("", str(world / "images" / "a.jpg")), Query("beta \u00e9t\u00e9")]
    found = [passages[0] for passages in base.search_many(queries, 2)]  # type: ignore[attr-defined]
    assert [(passage.id, passage.text) for passage in found] == [
        ("6:10", "alpha river"),
        ("6:7", ""),
        ("6:12", "beta \u00e9t\u00e9"),
    ]
    assert [passage.score for passage in found] == pytest.approx([1, 1, 1], abs=1e-5)
    assert len(base) == 3 and bases.digest()["text image retriever"][2]  # type: ignore[arg-type]


def test_what_does_not_fit_is_said(world: Path) -> None:
    docids = world / "index" / "docid"
    docids.write_text("6:12\n6:10\n")
    with pytest.raises(KnowledgeBaseError, match="3 rows of 24 for 2 ids"):
        bases_of(world).load()
    docids.write_text("6:12\n6:10\n6:99\n")
    with pytest.raises(DataError, match="lacks 1 of the index's 3 candidates, '6:99' first"):
        bases_of(world).load()
    docids.write_text("6:12\n6:10\n6:7\n")
    (world / "pool.jsonl").write_text('{"did": "6:12", "txt": "a"}\n{"id": 3}\n')
    with pytest.raises(DataError, match=r"pool\.jsonl, line 2: no candidate"):
        bases_of(world).load()
    (world / "pool.jsonl").unlink()
    with pytest.raises(DataError, match="give the candidate pool"):
        bases_of(world).load()


def test_an_index_of_other_vectors_is_refused(world: Path) -> None:
    index = faiss.IndexFlatIP(TINY["embed"] + 1)
    index.add(np.ones((3, TINY["embed"] + 1), dtype=np.float32))
    faiss.write_index(index, str(world / "index" / "index"))
    with pytest.raises(KnowledgeBaseError, match="give the encoder that it was made with"):
        bases_of(world).load()
