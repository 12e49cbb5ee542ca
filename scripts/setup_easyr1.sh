#!/usr/bin/env bash
# EasyR1 at the pinned commit, with the files of Easy-R1/ in it. Run again, it only puts those in place anew.
#   bash scripts/setup_easyr1.sh [FOLDER]      runs/EasyR1 by default; EASYR1_URL names a mirror, or a clone on the disk
# Its packages are not installed: Easy-R1/README.md says which, in an environment of their own.
set -euo pipefail
here=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.."

commit=b44b311b669bf1fd1aa2fc36f2251482ba33cb16 # 2026-07-30
url=${EASYR1_URL:-https://github.com/hiyouga/EasyR1}
folder=runs/EasyR1
(($#)) && folder=$(cd "$here" && realpath -m -- "$1")
[[ -e $here/$url ]] && url=$here/$url
patch=$PWD/Easy-R1/stepgrpo/data_loader.patch

stop() {
  printf 'error: %s\n' "$1" >&2
  exit 1
}

# The commit that is checked out in the folder; nothing where none is, as after a fetch that was cut short.
checked_out() {
  [[ ! -d $folder/.git ]] || git -C "$folder" rev-parse --quiet --verify HEAD || true
}

command -v git >/dev/null || stop "git is not installed"
if [[ -e $folder && ! -d $folder/.git && -n $(ls -A "$folder") ]]; then
  stop "$folder is there and is no git checkout; move it away, or name another folder"
fi
if [[ -z $(checked_out) ]]; then
  git init --quiet "$folder"
  git -C "$folder" fetch --quiet --depth 1 "$url" "$commit" ||
    stop "no commit ${commit:0:7} from $url; connect and run again, or set EASYR1_URL to a clone that has it"
  git -C "$folder" checkout --quiet --detach FETCH_HEAD
fi
[[ $(checked_out) == "$commit" ]] || stop "$folder has commit $(checked_out), not $commit; name another folder"

cp -r Easy-R1/examples Easy-R1/stepgrpo "$folder"
if ! git -C "$folder" apply --reverse --check "$patch" 2>/dev/null; then # not applied yet
  git -C "$folder" apply "$patch" || stop "$folder: verl/trainer/data_loader.py was changed; git checkout it and run again"
fi
echo "EasyR1 is in $folder; bash $folder/examples/run_qwen2_5_vl_7b_stepgrpo.sh --help"
