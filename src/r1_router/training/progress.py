"""A progress bar for training in a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

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


@contextmanager
def update_bar(planned: int, console: Console | None = None) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """Yield an `on_row` for Step-GRPO that shows updates, time left, the reward of about 20 updates, the dev score."""
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("reward {task.fields[reward]:.3f} dev {task.fields[dev]:.3f}"),
    )
    with Progress(TextColumn("training"), *columns, console=console) as progress:
        task = progress.add_task("training", total=planned, reward=float("nan"), dev=float("nan"))
        rewards: list[float] = []

        def show(row: Mapping[str, Any]) -> None:
            rewards[:] = [*rewards, *([row["reward"]] if "reward" in row else [])][-20:]
            mean = sum(rewards) / len(rewards) if rewards else float("nan")
            shown = {"dev": row["dev/f1_recall"]} if "dev/f1_recall" in row else {}
            progress.update(task, completed=row["step"], reward=mean, **shown)

        yield show
