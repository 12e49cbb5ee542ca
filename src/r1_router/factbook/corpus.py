"""The three corpora of the Factbook world: text passages, tables and captioned flags."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from r1_router.factbook.source import Country, clean, leaves, node_at, text_at

WINDOW, STRIDE = 100, 50  # words, as the published corpora
TABLE_ROWS = 12  # rows a table chunk holds; longer tables are split row-wise
RANKING_MIN = 100  # countries a topic and year needs for a world ranking
REGION_MIN = 3  # countries a region needs for a table
# The fields told in prose: those a relation asks for, and their neighbours as honest distractors.
PROSE = {
    "Introduction": ("Background",),
    "Geography": (
        "Location",
        "Land boundaries",
        "Coastline",
        "Climate",
        "Terrain",
        "Elevation",
        "Natural resources",
        "Natural hazards",
    ),
    "People and Society": ("Nationality", "Languages", "Religions", "Major urban areas - population"),
    "Government": (
        "Country name",
        "Government type",
        "Capital",
        "Independence",
        "National holiday",
        "Legal system",
        "Citizenship",
        "Suffrage",
        "Legislative branch",
        "National symbol(s)",
        "National color(s)",
        "National anthem(s)",
        "National heritage",
    ),
    "Economy": (
        "Economic overview",
        "Agricultural products",
        "Industries",
        "Exports - commodities",
        "Exports - partners",
        "Imports - commodities",
        "Imports - partners",
        "Exchange rates",
    ),
}

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Cell:
    """One dated figure as printed (`8.4%`, `$2.2 billion`) and as a number."""

    text: str
    number: float
    year: int


@dataclass(frozen=True, slots=True)
class Topic:
    """One kind of figure: its Factbook path, table title, noun phrases; `compare`: fit for comparisons."""

    key: str
    path: tuple[str, ...]
    ask: str
    title: str
    nouns: Mapping[str, Sequence[str]]
    compare: bool = False


def text_records(countries: Sequence[Country]) -> Iterator[Record]:
    """One passage per Factbook field told in prose, title first; over 100 words, overlapping windows."""
    for country in countries:
        for section, keys in PROSE.items():
            for key in keys:
                title = f"{country.name}: {key}"
                for number, part in enumerate(windows(field_text(country, section, key))):
                    yield {"id": text_id(country, key, number), "title": title, "text": f"{title}. {part}"}


def text_id(country: Country, key: str, number: int = 0) -> str:
    """The id of a field's passage; `number` counts its windows."""
    return f"text/{country.code}/{slug(key)}/{number}"


def field_text(country: Country, section: str, key: str) -> str:
    """A field's text with its sub-keys; the border list opens with its count, as the Factbook prints it."""
    node = node_at(country.fields, (section, key))
    if not isinstance(node, dict):
        return clean(str(node))
    parts = []
    for name, text in leaves(node):
        if name == "border countries":
            name = f"border countries ({len(text.split(';'))})"
        text = re.sub(r"^note( \d)?: ", "", text)
        parts.append(f"{name}: {text}" if name and name != "text" else text)
    return "; ".join(parts)


def windows(text: str) -> list[str]:
    """Windows of 100 words, 50 apart; the last one ends with the text."""
    words = text.split()
    if len(words) <= WINDOW:
        return [text] if words else []
    starts = [*range(0, len(words) - WINDOW, STRIDE), len(words) - WINDOW]
    return [" ".join(words[start : start + WINDOW]) for start in starts]


def cells(country: Country, topic: Topic) -> dict[int, Cell]:
    """A country's figures for a topic, by year; a field with one entry per year gives several."""
    node = node_at(country.fields, topic.path)
    if not isinstance(node, dict):
        return {}
    texts = [text_at(node, ())] if "text" in node else []
    texts += [clean(value["text"]) for key, value in node.items() if re.search(r"\d{4}$", key.strip())]
    found = (parse_cell(text) for text in texts)
    return {cell.year: cell for cell in found if cell}


SCALES = {"": 1.0, "million": 1e6, "billion": 1e9, "trillion": 1e12}


def parse_cell(text: str) -> Cell | None:
    """The leading figure and its year, or None: `$2.225 billion (2024 est.)`."""
    text = re.sub(r"^(urban|rural|total): ", "", text)
    found = re.match(r"(-?)(\$?)(\d[\d,]*(?:\.\d+)?)( (?:million|billion|trillion))?(%?)", text)
    year = re.search(r"\((\d{4})(?: est\.)?\)", text)
    if not found or not year:
        return None
    scale = (found[4] or "").strip()
    number = float(found[3].replace(",", "")) * SCALES[scale] * (-1 if found[1] else 1)
    return Cell(found[0].strip(), number, int(year[1]))


@dataclass(frozen=True, slots=True)
class Table:
    """One table, rows sorted from the highest figure to the lowest: (country, cell)."""

    id: str
    topic: Topic
    region: str
    year: int
    rows: tuple[tuple[Country, Cell], ...]

    @property
    def title(self) -> str:
        return f"{self.topic.title}, {self.region}, {self.year}"

    def chunks(self) -> Iterator[tuple[Record, tuple[tuple[Country, Cell], ...]]]:
        """The table's passages of at most 12 rows with the rows each holds."""
        for start in range(0, len(self.rows), TABLE_ROWS):
            rows = self.rows[start : start + TABLE_ROWS]
            cells_text = "; ".join(f"{country.name}: {cell.text}" for country, cell in rows)
            yield (
                {
                    "id": self.id if len(self.rows) <= TABLE_ROWS else f"{self.id}/{start // TABLE_ROWS}",
                    "title": self.title,
                    "header": ["Country", self.topic.title],
                    "rows": [[country.name, cell.text] for country, cell in rows],
                    "text": f"{self.title}. {cells_text}",
                },
                rows,
            )


def build_tables(countries: Sequence[Country], topics: Sequence[Topic]) -> list[Table]:
    """A table per topic, region and year, and a world ranking where a year has figures for 100 countries."""
    groups: dict[tuple[str, str, int], list[tuple[Country, Cell]]] = defaultdict(list)
    for topic in topics:
        for country in countries:
            for year, cell in cells(country, topic).items():
                groups[topic.key, "world ranking", year].append((country, cell))
                if country.region:
                    groups[topic.key, country.region, year].append((country, cell))
    by_key = {topic.key: topic for topic in topics}
    tables = []
    for (key, region, year), rows in sorted(groups.items(), key=lambda item: item[0]):
        if len(rows) < (RANKING_MIN if region == "world ranking" else REGION_MIN):
            continue
        ordered = tuple(sorted(rows, key=lambda row: (-row[1].number, row[0].code)))
        tables.append(Table(f"table/{key}/{slug(region)}/{year}", by_key[key], region, year, ordered))
    return tables


def slug(text: str) -> str:
    """A lower-case identifier of letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
