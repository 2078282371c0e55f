r"""B-splines with equal pieces on the window: functions of any shape, from smooth to kinked.

The B-splines of the window add up to 1, so that one of them can be left out beside the constant. The others are shifted
to vanish at t = 0, as in every basis. Beyond the window a spline continues linearly, along parabolas that end
in straight lines, or at its last values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, Literal

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from .._support._arguments import as_count, is_word
from .._support._errors import InputError, short_repr
from ._abstract import MOST_FUNCTIONS, AbstractBasis, differences
from ._algebra import AbstractAlgebra, Piece

TAILS = ("linear", "parabola", "constant")
_COARSE = 8  # pieces to search with, and of a spline that the data have not chosen the pieces of
_HIGHEST = 5  # degree: more wiggles than it smooths
_CURVED = 0.1  # of the width of the domain: how far a parabola goes on, in whole pieces


@dataclass(frozen=True)
class Spline(AbstractBasis):
    """Splines of `pieces` polynomials of equal width on the domain, joined smoothly: any shape, at a local price.

    Parameters
    ----------
    pieces : int, optional
        Polynomials side by side. There are `pieces + degree - 1` functions. Left out, a fit takes as many as the data
        can use (and what is not fitted has 8).
    degree : int
        3 for smooth curves, 1 for kinked ones such as ReLU, dead zones and absolute values.
    tails : "linear", "parabola" or "constant"
        Beyond the domain: along the tangents at its ends ("linear"). Along parabolas with the same curvature for a
        tenth of its width (in whole pieces, at least one) and then straight on ("parabola"), which suits smooth curves.
        Or at the last values ("constant").

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> spline = dc.Spline(4, degree=1)
    >>> g = dc.Functions(spline, [[0.0, 0.5, 0.0, 0.5, 1.0]], domain=(-2, 2))  # values at the knots, less the first
    >>> g(np.array([[-2.0], [-1.5], [3.0]]))[:, 0]
    array([0.  , 0.25, 1.5 ])
    """

    pieces: int | None = None
    degree: int = 3
    tails: Literal["linear", "parabola", "constant"] = "linear"

    def __post_init__(self) -> None:
        if self.pieces is not None:
            object.__setattr__(self, "pieces", as_count("pieces", self.pieces, most=MOST_FUNCTIONS))
        object.__setattr__(self, "degree", as_count("degree", self.degree))
        if self.degree > _HIGHEST:
            got = short_repr(self.degree)
            raise InputError(f"`degree` must be at most {_HIGHEST}. Got {got}: take more `pieces` instead.")
        if not is_word(self.tails, TAILS):
            raise InputError(f'`tails` must be "linear", "parabola" or "constant". Got {short_repr(self.tails)}.')

    @property
    def n_pieces(self) -> int:
        return _COARSE if self.pieces is None else self.pieces

    @property
    def is_open(self) -> bool:
        return self.pieces is None

    def with_pieces(self, pieces: int) -> Spline:
        return replace(self, pieces=pieces) if self.is_open else self

    def with_fewer_pieces(self, pieces: int) -> Spline:
        return self if self.n_pieces <= pieces else replace(self, pieces=pieces)

    @property
    def size(self) -> int:
        return self.n_pieces + self.degree - 1

    @property
    def in_words(self) -> str:
        kind = {1: "straight ", 2: "parabolic ", 3: ""}.get(self.degree, f"degree-{self.degree} ")
        return f"splines of {self.n_pieces} {kind}pieces"

    @property
    def smooths(self) -> bool:
        return True

    def coarser(self) -> AbstractBasis:
        """Few cubics: their minima are fewer and found faster, and close to those of many pieces of any degree."""
        return self if self.n_pieces <= _COARSE else Spline(_COARSE)

    @property
    def knots(self) -> Float[ndarray, " k"]:
        """The places where pieces meet, with both ends of the window."""
        return np.linspace(*self.window, self.n_pieces + 1)

    @cached_property
    def _at_zero(self) -> Float[ndarray, " e"]:
        """All B-splines at 0: evaluation subtracts them."""
        return self._table(np.zeros(1), 0)[0]

    def evaluate(self, t: Float[ndarray, "*shape"]) -> Float[ndarray, "*shape d"]:
        table = self._table(t, 0)
        table -= self._at_zero  # in place: the table is large
        return table[..., 1:]

    def derivative(self, t: Float[ndarray, "*shape"]) -> Float[ndarray, "*shape d"]:
        return self._table(t, 1)[..., 1:]

    def second_derivative(self, t: Float[ndarray, "*shape"]) -> Float[ndarray, "*shape d"]:
        return self._table(t, 2)[..., 1:]

    @property
    def orders(self) -> tuple[int, ...]:
        """Second differences suit kinks, third ones smooth curves: a bend that stays the same costs nothing."""
        return (2, 3) if self.degree > 2 and self.size > 3 else (2,)

    def roughness(self, order: int = 2) -> Float[ndarray, "k d"]:
        """Differences of all B-spline coefficients; the one that is left out has coefficient 0."""
        return np.diff(np.eye(1 + self.size), n=order, axis=0)[:, 1:]

    def shape_rows(self, shape: str) -> Float[ndarray, "k d"]:
        """Differences of the coefficients: if none is negative, no slope (or bend) of the spline is."""
        return differences(self.size, shape)

    def least_value(self, c: Float[ndarray, " d"]) -> float:
        """The least coefficient: a spline runs between the least and the largest of all its coefficients."""
        return float(min(0.0, c.min()) - self._at_zero[1:] @ c)

    def expression(self, algebra: AbstractAlgebra[Any], t: Any, c: Any) -> Any:
        """Piece by piece, with more pieces for the tails."""
        local, knots, h = _local(self.degree), self.knots, 2.0 / self.n_pieces
        first = c[..., 0] + self._combine(c, self._table(np.array([-1.0]), 0)[0] - self._at_zero)
        pieces = []
        for i in range(self.n_pieces):
            powers = []
            for q in range(1, self.degree + 1):
                row = np.zeros(1 + self.size)
                row[i : i + self.degree + 1] = local[:, q] / h**q
                powers.append(self._combine(c, row))
            pieces.append(Piece(float(knots[i]), float(knots[i + 1]), float(knots[i]), tuple(powers)))
        first, left = self._left_tail(c, first)
        return algebra.pieces(first, (*left, *pieces, *self._right_tail(c)), t)

    @property
    def _n_curved(self) -> int:
        """How many pieces beyond either end are parabolas; whole ones, so that all pieces have one width."""
        return max(1, round(_CURVED * self.n_pieces)) if self.tails == "parabola" else 0

    def _left_tail(self, c: Any, at_end: Any) -> tuple[Any, list[Piece]]:
        """The value at the first knot, and the pieces up to the window."""
        (slope, bend), h, n = self._at(c, -1.0), 2.0 / self.n_pieces, self._n_curved
        far = -1.0 - n * h
        curved = [(-1.0 - i * h, -1.0 - (i - 1) * h, slope - bend * (i * h)) for i in range(n, 0, -1)]
        pieces = [Piece(low, high, low, (first, bend * 0.5)) for low, high, first in curved]
        start = at_end - slope * (n * h) + bend * (0.5 * (n * h) ** 2)
        return start, [Piece(-np.inf, far, far, (slope - bend * (n * h),)), *pieces]

    def _right_tail(self, c: Any) -> list[Piece]:
        (slope, bend), h, n = self._at(c, 1.0), 2.0 / self.n_pieces, self._n_curved
        far = 1.0 + n * h
        curved = [(1.0 + i * h, 1.0 + (i + 1) * h, slope + bend * (i * h)) for i in range(n)]
        pieces = [Piece(low, high, low, (first, bend * 0.5)) for low, high, first in curved]
        return [*pieces, Piece(far, np.inf, far, (slope + bend * (n * h),))]

    def _at(self, c: Any, end: float) -> tuple[Any, Any]:
        """Slope and curvature with which a tail begins."""
        if self.tails == "constant":
            return c[..., 0] * 0.0, c[..., 0] * 0.0
        slope, bend = (self._combine(c, self._table(np.array([end]), order)[0]) for order in (1, 2))
        return slope, bend if self.tails == "parabola" else bend * 0.0

    @staticmethod
    def _combine(c: Any, row: Float[ndarray, " e"]) -> Any:
        """sum_k c_k row_k, entry by entry, so that `c` may be an array of any library; the first B-spline has no c."""
        terms = [c[..., k] * float(a) for k, a in enumerate(row) if k and a]
        return sum(terms[1:], terms[0]) if terms else c[..., 0] * 0.0

    def _table(self, t: Float[ndarray, "*shape"], order: int) -> Float[ndarray, "*shape e"]:
        """All B-splines at t, or their derivatives, with their tails."""
        h = 2.0 / self.n_pieces
        inside = np.clip(t, -1.0, 1.0)
        share = (inside + 1.0) / h
        with np.errstate(invalid="ignore"):  # NaN goes through
            piece = np.clip(share.astype(np.int64), 0, self.n_pieces - 1)
        share = share - piece
        few = _pieces(self.degree, share, order) / h**order
        beyond = (t - inside) / h
        if self.tails == "constant":
            few = np.where(np.abs(beyond) > 0.0, 0.0, few) if order else few
        elif np.any(beyond):
            slope, bend = (_pieces(self.degree, share, k) for k in (1, 2))
            bent = np.clip(beyond, -self._n_curved, self._n_curved)  # in pieces, as everything here
            if order == 0:
                few = few + beyond * slope + bent * (beyond - bent / 2.0) * bend
            elif order == 1:
                few = np.where(beyond == 0.0, few, (slope + bent * bend) / h)
            else:
                few = np.where(beyond == bent, few, 0.0)
        table = np.zeros((*np.shape(t), 1 + self.size))
        flat = table.reshape(-1)
        start = np.arange(piece.size) * table.shape[-1] + piece.reshape(-1)
        for k, values in enumerate(few):
            flat[start + k] = values.reshape(-1)
        return table


@cache
def _local(degree: int) -> Float[ndarray, "k q"]:
    """Coefficients, in powers of the share of a piece, of the B-splines that are not 0 on it."""
    from scipy.interpolate import PPoly

    knots = np.arange(-degree, degree + 2.0)
    rows = []
    for k in range(degree + 1):
        spline = PPoly.from_spline((knots, np.eye(degree + 1)[k], degree))
        rows.append(spline.c[::-1, degree])  # the piece from 0 to 1
    return np.array(rows)


def _pieces(degree: int, share: Float[ndarray, "*shape"], order: int) -> Float[ndarray, "k *shape"]:
    """The B-splines of a piece, or their derivatives, at shares of it."""
    coefficients = _local(degree)
    for _ in range(order):
        q = coefficients.shape[1]
        coefficients = coefficients[:, 1:] * np.arange(1, q) if q > 1 else np.zeros_like(coefficients)
    powers = np.empty((coefficients.shape[1], share.size))
    powers[0] = 1.0
    for q in range(1, len(powers)):
        np.multiply(powers[q - 1], share.reshape(-1), out=powers[q])
    return (coefficients @ powers).reshape(-1, *np.shape(share))
