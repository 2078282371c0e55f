"""System identification: NARX models and state-space models, and their decouplings."""

from ._abstract import AbstractNARX
from ._decoupled import DecoupledNARX
from ._linear import LinearStateSpace
from ._polynomial import PolynomialNARX
from ._search import StateSpaceStart
from ._state_space import DecoupledStateSpace, StateFunction, StateSpaceFit

__all__ = [
    "AbstractNARX",
    "DecoupledNARX",
    "DecoupledStateSpace",
    "LinearStateSpace",
    "PolynomialNARX",
    "StateFunction",
    "StateSpaceFit",
    "StateSpaceStart",
]
