"""`check_rows`: every rule on every row of nested step data, and what is odd in it and yet breaks no rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os.path import isabs

from r1_router.synthesis.places import Kind, Place, Row, places_of, routes_of
from r1_router.synthesis.rules import RULES, SHOWN, Form, Rule
from r1_router.types import PUBLISHED_SOURCES, Source

LONG_PROMPT = 3500
"""Characters from which 1,024 tokens may be too few; a trainer that cuts a prompt's end cuts the question off."""


@dataclass(frozen=True, slots=True)
class Violation:
    """Where a rule is broken and what was found; row and step count from 1, step 0 is the row as a whole."""

    row: int
    step: int
    found: str


@dataclass(frozen=True, slots=True)
class Finding:
    """How often a rule was checked, and where it is broken."""

    rule: str
    checked: int
    violations: tuple[Violation, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """Every rule's finding, in the order of RULES; `oddities` holds only what there is."""

    findings: tuple[Finding, ...]
    oddities: Mapping[str, int]

    @property
    def sound(self) -> bool:
        return not any(finding.violations for finding in self.findings)

    def lines(self, most: int) -> Iterator[str]:
        """What to print: the rules with their counts, the first `most` rows that break one, the oddities."""
        for one in self.findings:
            state = f"{len(one.violations)} broken" if one.violations else "ok"
            yield f"{one.checked:>7} checked  {state:<12} {one.rule}"
        broken = sorted({violation.row for one in self.findings for violation in one.violations})
        for row in broken[:most]:
            yield from self._row_lines(row)
        if len(broken) > most:
            yield f"and {len(broken) - most} more rows break a rule"
        yield from (f"oddity: {name}: {count}" for name, count in self.oddities.items())

    def _row_lines(self, row: int) -> Iterator[str]:
        for one in self.findings:
            for violation in one.violations:
                if violation.row == row:
                    step = f", step {violation.step}" if violation.step else ""
                    yield f"row {row}{step} breaks: {one.rule}; found {violation.found}"


def check_rows(rows: Iterable[Row], sources: Sequence[Source] = PUBLISHED_SOURCES, shown: int = SHOWN) -> Report:
    """Check every rule on every row; raises DataError for what is no step row at all."""
    places = [place for number, row in enumerate(rows, start=1) for place in places_of(row, number)]
    form = Form(
        {source.name: source.tag for source in sources},
        shown,
        _commonest(place.request for place in places if _asks_its_query(place)),
        _commonest(place.final_request for place in places if place.kind is Kind.FINAL),
    )
    return Report(tuple(_finding(rule, places, form) for rule in RULES), oddities(places))


def oddities(places: Sequence[Place]) -> dict[str, int]:
    """How often there is what breaks no rule and is still worth knowing."""
    of = {kind: [place for place in places if place.kind is kind] for kind in Kind}
    queries = [place.route.query or "" for place in of[Kind.ROUTE]]
    answers = [str(place.step["answer"]) for place in of[Kind.ANSWER]]
    prompts = [place.step["problem"] for kind in (Kind.ROUTE, Kind.ANSWER, Kind.FINAL) for place in of[kind]]
    counts = {
        "sub-questions with outer whitespace": sum(query != query.strip() for query in queries),
        "sub-answers with outer whitespace": sum(answer != answer.strip() for answer in answers),
        "blank sub-answers": sum(not answer.strip() for answer in answers),
        "rows that repeat a sub-question": sum(_repeats(place.row) for place in of[Kind.ROW]),
        "rows with an absolute image path": sum(any(map(isabs, place.row["images"])) for place in of[Kind.ROW]),
        f"prompts of more than {LONG_PROMPT:,} characters": sum(len(prompt) > LONG_PROMPT for prompt in prompts),
    }
    counts |= {name: len(found) for name, found in _wordings(of).items() if len(found) > 1}
    return {name: count for name, count in counts.items() if count}


def _wordings(of: Mapping[Kind, Sequence[Place]]) -> dict[str, set[str]]:
    """The texts of which a file made with one prompt set has one each."""
    texts = {
        f"different system texts of a {kind}": {place.step["system"] for place in of[kind]}
        for kind in (Kind.ROUTE, Kind.ANSWER, Kind.FINAL)
    }
    requests = {place.request for place in of[Kind.ANSWER] if _asks_its_query(place)}
    finals = {request for place in of[Kind.FINAL] if (request := place.final_request) is not None}
    return {**texts, "different requests for a sub-answer": requests, "different requests for a final answer": finals}


def _finding(rule: Rule, places: Sequence[Place], form: Form) -> Finding:
    checked = [place for place in places if place.kind is rule.kind]
    faults = [(place, rule.fault(place, form)) for place in checked]
    broken = tuple(Violation(place.number, place.index + 1, fault) for place, fault in faults if fault is not None)
    return Finding(rule.label(form.shown), len(checked), broken)


def _commonest(texts: Iterable[str | None]) -> str:
    counts = Counter(text for text in texts if text is not None)
    return counts.most_common(1)[0][0] if counts else ""


def _asks_its_query(place: Place) -> bool:
    query = place.route.query
    return place.kind is Kind.ANSWER and bool(query) and place.text.endswith(str(query))


def _repeats(row: Row) -> bool:
    queries = [(route.query or "").strip() for route in routes_of(row) if not route.stops]
    return len(set(queries)) < len(queries)
