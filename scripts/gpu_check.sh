#!/usr/bin/env bash
# Check the in-process engines, an encoder and a training step on a GPU, offline, against the CPU; ends within 8 minutes.
#   bash scripts/gpu_check.sh [--sizes 1,4,16,64,256]
# Needs torch, transformers, peft and numpy, nothing of a hub: the models are tiny random ones, made on the spot, and, where
# models/SmolLM2-135M-Instruct is there, the embedded one. PYTHON names the interpreter.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PYTHON=${PYTHON:-python3}
export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 PYTHONPATH="src:tests${PYTHONPATH:+:$PYTHONPATH}"
exec timeout 480 "$PYTHON" benchmarks/gpu_check.py "$@"
