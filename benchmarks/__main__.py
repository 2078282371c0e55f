"""Run all measurements, each into a file of its own in docs/benchmarks, and write the page of them: `make bench`.

`python -m benchmarks --only network` measures some of them anew; the page keeps the others as they were.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from . import auto, free_run, functions, layers, network, scale, slowdown, sweeps

MODULES = (sweeps, functions, free_run, network, layers, scale, slowdown, auto)
HEADER = """# Benchmarks

Written by `make bench`: do not edit. Every section is measured in one run with one BLAS thread (NumPy {numpy}); times
are the best of several repeats, and what counts are the ratios: seconds depend on the machine and on what else it does.
`python -m benchmarks --only network` measures one section anew; the names are those of the modules."""


def main() -> None:
    modules = {module.__name__.rpartition(".")[2]: module for module in MODULES}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", default="docs", help="directory for benchmarks.md and the folder beside it")
    parser.add_argument("--only", nargs="+", choices=modules, help="measure these")
    asked = parser.parse_args()
    directory = Path(asked.output)
    parts = directory / "benchmarks"
    parts.mkdir(parents=True, exist_ok=True)
    with threadpool_limits(1):
        for name in asked.only or modules:
            print(f"{name} ...", flush=True)
            text = modules[name].section(directory)
            (parts / f"{name}.md").write_text(text + "\n", encoding="utf-8")
            print(text, flush=True)
    measured = [name for name in modules if (parts / f"{name}.md").exists()]
    pieces = [f"```{{include}} benchmarks/{name}.md\n```" for name in measured]
    page = "\n\n".join([HEADER.format(numpy=np.__version__), *pieces])
    (directory / "benchmarks.md").write_text(page + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
