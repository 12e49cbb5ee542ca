"""Prepare a world of OTT-QA questions, with its text, image and table collections, for `configs/ottqa.yaml`.

    python benchmarks/ottqa_world.py WORLD [--output runs/ottqa]
    r1-router build --config configs/ottqa.yaml
    python benchmarks/compare_methods.py --config configs/ottqa.yaml --benchmark ottqa --limit 200

WORLD holds `kb/text.jsonl.gz`, `kb/tables.jsonl.gz`, `kb/images.jsonl`, `questions_dev.jsonl` and their pictures. Of a
table, each ROWS_WORDS words of rows become one passage with the titles, under the table's id and a number (`Page_0#2`).
The questions are shuffled by a fixed seed, so that the first N are a sample of all.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from r1_router import jsonl

ROWS_WORDS = 120
SEED = 0


def table_passages(table: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The table's rows in passages of about ROWS_WORDS words, each opened by titles and named cells."""
    title = " - ".join(filter(None, (table["page_title"], table["section_title"])))
    for number, rows in enumerate(_chunks([row_text(table["header"], row) for row in table["rows"]])):
        text = f"{title}. " + " | ".join(rows)
        yield {"id": f"{table['id']}#{number}", "title": title, "text": text}


def row_text(header: Sequence[str], row: Sequence[str]) -> str:
    """`Name: cell; Name: cell`, empty cells left out."""
    return "; ".join(f"{name}: {cell}" if name else cell for name, cell in zip(header, row, strict=False) if cell)


def _chunks(rows: Sequence[str]) -> Iterator[list[str]]:
    chunk: list[str] = []
    words = 0
    for row in rows:
        if chunk and words + len(row.split()) > ROWS_WORDS:
            yield chunk
            chunk, words = [], 0
        chunk.append(row)
        words += len(row.split())
    yield chunk


def prepare(world: Path, output: Path) -> None:
    """Write `kb/*.jsonl`, `questions.jsonl` and the pictures under `output`; what is there is written anew."""
    kb = output / "kb"
    kb.mkdir(parents=True, exist_ok=True)
    jsonl.rewrite(kb / "text.jsonl", _read(world / "kb/text.jsonl.gz"))
    tables = _read(world / "kb/tables.jsonl.gz")
    jsonl.rewrite(kb / "table.jsonl", (passage for table in tables for passage in table_passages(table)))
    jsonl.rewrite(kb / "image.jsonl", jsonl.read(world / "kb/images.jsonl"))
    questions = list(jsonl.read(world / "questions_dev.jsonl"))
    random.Random(SEED).shuffle(questions)
    jsonl.rewrite(output / "questions.jsonl", questions)
    for pictures in ("kb/images", "query_images"):
        shutil.copytree(world / pictures, output / pictures, dirs_exist_ok=True)


def _read(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("world", type=Path)
    parser.add_argument("--output", type=Path, default=Path("runs/ottqa"))
    args = parser.parse_args()
    prepare(args.world, args.output)
    print(f"{args.output}: now `r1-router build --config configs/ottqa.yaml`")


if __name__ == "__main__":
    main()
