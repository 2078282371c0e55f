"""Solvers: one method per file; the block updates they share are pure functions in `_updates`."""

from ._two_stage import TwoStage
from .alternating._dreesen import Dreesen
from .alternating._hollander import Hollander
from .alternating._iterate import Iterate
from .alternating._loop import Stopping
from .alternating._proj_constr import Constr, Proj
from .alternating._zniyed import Zniyed
from .problem._problem import Problem
from .problem._solution import History, LamRow, Solution, StartRow
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

__all__ = [
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
    "Iterate",
    "LamRow",
    "Normal",
    "Orthonormal",
    "OutOfCore",
    "Problem",
    "Proj",
    "Solution",
    "StartRow",
    "StartsAt",
    "Stopping",
    "TwoStage",
    "Uniform",
    "VarPro",
    "Zniyed",
]
