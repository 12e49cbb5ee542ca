"""M-BEIR's way with words: which parts an item has, how a text is put, and the instruction before a query."""

from __future__ import annotations

import csv
from pathlib import Path

from r1_router.errors import ConfigError

BOTH, TEXT, IMAGE = "image,text", "text", "image"
MODALITIES = (BOTH, TEXT, IMAGE)
COLUMNS = ("query_modality", "cand_modality", "dataset_id", "prompt_1")


def modality(text: str, image: str | None) -> str:
    """The parts that an item has, named as M-BEIR does; "" for none."""
    return ",".join([IMAGE] * bool(image) + [TEXT] * bool(text))


def sentence(text: str) -> str:
    """The text as M-BEIR's models were tuned on it: without quotes around it, closed by a mark, begun by a capital."""
    text = text.replace("\r", "").strip().strip('"')
    if not text:
        return ""
    return text[0].upper() + text[1:] + ("" if text[-1] in ".?!" else ".")


def read_instructions(path: Path, dataset: int, candidate: str) -> dict[str, str]:
    """The first instruction of M-BEIR's table for each query modality, of a dataset's number and what is sought there.

    Raises ConfigError where the file is no such table, or has no row for them.
    """
    try:
        with open(path, encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"instructions: {path} cannot be read ({error}).") from error
    if rows and any(column not in rows[0] for column in COLUMNS):
        raise ConfigError(f"instructions: {path} is not M-BEIR's table: it needs the columns {', '.join(COLUMNS)}.")
    wanted = (row for row in rows if (row["dataset_id"], row["cand_modality"]) == (str(dataset), candidate))
    found = {row["query_modality"]: row["prompt_1"] for row in wanted}
    if not found:
        raise ConfigError(f"instructions: {path} has no row for the dataset {dataset} and candidates of {candidate!r}.")
    return found
