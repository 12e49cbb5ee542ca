"""Cut what was kept of all sets into step rows: `python data_combine.py [--config CONFIG]`.

Train and validation rows share no question, picture or gold evidence.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from r1_router.published import main_of, synthesis_of


def run() -> None:
    """Combine and say how many rows there are."""
    synthesis, _ = synthesis_of(__doc__ or "", dataset=False)
    for part, rows in synthesis.combine().items():
        print(f"{synthesis.config.out / f'steps_{part}.jsonl'}: {rows} rows")


if __name__ == "__main__":
    main_of(run)
