#!/usr/bin/env bash
# Rebuild the Factbook world from its two public-domain packages and compare it with the committed one.
#   bash scripts/build_factbook.sh            builds into a temporary folder and compares
#   bash scripts/build_factbook.sh --write    replaces datasets/factbook
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/environment.sh
ensure_environment requirements_dev.txt 4

command -v npm >/dev/null || stop "npm is not installed; it fetches the flags: install Node.js"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd "$work" && npm pack --silent svg-country-flags@1.2.10 >/dev/null && tar xzf svg-country-flags-1.2.10.tgz) ||
  stop "npm could not fetch svg-country-flags@1.2.10; connect and run again"
.venv/bin/python -m r1_router.factbook.build --flags "$work/package" --out "$work/factbook"
for part in kb flags queries questions_train.jsonl questions_dev.jsonl questions_test.jsonl; do
  if [[ "${1:-}" == --write ]]; then
    rm -rf "datasets/factbook/$part" && cp -r "$work/factbook/$part" "datasets/factbook/$part"
  else
    diff -rq "$work/factbook/$part" "datasets/factbook/$part"
  fi
done
echo "datasets/factbook is what the packages give"
