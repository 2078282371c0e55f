"""Arguments of `compress`, checked before the work begins."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn

from .._support._errors import InputError
from ..model._functions import OUTSIDE
from ..solvers import AbstractSolver
from ._fine_tune import FineTune

LOSSES = ("kl", "squared")


def check_network(model: Any) -> nn.Module:
    """A module with parameters; short floats become a copy in float32, in which polynomials keep their digits."""
    if not isinstance(model, nn.Module):
        raise InputError(f"`model` must be a torch.nn.Module. Got {type(model).__name__}.")
    types = {p.dtype for p in model.parameters()}
    if not types:
        raise InputError("`model` must have parameters. It has none.")
    if types <= {torch.float32, torch.float64}:
        return model
    if not types <= {torch.float32, torch.float16, torch.bfloat16}:
        names = ", ".join(sorted(str(t) for t in types))
        raise InputError(
            f"`model` must have real numbers of 16 to 64 bits. Got {names}: convert it with model.float()."
        )
    return copy.deepcopy(model).float()


def check_options(solver: Any, score: Any, refine: Any, fine_tune: Any, outside: Any) -> None:
    """What is not a number."""
    if solver is not None and not isinstance(solver, AbstractSolver):
        raise InputError(f"`solver` must be a solver such as dc.Constr() or dc.TwoStage(dc.Proj()). Got {solver!r}.")
    if score is not None and not callable(score):
        raise InputError(f"`score` must be a function of a network, such as its accuracy. Got {score!r}.")
    if not isinstance(refine, bool) and refine not in LOSSES:
        raise InputError(f'`refine` must be True, False, "kl" or "squared". Got {refine!r}.')
    if fine_tune is not None and not isinstance(fine_tune, FineTune):
        raise InputError(f"`fine_tune` must be dc.nn.FineTune(inputs, labels). Got {type(fine_tune).__name__}.")
    if outside not in OUTSIDE:
        raise InputError(f"`outside` must be one of {', '.join(OUTSIDE)}. Got {outside!r}.")
