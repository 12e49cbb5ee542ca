"""What the commands do, apart from reading flags: one function each, over a deployment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from r1_router import console, jsonl
from r1_router.config import Config
from r1_router.deployment import Deployment, adapter_digest
from r1_router.embedded import ensure_embedded
from r1_router.errors import ConfigError
from r1_router.questions import results_name
from r1_router.report import write_report
from r1_router.results import RunNote, Shard, merge_shards, open_note, read_note, result_path, write_note
from r1_router.run import run_questions
from r1_router.summary import Summary, recall_of, summarise, write_summary
from r1_router.types import Question, Trajectory


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One method's trajectories on the questions asked, with their summary."""

    summary: Summary
    trajectories: tuple[Trajectory, ...]
    path: Path
    interrupted: bool


def evaluate(
    deployment: Deployment,
    benchmark: str,
    method: str,
    questions: Sequence[Question],
    *,
    fresh: bool = False,
    shard: Shard | None = None,
) -> Evaluation:
    """Run `method` over the questions with a bar, appending to its results file.

    `fresh` puts results aside that other settings made; those of the same settings are always resumed. The
    evaluation sums up these questions, summary.json all that the file holds. A shard runs its part of the questions
    into a file of its own and writes no summary. Where all are answered nothing is loaded.
    """
    config, benchmark = deployment.config, results_name(benchmark)
    path = result_path(config.results_dir, config.llm.name, benchmark, method)
    if shard is not None:
        path, questions = shard.path(path), shard.pick(questions)
    note = open_note(path, deployment.fingerprint(method), replace_others=fresh)
    write_note(path, note)
    llm, retrievers = deployment.for_run(method, questions, path)
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
    console.print_failures(outcome.trajectories)
    progress = outcome.progress
    note = RunNote(note.settings, note.answered + progress.done - progress.resumed, note.seconds + progress.seconds)
    write_note(path, note)
    if path.exists() and shard is None:
        summarise_file(deployment, benchmark, method)
    summary = _summed(deployment, benchmark, method, outcome.trajectories, note)
    return Evaluation(summary, outcome.trajectories, path, outcome.interrupted)


def results_beside(evaluation: Evaluation) -> int:
    """How many results its file holds of questions not asked now: beyond --limit, or of a file of the same name."""
    held = sum(1 for _ in jsonl.read(evaluation.path)) if evaluation.path.exists() else 0
    return held - len(evaluation.trajectories)


def merge(deployment: Deployment, benchmark: str, method: str) -> tuple[Summary, int]:
    """Join the shards of one run; gives the summary of all, and how many questions have no answer yet."""
    config, name = deployment.config, results_name(benchmark)
    path = result_path(config.results_dir, config.llm.name, name, method)
    missing = merge_shards(path, deployment.questions(benchmark), deployment.sources())
    return summarise_file(deployment, name, method), missing


def summarise_file(deployment: Deployment, benchmark: str, method: str) -> Summary:
    """Write summary.json of all that the results file holds."""
    config = deployment.config
    path = result_path(config.results_dir, config.llm.name, benchmark, method)
    trajectories = [Trajectory.from_json(record, deployment.sources()) for record in jsonl.read(path)]
    summary = _summed(deployment, benchmark, method, trajectories, read_note(path))
    write_summary(config.results_dir / benchmark / config.llm.name / method / "summary.json", summary)
    return summary


def _summed(
    deployment: Deployment, benchmark: str, method: str, trajectories: Sequence[Trajectory], note: RunNote
) -> Summary:
    names = {"benchmark": benchmark, "method": method, "model": deployment.config.llm.name}
    return summarise(trajectories, **names, seconds_per_question=note.seconds_per_question)


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
    deployment = Deployment(config)
    questions = deployment.questions(benchmark, limit, sample_seed=seed)
    for method in methods:
        adapter_digest(config.variant(method).adapter)  # a wrong name is found before minutes of fetching
    fetch_models(config)
    build_knowledge_bases(deployment)
    evaluations = []
    for method in methods:
        evaluations.append(evaluate(deployment, benchmark, method, questions, fresh=True))
        if evaluations[-1].interrupted:
            break
    show_results(config, results_name(benchmark), [evaluation for evaluation in evaluations if evaluation.trajectories])
    return evaluations


def show_results(config: Config, benchmark: str, evaluations: Sequence[Evaluation]) -> None:
    """Print the table and one trace, and write the report; nothing where no question was answered."""
    if not evaluations:
        return
    console.console.print(console.summary_table([evaluation.summary for evaluation in evaluations]))
    console.print_trajectory(telling(evaluations[0].trajectories))
    runs = [(evaluation.summary, evaluation.trajectories) for evaluation in evaluations]
    page = write_report(config.results_dir / benchmark / config.llm.name, benchmark, runs)
    console.console.print(f"report: {page}", soft_wrap=True)


def telling(trajectories: Sequence[Trajectory]) -> Trajectory:
    """The trajectory that shows most: a right one before a wrong one, then the one with the most steps."""
    return max(trajectories, key=lambda trajectory: (recall_of(trajectory) == 1, len(trajectory.steps)))


def train_adapter(config: Config, name: str, command: str) -> dict[str, Any]:
    """Train the adapter `name` of the config's `training` section, making its step rows first; gives the card.

    Rows of the kind steps are there already, made by `r1-router synthesize`.
    """
    from r1_router.prepare import make_steps
    from r1_router.schema import read_dataclass
    from r1_router.training.progress import training_bar
    from r1_router.training.sft import SftConfig, finished_card, train

    if name not in config.training:
        known = ", ".join(config.training) or "none: configs/factbook.yaml shows a `training` section"
        raise ConfigError(f"--adapter: the config trains no {name!r}; there are {known}.")
    section = config.training[name]
    made = section.kind == "steps"
    if not section.sft or not (made or (section.questions and section.questions.is_file())):
        told = f"`train sft` needs `sft` and a file of `questions`, found {section.questions}."
        raise ConfigError(f"training.{name}: {told}")
    sft = read_dataclass(SftConfig, {**section.sft, "command": command}, f"training.{name}.sft", config.root)
    if made and not sft.data.is_file():
        raise ConfigError(f"training.{name}: no rows in {sft.data}; `r1-router synthesize` makes them.")
    if finished := finished_card(sft):
        console.errors.print(f"{sft.output} holds this very run already; delete it to train again.")
        return finished
    if not made:
        with console.errors.status(f"making {sft.data}: evidence for every training question"):
            make_steps(Deployment(config), section, sft.data, sft.seed)
    with training_bar(console.errors) as show:
        return train(sft, show)
