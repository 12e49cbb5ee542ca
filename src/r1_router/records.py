"""Trajectories and questions as published JSON records, and back.

    {the question's row .., "plan_0": {"thought", "query", "retriever": [..], "ter": [texts], "answer": {..}}, ..,
     "llm_answer": {"thought", "answer"}}

Passages are texts under their source's tag. What the published form has no place for stands under keys that its
tools pass over: `passage_ids` and `passage_scores` in each plan, `usage` and `error` at the end.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from r1_router.errors import DataError
from r1_router.types import MAX_STEPS, NONE, Answer, Passage, Plan, Question, Source, Step, Trajectory, Usage

ID_KEYS = ("id", "data_id", "question_id")
"""Where a row may have its id: ours, InfoSeek's, Dyn-VQA's."""
GOLD_KEYS = ("answer_eval", "answer", "answers")
"""Where a row may have its gold, best first: InfoSeek scores on `answer_eval` and only shows `answer`."""
OUTPUT_KEY = re.compile(r"plan_\d+|llm_answer|usage|error")
"""What a method adds to a question's row."""
_EMPTY_ANSWER = Answer("", "")


def trajectory_to_json(trajectory: Trajectory) -> dict[str, Any]:
    """The published record; once a plan has stopped, the plans up to the third are written as stops too."""
    record = question_to_json(trajectory.question)
    record |= {f"plan_{number}": _step_to_json(step) for number, step in enumerate(trajectory.steps)}
    if trajectory.steps and trajectory.steps[-1].plan.stops:
        for number in range(len(trajectory.steps), MAX_STEPS):
            record[f"plan_{number}"] = {"query": NONE, "retriever": [NONE], "answer": _EMPTY_ANSWER.to_json()}
    if trajectory.answer is not None:
        record["llm_answer"] = trajectory.answer.to_json()
    if trajectory.usage != Usage():
        record["usage"] = asdict(trajectory.usage)
    if trajectory.error is not None:
        record["error"] = trajectory.error
    return record


def trajectory_from_json(record: Mapping[str, Any], sources: Sequence[Source]) -> Trajectory:
    """Read a record of ours or of the reference, whose `llm_answer` may be a bare string.

    Plans after the first that stops say nothing and are left out. Raises DataError naming the key.
    """
    steps: list[Step] = []
    while (key := f"plan_{len(steps)}") in record and not (steps and steps[-1].plan.stops):
        steps.append(_step_from_json(key, record[key], sources))
    try:
        usage = Usage(**record.get("usage", {}))
    except TypeError as error:
        raise DataError(f"usage: {error}") from error
    row = {key: value for key, value in record.items() if not OUTPUT_KEY.fullmatch(key)}
    answer = _answer_from_json("llm_answer", record["llm_answer"]) if "llm_answer" in record else None
    return Trajectory(question_from_json(row), tuple(steps), answer, usage, record.get("error"))


def question_to_json(question: Question) -> dict[str, Any]:
    """The question's row with its keys as they were; `id`, `benchmark` and `image` are added where it had none.

    Gold goes under `answer`, which published tools read, or under `answer_eval` where the row has both.
    """
    row: dict[str, Any] = {"question": question.text}
    row["answer_eval" if "answer" in question.extra else "answer"] = question.answers
    if question.id and all(question.extra.get(key) != question.id for key in ID_KEYS):
        row["id"] = question.id
    if question.benchmark:
        row["benchmark"] = question.benchmark
    if question.image is not None:
        row["image"] = question.image
    return row | dict(question.extra)


def question_from_json(row: Mapping[str, Any]) -> Question:
    """A question from its row; keys without a field of their own go to `extra`."""
    if not isinstance(row.get("question"), str):
        raise DataError(f"question: expected the question's text, found {row.get('question')!r}.")
    gold = next((key for key in GOLD_KEYS if key in row), None)
    own = {"id", "question", gold, "benchmark", "image"}
    return Question(
        id=str(next((row[key] for key in ID_KEYS if key in row), "")),
        text=row["question"],
        answers=row[gold] if gold else (),
        benchmark=row.get("benchmark", ""),
        image=row.get("image"),
        extra={key: value for key, value in row.items() if key not in own},
    )


def _step_to_json(step: Step) -> dict[str, Any]:
    plan = step.plan
    record: dict[str, Any] = {"thought": plan.thought, "query": plan.query}
    record["retriever"] = [source.name for source in plan.sources] or [NONE]
    blocks: dict[str, list[Passage]] = {source.tag: [] for source in plan.sources}
    for passage in step.passages:
        blocks.setdefault(passage.source.tag, []).append(passage)
    record |= {tag: [passage.text for passage in block] for tag, block in blocks.items()}
    if step.passages:
        record["passage_ids"] = {tag: [passage.id for passage in block] for tag, block in blocks.items()}
        record["passage_scores"] = {tag: [passage.score for passage in block] for tag, block in blocks.items()}
    if step.answer is not None or plan.stops:
        record["answer"] = (step.answer or _EMPTY_ANSWER).to_json()
    return record


def _step_from_json(key: str, record: Any, sources: Sequence[Source]) -> Step:
    if not isinstance(record, Mapping) or not isinstance(record.get("retriever"), list) or "query" not in record:
        raise DataError(f"{key}: expected an object with 'query' and a list 'retriever', found {record!r}.")
    by_name = {source.name: source for source in sources}
    names = [name for name in dict.fromkeys(record["retriever"]) if name != NONE]
    if unknown := [name for name in names if name not in by_name]:
        raise DataError(f"{key}.retriever: unknown {unknown}; the sources given are {list(by_name)}.")
    plan = Plan(record.get("thought", ""), record["query"], tuple(by_name[name] for name in names))
    passages = [passage for source in sources for passage in _block_from_json(key, record, source)]
    answer = _answer_from_json(f"{key}.answer", record["answer"]) if "answer" in record else None
    return Step(plan, tuple(passages), None if plan.stops and answer == _EMPTY_ANSWER else answer)


def _block_from_json(key: str, record: Mapping[str, Any], source: Source) -> list[Passage]:
    """The passages under the source's tag; the reference's have no ids and scores, they read as "" and 0."""
    texts = record.get(source.tag, [])
    if not isinstance(texts, list):
        raise DataError(f"{key}.{source.tag}: expected a list of texts, found {texts!r}.")
    ids = record.get("passage_ids", {}).get(source.tag, [""] * len(texts))
    scores = record.get("passage_scores", {}).get(source.tag, [0.0] * len(texts))
    if not len(texts) == len(ids) == len(scores):
        raise DataError(f"{key}.{source.tag}: {len(texts)} texts, but {len(ids)} ids and {len(scores)} scores.")
    return [Passage(id_, text, score, source) for id_, text, score in zip(ids, texts, scores, strict=True)]


def _answer_from_json(key: str, value: Any) -> Answer:
    if isinstance(value, str):
        return Answer("", value)
    if isinstance(value, Mapping) and "answer" in value:
        return Answer(value.get("thought", ""), str(value["answer"]))
    raise DataError(f"{key}: expected a text or an object with 'answer', found {value!r}.")
