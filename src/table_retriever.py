"""Training of the table retriever: `python table_retriever.py --config ../configs/factbook.yaml`.

The same as `r1-router train table-retriever`; what it learns from stands in the config's `training` section.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from r1_router.config import DEFAULT_CONFIG, load_config
from r1_router.published import ROOT, main_of
from r1_router.retrieving import train_retriever


def run(argv: Sequence[str] | None = None) -> None:
    """Train, or go on where a run was cut short, and print the card."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, default=ROOT / DEFAULT_CONFIG, help="the deployment")
    parser.add_argument("--name", default="table-retriever", help="an entry of the config's `training` section")
    args = parser.parse_args(argv)
    command = " ".join(["python table_retriever.py", *(sys.argv[1:] if argv is None else argv)])
    print(json.dumps(train_retriever(load_config(args.config), args.name, command), indent=2))


if __name__ == "__main__":
    main_of(run)
