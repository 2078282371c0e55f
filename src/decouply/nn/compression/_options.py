"""Arguments of `compress`, checked before the work begins."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import torch
from torch import nn

from ..._support._arguments import as_counts
from ..._support._errors import InputError
from ...bases import AbstractBasis
from ...model._functions import OUTSIDE
from ...solvers import AbstractSolver
from ..training._distillation import LOSSES, Distil, Loss
from ..training._fine_tune import FineTune
from ._budget import Budget

USUAL = Distil()
STARTS = ("random", "decoupling")


def check_network(model: Any) -> tuple[nn.Module, frozenset[torch.dtype]]:
    """A module with parameters, and what short floats it had.

    These become a copy in float32, in which polynomials keep their digits.
    """
    if not isinstance(model, nn.Module):
        raise InputError(f"`model` must be a torch.nn.Module. Got {type(model).__name__}.")
    types = {p.dtype for p in model.parameters()}
    if not types:
        raise InputError("`model` must have parameters. It has none.")
    if types <= {torch.float32, torch.float64}:
        return model, frozenset()
    if not types <= {torch.float32, torch.float16, torch.bfloat16}:
        names = ", ".join(sorted(str(t) for t in types))
        raise InputError(
            f"`model` must have real numbers of 16 to 64 bits. Got {names}: convert it with model.float()."
        )
    return copy.deepcopy(model).float(), frozenset(types - {torch.float32})


def check_options(
    solver: Any, score: Any, refine: Any, fine_tune: Any, outside: Any, start: Any, basis: Any, budget: Any
) -> None:
    """What is not a number."""
    if solver is not None and not isinstance(solver, AbstractSolver):
        raise InputError(f"`solver` must be a solver such as dc.Constr() or dc.TwoStage(dc.Proj()). Got {solver!r}.")
    if score is not None and not callable(score):
        raise InputError(f"`score` must be a function of a network, such as its accuracy. Got {score!r}.")
    if not isinstance(refine, bool | Distil) and refine not in LOSSES:
        raise InputError(f'`refine` must be dc.nn.Distil(...), True, False, "kl" or "squared". Got {refine!r}.')
    if fine_tune is not None and not isinstance(fine_tune, FineTune):
        raise InputError(f"`fine_tune` must be dc.nn.FineTune(inputs, labels). Got {type(fine_tune).__name__}.")
    if outside not in OUTSIDE:
        raise InputError(f"`outside` must be one of {', '.join(OUTSIDE)}. Got {outside!r}.")
    if start not in STARTS:
        raise InputError(f'`start` must be "random" or "decoupling". Got {start!r}.')
    if start == "random" and solver is not None:
        raise InputError('`solver` must be left out with start="random", which uses none.')
    if basis is not None and not isinstance(basis, AbstractBasis):
        raise InputError(f"`basis` must be a basis such as dc.Spline(8). Got {basis!r}.")
    if budget is not None and not isinstance(budget, Budget):
        raise InputError(f"`budget` must be dc.nn.Budget(parameters=0.25) or one like it. Got {budget!r}.")


def how_to_refine(refine: bool | Loss | Distil) -> Distil | None:
    """How a layer is trained; the loss is None where it is to be chosen."""
    if isinstance(refine, bool):
        return USUAL if refine else None
    return refine if isinstance(refine, Distil) else dataclasses.replace(USUAL, loss=refine)


def wanted_ranks(ranks: Any, budget: Budget | None, n_parts: int) -> tuple[int, ...] | None:
    """Ranks that are asked for; None where they are to be found."""
    if budget is not None:
        if not isinstance(ranks, str):
            raise InputError("`ranks` must be left out with `budget`, from which they follow.")
        return None
    if not isinstance(ranks, str):
        return as_counts("ranks", ranks)
    if ranks != "auto":
        raise InputError(f'`ranks` must be numbers or "auto". Got {ranks!r}.')
    if n_parts > 1:
        raise InputError(
            f'`ranks` must be numbers for several parts, or give budget=dc.nn.Budget(parameters=0.25). Got "auto" for '
            f"{n_parts} parts."
        )
    return None
