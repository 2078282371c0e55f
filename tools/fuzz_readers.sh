#!/usr/bin/env bash
# Coverage-guided fuzzing of the file readers by atheris, in an environment of its own, where it can be installed.
set -u
seed=${1:-1}
venv=.venv-atheris
if [ ! -e "$venv/.installed" ]; then
  if ! { "${PYTHON:-python3}" -m venv "$venv" && "$venv/bin/pip" install -qq atheris -e ".[parquet]"; } >"$venv.log" 2>&1; then
    rm -rf "$venv"
    echo "Coverage-guided fuzzing was left out: atheris cannot be installed here (see $venv.log)."
    exit 0
  fi
  touch "$venv/.installed"
fi
exec "$venv/bin/python" tools/fuzz_readers.py -seed="$seed" -runs="${RUNS:-20000}" -max_len=4096 -rss_limit_mb=6000
