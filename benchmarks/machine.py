"""What is common to all measurements."""

from __future__ import annotations

import time
from collections.abc import Callable

HEADER = """# Benchmarks

Written by `make bench`: do not edit. Every section is measured in one run with one BLAS thread (NumPy {numpy}); times
are the best of several repeats, and what counts are the ratios: seconds depend on the machine and on what else it does.
`python -m benchmarks --only network` measures one section anew; the names are those of the modules."""


def best_of(action: Callable[[], object], repeats: int) -> float:
    """Shortest time of `repeats` calls, in seconds."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        action()
        times.append(time.perf_counter() - began)
    return min(times)


def table(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def verdict(value: float, limit: float, *, at_least: bool = False) -> str:
    """The target and whether it is met."""
    met = value >= limit if at_least else value <= limit
    return f"{'≥' if at_least else '≤'} {limit:g}, {'met' if met else '**missed**'}"
