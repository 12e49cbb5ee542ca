"""What a person sees in a terminal: steps as they come, progress bars, tables of results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from r1_router.methods import Event
from r1_router.run import Progress as RunProgress
from r1_router.summary import Summary, figure, hits_text, score_text
from r1_router.types import Answer, Step, Trajectory

PASSAGES_PRINTED = 3
console = Console(highlight=False)
errors = Console(stderr=True, highlight=False)


class StepPrinter:
    """Prints a trajectory's events in colour, each as it comes about."""

    def __init__(self, shown: int = PASSAGES_PRINTED) -> None:
        self._shown = shown
        self._number = 0

    def __call__(self, event: Event) -> None:
        if isinstance(event, Answer):
            console.print(Text("Answer  ", "bold"), Text(event.text, "bold green"), sep="")
        elif event.answer is not None:
            console.print(Text("   = ", "dim"), Text(event.answer.text, "green"), sep="")
        elif event.passages:
            self._print_passages(event)
        else:
            self._print_plan(event)

    def _print_plan(self, step: Step) -> None:
        self._number += 1
        if step.plan.thought:
            console.print(Text(f"{self._number}  {step.plan.thought}", "dim italic"))
        if step.plan.stops:
            console.print(Text("   nothing more to ask", "yellow"))
            return
        names = ", ".join(source.name for source in step.plan.sources)
        console.print(Text("   ? ", "dim"), Text(step.plan.query, "cyan"), Text(f"  ->  {names}", "magenta"), sep="")

    def _print_passages(self, step: Step) -> None:
        for number, passage in enumerate(step.passages[: self._shown]):
            line = Text(f"     {passage.source.tag}-{number} {passage.score:.2f}  {passage.text}", "dim", no_wrap=True)
            line.truncate(console.width - 1, overflow="ellipsis")
            console.print(line)


def print_trajectory(trajectory: Trajectory) -> None:
    """One finished trajectory, as `ask` would have shown it."""
    printer = StepPrinter()
    console.print(Text("Question  ", "bold"), Text(trajectory.question.text), sep="")
    for step in trajectory.steps:
        printer(replace(step, passages=(), answer=None))
        if step.passages:
            printer(replace(step, answer=None))
        if step.answer is not None:
            printer(step)
    if trajectory.answer is not None:
        printer(trajectory.answer)
    console.print(Text(f"Gold    {_golds(trajectory)}", "dim"))


def print_failures(trajectories: Sequence[Trajectory]) -> None:
    """How many questions failed and why the first did; nothing where none did."""
    failed = [trajectory for trajectory in trajectories if trajectory.error is not None]
    if failed:
        told = f"{len(failed)} failed and count as wrong; the first, {failed[0].question.id!r}, by {failed[0].error}"
        errors.print(Text(told, "red"), soft_wrap=True)
        errors.print("Their records hold the errors; the same command tries them again.", soft_wrap=True)


def summary_table(summaries: Sequence[Summary]) -> Table:
    """One row a method; scores with their 95% bootstrap intervals over questions."""
    table = Table(title=f"{summaries[0]['benchmark']}, {summaries[0]['n']} questions" if summaries else None)
    table.add_column("method", no_wrap=True)
    for title in ("F1-Recall", "token F1", "routing", "hit@5", "s/question"):
        table.add_column(title, justify="right")
    for summary in summaries:
        scores = (score_text(summary, name) for name in ("f1_recall", "token_f1"))
        routing, seconds = (figure(summary[name]) for name in ("routing_accuracy", "seconds_per_question"))
        table.add_row(summary["method"], *scores, routing, hits_text(summary), seconds)
    return table


@contextmanager
def run_bar(title: str) -> Iterator[Callable[[RunProgress], None]]:
    """A bar for one method's run; call it with the run's progress."""
    with _bar(TextColumn("{task.fields[state]}")) as bar:
        task = bar.add_task(title, total=None, state="")

        def show(progress: RunProgress) -> None:
            bar.update(task, total=progress.total, completed=progress.done, state=_state(progress))

        yield show


def _state(progress: RunProgress) -> str:
    """A run's pace and health in a few words."""
    words = [f"{progress.rate:.2f} q/s", f"{progress.in_flight} in flight"]
    words += [f"{progress.malformed_share:.1%} malformed"] if progress.malformed else []
    words += [f"{progress.errors} failed"] if progress.errors else []
    return "  ".join(words)


@contextmanager
def step_bars() -> Iterator[Callable[[str, float, float], None]]:
    """Bars made as they are needed; call with a name, what is done and what there is."""
    with _bar() as bar:
        tasks = {}

        def show(name: str, done: float, total: float) -> None:
            if name not in tasks:
                tasks[name] = bar.add_task(name, total=total)
            bar.update(tasks[name], completed=done, total=total)

        yield show


def _bar(*more: TextColumn) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        *more,
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=errors,
    )


def _golds(trajectory: Trajectory) -> str:
    answers = trajectory.question.answers
    return " | ".join(map(str, answers)) if isinstance(answers, list | tuple) else str(answers)
