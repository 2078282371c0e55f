"""Public data sets, downloaded once, checked always, cut as their official splits say."""

from ._benchmarks import Benchmark, Silverbox, cascaded_tanks, emps, silverbox, wiener_hammerstein
from ._record import Record

__all__ = [
    "Benchmark",
    "Record",
    "Silverbox",
    "cascaded_tanks",
    "emps",
    "silverbox",
    "wiener_hammerstein",
]
