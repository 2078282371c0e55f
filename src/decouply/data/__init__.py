"""Public data sets, downloaded once, checked always, cut as their official splits say."""

from ._benchmarks import Benchmark, Record, Silverbox, cascaded_tanks, emps, silverbox, wiener_hammerstein
from ._design_tables import airfoil, b777_engine
from ._images import ImageData, Images, fashion_mnist, mnist

__all__ = [
    "Benchmark",
    "ImageData",
    "Images",
    "Record",
    "Silverbox",
    "airfoil",
    "b777_engine",
    "cascaded_tanks",
    "emps",
    "fashion_mnist",
    "mnist",
    "silverbox",
    "wiener_hammerstein",
]
