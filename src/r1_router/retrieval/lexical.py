"""BM25 over the passages, by the bm25s library: finds the names and figures that dense vectors blur."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from r1_router.errors import DataError, KnowledgeBaseError, MissingDependency
from r1_router.retrieval.manifest import REBUILD

WORD = re.compile(r"[^\W_]+")
K1, B = 1.2, 0.75
TITLE_BOOST = 4  # times the title's words count beside the text's: they say what a short passage is about
SETTINGS = {"k1": K1, "b": B, "title_boost": TITLE_BOOST}
INSTALL = "pip install bm25s"


def words(text: str) -> list[str]:
    """The words of a text in lower case and without accents; no stemming, no stop words."""
    decomposed = unicodedata.normalize("NFKD", text.lower())
    return WORD.findall("".join(c for c in decomposed if not unicodedata.combining(c)))


def lexical_text(title: str, text: str) -> str:
    """What of a passage is indexed: its title several times, then its text (which may open with the title again)."""
    return f"{title}. " * TITLE_BOOST + text


class LexicalIndex:
    """A BM25 index in memory; rows are numbered as the passages are."""

    def __init__(self, index: Any) -> None:
        self._index = index
        self.rows: int = index.scores["num_docs"]

    def scores(self, text: str) -> NDArray[np.float32]:
        """The BM25 score of every passage for `text`, shape (rows,); zeros where no word is known."""
        known = [word for word in words(text) if word in self._index.vocab_dict]
        if not known:
            return np.zeros(self.rows, dtype=np.float32)
        return self._index.get_scores(known)

    def save(self, folder: Path) -> None:
        """Write the index as plain arrays and JSON."""
        self._index.save(str(folder), show_progress=False)


def build_lexical(texts: Iterable[str]) -> LexicalIndex:
    """Index the texts in order; raises DataError where they hold no word at all."""
    tokens = [words(text) for text in texts]
    if not any(tokens):
        raise DataError("The passages hold no word to index. Check that 'text' is filled in the passages file.")
    index = _bm25s().BM25(k1=K1, b=B, backend="numpy", csc_backend="numpy")
    # Numbered here, in order of appearance: the library would number words by a set's order, another in each process.
    vocabulary: dict[str, int] = {}
    numbers = [[vocabulary.setdefault(word, len(vocabulary)) for word in passage] for passage in tokens]
    index.index((numbers, vocabulary), show_progress=False)
    return LexicalIndex(index)


def load_lexical(folder: Path) -> LexicalIndex:
    """Read what `save` wrote; raises KnowledgeBaseError where it cannot be read."""
    bm25s = _bm25s()
    try:
        return LexicalIndex(bm25s.BM25.load(str(folder), show_progress=False))
    except (OSError, ValueError, KeyError) as error:
        raise KnowledgeBaseError(f"Cannot read the lexical index in {folder}: {error}. {REBUILD}") from error


def _bm25s() -> Any:
    try:
        import bm25s
    except ImportError as error:
        raise MissingDependency(f"Lexical search needs bm25s: {INSTALL}") from error
    return bm25s
