"""System identification: NARX models and state-space models, and their decouplings."""

from ._abstract import AbstractNARX
from ._decoupled import DecoupledNARX
from ._judgement import ResidualTests, noise_floor, percent_fit, residual_tests
from ._linear import LinearStateSpace
from ._polynomial import PolynomialNARX
from ._polynomial_states import PolynomialStateSpace
from ._search import StateSpaceStart
from ._state_fit import StateSpaceFit
from ._state_functions import StateFunction
from ._state_space import DecoupledStateSpace
from ._suggest import SuggestedRow, Suggestion, suggest

__all__ = [
    "AbstractNARX",
    "DecoupledNARX",
    "DecoupledStateSpace",
    "LinearStateSpace",
    "PolynomialNARX",
    "PolynomialStateSpace",
    "ResidualTests",
    "StateFunction",
    "StateSpaceFit",
    "StateSpaceStart",
    "SuggestedRow",
    "Suggestion",
    "noise_floor",
    "percent_fit",
    "residual_tests",
    "suggest",
]
