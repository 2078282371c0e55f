"""Solvers. A new one is a file and an entry of `OWN_SOLVERS`."""

from ._paratuck_fit import ParaTuckFit
from ._two_stage import TwoStage
from .alternating._loop import Stopping
from .alternating._proj_constr import Constr, Proj
from .alternating._single_layer import Dreesen, Hollander, Zniyed
from .alternating._sweep import Iterate
from .inference._identifiability import Identifiability
from .problem._problem import Problem
from .problem._solution import History, LamRow, Solution, StartRow, Status
from .problem._solver import (
    AbstractSolver,
    ChecksProblem,
    HasFixedParts,
    HasLam,
    HasLoss,
    HasRidge,
    HasSmoothing,
    HasTimeLimit,
    OutOfCore,
    StartsAt,
)
from .problem._start_distributions import AbstractStart, Normal, Orthonormal, Uniform
from .varpro._varpro import VarPro

# All solvers of the package but `TwoStage`, which wraps one of them; tests and the command line go through these.
OWN_SOLVERS: tuple[type[AbstractSolver], ...] = (VarPro, Proj, Constr, Zniyed, Hollander, Dreesen)

__all__ = [
    "OWN_SOLVERS",
    "AbstractSolver",
    "AbstractStart",
    "ChecksProblem",
    "Constr",
    "Dreesen",
    "HasFixedParts",
    "HasLam",
    "HasLoss",
    "HasRidge",
    "HasSmoothing",
    "HasTimeLimit",
    "History",
    "Hollander",
    "Identifiability",
    "Iterate",
    "LamRow",
    "Normal",
    "Orthonormal",
    "OutOfCore",
    "ParaTuckFit",
    "Problem",
    "Proj",
    "Solution",
    "StartRow",
    "StartsAt",
    "Status",
    "Stopping",
    "TwoStage",
    "Uniform",
    "VarPro",
    "Zniyed",
]
