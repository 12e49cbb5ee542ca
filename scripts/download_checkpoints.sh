#!/usr/bin/env bash
# Fetch the released checkpoints into checkpoints/: sizes and licences first, then a question, then the files.
#   bash scripts/download_checkpoints.sh [--yes] [R1-Router-7B] [MoRE-3B] [Qwen2.5-VL-7B-Instruct] [Qwen2.5-VL-3B-Instruct]
#   bash scripts/download_checkpoints.sh [--yes] retrievers      BGE-M3, UniIR's CLIP, the table retriever (docs/retrievers.md)
# A download that was cut goes on; the revision of the first one is noted and kept to.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/environment.sh

ensure_environment requirements_demo.txt 4

exec .venv/bin/r1-router checkpoints "$@"
