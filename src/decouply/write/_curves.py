"""Internal functions as curves: what every drawing of them starts from.

Drawings cut a curve at the ends of the domain of its function: solid inside, dashed beyond, ticks at the ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from .._support._errors import InputError
from ..model._decoupling import Decoupling
from ..model._functions import Functions

Line = tuple[Float[ndarray, " _"], Float[ndarray, " _"]]  # u and g(u)
Domain = tuple[float, float]
Grids = list[Float[ndarray, "k _"]]
# Half-widths of 95 % bands of all functions on one grid per layer, such as `Result.bands` gives them.
Bands = Callable[[Grids], tuple[Float[ndarray, "k _"], ...]]

_WIDEST_BAND = 1.0  # heights of the curve, above and below it: a wider band would leave nothing of the curve to see
_TAILS = 0.08  # of the range: what is drawn of the tails of splines on either side
_SAME = 1e-6  # of what is drawn: ends of a domain that are so near to those of the curve are the same


@dataclass(frozen=True, eq=False)
class Parts:
    """A curve cut at the ends of the domain; `inside` is empty if all of it lies beyond."""

    inside: tuple[Line, ...]
    beyond: tuple[Line, ...]
    ends: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Curve:
    """One internal function over the range that its arguments visit.

    `values` plus and minus `band` hold the function with 95 % probability; None if that is not known. `domain` is that
    of the function; None if it says nothing about a drawing, see `marked_domains`.
    """

    u: Float[ndarray, " k"]
    values: Float[ndarray, " k"]
    band: Float[ndarray, " k"] | None
    domain: Domain | None = None

    @property
    def lowest(self) -> float:
        """The lower end of what is drawn, band included."""
        return float(np.min(self.values if self.band is None else self.values - self.band))

    @property
    def highest(self) -> float:
        return float(np.max(self.values if self.band is None else self.values + self.band))

    @property
    def limits(self) -> tuple[float, float]:
        """The ends of what a drawing shows: the curve with its band, if that is not too wide. Never the same."""
        low, high = float(np.min(self.values)), float(np.max(self.values))
        room = _WIDEST_BAND * (high - low)
        if room <= 1e-9 * max(abs(low), abs(high)):  # a constant, whatever its rounding does
            room = max(0.5 * abs(high), 0.5)
            return low - room, high + room
        return max(self.lowest, low - room), min(self.highest, high + room)

    @property
    def parts(self) -> Parts:
        """What lies inside the domain and what beyond it."""
        u, v = self.u, self.values
        if self.domain is None:
            return Parts(((u, v),), (), ())
        low, high = self.domain
        slack = _SAME * float(u[-1] - u[0])
        ends = tuple(end for end in (low, high) if u[0] + slack < end < u[-1] - slack)
        inside: list[Line] = []
        beyond: list[Line] = []
        for a, b in pairwise((float(u[0]), *ends, float(u[-1]))):
            at = np.concatenate([[a], u[(u > a) & (u < b)], [b]])
            here = inside if low - slack <= (a + b) / 2 <= high + slack else beyond
            here.append((at, np.interp(at, u, v)))
        return Parts(tuple(inside), tuple(beyond), ends)


Curves = tuple[tuple[Curve, ...], ...]  # layer by layer


def curves(model: Decoupling, X: object = None, *, n_points: int = 60, bands: Bands | None = None) -> Curves:
    """The curves of all functions, each over the range that the points X visit, or over its domain without points.

    A range that is a single number is widened a little, so that there is something to see, and so is that of splines,
    whose tails begin there.
    """
    if X is None:
        ranges = [(g.domain[:, 0], g.domain[:, 1]) for g in model.g]
    else:
        ranges = [_visited_range(g, u) for g, u in zip(model.g, model.inner_inputs(X), strict=True)]
    grids: Grids = [np.linspace(low, high, n_points) for low, high in ranges]
    known = None if bands is None else bands(grids)
    found = []
    for l, (functions, grid) in enumerate(zip(model.g, grids, strict=True)):
        with np.errstate(all="ignore"):
            values, domains = functions.values(grid), marked_domains(functions)
        own = [None if known is None else known[l][:, j] for j in range(functions.rank)]
        own = [band if band is not None and np.all(np.isfinite(band)) else None for band in own]
        found.append(tuple(Curve(grid[:, j], values[:, j], own[j], domain) for j, domain in enumerate(domains)))
    return tuple(found)


def refuse_infinite(drawn: Curves) -> None:
    """Say what cannot be drawn."""
    for l, layer in enumerate(drawn, start=1):
        if not all(np.all(np.isfinite(curve.values)) for curve in layer):
            raise InputError(f"`X` must hold points at which the functions are finite. Those of layer {l} are not.")


def marked_domains(functions: Functions) -> tuple[Domain | None, ...]:
    """The domains that a drawing marks: the range on which functions were fitted, or where their tails begin.

    None if a domain says neither, because the formula goes on outside. This holds for bases that find their
    domains, and for domains that are the window itself, the default. Splines have pieces there.
    """
    found: list[Domain | None] = []
    for basis, (low, high) in zip(functions.layer.bases, functions.domain.tolist(), strict=True):
        says_nothing = functions.outside == "extend" and (
            basis.free_domain or ((low, high) == basis.window and not basis.knots.size)
        )
        found.append(None if says_nothing else (low, high))
    return tuple(found)


def _visited_range(functions: Functions, u: Float[ndarray, "S r"]) -> tuple[Float[ndarray, " r"], Float[ndarray, " r"]]:
    """The ends of what is visited, a single number widened, with a little more for functions that are in pieces."""
    low, high = u.min(axis=0), u.max(axis=0)
    single = high - low <= 1e-12 * np.maximum(np.abs(low), np.abs(high))
    wider = np.where(single, np.maximum(np.abs(low), 1.0), 0.0)
    low, high = low - wider / 2, high + wider / 2
    room = np.array([_TAILS * bool(basis.knots.size) for basis in functions.layer.bases]) * (high - low)
    return low - room, high + room
