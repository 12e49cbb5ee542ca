#!/usr/bin/env bash
# Lint, types and tests, as CI runs them.   bash scripts/test.sh [pytest arguments]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/environment.sh

ensure_environment requirements_dev.txt 4

.venv/bin/python -m ruff check .
.venv/bin/python -m ruff format --check .
.venv/bin/python -m mypy

# The end-to-end tests run the real small models; they are fetched once, by checksum.
.venv/bin/python -c 'from pathlib import Path; from r1_router.embedded import ensure_embedded; ensure_embedded(Path("models"))'

# One thread a worker: two workers with two threads each stand in each other's way on two cores.
export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 OMP_NUM_THREADS=1
exec .venv/bin/python -m pytest -n 2 "$@"
