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
((${#sets[@]})) || mapfile -t sets < <("$ROUTER" -c 'import sys, yaml; print("\n".join(yaml.safe_load(open(sys.argv[1]))["synthesis"]["sets"]))' "$CONFIG")

for set in "${sets[@]}"; do
  "$ROUTER" src/data_synthesis/data_synthesis.py --dataset_name "$set" --config "$CONFIG"
  "$ROUTER" src/data_synthesis/data_filter.py --dataset_name "$set" --config "$CONFIG"
done
"$ROUTER" src/data_synthesis/data_combine.py --config "$CONFIG"
