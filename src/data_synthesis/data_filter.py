"""Keep the rollouts that are good enough: `python data_filter.py --dataset_name factbook [--config CONFIG]`.

The filters are those of the config; the published one, recall 1 of the final answer, is always among them.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from r1_router.published import main_of, synthesis_of


def run() -> None:
    """Filter one set and say what was dropped and why."""
    synthesis, args = synthesis_of(__doc__ or "", dataset=True)
    for reason, count in synthesis.keep(args.dataset_name).most_common():
        print(f"{args.dataset_name}: {count} dropped, {reason}")


if __name__ == "__main__":
    main_of(run)
