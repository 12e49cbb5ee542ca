#!/usr/bin/env bash
# The whole evaluation: the routed loop over benchmarks, then the scores. A run that was cut short goes on.
#   bash evaluation.sh                                       configs/factbook.yaml on the Factbook's test questions
#   CONFIG=configs/mine.yaml bash evaluation.sh infoseek webqa
#   STAGED=1 bash evaluation.sh factbook                     model and indexes by turns: one GPU holds one at a time
#   METHOD=ircot bash evaluation.sh factbook                 another method
#   FRESH=1 bash evaluation.sh factbook                      puts results aside that other settings made
# MAX_STEP sets the steps of a staged run, the config's max_steps by default.
# ROUTER and RETRIEVER name the Python interpreters of two environments, where you have two; .venv serves both by default.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

CONFIG=${CONFIG:-configs/factbook.yaml}
METHOD=${METHOD:-r1-router}
ROUTER=${ROUTER:-.venv/bin/python}
RETRIEVER=${RETRIEVER:-$ROUTER}
datasets=("$@")
((${#datasets[@]})) || datasets=(factbook)
[[ -x $(command -v "$ROUTER") ]] || {
  echo "error: no Python at $ROUTER; run bash scripts/demo.sh once, or give ROUTER=/its/path" >&2
  exit 1
}
export PYTHONPATH="src${PYTHONPATH:+:$PYTHONPATH}"
settings=$("$ROUTER" -c '
import sys
from pathlib import Path
from r1_router.config import load_config
from r1_router.published import main_of
def show():
    config = load_config(Path(sys.argv[1]))
    print(config.llm.name, config.max_steps, config.results_dir, sep="\n")
main_of(show)' "$CONFIG")
{ read -r model && read -r steps && read -r results; } <<<"$settings"
MAX_STEP=${MAX_STEP:-$steps}
fresh=()
if [[ ${FRESH:-0} == 1 ]]; then fresh=(--fresh); fi

staged() {
  local flags=(--dataset_name "$1" --method "$METHOD" --max_step "$MAX_STEP" --config "$CONFIG" ${fresh[@]+"${fresh[@]}"}) step
  for ((step = 0; step < MAX_STEP; step++)); do
    "$ROUTER" src/answer_generation.py "${flags[@]}" --step "$step"
    "$RETRIEVER" src/retriever.py --mode retrieve "${flags[@]}" --step "$step"
  done
  "$ROUTER" src/answer_generation.py "${flags[@]}" --step "$MAX_STEP"
}

for dataset in "${datasets[@]}"; do
  scored=$METHOD
  if [[ ${STAGED:-0} == 1 ]]; then
    staged "$dataset"
    scored=$METHOD$MAX_STEP
  else
    "$ROUTER" -m r1_router run --config "$CONFIG" --benchmark "$dataset" --method "$METHOD" ${fresh[@]+"${fresh[@]}"}
  fi
  "$ROUTER" src/evaluate.py --dataset_name "$dataset" --method "$scored" --model_name "$model" --results_root "$results"
done
