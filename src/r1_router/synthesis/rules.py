"""The 18 rules that every row of step data keeps, whatever the wording of its prompts.

A fault is told under the rule that names it; rules that build on what is faulty pass it over where they can.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from r1_router.prompts.messages import PASSAGE_START
from r1_router.prompts.released import IMAGE_MARK
from r1_router.synthesis.places import Kind, Place, Row, route_of
from r1_router.types import MAX_STEPS, NONE

SHOWN = 5
"""Passages in a published prompt."""
FOUND_LENGTH = 100
"""Characters told of what was found."""
_HISTORY_LINE = re.compile(r"^(?:Sub-question|Answer)\d+: ", re.MULTILINE)
_SEQUENCE = re.compile(rf"(?:RA){{1,{MAX_STEPS}}}A|(?:RA){{0,{MAX_STEPS - 1}}}NA")
"""R: a route to a retriever, N: to none, A: an answer."""


@dataclass(frozen=True, slots=True)
class Form:
    """What rows are held to: tags by retriever, passages shown, and the commonest requests of the file itself."""

    tags: Mapping[str, str]
    shown: int
    request: str
    final_request: str


Fault = Callable[[Place, Form], str | None]
"""Says what was found where the rule is broken; None where it is kept."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule, and the places that it is checked on."""

    name: str
    kind: Kind
    fault: Fault

    def label(self, shown: int) -> str:
        """The name, with the number of passages that is asked for."""
        if shown == SHOWN:
            return self.name
        return self.name.replace("five passages numbered 0..4", f"{shown} passages numbered 0..{shown - 1}")


def _kept(holds: bool, found: Any) -> str | None:
    if holds:
        return None
    text = repr(found)
    return text if len(text) <= FOUND_LENGTH else f"{text[:FOUND_LENGTH]}.."


def _on_types(holds: Callable[[list[str]], bool]) -> Fault:
    """A fault that is told from the types of a row's steps."""

    def fault(place: Place, form: Form) -> str | None:
        types = [step["step_type"] for step in place.row["steps"]]
        return _kept(holds(types), " ".join(types))

    return fault


def _on_answer(holds: Callable[[Any], bool]) -> Fault:
    """A fault that is told from a step's answer."""
    return lambda place, form: _kept(holds(place.step["answer"]), place.step["answer"])


def _sequence(place: Place, form: Form) -> str | None:
    steps = place.row["steps"]
    found = " ".join("ret(none)" if _letter(step) == "N" else step["step_type"] for step in steps)
    return _kept(_SEQUENCE.fullmatch("".join(map(_letter, steps))) is not None, found)


def _letter(step: Row) -> str:
    if step["step_type"] == "ret":
        return "N" if route_of(step).stops else "R"
    return "A" if step["step_type"] == "ans" else "?"


def _images(place: Place, form: Form) -> str | None:
    return _kept(len(place.row["images"]) <= 1, place.row["images"])


def _route_prompt(place: Place, form: Form) -> str | None:
    return _difference(place.step["problem"], place.head + place.mark)


def _difference(found: str, expected: str) -> str | None:
    """Where a prompt parts from what it should be, with a little of both."""
    start = next(
        (n for n, (a, b) in enumerate(zip(found, expected, strict=False)) if a != b), min(len(found), len(expected))
    )
    if found == expected:
        return None
    return f"{found[start:][:FOUND_LENGTH]!r} at character {start}, not {expected[start:][:FOUND_LENGTH]!r}"


def _is_route(answer: Any) -> bool:
    if not isinstance(answer, Mapping) or set(answer) != {"query", "retriever"}:
        return False
    names = answer["retriever"]
    return isinstance(answer["query"], str) and isinstance(names, list) and [type(name) for name in names] == [str]


def _retriever(place: Place, form: Form) -> str | None:
    return _kept(place.route.name in (None, NONE, *form.tags), place.route.name)


def _query_case(place: Place, form: Form) -> str | None:
    query = place.route.query or ""
    return _kept(query == query.lower(), query)


def _none_for_both(place: Place, form: Form) -> str | None:
    query, name = place.route.query, place.route.name
    unread = query is None or name is None
    return _kept(unread or (str(query).strip().lower() == NONE) == place.route.stops, place.step["answer"])


