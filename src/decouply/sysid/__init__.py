"""System identification: NARX models and state-space models, and their decouplings."""

from .free_run._dynamic_model import AbstractDynamicModel, load_dynamic_model
from .free_run._linear import LinearStateSpace
from .narx._decoupled import DecoupledNARX
from .narx._narx import AbstractNARX
from .narx._polynomial import PolynomialNARX
from .signals._residual_tests import ResidualTests, noise_floor, percent_fit, residual_tests
from .state_space._decoupled import DecoupledStateSpace
from .state_space._identification import Identification, TriedModel
from .state_space._model_race import identify
from .state_space._polynomial import PolynomialStateSpace
from .state_space._search import SearchOptions, StateSpaceFit, StateSpaceStart
from .state_space._structure import StateFunction

__all__ = [
    "AbstractDynamicModel",
    "AbstractNARX",
    "DecoupledNARX",
    "DecoupledStateSpace",
    "Identification",
    "LinearStateSpace",
    "PolynomialNARX",
    "PolynomialStateSpace",
    "ResidualTests",
    "SearchOptions",
    "StateFunction",
    "StateSpaceFit",
    "StateSpaceStart",
    "TriedModel",
    "identify",
    "load_dynamic_model",
    "noise_floor",
    "percent_fit",
    "residual_tests",
]
