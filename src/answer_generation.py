"""The model's part of a staged run: `python answer_generation.py --dataset_name factbook --method r1-router --step 0`.

Stage 0 plans the first step; each later stage answers the last sub-question and plans the next; stage `--max_step`
gives the final answers. `python retriever.py` runs between two stages. `bash evaluation.sh` runs them all.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from r1_router.published import add_common_arguments, deployment_of, main_of
from r1_router.stages import generate


def run(argv: Sequence[str] | None = None) -> None:
    """Run one stage and say where its records are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_common_arguments(parser)
    args = parser.parse_args(argv)
    print(generate(deployment_of(args), args.dataset_name, args.method, args.step, fresh=args.fresh))


if __name__ == "__main__":
    main_of(run)
