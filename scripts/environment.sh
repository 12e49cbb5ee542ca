# Sourced by the scripts beside it, from the project's root: ensure_environment REQUIREMENTS GIGABYTES
# makes .venv with those pinned packages and this project in it, or reuses it, then without any network.

stop() {
  printf 'error: %s\n' "$1" >&2
  exit 1
}

find_python() {
  local candidate
  for candidate in "${PYTHON:-}" python3 python3.13 python3.12 python3.11; do
    if [[ -n $candidate ]] && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  stop "no Python 3.11 or newer found (python3 is: $(python3 --version 2>&1)); install one, or run again with PYTHON=/its/path"
}

# What the environment was made from: the requirements, the project's own metadata and its place on the disk.
fingerprint() {
  { pwd; cat "$@"; } | .venv/bin/python -c 'import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())'
}

require_space() {
  local free_mb
  free_mb=$(df -Pm . | awk 'NR == 2 { print $4 }')
  ((free_mb >= $1 * 1000)) || stop "no space: $PWD has $free_mb MB free, about $1 GB are needed; free some and run again"
}

pip_install() {
  local log=.venv/pip-errors.log
  .venv/bin/python -m pip install --disable-pip-version-check --no-input "$@" 2>"$log" && return
  cat "$log" >&2
  if grep -qiE 'No space left|Errno 28|quota exceeded' "$log"; then
    stop "no space left while installing; free some (pip's temporary files go to ${TMPDIR:-/tmp}) and run again"
  elif grep -qiE 'NewConnectionError|name resolution|Max retries|Time-?out|Connection (refused|reset|broken)' "$log"; then
    stop "no network: pip could not reach its package index; connect and run again, finished downloads are kept"
  fi
  stop "pip failed, see above; delete .venv to start afresh"
}

ensure_environment() {
  local requirements=$1 gigabytes=$2 stamp=.venv/made-from-$1 python
  local sources=(pyproject.toml requirements_demo.txt "$requirements")
  .venv/bin/python -c '' 2>/dev/null || rm -rf .venv # none, or its Python was removed since
  if [[ -f $stamp && $(<"$stamp") == $(fingerprint "${sources[@]}") ]]; then
    return
  fi
  require_space "$gigabytes"
  python=$(find_python)
  if [[ ! -d .venv ]]; then
    "$python" -m venv .venv || {
      rm -rf .venv
      stop "$python cannot make an environment; on Debian and Ubuntu: apt-get install python3-venv"
    }
  fi
  echo "Installing the pinned packages of $requirements into .venv (once, a few minutes)"
  pip_install -r "$requirements"
  pip_install --quiet --no-deps --no-build-isolation -e .
  fingerprint "${sources[@]}" >"$stamp"
}
