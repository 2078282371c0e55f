"""Which part of a drawn curve lies within the domain of its function: solid there, dashed beyond, ticks at the ends."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..model._functions import Functions
from ..write._curves import Curve

Domain = tuple[float, float]
Line = tuple[Float[ndarray, " _"], Float[ndarray, " _"]]  # u and values of a piece, which differ in length
_SAME = 1e-6  # of what is drawn: ends that are so near to those of the curve are the same


@dataclass(frozen=True)
class Parts:
    """A curve cut at the ends of the domain; `inside` is empty where all of it lies beyond."""

    inside: tuple[Line, ...]
    beyond: tuple[Line, ...]
    ends: tuple[float, ...]


def marked_domains(functions: Functions) -> tuple[Domain | None, ...]:
    """The domains that a drawing marks: where functions were fitted, or where their tails begin.

    None where a domain says neither, because the formula goes on outside: for bases that find their domains, and for
    domains that are the window itself, which functions have when nobody gives them one.
    """
    found: list[Domain | None] = []
    for basis, pair in zip(functions.layer.bases, functions.domain.tolist(), strict=True):
        says_nothing = functions.outside == "extend" and (basis.free_domain or tuple(pair) == basis.window)
        found.append(None if says_nothing else (pair[0], pair[1]))
    return tuple(found)


def parts(curve: Curve, domain: Domain | None) -> Parts:
    """Cut the curve where the domain begins and ends."""
    u, v = curve.u, curve.values
    if domain is None:
        return Parts(((u, v),), (), ())
    slack = _SAME * float(u[-1] - u[0])
    ends = tuple(end for end in domain if u[0] + slack < end < u[-1] - slack)
    inside: list[Line] = []
    beyond: list[Line] = []
    for a, b in pairwise((float(u[0]), *ends, float(u[-1]))):
        at = np.concatenate([[a], u[(u > a) & (u < b)], [b]])
        here = inside if domain[0] - slack <= (a + b) / 2 <= domain[1] + slack else beyond
        here.append((at, np.interp(at, u, v)))
    return Parts(tuple(inside), tuple(beyond), ends)
