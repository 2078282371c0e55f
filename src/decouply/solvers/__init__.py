"""Solvers: one method per file; the block updates they share are pure functions in `_updates`."""

from ._abstract import AbstractSolver, AbstractWeightedSolver, History, LamRow, Solution, StartRow
from ._cmpt import Constr, Proj
from ._dreesen import Dreesen
from ._hollander import Hollander
from ._iterate import Iterate
from ._problem import Problem
from ._starts import AbstractStart, Normal, Orthonormal, Uniform
from ._two_stage import TwoStage
from ._varpro import VarPro
from ._zniyed import Zniyed

__all__ = [
    "AbstractSolver",
    "AbstractStart",
    "AbstractWeightedSolver",
    "Constr",
    "Dreesen",
    "History",
    "Hollander",
    "Iterate",
    "LamRow",
    "Normal",
    "Orthonormal",
    "Problem",
    "Proj",
    "Solution",
    "StartRow",
    "TwoStage",
    "Uniform",
    "VarPro",
    "Zniyed",
]
