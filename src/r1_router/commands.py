"""What the commands do, apart from reading flags: one function each, over a deployment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from r1_router import console, jsonl
from r1_router.config import Config
from r1_router.deployment import Deployment, source_of
from r1_router.embedded import ensure_embedded
from r1_router.errors import ConfigError, DataError
from r1_router.intervals import bootstrap
from r1_router.report import MethodRun, write_report
from r1_router.results import RunNote, open_note, result_path, write_note
from r1_router.run import run_questions
from r1_router.scoring import score, token_f1
from r1_router.summary import Summary, summarise, write_summary
from r1_router.types import Question, Trajectory


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One method's trajectories on one benchmark, with their summary."""

    summary: Summary
    trajectories: tuple[Trajectory, ...]
    path: Path
    interrupted: bool

    def as_run(self) -> MethodRun:
        """What the report shows of it."""
        keys = ("routing_accuracy", "hit_at_5", "seconds_per_question")
        return MethodRun(self.summary["method"], self.trajectories, **{key: self.summary[key] for key in keys})


def evaluate(
    deployment: Deployment, benchmark: str, method: str, questions: Sequence[Question], *, fresh: bool = False
) -> Evaluation:
    """Run `method` over the questions with a bar, appending to its results file, and write its summary.json.

    `fresh` replaces results that other settings made; those of the same settings are always resumed.
    """
    config = deployment.config
    path = result_path(config.results_dir, config.llm.name, benchmark, method)
    note = open_note(path, deployment.fingerprint(method), replace_others=fresh)
    write_note(path, note)
    retrievers, llm = deployment.knowledge_bases(), deployment.llm(method)
    with console.run_bar(method) as show:
        outcome = run_questions(
            deployment.method(method),
            questions,
            llm,
            retrievers,
            path=path,
            concurrency=config.concurrency,
            on_progress=show,
        )
    progress = outcome.progress
    note = RunNote(note.settings, note.answered + progress.done - progress.resumed, note.seconds + progress.seconds)
    write_note(path, note)
    summary = summarise(
        outcome.trajectories,
        benchmark=benchmark,
        method=method,
        model=config.llm.name,
        seconds_per_question=note.seconds_per_question,
    )
    write_summary(config.results_dir / benchmark / method / "summary.json", summary)
    return Evaluation(summary, outcome.trajectories, path, outcome.interrupted)


def fetch_models(config: Config) -> dict[str, Path]:
    """Make the embedded models' folders that are not there yet, with bars."""
    with console.step_bars() as show:
        return ensure_embedded(config.models_dir, lambda what, fraction: show(what, round(100 * fraction), 100))


def build_knowledge_bases(deployment: Deployment) -> dict[str, int]:
    """Build the knowledge bases that are not there yet, with bars."""
    with console.step_bars() as show:
        return deployment.build(show)


def demo(config: Config, benchmark: str, methods: Sequence[str], limit: int, seed: int) -> list[Evaluation]:
    """The whole job on `limit` questions drawn by `seed`: models, knowledge bases, every method, table and trace."""
    fetch_models(config)
    deployment = Deployment(replace(config, sampling=replace(config.sampling, seed=seed)))
    build_knowledge_bases(deployment)
    questions = deployment.questions(benchmark, limit, sample_seed=seed)
    evaluations = []
    for method in methods:
        evaluations.append(evaluate(deployment, benchmark, method, questions, fresh=True))
        if evaluations[-1].interrupted:
            break
    console.console.print(console.summary_table([evaluation.summary for evaluation in evaluations]))
    page = write_report(config.results_dir / benchmark, benchmark, [evaluation.as_run() for evaluation in evaluations])
    console.console.print(f"report: {page}", soft_wrap=True)
    if trajectory := telling(evaluations[0].trajectories):
        console.print_trajectory(trajectory)
    return evaluations


def telling(trajectories: Sequence[Trajectory]) -> Trajectory | None:
    """The trajectory that shows most: the first right one among those with the most steps, else the first of all."""

    def worth(trajectory: Trajectory) -> tuple[bool, int]:
        right = trajectory.answer is not None and score(trajectory.answer.text, trajectory.question.answers).recall == 1
        return right, len(trajectory.steps)

    return max(trajectories, key=worth, default=None)


def scores_of(config: Config, path: Path, seed: int) -> list[tuple[str, str]]:
    """Names and figures of a results file of ours or of the reference: F1-Recall, F1 and token F1 with intervals."""
    if not path.is_file():
        raise DataError(f"no results file {path}; `r1-router run` makes one.")
    sources = [source_of(section) for section in config.sources]
    trajectories = [Trajectory.from_json(record, sources) for record in jsonl.read(path)]
    pairs = [(item.answer.text if item.answer else "", item.question.answers) for item in trajectories]
    columns = {
        "F1-Recall": [score(*pair).recall for pair in pairs],
        "F1": [score(*pair).f1 for pair in pairs],
        "token F1": [token_f1(*pair) for pair in pairs],
    }
    rows = [("questions", str(len(pairs))), ("errors", str(sum(item.error is not None for item in trajectories)))]
    for name, values in columns.items():
        interval = bootstrap(values, seed)
        rows.append((name, f"{interval.mean:.4f}  [{interval.low:.4f}, {interval.high:.4f}]"))
    return rows


def train_adapter(config: Config, name: str, command: str) -> dict[str, Any]:
    """Train the adapter `name` of the config's `training` section, making its step rows first; gives the card."""
    from r1_router.prepare import make_steps
    from r1_router.schema import read_dataclass
    from r1_router.training.progress import training_bar
    from r1_router.training.sft import SftConfig, train

    if name not in config.training:
        known = ", ".join(config.training) or "none: configs/factbook.yaml shows a `training` section"
        raise ConfigError(f"--adapter: the config trains no {name!r}; there are {known}.")
    section = config.training[name]
    sft = read_dataclass(SftConfig, {**section.sft, "command": command}, f"training.{name}.sft", config.root)
    if not sft.data.is_file():
        with console.errors.status(f"making {sft.data}: evidence for every training question"):
            counts = make_steps(Deployment(config), section.questions, sft.data, section.kind, sft.seed)
        console.errors.print(f"{sft.data}: {', '.join(f'{count} {kind}' for kind, count in counts.items())}")
    with training_bar(console.errors) as show:
        return train(sft, show)
