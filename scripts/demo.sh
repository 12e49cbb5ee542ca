#!/usr/bin/env bash
# The whole job on a laptop: environment, small models, three knowledge bases, the routed loop, a score.
#   bash scripts/demo.sh [--questions N] [--method M] [--seed S]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/environment.sh

ensure_environment requirements_demo.txt 4

# The demo's models lie under models/: no library may look for a newer one on a hub.
export HF_HUB_OFFLINE=${HF_HUB_OFFLINE:-1} TRANSFORMERS_OFFLINE=${TRANSFORMERS_OFFLINE:-1}
exec .venv/bin/r1-router demo "$@"
