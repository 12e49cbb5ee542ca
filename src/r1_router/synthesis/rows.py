"""Trajectories as step rows in the published form.

    {"images": [path], "steps": [{"step_type": "ret", "problem", "system", "answer": {"query", "retriever": [name]}},
                                 {"step_type": "ans", "problem", "system", "answer": text}, ..
                                 {"step_type": "ans", "problem", "system", "answer": [golds]}]}

Each step is one prompt of its own, built by the same builders as at inference, with the trajectory's earlier
sub-questions and answers in it; `<image>` stands at the end of the prompts of a row with an image.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from r1_router.errors import DataError
from r1_router.methods.blocks import history
from r1_router.prompts import PromptSet, answer_messages, final_messages, route_messages
from r1_router.prompts.released import IMAGE_MARK
from r1_router.types import NONE, Message, Query, Question, Source, Step, Trajectory

Row = dict[str, Any]


def step_row(trajectory: Trajectory, prompts: PromptSet, sources: Sequence[Source], shown: int) -> Row:
    """One trajectory's steps; raises DataError for a plan that asks several sources, which the form cannot hold."""
    image = trajectory.question.image
    steps = list(_steps(trajectory, prompts, sources, shown, IMAGE_MARK if image else ""))
    return {"images": [image] if image else [], "steps": steps}


def golds(question: Question) -> list[str]:
    """The accepted answers as the row shows them: InfoSeek's `answer`, not the `answer_eval` that it is scored by."""
    answers = question.extra.get("answer", question.answers)
    return [str(answer) for answer in (answers if isinstance(answers, list | tuple) else [answers])]


def _steps(
    trajectory: Trajectory, prompts: PromptSet, sources: Sequence[Source], shown: int, mark: str
) -> Iterator[Row]:
    question = Question(trajectory.question.id, trajectory.question.text)
    for number, step in enumerate(trajectory.steps):
        earlier = history(trajectory.steps[:number])
        target = {"query": step.plan.query, "retriever": [_only_source(trajectory, step)]}
        yield _step("ret", route_messages(prompts, question, earlier, sources), mark, target)
        if not step.plan.stops and step.answer is not None:
            messages = answer_messages(prompts, Query(step.plan.query), step.passages[:shown])
            yield _step("ans", messages, mark, step.answer.text)
    messages = final_messages(prompts, question, history(trajectory.steps))
    yield _step("ans", messages, mark, golds(trajectory.question))


def _step(kind: str, messages: Sequence[Message], mark: str, answer: Any) -> Row:
    """The system text and the last user text; examples for an untrained model are no part of a row."""
    system, problem = messages[0]["content"], messages[-1]["content"]
    return {"step_type": kind, "problem": problem + mark, "system": system, "answer": answer}


def _only_source(trajectory: Trajectory, step: Step) -> str:
    if step.plan.stops:
        return NONE
    if len(step.plan.sources) != 1:
        names = ", ".join(source.name for source in step.plan.sources)
        raise DataError(f"question {trajectory.question.id}: a step row names one retriever, the plan asks {names}.")
    return step.plan.sources[0].name
