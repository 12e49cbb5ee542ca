#!/usr/bin/env bash
# Step data from a teacher: rollouts of every set with live retrieval, filter, combine. A run that was cut short goes on.
#   bash src/data_synthesis/data_synthesis.sh                         the sets of configs/factbook.yaml
#   CONFIG=configs/mine.yaml bash src/data_synthesis/data_synthesis.sh 2wikimultihopqa openwikitqa
# ROUTER names the Python interpreter; .venv serves by default.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

CONFIG=${CONFIG:-configs/factbook.yaml}
ROUTER=${ROUTER:-.venv/bin/python}
[[ -x $(command -v "$ROUTER") ]] || {
  echo "error: no Python at $ROUTER; run bash scripts/demo.sh once, or give ROUTER=/its/path" >&2
  exit 1
}
sets=("$@")
if ! ((${#sets[@]})); then
  known=$(PYTHONPATH="src${PYTHONPATH:+:$PYTHONPATH}" "$ROUTER" -c '
import sys
from pathlib import Path
from r1_router.config import load_config
from r1_router.deployment import Deployment
from r1_router.published import main_of
from r1_router.synthesize import Synthesis
main_of(lambda: print(*Synthesis(Deployment(load_config(Path(sys.argv[1])))).config.sets, sep="\n"))' "$CONFIG")
  mapfile -t sets <<<"$known"
fi

for set in "${sets[@]}"; do
  "$ROUTER" src/data_synthesis/data_synthesis.py --dataset_name "$set" --config "$CONFIG"
  "$ROUTER" src/data_synthesis/data_filter.py --dataset_name "$set" --config "$CONFIG"
done
"$ROUTER" src/data_synthesis/data_combine.py --config "$CONFIG"
