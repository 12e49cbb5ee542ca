#!/usr/bin/env bash
# Step-GRPO of Qwen2.5-VL-7B on EasyR1: `--help` tells the flags, examples/stepgrpo.yaml holds the settings.
set -euo pipefail
here=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'END'
Step-GRPO of Qwen2.5-VL on EasyR1, from a checkout that scripts/setup_easyr1.sh made.

  bash examples/run_qwen2_5_vl_7b_stepgrpo.sh --train FILE --valid FILE [FLAGS] [KEY=VALUE ...]

  --train FILE      flat step rows to train on, .jsonl or .parquet: `r1-router steps flatten`
  --valid FILE      flat step rows to validate on
  --model MODEL     a folder or a hub name               default: Qwen/Qwen2.5-VL-7B-Instruct
  --images FOLDER   where relative image paths start     default: the folder you are in
  --encoder MODEL   whose cosine the reward takes        default: BAAI/bge-m3
  --gpus N          GPUs of this machine                 default: 8
  --print           tell the command, and start nothing
  KEY=VALUE         any key of examples/stepgrpo.yaml, or of EasyR1
END
}

stop() {
  printf 'error: %s\n' "$1" >&2
  exit 1
}

# A path as the caller meant it: from the folder the caller is in.
from_here() {
  (cd "$here" && realpath -m -- "$1")
}

model=Qwen/Qwen2.5-VL-7B-Instruct images=$here encoder=BAAI/bge-m3 gpus=8 train='' valid='' show='' keys=()
while (($#)); do
  case $1 in
    --help | -h) usage && exit ;;
    --print) show=yes && shift && continue ;;
    *=*) keys+=("$1") && shift && continue ;;
    --*) (($# > 1)) || stop "$1 needs a value; --help tells the flags" ;;
  esac
  case $1 in
    --train) train=$(from_here "$2") ;;
    --valid) valid=$(from_here "$2") ;;
    --images) images=$(from_here "$2") ;;
    --model) model=$2 ;;
    --encoder) encoder=$2 ;;
    --gpus) gpus=$2 ;;
    *) stop "$1 is no flag; --help tells them" ;;
  esac
  shift 2
done
[[ -d $here/$model ]] && model=$(from_here "$model")
[[ -d $here/$encoder ]] && encoder=$(from_here "$encoder")
[[ -f $train ]] || stop "--train: no file '$train'; \`r1-router steps flatten STEPS --to FILE\` makes one"
[[ -f $valid ]] || stop "--valid: no file '$valid'; \`r1-router steps flatten STEPS --to FILE\` makes one"

command=(
  "${PYTHON:-python3}" -m verl.trainer.main config=examples/stepgrpo.yaml
  data.train_files="$train" data.val_files="$valid" data.image_dir="$images"
  worker.actor.model.model_path="$model"
  worker.reward.reward_function_kwargs.encoder="$encoder"
  trainer.n_gpus_per_node="$gpus"
  "${keys[@]}"
)
if [[ $show ]]; then
  printf '%q ' "${command[@]}" && echo
  exit
fi
grep -qs stepgrpo verl/trainer/data_loader.py || stop "$PWD is no prepared EasyR1 checkout; scripts/setup_easyr1.sh makes one"
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}" # for Ray's workers too
exec "${command[@]}"
