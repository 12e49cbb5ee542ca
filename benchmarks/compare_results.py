"""A method's scores by hops and wording, and its paired difference to other methods on the same questions.

    .venv/bin/python benchmarks/compare_results.py results/smollm2-135m/factbook_r1-router.jsonl OTHER.jsonl ...

Differences are means over the questions that both files hold, with 95% paired bootstrap intervals.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console
from rich.table import Table

from r1_router import jsonl
from r1_router.intervals import Interval, bootstrap, paired_bootstrap
from r1_router.report import f1_of, recall_of
from r1_router.types import Trajectory

SEED = 0


def read(path: Path) -> dict[str, Trajectory]:
    """The file's trajectories by question id."""
    found = (Trajectory.from_json(record) for record in jsonl.read(path))
    return {trajectory.question.id: trajectory for trajectory in found}


def show(interval: Interval) -> str:
    return f"{interval.mean:.3f} [{interval.low:.3f}, {interval.high:.3f}]"


def parts(trajectories: list[Trajectory]) -> list[tuple[str, list[Trajectory]]]:
    """All questions, then those of each hop count and of each kind of wording."""
    found = [("all", trajectories)]
    for key in ("n_hops", "wording"):
        for value in sorted({str(item.question.extra[key]) for item in trajectories}):
            found.append((f"{key} {value}", [item for item in trajectories if str(item.question.extra[key]) == value]))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("others", type=Path, nargs="*")
    args = parser.parse_args()
    mine = read(args.results)
    table = Table("questions", "n", "F1-Recall", "token F1", title=args.results.name)
    for name, part in parts(list(mine.values())):
        scores = (show(bootstrap([value(item) for item in part], SEED)) for value in (recall_of, f1_of))
        table.add_row(name, str(len(part)), *scores)
    differences = Table("minus", "n", "F1-Recall", "token F1", title=f"{args.results.stem} minus others")
    for path in args.others:
        other = read(path)
        both = sorted(mine.keys() & other.keys())
        pairs = (
            paired_bootstrap([value(mine[i]) for i in both], [value(other[i]) for i in both], SEED)
            for value in (recall_of, f1_of)
        )
        differences.add_row(path.stem, str(len(both)), *map(show, pairs))
    console = Console()
    console.print(table)
    if args.others:
        console.print(differences)


if __name__ == "__main__":
    main()
