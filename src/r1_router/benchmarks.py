"""The benchmarks: where each one's questions come from, what its gold is, how its pictures are named.

The six published sets keep the names that result files have. Their question files state no licence, so they are
fetched for a user and checked by `sha256`, never shipped; the two worlds are free and lie in this repository or are
built by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from string import Formatter
from typing import Any

from r1_router.errors import ConfigError, DataError

_REFERENCE = "github.com/OpenBMB/R1-Router at c0a0c1b, folder datasets"
_UNSTATED = "none stated for the file"


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One question set; `size` (in bytes), `rows` and `sha256` are those of `file`.

    `gold` lists the keys that may hold the gold, best first. `image` is the picture's path from the picture folder,
    with keys of the row in braces; None where questions have no picture.
    """

    name: str
    file: str
    size: int
    rows: int
    sha256: str
    gold: tuple[str, ...]
    image: str | None
    image_source: str
    licence: str
    source: str
    oddities: str

    def gold_key(self, row: Mapping[str, Any]) -> str | None:
        """The key under which `row` has its gold, or None where it has none."""
        return next((key for key in self.gold if key in row), None)

    def image_path(self, row: Mapping[str, Any]) -> str | None:
        """The picture's path from the picture folder; None for a question without one.

        Raises DataError for a path that would leave that folder.
        """
        keys = [key for _, key, _, _ in Formatter().parse(self.image or "") if key]
        if self.image is None or any(row.get(key) is None for key in keys):
            return None
        path = PurePosixPath(self.image.format(**{key: row[key] for key in keys}))
        if path.is_absolute() or ".." in path.parts or "\\" in str(path):
            raise DataError(f"{self.name}: the picture {str(path)!r} lies outside the picture folder.")
        return str(path)


_OPEN_WIKITABLE = Benchmark(
    name="openwikitqa",
    file="openwikitqa_val.jsonl",
    size=435_425,
    rows=3000,
    sha256="4679c508ab909cf872ac4e78c5f0ce761144af3ebaa6311700658f9ad56efc26",
    gold=("answer",),
    image=None,
    image_source="",
    licence=f"{_UNSTATED}; Open-WikiTable, which it is drawn from, is CC BY 4.0",
    source=_REFERENCE,
    oddities="The paper reports on 1,000 rows and does not say which; 11 questions occur twice; rows have no id.",
)
_TWO_WIKI = Benchmark(
    name="2wikimultihopqa",
    file="2wikimultihopqa_val.jsonl",
    size=341_066,
    rows=3000,
    sha256="c33d1590c6868bc209eb156376afb21ad93dc51484b4447ede30bda3abc2f397",
    gold=("answer",),
    image=None,
    image_source="",
    licence=_UNSTATED,
    source=_REFERENCE,
    oddities="The paper reports on 1,000 rows and does not say which; rows have no id.",
)
_TABFACT = Benchmark(
    name="tabfact",
    file="tabfact_val.jsonl",
    size=108_812,
    rows=1000,
    sha256="73c1e9599930321fed9a249598550b297bea941f71dd1a5681ef57dbe4a464d8",
    gold=("answer",),
    image=None,
    image_source="",
    licence=f"{_UNSTATED}; TabFact, which it is drawn from, is MIT",
    source=_REFERENCE,
    oddities="Yes or no: a reply that holds both words scores 100 in F1-Recall, so read yes_no; rows have no id.",
)
_INFOSEEK = Benchmark(
    name="infoseek",
    file="infoseek_val.jsonl",
    size=256_243,
    rows=1000,
    sha256="8b4c4c4fa14e7b04cf6fa93ced1378d511e0772175d1765dd4c4472b7a3b2e19",
    gold=("answer_eval",),
    image="{image_id}.jpg",
    image_source="OVEN pictures (github.com/open-vision-language/oven); only the ids asked for are needed",
    licence=_UNSTATED,
    source=_REFERENCE,
    oddities="Scored on answer_eval, `answer` is only shown; 248 golds are numeric ranges; ids are under data_id.",
)
_DYN_VQA = Benchmark(
    name="dyn_vqa",
    file="DynVQA_en.202412.jsonl",
    size=190_295,
    rows=715,
    sha256="de6cd3ddbccf42cebf02530c0a9a9859a394346685780d8682a1cb4a267afa91",
    gold=("answer",),
    image="{image_id}.jpg",
    image_source="image URLs of github.com/Alibaba-NLP/OmniSearch, many dead; other numbers there, join by row order",
    licence=_UNSTATED,
    source=_REFERENCE,
    oddities="442 golds have a Chinese form, 17 are integers; one gloden_query is the bare token NaN.",
)
_WEBQA = Benchmark(
    name="webqa",
    file="webqa_val.jsonl",
    size=237_496,
    rows=1000,
    sha256="03abf83ef9b28c7ad67d15ac59203bf538e0671e6087903109637fbde6ecfaef",
    gold=("answer",),
    image="{image_id}.jpg",
    image_source="one base64 TSV with a line index in a 51-part archive (github.com/WebQnA/WebQA)",
    licence=_UNSTATED,
    source=_REFERENCE,
    oddities="Golds are whole sentences in literal double quotes, so exact match is near 0; rows have no id.",
)
_FACTBOOK = Benchmark(
    name="factbook",
    file="questions_test.jsonl",
    size=310_095,
    rows=300,
    sha256="55992cdf3ef1d59bef53d159848ca973f7862f81e38dc1bb24ed878133cdd300",
    gold=("answers", "answer"),
    image="{image}",
    image_source="datasets/factbook/queries",
    licence="public domain (CC0-1.0)",
    source="datasets/factbook, drawn by scripts/build_factbook.sh",
    oddities="Questions come from templates, half of them in wordings that training has not seen; gold hops are given.",
)
_OTTQA_WORLD = Benchmark(
    name="ottqa-world",
    file="questions_dev.jsonl",
    size=662_741,
    rows=1217,
    sha256="05d60fd61019e3f906ff0d81bfb2a32fad3a29f7c1a12276532707ab27b792db",
    gold=("answers", "answer"),
    image="{image}",
    image_source="query_images beside the questions file",
    licence="questions MIT (OTT-QA); passages and tables CC BY-SA (Wikipedia)",
    source="the OTT-QA world: github.com/wenhuchen/OTT-QA, development set, with three knowledge bases",
    oddities="Only 110 questions have a picture; a hop names its base under `kb`; gold hops come of string matching.",
)

PUBLISHED = {one.name: one for one in (_OPEN_WIKITABLE, _TWO_WIKI, _TABFACT, _INFOSEEK, _DYN_VQA, _WEBQA)}
"""The six of the paper, by name, in its order: text and tables first, then pictures."""

BENCHMARKS = {**PUBLISHED, **{one.name: one for one in (_FACTBOOK, _OTTQA_WORLD)}}
"""Every known benchmark by name."""


def benchmark_named(name: str) -> Benchmark:
    """The benchmark `name`; raises ConfigError listing those there are."""
    if name not in BENCHMARKS:
        raise ConfigError(f"--dataset_name: no benchmark is named {name!r}; there are all, {', '.join(BENCHMARKS)}.")
    return BENCHMARKS[name]