def _evidence(place: Place, form: Form) -> str | None:
    """Passages with their labels, an empty line, and what is asked under it.

    Where that line is missing, one inside a passage is taken for it, and the end of that passage stands before the
    request.
    """
    evidence, gap, request = place.above.rpartition("\n\n")
    asked = place.text[len(evidence) + len(gap) :]
    holds_evidence = _labels(request, form) or request.endswith(f"\n{form.request}")
    return _kept(bool(PASSAGE_START.search(evidence) and asked.strip() and not holds_evidence), asked)


def _labels(text: str, form: Form) -> list[str]:
    """The labels in the text that carry a source's tag; `word-1: ` may begin a passage's own line, too."""
    labels = [found.group().removesuffix(": ") for found in PASSAGE_START.finditer(text)]
    return [label for label in labels if label.rpartition("-")[0] in form.tags.values()]


def _asked(place: Place, form: Form) -> str | None:
    """The file's commonest request must be followed by the whole query; of another wording only the end is known."""
    query = place.route.query
    if query is None or not _labels(place.text, form):
        return None
    of_another_wording = not place.request.startswith(form.request)
    holds = place.text.endswith(query) and (place.request == form.request or of_another_wording)
    return _kept(holds, place.text.rpartition("\n\n")[2].removeprefix(form.request))


def _mark(place: Place, form: Form) -> str | None:
    marked = place.step["problem"].endswith(IMAGE_MARK)
    return _kept(marked == bool(place.row["images"]), place.step["problem"][-FOUND_LENGTH // 2 :])


def _passages(place: Place, form: Form) -> str | None:
    tag = form.tags.get((place.route.name or "").strip().lower())
    if tag is None or not PASSAGE_START.search(place.text):
        return None
    labels = _labels(place.above, form)
    return _kept(labels == [f"{tag}-{number}" for number in range(form.shown)], " ".join(labels) or "none")


def _only_the_end_follows(place: Place, form: Form) -> str | None:
    types = [step["step_type"] for step in place.row["steps"][place.index + 1 :]]
    return _kept(types == ["ans"], " ".join(types))


def _final_prompt(place: Place, form: Form) -> str | None:
    """The file's commonest request after the history, or one of another wording that names the origin question."""
    request = form.final_request
    if place.final_request is not None and "{question}" in place.final_request:
        own = place.text.removeprefix(place.head)
        request = request if _HISTORY_LINE.search(own) else place.final_request
    return _difference(place.step["problem"], place.head + request.replace("{question}", place.question) + place.mark)


def _is_text_in_lower_case(answer: Any) -> bool:
    return isinstance(answer, str) and answer == answer.lower()


def _is_list_of_texts(answer: Any) -> bool:
    return isinstance(answer, list) and bool(answer) and all(isinstance(one, str) for one in answer)


RULES = (
    Rule("first step is ret", Kind.ROW, _on_types(lambda types: types[0] == "ret")),
    Rule("last step is ans", Kind.ROW, _on_types(lambda types: types[-1] == "ans")),
    Rule("types are (ret ans){1..3} then final ans, or (ret ans){0..2} ret(none) final ans", Kind.ROW, _sequence),
    Rule("at most three ret steps", Kind.ROW, _on_types(lambda types: types.count("ret") <= MAX_STEPS)),
    Rule("row has at most one image", Kind.ROW, _images),
    Rule("ret problem = origin line + all earlier Sub-questionN/AnswerN lines (+ <image>)", Kind.ROUTE, _route_prompt),
    Rule("ret answer is a dict with query (str) and retriever (list of one str)", Kind.ROUTE, _on_answer(_is_route)),
    Rule("retriever is one of the four names, lower case", Kind.ROUTE, _retriever),
    Rule("query is lower case", Kind.ROUTE, _query_case),
    Rule("query.strip() == 'none' exactly when retriever == ['none']", Kind.ROUTE, _none_for_both),
    Rule("evidence problem matches the template", Kind.ANSWER, _evidence),
    Rule("evidence question equals the sub-question of the step before", Kind.ANSWER, _asked),
    Rule("<image> at the end exactly when the row has an image", Kind.ANSWER, _mark),
    Rule("five passages numbered 0..4 of the one chosen retriever", Kind.ANSWER, _passages),
    Rule("intermediate answer is a str in lower case", Kind.ANSWER, _on_answer(_is_text_in_lower_case)),
    Rule("after a 'none' route only the final answer step follows", Kind.STOP, _only_the_end_follows),
    Rule("final problem = origin line + history + final request (+ <image>)", Kind.FINAL, _final_prompt),
    Rule("final answer is a non-empty list of str", Kind.FINAL, _on_answer(_is_list_of_texts)),
)
"""Every rule in the order of the published form; MAX_STEPS is three."""
