"""Trajectories as step rows in the published form.

    {"images": [path], "steps": [{"step_type": "ret", "problem", "system", "answer": {"query", "retriever": [name]}},
                                 {"step_type": "ans", "problem", "system", "answer": text}, ..
                                 {"step_type": "ans", "problem", "system", "answer": [golds]}]}

Each step is one prompt of its own, built by the same builders as at inference, with the trajectory's earlier
sub-questions and answers in it; `<image>` stands at the end of the prompts of a row with an image.

The same steps are the rows of supervised tuning, one a step, with the reply to write in place of the answer to meet:

    {"id", "step_type": "ret" | "ans" | "final", "messages": [..], "completion": reply}
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from r1_router.errors import DataError
from r1_router.methods.blocks import history
from r1_router.prompts import PromptSet, answer_messages, final_messages, route_messages
from r1_router.prompts.released import IMAGE_MARK
from r1_router.replies import format_answer, format_plan
from r1_router.types import NONE, Message, Query, Question, Source, Step, Trajectory

Row = dict[str, Any]


def step_row(trajectory: Trajectory, prompts: PromptSet, sources: Sequence[Source], shown: int) -> Row:
    """One trajectory's steps; raises DataError for a plan that asks several sources, which the form cannot hold."""
    image = trajectory.question.image
    mark = IMAGE_MARK if image else ""
    without = replace(trajectory, question=replace(trajectory.question, image=None))
    steps = [_step(one, mark) for one in _asked(without, prompts, sources, shown)]
    return {"images": [image] if image else [], "steps": steps}


def reply_rows(trajectory: Trajectory, prompts: PromptSet, sources: Sequence[Source], shown: int) -> list[Row]:
    """One trajectory's steps for supervised tuning; a thought that the trajectory does not hold is empty."""
    asked = _asked(trajectory, prompts, sources, shown)
    return [
        {
            "id": f"{trajectory.question.id}-{n}",
            "step_type": one.kind,
            "messages": one.messages,
            "completion": one.reply,
        }
        for n, one in enumerate(asked, start=1)
    ]


def golds(question: Question) -> list[str]:
    """The accepted answers as the row shows them: InfoSeek's `answer`, not the `answer_eval` that it is scored by."""
    answers = question.extra.get("answer", question.answers)
    return [str(answer) for answer in (answers if isinstance(answers, list | tuple) else [answers])]


@dataclass(frozen=True, slots=True)
class _Asked:
    """One prompt of a trajectory, what is to be met, and the whole reply that meets it."""

    kind: str
    messages: list[Message]
    target: Any
    reply: str


def _asked(trajectory: Trajectory, prompts: PromptSet, sources: Sequence[Source], shown: int) -> Iterator[_Asked]:
    question = trajectory.question
    for number, step in enumerate(trajectory.steps):
        name, plan = _only_source(trajectory, step), step.plan
        messages = route_messages(prompts, question, history(trajectory.steps[:number]), sources)
        target = {"query": plan.query, "retriever": [name]}
        yield _Asked("ret", messages, target, format_plan(plan.thought, NONE if plan.stops else plan.query, name))
        if not plan.stops and step.answer is not None:
            messages = answer_messages(prompts, Query(plan.query, question.image), step.passages[:shown])
            yield _Asked("ans", messages, step.answer.text, format_answer(step.answer.thought, step.answer.text))
    messages, accepted = final_messages(prompts, question, history(trajectory.steps)), golds(question)
    thought = trajectory.answer.thought if trajectory.answer else ""
    yield _Asked("final", messages, accepted, format_answer(thought, accepted[0].lower()))


def _step(asked: _Asked, mark: str) -> Row:
    """The system text and the last user text; examples for an untrained model are no part of a row."""
    system, problem = asked.messages[0]["content"], asked.messages[-1]["content"]
    kind = "ret" if asked.kind == "ret" else "ans"
    return {"step_type": kind, "problem": problem + mark, "system": system, "answer": asked.target}


def _only_source(trajectory: Trajectory, step: Step) -> str:
    if step.plan.stops:
        return NONE
    if len(step.plan.sources) != 1:
        names = ", ".join(source.name for source in step.plan.sources)
        raise DataError(f"question {trajectory.question.id}: a step row names one retriever, the plan asks {names}.")
    return step.plan.sources[0].name
