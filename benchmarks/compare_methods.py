"""Every method on the same questions, with the same retrievers, step cap and metric: one table, with intervals.

    python benchmarks/compare_methods.py [--benchmark factbook] [--limit 300] [--method M ...] [--markdown FILE]
    python benchmarks/compare_methods.py --config configs/ottqa.yaml --benchmark ottqa --engine vllm --constrained

Runs go into the deployment's result files and resume by id, so a table can be printed again, or a method added, at no
cost; another engine than the config's has files of its own. Steps, calls and retrievals are means per question. The
last column is the paired difference in F1-Recall from the first method on the questions that both answered, with a star
where its 95% interval leaves zero out.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from rich.console import Console
from rich.table import Table

from r1_router.commands import Evaluation, evaluate
from r1_router.config import DEFAULT_CONFIG, ENGINES, Config, load_config, with_constrained
from r1_router.deployment import Deployment
from r1_router.intervals import bootstrap, paired_bootstrap
from r1_router.methods import METHODS
from r1_router.summary import f1_of, figure, recall_of
from r1_router.types import Trajectory

COLUMNS = (
    "method",
    "questions",
    "F1-Recall",
    "token F1",
    "routing",
    "steps",
    "calls",
    "retrievals",
    "s / question",
    "difference",
)
SEED = 0
TITLE = "{benchmark}, {model}: F1-Recall and token F1 with 95% bootstrap intervals"


def row(evaluation: Evaluation, first: Evaluation) -> tuple[str, ...]:
    """One method's line of the table."""
    found = evaluation.trajectories
    return (
        evaluation.summary["method"],
        str(len(found)),
        interval(found, recall_of),
        interval(found, f1_of),
        figure(evaluation.summary["routing_accuracy"]),
        f"{fmean(sum(not step.plan.stops for step in item.steps) for item in found):.1f}",
        f"{fmean(item.usage.calls for item in found):.1f}",
        f"{fmean(item.usage.retrievals for item in found):.1f}",
        figure(evaluation.summary["seconds_per_question"]),
        "" if evaluation is first else difference(found, first.trajectories),
    )


def interval(found: Sequence[Trajectory], value: Callable[[Trajectory], float]) -> str:
    at = bootstrap([value(item) for item in found], SEED)
    return f"{at.mean:.3f} [{at.low:.3f}, {at.high:.3f}]"


def difference(found: Sequence[Trajectory], others: Sequence[Trajectory]) -> str:
    """Mean F1-Recall of `found` minus that of `others`, over the questions they share."""
    by_id = {item.question.id: item for item in others}
    pairs = [(recall_of(item), recall_of(by_id[item.question.id])) for item in found if item.question.id in by_id]
    at = paired_bootstrap([a for a, _ in pairs], [b for _, b in pairs], SEED)
    return f"{at.mean:+.3f}{'*' if at.low > 0 or at.high < 0 else ''}"


def markdown(rows: Sequence[Sequence[str]]) -> str:
    lines = [COLUMNS, ["---"] * len(COLUMNS), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def configured(path: Path, engine: str | None, constrained: bool) -> Config:
    """The config, with the engine in the results' folder name where it is not the config's own."""
    config = load_config(path)
    if engine not in (None, config.llm.engine):
        config = replace(config, llm=replace(config.llm, engine=engine, name=f"{config.llm.name}-{engine}"))
    return with_constrained(config) if constrained else config


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, default=DEFAULT_CONFIG)
    parser.add_argument("--benchmark", default="factbook")
    parser.add_argument("--limit", type=int, help="only the first N questions")
    parser.add_argument("--method", action="append", help="repeatable; all by default")
    parser.add_argument("--markdown", type=Path, help="write the table to this file too")
    parser.add_argument("--engine", choices=ENGINES, help="another than the config's")
    parser.add_argument("--constrained", action="store_true", help="hold replies to their form (vllm)")
    args = parser.parse_args()
    deployment = Deployment(configured(args.config, args.engine, args.constrained))
    questions = deployment.questions(args.benchmark, args.limit)
    evaluations = []
    for method in args.method or METHODS:
        evaluations.append(evaluate(deployment, args.benchmark, method, questions, fresh=True))
        if evaluations[-1].interrupted:
            break
    rows = [row(evaluation, evaluations[0]) for evaluation in evaluations if evaluation.trajectories]
    table = Table(*COLUMNS, title=TITLE.format(benchmark=args.benchmark, model=deployment.config.llm.name))
    for line in rows:
        table.add_row(*line)
    Console(width=170).print(table)
    if evaluations[-1].interrupted:
        raise SystemExit("stopped; the same command goes on")
    if args.markdown:
        args.markdown.write_text(markdown(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
