"""An extracted Wikipedia to passages: `python wiki_preprocess.py --input extracted --output corpora/wikipedia`.

Reads what WikiExtractor wrote, as `<doc>` text or as JSON lines, plain, .bz2 or .gz; writes shards of
{"id", "title", "text"}, windows of 100 words that begin 50 apart, and a manifest. A run that was cut short goes on.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from r1_router.published import main_of


def run(argv: Sequence[str] | None = None) -> None:
    """Make the corpus and say what is in it and what was left out."""
    # Here and not above: every worker process imports this file again.
    from r1_router.console import step_bars
    from r1_router.corpora.build import wikipedia

    args = parse(argv)
    with step_bars() as show:
        corpus = wikipedia(
            args.input,
            args.output,
            extracted=True,
            workers=args.workers,
            reference=args.reference,
            duplicate_last=args.duplicate_last,
            progress=lambda done, total: show("input files", done, total),
        )
    print(f"{corpus.folder}" + (" was there already" if corpus.reused else ""))
    print("\n".join(f"  {line}" for line in corpus.manifest.lines()))


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--input", type=Path, required=True, help="the folder, or one file, that WikiExtractor wrote")
    parser.add_argument("--output", type=Path, required=True, help="the corpus: a new folder, or one to go on with")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="files at once; %(default)s here")
    parser.add_argument("--reference", action="store_true", help="read and cut with all oddities of the reference")
    parser.add_argument("--duplicate_last", action="store_true", help="only its repeated last windows")
    return parser.parse_args(argv)


if __name__ == "__main__":
    main_of(run)
