"""A progress bar for training in a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from r1_router.training.sft import StepLog


@contextmanager
def training_bar(console: Console | None = None) -> Iterator[Callable[[StepLog], None]]:
    """Yield an `on_step` for `train` that shows steps, time left and the loss, smoothed over about 20 steps."""
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("loss {task.fields[loss]:.3f}"),
    )
    with Progress(TextColumn("training"), *columns, console=console) as progress:
        task = progress.add_task("training", total=None, loss=float("nan"))
        smooth: list[float] = []

        def show(row: StepLog) -> None:
            smooth[:] = [*smooth, row.loss][-20:]
            progress.update(task, completed=row.step, total=row.planned, loss=sum(smooth) / len(smooth))

        yield show
