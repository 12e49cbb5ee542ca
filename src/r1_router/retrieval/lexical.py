"""BM25 over the passages, by the bm25s library: finds the names and figures that dense vectors blur."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from r1_router.errors import ConfigError, DataError, KnowledgeBaseError, MissingDependency
from r1_router.retrieval.manifest import REBUILD

WORD = re.compile(r"[^\W_]+")
K1, B = 1.2, 0.75
TITLE_BOOST = 4  # times the title's words count beside the text's: they say what a short passage is about
SETTINGS = {"k1": K1, "b": B, "title_boost": TITLE_BOOST}
INSTALL = "pip install bm25s"
INSTALL_STEMMER = "pip install PyStemmer"
LANGUAGE = "language.json"


def words(text: str) -> list[str]:
    """The words of a text in lower case and without accents."""
    decomposed = unicodedata.normalize("NFKD", text.lower())
    return WORD.findall("".join(c for c in decomposed if not unicodedata.combining(c)))


def word_reader(language: str | None) -> Callable[[str], list[str]]:
    """How texts become words: as they stand, or without a language's stop words and cut to their stems.

    Stems find "stadium" by "stadiums"; without stop words a question's "which" and "of" count for nothing. Raises
    ConfigError for a language without stop words or stems.
    """
    if language is None:
        return words
    stopwords, stemmer = _stop_words(language), _stemmer(language)
    return lambda text: stemmer.stemWords([word for word in words(text) if word not in stopwords])


def lexical_settings(language: str | None) -> dict[str, Any]:
    """What an index depends on, for a knowledge base's manifest."""
    return SETTINGS if language is None else {**SETTINGS, "language": language}


def lexical_text(title: str, text: str) -> str:
    """What of a passage is indexed: its title several times, then its text (which may open with the title again)."""
    return f"{title}. " * TITLE_BOOST + text


class LexicalIndex:
    """A BM25 index in memory; rows are numbered as the passages are, and queries are read as the passages were."""

    def __init__(self, index: Any, language: str | None = None) -> None:
        self._index = index
        self._language = language
        self._words = word_reader(language)
        self.rows: int = index.scores["num_docs"]

    def scores(self, text: str) -> NDArray[np.float32]:
        """The BM25 score of every passage for `text`, shape (rows,); zeros where no word is known."""
        known = [word for word in self._words(text) if word in self._index.vocab_dict]
        if not known:
            return np.zeros(self.rows, dtype=np.float32)
        return self._index.get_scores(known)

    def save(self, folder: Path) -> None:
        """Write the index as plain arrays and JSON."""
        self._index.save(str(folder), show_progress=False)
        if self._language is not None:
            (folder / LANGUAGE).write_text(json.dumps(self._language), encoding="utf-8")


def build_lexical(texts: Iterable[str], language: str | None = None) -> LexicalIndex:
    """Index the texts in order; raises DataError where they hold no word at all."""
    read = word_reader(language)
    tokens = [read(text) for text in texts]
    if not any(tokens):
        raise DataError("The passages hold no word to index. Check that 'text' is filled in the passages file.")
    index = _bm25s().BM25(k1=K1, b=B, backend="numpy", csc_backend="numpy")
    # Numbered here, in order of appearance: the library would number words by a set's order, another in each process.
    vocabulary: dict[str, int] = {}
    numbers = [[vocabulary.setdefault(word, len(vocabulary)) for word in passage] for passage in tokens]
    index.index((numbers, vocabulary), show_progress=False)
    return LexicalIndex(index, language)


def load_lexical(folder: Path) -> LexicalIndex:
    """Read what `save` wrote; raises KnowledgeBaseError where it cannot be read."""
    bm25s = _bm25s()
    try:
        note = folder / LANGUAGE
        language = json.loads(note.read_text(encoding="utf-8")) if note.is_file() else None
        return LexicalIndex(bm25s.BM25.load(str(folder), show_progress=False), language)
    except (OSError, ValueError, KeyError) as error:
        raise KnowledgeBaseError(f"Cannot read the lexical index in {folder}: {error}. {REBUILD}") from error


def _bm25s() -> Any:
    try:
        import bm25s
    except ImportError as error:
        raise MissingDependency(f"Lexical search needs bm25s: {INSTALL}") from error
    return bm25s


def _stop_words(language: str) -> frozenset[str]:
    """The language's stop words as the texts' words are read, from bm25s's lists; of English the longer one."""
    _bm25s()
    from bm25s import stopwords

    name = "EN_PLUS" if language == "english" else language.upper()
    found = getattr(stopwords, f"STOPWORDS_{name}", None)
    if found is None:
        raise ConfigError(
            f"language: there are no stop words for {language!r}; english, german, french and others are."
        )
    return frozenset(part for word in found for part in words(word))


def _stemmer(language: str) -> Any:
    try:
        import Stemmer
    except ImportError as error:
        raise MissingDependency(f"BM25 by stems needs PyStemmer: {INSTALL_STEMMER}") from error
    try:
        return Stemmer.Stemmer(language)
    except KeyError as error:
        known = ", ".join(Stemmer.algorithms())
        raise ConfigError(f"language: there are no stems for {language!r}; there are for {known}.") from error
