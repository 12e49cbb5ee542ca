#!/usr/bin/env bash
# The six published question sets: fetched by checksum, going on where an earlier call was cut short; then what is
# there, and what brings the rest. The pictures come by `r1-router datasets images`, out of what you have.
#   bash scripts/download_datasets.sh [NAME...]      R1_ROUTER_DATASETS_URL names a mirror
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/environment.sh

ensure_environment requirements_demo.txt 4

.venv/bin/r1-router datasets fetch "$@"
exec .venv/bin/r1-router datasets check "$@"
