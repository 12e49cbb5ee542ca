"""The search of a staged run: `python retriever.py --mode retrieve --dataset_name factbook --step 0`.

Searches what `python answer_generation.py` planned in the same step. `bash evaluation.sh` runs both by turns.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from r1_router.published import add_common_arguments, deployment_of, main_of
from r1_router.stages import retrieve


def run(argv: Sequence[str] | None = None) -> None:
    """Search one step's sub-questions and say where the records are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", choices=["retrieve"], default="retrieve", help="indexes: `r1-router build`")
    add_common_arguments(parser)
    args = parser.parse_args(argv)
    print(retrieve(deployment_of(args), args.dataset_name, args.method, args.step, fresh=args.fresh))


if __name__ == "__main__":
    main_of(run)
