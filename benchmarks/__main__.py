"""Run all measurements and write docs/benchmarks.md with its figure: `make bench`."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from . import batch, finiteness, free_run, functions, growth, large, machine, many_samples, network, scale, slowdown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", default="docs", help="directory for benchmarks.md and its figure")
    directory = Path(parser.parse_args().output)
    sections = []
    with threadpool_limits(1):
        for module in (large, batch, functions, growth, finiteness, free_run, network, many_samples, scale, slowdown):
            print(f"{module.__name__} ...", flush=True)
            sections.append(module.section(directory))
            print(sections[-1], flush=True)
    text = "\n\n".join([machine.HEADER.format(numpy=np.__version__), *sections])
    (directory / "benchmarks.md").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
