"""System identification: polynomial NARX models and their decouplings."""

from ._abstract import AbstractNARX
from ._decoupled import DecoupledNARX
from ._polynomial import PolynomialNARX

__all__ = ["AbstractNARX", "DecoupledNARX", "PolynomialNARX"]
