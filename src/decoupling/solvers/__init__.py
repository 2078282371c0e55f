"""Solvers: one method per file; the block updates they share are pure functions in `_updates`."""

from ._abstract import AbstractSolver, History, LamRow, Solution, StartRow
from ._cmpt import Constr, Proj
from ._dreesen import Dreesen
from ._hollander import Hollander
from ._problem import Problem
from ._starts import AbstractStart, Normal, Uniform
from ._two_stage import TwoStage
from ._zniyed import Zniyed

__all__ = [
    "AbstractSolver",
    "AbstractStart",
    "Constr",
    "Dreesen",
    "History",
    "Hollander",
    "LamRow",
    "Normal",
    "Problem",
    "Proj",
    "Solution",
    "StartRow",
    "TwoStage",
    "Uniform",
    "Zniyed",
]
