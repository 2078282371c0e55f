"""Run all measurements, each into a file in docs/speed, which docs/benchmarks/speed.md includes: `make bench`.

`python -m benchmarks --only network` measures some of them anew and leaves the other files as they are.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from threadpoolctl import threadpool_limits

from . import auto, free_run, functions, layers, network, scale, slowdown, sweeps

_TARGET = re.compile(r"[≤≥] [\d.e-]+, (?:met|\*\*missed)")
MODULES = (sweeps, functions, free_run, network, layers, scale, slowdown, auto)


def main() -> None:
    modules = {module.__name__.rpartition(".")[2]: module for module in MODULES}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", default="docs/speed", help="directory for the tables")
    parser.add_argument("--only", nargs="+", choices=modules, help="measure these")
    asked = parser.parse_args()
    directory = Path(asked.output)
    directory.mkdir(parents=True, exist_ok=True)
    with threadpool_limits(1):
        for name in asked.only or modules:
            print(f"{name} ...", flush=True)
            text = modules[name].section(directory)
            print(text, flush=True)
            (directory / f"{name}.md").write_text(without_targets(text) + "\n", encoding="utf-8")


def without_targets(text: str) -> str:
    """A section without the columns that compare with our targets, which are printed for us alone."""
    lines = text.split("\n")
    for header, line in enumerate(lines):
        if line.startswith("|---"):
            end = next((i for i in range(header, len(lines)) if not lines[i].startswith("|")), len(lines))
            cells = [line.strip("|").split("|") for line in lines[header - 1 : end]]
            kept = [i for i in range(len(cells[0])) if not any(_TARGET.search(row[i]) for row in cells[2:])]
            lines[header - 1 : end] = ["|" + "|".join(row[i] for i in kept) + "|" for row in cells]
    return re.sub(r" \([≤≥] [\d.]+, \S+\)", "", "\n".join(lines))


if __name__ == "__main__":
    main()
