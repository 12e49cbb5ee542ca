"""Teacher rollouts for one set: `python data_synthesis.py --dataset_name factbook [--config CONFIG]`.

`bash data_synthesis.sh` runs all stages: rollouts of every set, filter, combine.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from r1_router.published import main_of, synthesis_of


def run() -> None:
    """Run the rollouts and say where they are."""
    synthesis, args = synthesis_of(__doc__ or "", dataset=True)
    print(synthesis.rollouts(args.dataset_name))


if __name__ == "__main__":
    main_of(run)
