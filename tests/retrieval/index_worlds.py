"""Passages and an encoder that need no model, and builds in a process of their own, so that they can be killed."""

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from r1_router.retrieval import embedding
from r1_router.retrieval.build import Making, build
from r1_router.retrieval.manifest import IndexSettings
from r1_router.retrieval.vectors import Vectors, unit_rows
from r1_router.types import TEXT, Query

DIM = 16
INVERTED = IndexSettings("IVF8,SQ8", 100, "float16")


class LetterEncoder:
    """How often each letter is in a text, through a fixed random matrix; `pause` seconds a call."""

    dim = DIM

    def __init__(self, pause: float = 0.0) -> None:
        self.settings = {"encoder": "letters"}
        self.sizes: list[int] = []
        self._pause = pause
        self._weights = np.random.default_rng(0).standard_normal((128, DIM))

    def encode(self, items: Sequence[Query]) -> Vectors:
        time.sleep(self._pause)
        self.sizes.append(len(items))
        counts = [np.bincount(np.frombuffer(item.text.encode(), np.uint8) % 128, minlength=128) for item in items]
        return unit_rows(np.array(counts) @ self._weights)

    encode_passages = encode


def write_corpus(folder: Path, count: int, shards: int = 1) -> Path:
    """Passages of random words, as a file or as a corpus of several."""
    rng = np.random.default_rng(1)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz "))
    texts = ["".join(rng.choice(letters, size=rng.integers(10, 90))) for _ in range(count)]
    rows = [{"id": f"p{n}", "title": text[:5], "text": text} for n, text in enumerate(texts)]
    corpus = folder / "kb" / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for shard in range(shards):
        lines = [json.dumps(row) + "\n" for row in rows[shard * count // shards : (shard + 1) * count // shards]]
        (corpus / f"passages-{shard:05}.jsonl").write_text("".join(lines))
    return corpus if shards > 1 else corpus / "passages-00000.jsonl"


def main(corpus: str, folder: str) -> None:
    """A build that takes its time, also to write its many index files, so that it can be killed anywhere."""
    embedding.CHUNK = 100
    write_index = faiss.write_index

    def write_slowly(*arguments: Any) -> None:
        time.sleep(0.02)
        write_index(*arguments)

    vars(faiss)["write_index"] = write_slowly
    making = Making(INVERTED)
    build(Path(corpus), Path(folder), TEXT, LetterEncoder(pause=0.1), making=making)


if __name__ == "__main__":
    main(*sys.argv[1:])
