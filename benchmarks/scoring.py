"""Seconds to score whole prediction files, beside a scorer that spells numeric ranges out and tokenises every gold.

    python benchmarks/scoring.py [FOLDER]

FOLDER holds `<data set>_dict.jsonl` files, records with `llm_answer` as an object; by default the golden ones. Both
scorers tokenise alike and must agree on every row, so the ratio is that of the method alone. CPU seconds, best of the
repeats, reading not counted. The last line is a whole process: a new interpreter that imports, reads every file and
scores every row (`--figures-only`), its CPU seconds on all its threads.
"""

from __future__ import annotations

import argparse
import math
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from r1_router.predictions import Prediction, read_predictions
from r1_router.scoring import Scores, score, tokenise

GOAL = 4.0
"""CPU seconds within which a whole process should score the golden files."""
GOLDEN = Path(__file__).resolve().parents[2] / "shared" / "golden" / "predictions"
Scorer = Callable[[str, Any], Scores]


def straightforward(prediction: str, gold: Any) -> Scores:
    """The metric as one would first write it: every accepted string is a gold, and every gold is tokenised."""
    best = Scores()
    if not prediction:
        return best
    predicted = Counter(tokenise(prediction))
    for one in spelt_out(gold):
        wanted = Counter(tokenise(one))
        shared = (predicted & wanted).total()
        if shared:
            precision, recall = shared / predicted.total(), shared / wanted.total()
            best = max(
                best, Scores(precision, recall, 2 * precision * recall / (precision + recall)), key=lambda s: s.f1
            )
    return best


def spelt_out(gold: Any) -> list[Any]:
    """The golds, with each numeric range as the list of its accepted numbers."""
    golds: list[Any] = []
    for one in gold if isinstance(gold, list) else [gold]:
        golds += numbers(*one["range"]) if isinstance(one, dict) else [one]
    return golds


def numbers(low: float, high: float) -> list[str]:
    span = high - low
    step = 1 if span >= 50 else 0.1 if span >= 5 else 0.01 if span >= 1 else 0.001
    steps = [str(round(number.item(), 3)) for number in np.arange(low, high + step, step)]
    return steps + [str(number) for number in range(int(low), int(high) + 1)]


def timed(scorer: Scorer, predictions: Sequence[Prediction], repeats: int) -> tuple[float, list[Scores]]:
    """The least CPU seconds of the repeats, and the scores."""
    least, scores = float("inf"), []
    for _ in range(repeats):
        start = time.process_time()
        scores = [scorer(*prediction.pair) for prediction in predictions]
        least = min(least, time.process_time() - start)
    return least, scores


def whole_process(folder: Path) -> float:
    """CPU seconds of a new interpreter that does nothing but read and score the files."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, __file__, folder, "--figures-only"], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def print_figures(paths: Sequence[Path]) -> None:
    for path in paths:
        scores = [score(*prediction.pair) for prediction in read_predictions(path).predictions]
        print(path.stem, len(scores), figure(scores))


def print_table(paths: Sequence[Path], repeats: int) -> None:
    table = Table("data set", "rows", "F1-Recall", "seconds", "straightforward", "ratio")
    totals = [0.0, 0.0, 0.0]
    for path in paths:
        predictions = read_predictions(path).predictions
        ours, scores = timed(score, predictions, repeats)
        theirs, expected = timed(straightforward, predictions, repeats)
        assert all(map(alike, scores, expected)), f"{path}: the two scorers differ"
        table.add_row(path.stem.removesuffix("_dict"), str(len(scores)), figure(scores), *ratio(ours, theirs))
        totals = [total + part for total, part in zip(totals, (len(scores), ours, theirs), strict=True)]
    table.add_section()
    table.add_row("all", str(int(totals[0])), "", *ratio(*totals[1:]))
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=GOLDEN)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--figures-only", action="store_true", help="score and print the figures; time nothing")
    args = parser.parse_args()
    paths = sorted(args.folder.glob("*_dict.jsonl"))
    if not paths:
        parser.error(f"{args.folder} has no *_dict.jsonl; name a folder of prediction files")
    if args.figures_only:
        print_figures(paths)
        return
    print_table(paths, args.repeats)
    print(f"whole process: {whole_process(args.folder):.2f} s (goal for the golden files: under {GOAL:.0f} s)")


def alike(one: Scores, other: Scores) -> bool:
    """Whether two scores differ by no more than the order of their arithmetic."""
    pairs = ((one.precision, other.precision), (one.recall, other.recall), (one.f1, other.f1))
    return all(math.isclose(mine, theirs, abs_tol=1e-9) for mine, theirs in pairs)


def figure(scores: Sequence[Scores]) -> str:
    return f"{100 * fmean(one.recall for one in scores):.2f}"


def ratio(ours: float, theirs: float) -> tuple[str, str, str]:
    return f"{ours:.2f}", f"{theirs:.2f}", f"{theirs / ours:.1f}"


if __name__ == "__main__":
    main()
