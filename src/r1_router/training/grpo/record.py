"""A run's log and what is done at each of its rows: alarms, the time's end, evaluation, and the best weights kept."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from r1_router import jsonl
from r1_router.errors import TrainingError
from r1_router.training.grpo.config import GrpoConfig
from r1_router.training.grpo.watchdogs import REWARD, Row, new_alarms
from r1_router.training.model import save_weights

Evaluate = Callable[[Path, int], Mapping[str, float]]
DEV, HELD_OUT = "dev/f1_recall", "eval_reward"
"""What the best weights are chosen by: the loop's score on dev questions, or else the reward on held-out steps."""


class Record:
    """The rows of `log.jsonl`, one an update and one an evaluation; those after the update `step` are dropped."""

    def __init__(self, path: Path, step: int, on_row: Callable[[Row], None]) -> None:
        self._path, self._on_row = path, on_row
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            jsonl.repair_tail(path)
        self.rows: list[dict[str, Any]] = [row for row in jsonl.read(path) if row["step"] <= step] if step else []
        jsonl.rewrite(path, self.rows)
        self._started = time.monotonic() - (self.rows[-1]["seconds"] if self.rows else 0.0)

    @property
    def seconds(self) -> float:
        """Since the start, over all resumed parts."""
        return time.monotonic() - self._started

    @property
    def updates(self) -> list[dict[str, Any]]:
        """The rows of updates."""
        return [row for row in self.rows if REWARD in row]

    def add(self, step: int, measures: Mapping[str, Any]) -> None:
        """Append one row of the measures that are numbers."""
        numbers = {name: value for name, value in measures.items() if _is_number(value)}
        row = {"step": step, "seconds": round(self.seconds, 2), **numbers}
        self.rows.append(row)
        jsonl.append(self._path, row)
        self._on_row(row)

    def best_step(self) -> int | None:
        """The evaluated step with the best weights, the earlier of equals; None where nothing was evaluated."""
        name = DEV if any(DEV in row for row in self.rows) else HELD_OUT
        scored = [(-row[name], row["step"]) for row in self.rows if name in row]
        return min(scored)[1] if scored else None


class Watch(TrainerCallback):
    """Writes the record as TRL logs, tells alarms, and says when to evaluate and when time is up."""

    def __init__(self, config: GrpoConfig, record: Record, tell: Callable[[str], None]) -> None:
        self._config, self._record, self._tell = config, record, tell

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Evaluate every so often and at the end; a run whose time is up ends with a checkpoint."""
        out_of_time = self._record.seconds >= self._config.max_minutes * 60
        last = out_of_time or state.global_step == self._config.updates
        every = self._config.evaluate_updates
        control.should_evaluate = bool(every) and (last or state.global_step % every == 0)
        control.should_save = control.should_save or last
        control.should_training_stop = control.should_training_stop or out_of_time

    def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, Any], **_: Any) -> None:
        """Raises TrainingError for an alarm that stops the run."""
        if "train_runtime" in logs:
            return
        self._record.add(state.global_step, logs)
        if REWARD not in logs:
            return
        for alarm in new_alarms(self._record.updates, self._config.limits):
            self._tell(f"update {state.global_step}: {alarm.message}")
            if alarm.stops:
                raise TrainingError(f"stopped at update {state.global_step}: {alarm.message}.")


class Judge:
    """Called at an evaluation with the policy and its update: keeps its weights under `folder` while they are best.

    `evaluate(weights, step)` measures the weights of a folder; without it the reward on held-out steps decides.
    """

    def __init__(self, folder: Path, processor: Any, evaluate: Evaluate | None, record: Record) -> None:
        self._folder, self._processor, self._evaluate, self._record = folder, processor, evaluate, record

    def __call__(self, model: Any, step: int) -> None:
        weights = self._folder / str(step)
        self.save(model, weights)
        if self._evaluate is not None:
            scores = self._evaluate(weights, step)
            self._record.add(step, {f"dev/{name}": value for name, value in scores.items()})
        best = self._record.best_step()
        for kept in self._folder.iterdir():
            if kept.name != str(best):
                shutil.rmtree(kept)

    def save(self, model: Any, folder: Path) -> None:
        """Write the policy's weights to a folder."""
        save_weights(model, self._processor, folder)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
