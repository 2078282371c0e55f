"""Run all measurements and write docs/benchmarks.md with its figure: `make bench`.

`python -m benchmarks --only functions` prints the named ones and writes no page.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from . import batch, finiteness, free_run, functions, growth, large, machine, many_samples, network, scale, slowdown

MODULES = (large, batch, functions, growth, finiteness, free_run, network, many_samples, scale, slowdown)


def main() -> None:
    names = {module.__name__.rpartition(".")[2]: module for module in MODULES}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", default="docs", help="directory for benchmarks.md and its figure")
    parser.add_argument("--only", nargs="+", choices=names, help="print these, and write no page")
    asked = parser.parse_args()
    directory = Path(asked.output)
    sections = []
    with threadpool_limits(1):
        for name in asked.only or names:
            print(f"{name} ...", flush=True)
            sections.append(names[name].section(directory))
            print(sections[-1], flush=True)
    if asked.only:
        return
    text = "\n\n".join([machine.HEADER.format(numpy=np.__version__), *sections])
    (directory / "benchmarks.md").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
