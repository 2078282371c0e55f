#!/usr/bin/env bash
# Coverage-guided fuzzing of the file readers by atheris, in an environment of its own, where it can be installed.
# tools/fuzz_readers.sh [SEED]; RUNS=20000 files by default. Prints one more row of the table of tools/fuzz.py.
set -u
cd "$(dirname "$0")/.." || exit 1
seed=${1:-1}
runs=${RUNS:-20000}
venv=.venv-atheris
if [ ! -e "$venv/.installed" ]; then
  log=$(mktemp)
  echo "Installing atheris into $venv ..." >&2
  if ! { "${PYTHON:-python3}" -m venv "$venv" && "$venv/bin/pip" install -qq atheris beartype -e ".[parquet]"; } >"$log" 2>&1; then
    rm -rf "$venv"
    echo "Coverage-guided fuzzing was left out: atheris cannot be installed here (see $log)."
    exit 0
  fi
  rm "$log"
  touch "$venv/.installed"
fi
folder=$(mktemp -d)
mkdir "$folder/corpus" "$folder/tmp"
# A file that takes more than 10 s, or more memory than twice what a file may declare beside that of the libraries.
options=(-seed="$seed" -runs="$runs" -max_len=8192 -timeout=10 -rss_limit_mb=500 -artifact_prefix="$folder/")
began=$(date +%s)
if TMPDIR="$folder/tmp" "$venv/bin/python" tools/fuzz_readers.py "$folder/corpus" "${options[@]}" >"$folder/log" 2>&1; then
  covered=$(grep -o 'cov: [0-9]*' "$folder/log" | tail -n 1)
  echo "| $runs files changed by atheris (${covered:-cov: ?}) | raw errors, over 10 s, over twice the limit of memory | 0 | $(($(date +%s) - began)) |"
  rm -rf "$folder"
else
  tail -n 40 "$folder/log"
  echo "| files changed by atheris | raw errors, over 10 s, over twice the limit of memory | 1, in $folder | $(($(date +%s) - began)) |"
  exit 1
fi
