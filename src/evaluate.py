"""Score results files with the published command.

    cd src && python evaluate.py --dataset_name all --method "r1-router3"

reads {results_root}/{model}/{dataset}_{method}.jsonl and prints for each benchmark the published F1-Recall, in percent,
and the metrics that stand beside it, each with its version, the questions it applies to and a 95% bootstrap interval.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from r1_router.benchmarks import BENCHMARKS, PUBLISHED, benchmark_named
from r1_router.errors import ConfigError, R1RouterError
from r1_router.files import write_atomically
from r1_router.metrics import HEADLINE, METRICS, metric_named
from r1_router.predictions import read_predictions, results_files
from r1_router.questions import results_name
from r1_router.results import result_path
from r1_router.scorecard import Scorecard, score_results

RESULTS_ROOT = Path(__file__).resolve().parents[1] / "results"


@dataclass(frozen=True, slots=True)
class Evaluated:
    """One benchmark's results file with its figures, the published one first; `rows` of a benchmark that is known."""

    name: str
    rows: int | None
    card: Scorecard

    def to_json(self) -> dict[str, Any]:
        return self.card.to_json() | {"benchmark_rows": self.rows}


def main(argv: Sequence[str] | None = None) -> int:
    """Evaluate and print; 1 if any data set could not be evaluated, the others are printed all the same."""
    args = parse(argv)
    evaluated: list[Evaluated] = []
    errors: dict[str, str] = {}
    try:
        names = chosen_metrics(args.metrics)
        model = args.model_name or only_model(args.results_root)
        datasets = list(PUBLISHED) if args.dataset_name == "all" else [results_name(args.dataset_name)]
        paths = {name: result_path(args.results_root, model, name, args.method) for name in datasets}
        for name, path in paths.items():
            if not path.is_file():
                benchmark_named(name)  # a name that nothing is known by is told before a missing file
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for name, path in paths.items():
        try:
            evaluated.append(evaluate(name, path, names, args.seed))
            print(describe(evaluated[-1], args.method), flush=True)
        except R1RouterError as error:
            errors[name] = str(error)
            print(f"error: {name}: {error}", file=sys.stderr)
    if args.json:
        write_json(args.json, args, model, evaluated, errors)
    return 1 if errors else 0


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--dataset_name", default="all", help="a benchmark or question file, or all: the six of the paper"
    )
    parser.add_argument("--method", default="r1-router3", help="as it stands in the file's name")
    parser.add_argument("--model_name", help="the folder of the results; may be left out where there is only one")
    parser.add_argument("--results_root", type=Path, default=RESULTS_ROOT, help=f"default: {RESULTS_ROOT.name}/")
    parser.add_argument("--metrics", default=",".join(METRICS), help="some of %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="of the bootstrap")
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    return parser.parse_args(argv)


def chosen_metrics(listed: str) -> list[str]:
    """The metrics named in `listed`, once each, after the published one."""
    named = [metric_named(name.strip()).name for name in listed.split(",")]
    return list(dict.fromkeys([HEADLINE, *named]))


def only_model(root: Path) -> str:
    """The one folder under the results root; raises ConfigError where there are more or none."""
    folders = sorted(path.name for path in root.iterdir() if results_files(path)) if root.is_dir() else []
    if len(folders) != 1:
        raise ConfigError(f"--model_name: {root} has results of {', '.join(folders) or 'no model'}; name one.")
    return folders[0]


def evaluate(name: str, path: Path, metrics: Sequence[str], seed: int) -> Evaluated:
    """Read and measure one results file of the benchmark `name`; raises DataError naming file and line."""
    known = BENCHMARKS.get(name)
    results = read_predictions(path, known.gold) if known else read_predictions(path)
    return Evaluated(name, known.rows if known else None, score_results(results, metrics, seed))


def describe(evaluated: Evaluated, method: str) -> str:
    """The published two lines, then the counts and the other metrics that apply."""
    headline, *others = evaluated.card.measures
    results = evaluated.card.results
    lines = [
        f"{evaluated.name} {method} eval:",
        f"F1-Recall:  {headline}  {headline.metric.label}",
        f"  {len(results.predictions)}{f' of {evaluated.rows}' if evaluated.rows else ''} questions",
        *(f"  {line}" for line in Scorecard(results, tuple(others)).lines()),
    ]
    return "\n".join(lines) + "\n"


def write_json(
    path: Path, args: argparse.Namespace, model: str, evaluated: Sequence[Evaluated], errors: dict[str, str]
) -> None:
    """The figures, unrounded, with all that they depend on."""
    report = {
        "model": model,
        "method": args.method,
        "seed": args.seed,
        "datasets": {one.name: one.to_json() for one in evaluated},
        "errors": errors,
    }
    write_atomically(path, json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    raise SystemExit(main())
