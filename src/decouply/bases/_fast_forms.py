r"""Forms that are fast to compute: powers, pieces, and hinges.

Polynomials with straight tails are, with s = t clipped to [-1, 1],

    g(t) = a + b (s^d + c_{d-1} s^{d-1} + ... + c_1 s + p t + q max(t, 1)),

in which a and b go into the matrix behind the functions. A basis that writes itself in pieces is a table of
polynomials, one row per piece, or a sum of hinges

    g(t) = a + b t + \sum_i \sum_k c_{ik} max(t - \kappa_i, 0)^k,

one for each derivative that jumps at a knot: no comparison, no table, and one matrix for all of them. With many pieces
hinges cancel, and single precision loses its digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ._abstract import AbstractBasis
from ._algebra import AbstractAlgebra, Piece, at_origins

_MOST_POWERS = 8
_ERROR_OF_POWERS = 1e-12  # of the largest value: a basis that is so near to powers is written in them
_LOST = 1e-4  # of the size of a function: what hinges may lose in single precision


def in_powers(basis: AbstractBasis) -> Float[ndarray, "e e"] | None:
    """Matrix P that turns coefficients c into those of powers of t, c P; None if there is none, or many powers.

    A power costs one step, and recurrences several. But with many powers single precision loses its digits.
    """
    d = basis.size
    if d > _MOST_POWERS:
        return None
    t = 1.5 * np.cos(np.pi * np.linspace(0.0, 1.0, 4 * d + 5))  # beyond the window too: splines have tails
    powers, table = np.vander(t, 1 + d, increasing=True), np.insert(basis.evaluate(t), 0, 1.0, axis=1)
    P = np.linalg.lstsq(powers, table, rcond=None)[0].T
    return P if np.max(np.abs(powers @ P.T - table)) <= _ERROR_OF_POWERS * np.max(np.abs(table)) else None


def goes_on(bases: Sequence[AbstractBasis], outside: str) -> bool:
    """Whether functions follow their formulas beyond the domain: as asked, or because these are the tangents."""
    if outside != "linear":
        return outside == "extend"
    beyond = np.linspace(1.0, 4.0, 10)
    for basis in bases:
        slopes = [basis.derivative(sign * beyond) for sign in (-1.0, 1.0)]
        if not all(np.allclose(s, s[:1], rtol=1e-12, atol=0.0) for s in slopes):
            return False
    return True


@dataclass(frozen=True)
class Monic:
    """Polynomials whose leading coefficient is 1, to be multiplied by `scale` and moved by `constant`."""

    scale: Float[ndarray, " r"]
    constant: Float[ndarray, " r"]
    powers: Float[ndarray, "k r"]  # c_1, ..., c_{d-1}, one row per power
    tails: tuple[Float[ndarray, " r"], Float[ndarray, " r"]] | None  # p and q, if the functions continue linearly


def in_monic(
    A: Float[ndarray, "r e"], tails: tuple[Float[ndarray, " r"], Float[ndarray, " r"]] | None, least: float
) -> Monic:
    """Powers A[j, 0] + A[j, 1] t + ... with these slopes at both ends; leading numbers below `least` are raised to it.

    `least` is relative to the largest number of a function: raised by what rounding leaves of it, a number changes
    nothing.
    """
    a = np.array(A.T, dtype=float)
    constant = a[0].copy()
    if tails is not None:
        low, high = tails
        a[1] -= low
        constant -= high - low
    largest = np.max(np.abs(a[1:]), axis=0)
    if tails is not None:
        largest = np.maximum(largest, np.maximum(np.abs(low), np.abs(high)))
    lead = np.where(np.abs(a[-1]) < least * largest, least * largest, a[-1])
    scale = np.where(lead == 0.0, 1.0, lead)
    ends = None if tails is None else (low / scale, (high - low) / scale)
    return Monic(lead, constant, a[1:-1] / scale, ends)


@dataclass(frozen=True)
class InPieces:
    """A basis in pieces, as constants: pieces meet at `ends`, and each is a polynomial in t less its origin.

    The powers of piece i are rows[i] @ c, for coefficients c of a function, constant first.
    """

    ends: Float[ndarray, " k"]
    origins: Float[ndarray, " p"]
    rows: Float[ndarray, "p q e"]


def in_pieces(basis: AbstractBasis) -> InPieces | None:
    """The pieces that a basis writes itself in; None if it writes something else."""
    recorder = _Recorder()
    if not basis.writable or basis.expression(recorder, recorder, np.eye(1 + basis.size)) is not recorder:
        return None
    pieces = recorder.seen
    most = max(len(piece.powers) for piece in pieces)
    rows = np.zeros((len(pieces), 1 + most, 1 + basis.size))
    for i, (value, piece) in enumerate(zip(at_origins(recorder.start, pieces), pieces, strict=True)):
        for q, column in enumerate((value, *piece.powers)):
            rows[i, q] = column
    return InPieces(np.array([piece.high for piece in pieces[:-1]]), np.array([piece.origin for piece in pieces]), rows)


@dataclass(frozen=True)
class Hinges:
    """Functions as sums of hinges.

    Attributes
    ----------
    knots
        The places where derivatives jump, in an order that puts those with the same powers side by side.
    jumps
        For each power k that occurs: the first knot that has it, and the numbers c_{ik} of that one and of those that
        follow, one row for each.
    slope, constant
        The straight line on the left of all knots.
    """

    knots: Float[ndarray, " k"]
    jumps: dict[int, tuple[int, Float[ndarray, "i r"]]]
    slope: Float[ndarray, " r"]
    constant: Float[ndarray, " r"]

    def rows(self) -> Float[ndarray, "f r"]:
        """Coefficients in the order in which features come: t, then all hinges of each power."""
        return np.vstack([self.slope, *(c for _, c in self.jumps.values())])


def in_hinges(
    ends: Float[ndarray, " k"], origins: Float[ndarray, " p"], table: Float[ndarray, "p r q"], rounding: float
) -> Hinges | None:
    """Functions in pieces as sums of hinges; None if single precision would lose too much, or a tail is no line.

    Jumps below `rounding`, relative to what a function does within a piece, are none.
    """
    powers = np.swapaxes(np.asarray(table, dtype=float), 1, 2)  # (p, q, r)
    per_piece = np.min(np.diff(ends), initial=2.0) ** np.arange(powers.shape[1])[:, None]
    least = rounding * np.max(np.abs(powers) * per_piece, initial=0.0) / per_piece
    if np.any(np.abs(powers[0, 2:]) > least[2:]):
        return None
    here = [_at(powers[i], ends[i] - origins[i]) for i in range(len(ends))]
    there = [_at(powers[i + 1], ends[i] - origins[i + 1]) for i in range(len(ends))]
    jump = np.array(there) - np.array(here)  # (k, q, r)
    jump[np.abs(jump) <= least] = 0.0
    kinds = [tuple(k for k in range(1, powers.shape[1]) if jump[i, k].any()) for i in range(len(ends))]
    order = sorted((i for i in range(len(ends)) if kinds[i]), key=lambda i: kinds[i])
    jumps = {}
    for k in range(1, powers.shape[1]):
        having = [place for place, i in enumerate(order) if k in kinds[i]]
        if having:
            jumps[k] = having[0], jump[order[having[0] : having[-1] + 1], k]
    constant = powers[0, 0] - powers[0, 1] * origins[0]
    found = Hinges(np.asarray(ends, dtype=float)[order], jumps, powers[0, 1], constant)
    return found if jumps and _keeps_digits(found) else None


def _keeps_digits(hinges: Hinges) -> bool:
    low, high = hinges.knots.min(), hinges.knots.max()
    t = np.linspace(low - 0.1 * (high - low), high + 0.1 * (high - low), 400)
    exact, single = (_features(hinges, t, kind) @ hinges.rows().astype(kind) for kind in (float, np.float32))
    lost, size = np.abs(single - exact).max(axis=0), np.ptp(exact, axis=0)
    return bool(np.all(lost <= _LOST * size))


def _features(hinges: Hinges, t: ndarray, kind: Any) -> ndarray:
    d = np.maximum(t.astype(kind)[:, None] - hinges.knots.astype(kind), 0)
    powers = (d[:, first : first + len(c)] ** k for k, (first, c) in hinges.jumps.items())
    return np.concatenate([t.astype(kind)[:, None], *powers], axis=1)


def _at(powers: Float[ndarray, "q r"], shift: float) -> Float[ndarray, "q r"]:
    """The same polynomials in powers of v - shift."""
    q = len(powers)
    moved = np.array([[comb(k, j) * shift ** (k - j) if k >= j else 0.0 for k in range(q)] for j in range(q)])
    return moved @ powers


class _Recorder(AbstractAlgebra[Any]):
    """Keeps what is written in pieces; whatever else is written is not it."""

    start: Any = None
    seen: Sequence[Piece] = ()

    def number(self, value: Any) -> Any:
        return value

    def sum(self, terms: Sequence[Any]) -> Any:  # noqa: ARG002
        return None

    def product(self, factors: Sequence[Any]) -> Any:  # noqa: ARG002
        return None

    def apply(self, function: str, argument: Any) -> Any:  # noqa: ARG002
        return None

    def clip(self, argument: Any, low: float, high: float) -> Any:  # noqa: ARG002
        return None

    def pieces(self, start: Any, pieces: Sequence[Piece], argument: Any) -> Any:
        self.start, self.seen = start, pieces
        return self if argument is self else None
