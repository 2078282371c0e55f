"""Kinds of curves that people have names for, and the best one of each kind for given readings of a function.

A curve is one of our bases on a domain. Its coefficients follow from the readings by least squares; its domain is found
on a grid that zooms in, which kinks do not mind.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ...bases import (
    Absolute,
    AbstractBasis,
    DeadZone,
    Exponential,
    Friction,
    Gaussian,
    LeakyReLU,
    Logarithm,
    Monomial,
    Rational,
    ReLU,
    Saturation,
    Spline,
    Tanh,
    Trigonometric,
)
from ._partial_residuals import Readings

_FIRST = (25, 13)  # places and widths of the first grid
_ZOOM = 7  # places and widths of the finer ones
_COARSE = (1.0, 0.5)  # reaches of finer grids, in steps of the first one, that look at a part of the readings only ...
_FEW = 120  # ... of so many
_FINE = (0.5, 0.2, 0.08, 0.03, 0.01, 0.004)  # and of those that look at all
_KEPT = 2  # points of the first grid that are zoomed in to
_CLEAR = 0.05  # half-width of a domain next to a pole, as a share of the distance from the pole to the readings
_NEARLY = 0.01  # of half the range of arguments: places that are so near to 0, or to each other, are called so
_RIDGE = 1e-11  # of unit columns: two that are the same are no harm
_PIECES = 20  # of the spline that has no name
_WEIGHTS = np.geomspace(1e-6, 1e6, 25)  # of its roughness


@dataclass(frozen=True)
class Kind:
    """A kind of curve: its name, its basis, and where its domain may be.

    Attributes
    ----------
    places, widths
        Ranges of the middle and of the half-width of the domain; the readings lie in [-1, 1]. A single number is
        not searched, and no parameter.
    kinks
        Places of its kinks, for t on the window: all of them must be among the readings.
    turns
        Whether the curve of the argument -u is another one of the kind.
    pole
        Whether the curve ends at a pole, which is one width below the readings. The domain is put next to it.
    only_constant
        Whether all other coefficients are 0.
    odd
        Whether even coefficients are left out and the domain is around u = 0.
    words
        What it is, for people, with places for numbers.
    beside_line
        The kind that it cannot be distinguished from where a straight line may be added.
    """

    name: str
    basis: AbstractBasis
    places: tuple[float, float] = (0.0, 0.0)
    widths: tuple[float, float] = (1.0, 1.0)
    kinks: tuple[float, ...] = ()
    turns: bool = False
    odd: bool = False
    pole: bool = False
    only_constant: bool = False
    beside_line: str = ""
    words: str = ""

    @property
    def n_parameters(self) -> int:
        """Coefficients with the constant, and what is free of the domain."""
        return len(self.used) + sum(low < high for low, high in (self.places, self.widths))

    @property
    def used(self) -> list[int]:
        """Coefficients that are not 0, the constant among them."""
        others = () if self.only_constant else range(1, 1 + self.basis.size, 2 if self.odd else 1)
        return [0, *others]


@dataclass(frozen=True, eq=False)
class Fitted:
    """The best curve of a kind: c_0 + sum_k c_k phi_k(t) + slope u, on a domain of u, or of -u if it is `turned`."""

    kind: Kind
    c: Float[ndarray, " e"]
    domain: tuple[float, float]
    turned: bool
    slope: float
    misfit: float  # sum of squares over variances
    reach: float  # half the range of the arguments

    def values(self, u: Float[ndarray, "*shape"]) -> Float[ndarray, "*shape"]:
        t = (self._sign * u - self.middle) / self.half
        return self.c[0] + self.kind.basis.evaluate(t) @ self.c[1:] + self.slope * u

    @property
    def middle(self) -> float:
        return (self.domain[0] + self.domain[1]) / 2.0

    @property
    def half(self) -> float:
        return (self.domain[1] - self.domain[0]) / 2.0

    @property
    def _sign(self) -> float:
        return -1.0 if self.turned else 1.0

    @property
    def words(self) -> str:
        """What it is and where, for people."""
        kinks = sorted(self.at(t) for t in self.kind.kinks)
        return self.kind.words.format(
            middle=self._place(self.at(0.0)),
            kinks=self._both(*kinks) if len(kinks) == 2 else "",
            pole=self._place(self.at(-1.0)),
            rate=_number(self._sign / self.half),
            frequency=_number(1.0 / self.half),
        )

    def at(self, t: float) -> float:
        """The argument u that is t on the window."""
        return self._sign * (self.middle + self.half * t)

    def _place(self, u: float) -> str:
        return "0" if abs(u) <= _NEARLY * self.reach else _number(u)

    def _both(self, low: float, high: float) -> str:
        if abs(low + high) <= _NEARLY * self.reach:
            return f"±{(high - low) / 2:.2g}"
        return f"{self._place(low)} and {self._place(high)}"


def _number(value: float) -> str:
    return f"{value:.2g}".replace("-", "−")


_EVERYWHERE, _INSIDE = (-1.2, 1.2), (-0.95, 0.95)
_BENDS = (-0.5, 0.5)  # of saturations and dead zones, on the window
KINDS: tuple[Kind, ...] = (
    Kind("constant", Monomial(1), only_constant=True, words="a constant"),
    Kind("line", Monomial(1), words="a straight line"),
    Kind("parabola", Monomial(2), words="a parabola"),
    Kind("odd cubic", Monomial(3), odd=True, words="an odd cubic"),
    Kind("cubic", Monomial(3), words="a cubic"),
    Kind("quartic", Monomial(4), words="a polynomial of degree 4"),
    Kind("quintic", Monomial(5), words="a polynomial of degree 5"),
    Kind("tanh", Tanh(), _EVERYWHERE, (0.03, 2.0), words="a tanh around u = {middle}"),
    Kind("saturation", Saturation(), _INSIDE, (0.1, 1.9), _BENDS, words="a saturation at u = {kinks}"),
    Kind(
        "dead zone",
        DeadZone(),
        _INSIDE,
        (0.1, 1.9),
        _BENDS,
        beside_line="saturation",
        words="a dead zone with kinks at u = {kinks}",
    ),
    Kind("|u|", Absolute(), _INSIDE, kinks=(0.0,), words="|u| with its kink at u = {middle}"),
    Kind(
        "ReLU",
        ReLU(),
        _INSIDE,
        kinks=(0.0,),
        turns=True,
        beside_line="|u|",
        words="a ReLU with its kink at u = {middle}",
    ),
    Kind(
        "leaky ReLU",
        LeakyReLU(),
        _INSIDE,
        kinks=(0.0,),
        beside_line="|u|",
        words="a leaky ReLU with its kink at u = {middle}",
    ),
    Kind(
        "friction",
        Friction(),
        _INSIDE,
        (0.02, 0.3),
        beside_line="tanh",
        words="dry and viscous friction around u = {middle}",
    ),
    Kind("sine", Trigonometric(2), widths=(0.06, 0.9), words="a sine of {frequency} u"),
    Kind("exponential", Exponential(), widths=(0.12, 3.0), turns=True, words="exp({rate} u)"),
    Kind(
        "logarithm",
        Logarithm(),
        widths=(0.01, 3.0),
        turns=True,
        pole=True,
        words="a logarithm that begins at u = {pole}",
    ),
    Kind("Gaussian", Gaussian(), _EVERYWHERE, (0.08, 1.5), words="a Gaussian around u = {middle}"),
    Kind("rational", Rational(), _EVERYWHERE, (0.08, 1.0), words="u/(1 + u²) around u = {middle}"),
)


def fit_named_curve(kind: Kind, readings: Readings, *, with_line: bool) -> Fitted | None:
    """The curve of this kind that is nearest to the readings; None if no domain is allowed."""
    scale = _Scale.of(readings)
    table = _Table.of(scale, readings)
    if kind.odd:  # around u = 0
        place, width, turned = -scale.middle / scale.half, 1.0, False
    else:
        ways = (False, True) if kind.turns else (False,)
        cost, place, width, turned = min((*_best_domain(kind, table, way, with_line=with_line), way) for way in ways)
        if not np.isfinite(cost):
            return None
    columns, line = _columns(kind, table, np.array([place]), np.array([width]), turned, with_line=with_line)
    misfit, c = _least_squares(columns, table)
    c = c[0]
    m, s = (float(a[0]) for a in _domain(kind, np.array([place]), np.array([width])))
    middle, half = scale.half * m + (-1.0 if turned else 1.0) * scale.middle, scale.half * s
    slope = float(c[-1]) / scale.half if line else 0.0
    own = c[:-1] if line else c
    if line:
        own = own.copy()
        own[0] -= slope * scale.middle
    full = np.zeros(1 + kind.basis.size)
    full[kind.used] = own
    full[0] += table.level
    return Fitted(kind, full, (middle - half, middle + half), turned, slope, float(misfit[0]), scale.half)


def smooth_reference(readings: Readings) -> tuple[float, float]:
    """Misfit and effective parameters of a smooth curve of any shape, as rough as its score allows."""
    table = _Table.of(_Scale.of(readings), readings)
    basis = Spline(_PIECES)
    Phi = np.insert(_derivatives(basis, table.tau, table.order), 0, (table.order == 0).astype(float), axis=1)
    Phi, y = Phi * table.root[:, None], table.target * table.root
    root = np.insert(basis.roughness(), 0, 0.0, axis=1)
    M, P = Phi.T @ Phi, root.T @ root
    P = P * (np.trace(M) / np.trace(P))
    best = (np.inf, 0.0, 0.0)
    for weight in _WEIGHTS:
        inverse = np.linalg.pinv(M + weight * P, rcond=1e-12, hermitian=True)
        misfit = float(np.sum((y - Phi @ (inverse @ (Phi.T @ y))) ** 2))
        used = float(np.sum(inverse * M))
        best = min(best, (misfit + used * np.log(readings.count), misfit, used))
    return best[1], best[2]


# The grid


@dataclass(frozen=True)
class _Scale:
    """The range of the readings."""

    middle: float
    half: float

    @classmethod
    def of(cls, readings: Readings) -> _Scale:
        low, high = float(readings.u.min()), float(readings.u.max())
        return cls((low + high) / 2.0, (high - low) / 2.0 or 1.0)


@dataclass(frozen=True, eq=False)
class _Table:
    """Readings on [-1, 1], less a level, with the roots of their weights; targets of slopes are per tau."""

    tau: Float[ndarray, " k"]
    target: Float[ndarray, " k"]
    root: Float[ndarray, " k"]
    order: ndarray
    level: float

    @classmethod
    def of(cls, scale: _Scale, readings: Readings) -> _Table:
        unit = np.where(readings.order == 1, scale.half, 1.0)
        tau = (readings.u - scale.middle) / scale.half
        values = readings.target[readings.order == 0]
        level = float(values.mean()) if values.size else 0.0
        target = np.where(readings.order == 1, readings.target * unit, readings.target - level)
        return cls(tau, target, 1.0 / (np.sqrt(readings.variance) * unit), readings.order, level)

    def thinned(self) -> _Table:
        """Every k-th reading along the range, which is enough to begin with."""
        step = len(self.tau) // _FEW
        if step < 2:
            return self
        rows = np.argsort(self.tau, kind="stable")[::step]
        return _Table(self.tau[rows], self.target[rows], self.root[rows], self.order[rows], self.level)


def _best_domain(kind: Kind, table: _Table, turned: bool, *, with_line: bool) -> tuple[float, float, float]:
    """The smallest misfit, and the place and the width of the domain there.

    The best points of a first grid are zoomed in to, all at once: finer grids around each of them, row by row.
    """
    places = np.linspace(*kind.places, _FIRST[0]) if kind.places[0] < kind.places[1] else np.array(kind.places[:1])
    widths = np.geomspace(*kind.widths, _FIRST[1]) if kind.widths[0] < kind.widths[1] else np.array(kind.widths[:1])
    if len(places) == len(widths) == 1:
        misfit = _misfits(kind, table, places[None], widths[None], turned, with_line=with_line)
        return float(misfit[0, 0]), float(places[0]), float(widths[0])
    few = table.thinned()
    misfit = _misfits(kind, few, places[None], widths[None], turned, with_line=with_line)[0]
    best = np.argsort(misfit, kind="stable")[:_KEPT]
    place, width = places[best // len(widths)], widths[best % len(widths)]
    step = places[1] - places[0] if len(places) > 1 else 0.0
    ratio = widths[1] / widths[0] if len(widths) > 1 else 1.0
    zoom, rows = np.linspace(-1.0, 1.0, _ZOOM), np.arange(len(best))
    for data, reach in (*((few, r) for r in _COARSE), *((table, r) for r in _FINE)):
        near = np.clip(place[:, None] + reach * step * zoom, *kind.places) if step else place[:, None]
        wide = np.clip(width[:, None] * ratio ** (reach * zoom), *kind.widths) if ratio > 1.0 else width[:, None]
        misfits = _misfits(kind, data, near, wide, turned, with_line=with_line)
        least = np.argmin(misfits, axis=1)
        place, width = near[rows, least // wide.shape[1]], wide[rows, least % wide.shape[1]]
        misfit = misfits[rows, least]
    return min(zip(misfit.tolist(), place.tolist(), width.tolist(), strict=True))


def _misfits(
    kind: Kind, table: _Table, places: ndarray, widths: ndarray, turned: bool, *, with_line: bool
) -> Float[ndarray, "G points"]:
    """Misfits on grids, one per row of places and widths; infinite if a kink is outside the readings."""
    shape = (len(places), places.shape[1], widths.shape[1])
    m, s = (np.broadcast_to(a, shape).ravel() for a in (places[:, :, None], widths[:, None, :]))
    columns, _ = _columns(kind, table, m, s, turned, with_line=with_line)
    misfit, _ = _least_squares(columns, table)
    misfit = np.where(np.isnan(misfit), np.inf, misfit)
    for kink in kind.kinks:
        misfit = np.where(np.abs(m + kink * s) < _INSIDE[1], misfit, np.inf)
    return misfit.reshape(len(places), -1)


def _columns(
    kind: Kind, table: _Table, m: ndarray, s: ndarray, turned: bool, *, with_line: bool
) -> tuple[Float[ndarray, "B k e"], bool]:
    """The constant, the basis functions and, if it is wanted and not there already, a line."""
    sign = -1.0 if turned else 1.0
    m, s = _domain(kind, m, s)
    t = (sign * table.tau - m[:, None]) / s[:, None]
    own = _derivatives(kind.basis, t, table.order)
    slopes = (table.order == 1)[:, None]
    own = np.where(slopes, own * (sign / s)[:, None, None], own)
    parts = [np.broadcast_to((table.order == 0).astype(float)[:, None], (*t.shape, 1))]
    parts.append(own[..., [k - 1 for k in kind.used[1:]]])
    line = with_line and len(kind.used) > 1 and kind.basis.line() is None
    if line:
        straight = np.where(table.order == 1, 1.0, table.tau)
        parts.append(np.broadcast_to(straight[:, None], (*t.shape, 1)))
    return np.concatenate(parts, axis=-1), line


def _domain(kind: Kind, m: ndarray, s: ndarray) -> tuple[ndarray, ndarray]:
    """Middle and half-width of the domain, from place and width."""
    return (-1.0 - (1.0 - _CLEAR) * s, _CLEAR * s) if kind.pole else (m, s)


def _derivatives(basis: AbstractBasis, t: ndarray, order: ndarray) -> ndarray:
    """Values if the order is 0, and derivatives in t if it is 1."""
    if not order.any():
        return basis.evaluate(t)
    return np.where((order == 1)[:, None], basis.derivative(t), basis.evaluate(t))


def _least_squares(
    columns: Float[ndarray, "B k e"], table: _Table
) -> tuple[Float[ndarray, " B"], Float[ndarray, "B e"]]:
    """Weighted least squares: misfits and coefficients."""
    A, y = columns * table.root[:, None], table.target * table.root
    gram = A.mT @ A
    size = np.sqrt(np.diagonal(gram, axis1=1, axis2=2))
    size = np.where(size > 0.0, size, 1.0)
    gram = gram / (size[:, :, None] * size[:, None, :]) + _RIDGE * np.eye(A.shape[-1])  # that of unit columns
    c = np.linalg.solve(gram, ((A.mT @ y) / size)[..., None])[..., 0] / size
    misfit = np.sum((y - (A @ c[..., None])[..., 0]) ** 2, axis=1)
    return misfit, c
