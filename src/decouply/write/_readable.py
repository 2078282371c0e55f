r"""The equations of a model as a person would write them, and how many digits the data support.

Of all ways to write the same function: every function has the sign that makes its largest outgoing weight positive. Its
argument is a sum whose largest weight is 1, unless numbers would move away from 1 by that. Polynomials are powers of u
itself, unless their terms would cancel; and terms that the digits shown cannot show are left out. Splines become curves
that have names, or splines of few pieces, if the data cannot tell the difference.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import reduce
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from numpy.polynomial import Polynomial
from numpy.polynomial.polynomial import polyadd, polymul

from .._support._errors import silenced
from ..bases import AbstractAlgebra, LayerBasis, Monomial
from ..bases._algebra import ArrayAlgebra, Piece, at_origins
from ..fit._relative_errors import Measure
from ..fit._result import Result
from ..fit.select._candidates import criterion
from ..model._canonical_form import first_largest, resize_model
from ..model._decoupling import Decoupling
from ..model._names import Name
from ..solvers.problem._prepared_samples import PreparedSamples
from ._equations import Equation, Linear, Univariate, equations

_NEAR_ONE = (0.1, 10.0)  # half-widths of domains that numbers near 1 belong to
_CANCELLATION = 5.0  # sizes of the terms of a polynomial, all together, over its range: more would cost digits
_POINTS = 101
_WEAK, _MOST_TRIED = 0.02, 60  # terms of a sum that may go, over its largest, and how many are tried
_MOST_READ = 1000  # terms: nobody reads longer formulas, and every trial computes all of them
_DIGITS = range(2, 9)
_HARDLY, _FINE = 1.02, 1e-3  # what rounding may do: to the error of the model, or as a share of the spread
_SECONDS_TO_NAME = 20.0  # far more than it takes, so that a busy machine writes the same
_FEWER_PIECES = (2, 3, 4, 6, 8, 12, 16, 24, 32)  # that are tried for splines of more


def readable_model(result: Result) -> Decoupling:
    """A model with named curves and few pieces, if Schwarz's criterion does not prefer the one that was found."""
    model, samples = result.decoupling, result.samples.shown
    if samples.F is None or not any(basis.smooths for g in model.g for basis in g.layer.bases):
        return model
    measure, rounding = Measure.of(samples), PreparedSamples.of(samples).rounding_floor

    def score(one: Decoupling, used: float) -> float:
        return criterion(measure.squares(one, samples), measure.counts, used, rounding)

    used = result.n_effective or model.n_parameters
    lowest = score(model, used)
    if result.named_curves:
        with silenced():
            named = result.simplified(max_seconds=_SECONDS_TO_NAME, progress=False).result
        used_by_named = named.n_effective or named.decoupling.n_parameters
        if (with_names := score(named.decoupling, used_by_named)) <= lowest:
            model, used, lowest = named.decoupling, used_by_named, with_names
    best = model
    for pieces in _FEWER_PIECES:
        layers = tuple(LayerBasis(tuple(basis.with_fewer_pieces(pieces) for basis in g.layer.bases)) for g in model.g)
        if layers == tuple(g.layer for g in model.g):
            break
        coarser = resize_model(model, layers, samples.X, np.random.default_rng(0))
        if (with_few := score(coarser, min(used, coarser.n_parameters))) <= lowest:
            best, lowest = coarser, with_few
    return best


def readable_equations(model: Decoupling, x: tuple[Name, ...], y: tuple[Name, ...], digits: int) -> list[Equation]:
    """The equations for people, without terms that this many digits do not show."""
    least = 0.5 * 10.0**-digits
    found = equations(_signed_and_scaled(model), x, y, shifted=True, rounded=True)
    written: dict[Name, Equation] = {}
    ranges: dict[Name, float] = {}  # of the functions, over their domains
    for e in found:
        if isinstance(e, Linear):
            e = _without_small_terms(e, ranges, least)
        else:
            argument = written[e.argument]
            assert isinstance(argument, Linear)
            if e.basis.polynomial_degree is not None:
                e, middle = _in_powers(e, -argument.constant, least)
                written[e.argument] = dataclasses.replace(argument, constant=-middle, extra=e.extra if middle else 0)
            elif abs(argument.constant) < least * e.half:
                written[e.argument] = dataclasses.replace(argument, constant=0.0)
            u = np.linspace(*e.limits, _POINTS) / e.half
            values = np.broadcast_to(e.basis.expression(ArrayAlgebra(), u, e.c), _POINTS)
            ranges[e.target] = float(np.ptp(values))
            if abs(e.c[0]) < least * np.max(np.abs(values)):
                e = dataclasses.replace(e, c=np.where(np.arange(len(e.c)) > 0, e.c, 0.0))
        written[e.target] = e
    return _without_renaming(list(written.values()))


def _without_small_terms(e: Linear, ranges: dict[Name, float], least: float) -> Linear:
    """A sum of functions without those that bring less than `least` of what the largest brings."""
    if not all(name in ranges for _, name in e.terms):
        return e
    brought = [abs(w) * ranges[name] for w, name in e.terms]
    most = max(brought, default=0.0)
    terms = tuple((w if size >= least * most else 0.0, name) for size, (w, name) in zip(brought, e.terms, strict=True))
    return dataclasses.replace(e, terms=terms)


def equations_for_data(
    model: Decoupling, x: tuple[Name, ...], y: tuple[Name, ...], X: Float[ndarray, "S m"], F: Float[ndarray, "S n"]
) -> tuple[int, list[Equation]]:
    """The fewest digits with which equations are as good as the model at these points, and these equations.

    Terms of sums that bring little are left out one by one, as long as the error stays what it is.
    """
    spread = np.where(F.std(axis=0) > 0.0, F.std(axis=0), 1.0)
    enough = max(_HARDLY * _error(model.values(X), F, spread), _FINE)
    digits, found = _DIGITS[-1], readable_equations(model, x, y, _DIGITS[-1])
    for fewer in _DIGITS[:-1]:
        rounded = readable_equations(model, x, y, fewer)
        if _error(values_of(rounded, x, y, X, fewer), F, spread) <= enough:
            digits, found = fewer, rounded
            break
    if sum(len(e.terms) for e in found if isinstance(e, Linear)) > _MOST_READ:
        return digits, _without_renaming(found)
    values = variables_of(found, x, X, digits)
    small = []
    for i, e in enumerate(found):
        if isinstance(e, Linear):
            brought = np.array([abs(w) * np.ptp(values[name]) for w, name in e.terms])
            weak = np.flatnonzero((brought > 0.0) & (brought < _WEAK * brought.max(initial=0.0)))
            small += [(brought[k] / brought.max(), i, int(k)) for k in weak]
    for _, i, k in sorted(small)[:_MOST_TRIED]:
        e = found[i]
        assert isinstance(e, Linear)
        terms = (*e.terms[:k], (0.0, e.terms[k][1]), *e.terms[k + 1 :])
        without = [*found[:i], dataclasses.replace(e, terms=terms), *found[i + 1 :]]
        if _error(values_of(without, x, y, X, digits), F, spread) <= enough:
            found = without
    return digits, _without_renaming(found)


def values_of(
    found: Sequence[Equation], x: tuple[Name, ...], y: tuple[Name, ...], X: Float[ndarray, "S m"], digits: int
) -> Float[ndarray, "S n"]:
    """What the equations give for the points X, with every number rounded as it is shown."""
    values = variables_of(found, x, X, digits)
    return np.stack([values[name] for name in y], axis=1)


def variables_of(
    found: Sequence[Equation], x: tuple[Name, ...], X: Float[ndarray, "S m"], digits: int
) -> dict[Name, ndarray]:
    """The values of all variables on the way from the points X to the outputs."""
    values = dict(zip(x, X.T, strict=True))
    for e in found:
        if isinstance(e, Linear):
            parts = (_rounded(w, digits + e.extra) * values[name] for w, name in e.terms)
            values[e.target] = sum(parts, np.full(len(X), _rounded(e.constant, digits + e.extra)))
        else:
            smooths = e.basis.smooths  # coefficients of splines are not shown, but those of their pieces
            algebra = _AsShown(digits, 1.0 / e.half if smooths else _rounded(1.0 / e.half, digits))
            c = e.c if smooths else np.array([_rounded(one, digits) for one in e.c])
            u = values[e.argument]
            inside = u if e.outside == "extend" else np.clip(u, *e.limits)
            value = np.broadcast_to(e.basis.expression(algebra, inside * algebra.scale, c), len(X))
            if e.outside == "linear":
                value = value + (e.basis.derivative(inside / e.half) @ e.c[1:]) / e.half * (u - inside)
            values[e.target] = value
    return values


class _AsShown(ArrayAlgebra):
    """Values of a function of t = scale u, with numbers as they are shown: pieces have powers of u, and ends."""

    def __init__(self, digits: int, scale: float) -> None:
        self.digits, self.scale = digits, scale

    def pieces(self, start: Any, pieces: Sequence[Piece], argument: Any) -> Any:
        u = argument / self.scale
        low = [_rounded(piece.low / self.scale, self.digits) for piece in pieces[1:]]
        functions = []
        for value, piece in zip(at_origins(start, pieces), pieces, strict=True):
            moved = Polynomial([float(value), *map(float, piece.powers)])(Polynomial([-piece.origin, 1.0])).coef
            shown = [_rounded(float(a) * self.scale**k, self.digits) for k, a in enumerate(moved)]
            functions.append(Polynomial(shown)(u))
        return np.take_along_axis(np.stack(functions), np.searchsorted(low, u)[None], axis=0)[0]


def _signed_and_scaled(model: Decoupling) -> Decoupling:
    """The same function with other signs and scales of arguments and values."""
    for l, (g, W) in enumerate(zip(model.g, model.W, strict=False)):
        alpha = np.ones(g.rank)
        for j, row in enumerate(W):
            if row.any():
                unit = _unit_of(row)
                near = _NEAR_ONE[0] <= g.half_width[j] / abs(unit) <= _NEAR_ONE[1]
                sign = 1.0 if g.turns_around[j] else float(np.sign(unit))
                alpha[j] = sign / (unit if near else np.sign(unit))
        model = model.scaled(l + 1, alpha, np.ones(g.rank))
        after = model.W[l + 1]
        largest = after[first_largest(after, axis=0), np.arange(g.rank)]
        largest = np.where(largest != 0.0, largest, 1.0)
        model = model.scaled(l + 1, np.ones(g.rank), largest if l == model.n_layers - 1 else np.sign(largest))
    return model


def _unit_of(row: Float[ndarray, " k"]) -> float:
    """The weight that becomes 1: the smallest if all are small whole multiples of it, otherwise the largest."""
    some = row[np.abs(row) > _FINE**2 * np.max(np.abs(row))]
    largest, smallest = some[first_largest(some[:, None], axis=0)[0]], some[np.argmin(np.abs(some))]
    times = np.abs(some / smallest)
    whole = np.max(times) < 10.0 and np.allclose(times, np.round(times), rtol=_FINE)
    return float(np.sign(largest) * abs(smallest) if whole else largest)


def _in_powers(e: Univariate, middle: float, least: float) -> tuple[Univariate, float]:
    """A polynomial as powers of u, or of u less the middle of its domain; and what is taken from u."""
    powers: list[float] = e.basis.expression(_PowersAlgebra(), [0.0, 1.0 / e.half], e.c)
    around = Polynomial(powers)
    moved = around(Polynomial([-middle, 1.0]))
    values = around(np.linspace(-e.half, e.half, _POINTS))
    sizes = np.abs(moved.coef) * (abs(middle) + e.half) ** np.arange(len(moved.coef))
    limits = middle - e.half, middle + e.half
    if np.sum(sizes) > _CANCELLATION * max(np.ptp(values), abs(np.mean(values))):
        moved, limits = around, (-e.half, e.half)
        sizes = np.abs(moved.coef) * e.half ** np.arange(len(moved.coef))
    else:
        middle = 0.0
    c = np.where(sizes > least * np.max(sizes), moved.coef, 0.0)
    degree = max(1, int(np.max(np.flatnonzero(c), initial=0)))
    c = np.pad(c, (0, max(0, 1 + degree - len(c))))[: 1 + degree]
    return dataclasses.replace(e, basis=Monomial(degree), c=c, half=1.0, domain=limits), middle


class _PowersAlgebra(AbstractAlgebra[list[float]]):
    """Expressions are polynomials, as lists of coefficients."""

    for_reading: ClassVar[bool] = True

    def number(self, value: Any) -> list[float]:
        return [float(value)]

    def sum(self, terms: Sequence[list[float]]) -> list[float]:
        return list(reduce(lambda a, b: list(polyadd(np.array(a), np.array(b))), terms))

    def product(self, factors: Sequence[list[float]]) -> list[float]:
        return list(reduce(lambda a, b: list(polymul(np.array(a), np.array(b))), factors))

    def apply(self, function: str, argument: list[float]) -> list[float]:
        raise NotImplementedError(function)

    def clip(self, argument: list[float], low: float, high: float) -> list[float]:
        raise NotImplementedError("clip")


def _without_renaming(found: list[Equation]) -> list[Equation]:
    """An output that is one function and nothing else takes the place of that function."""
    terms = {e.target: [(w, name) for w, name in e.terms if w] for e in found if isinstance(e, Linear)}
    used = [name for some in terms.values() for _, name in some]
    functions = [e.target for e in found if isinstance(e, Univariate)]
    outputs: dict[Name, Name] = {}
    for e in found:
        if isinstance(e, Linear) and e.constant == 0.0 and len(terms[e.target]) == 1:
            ((w, name),) = terms[e.target]
            if w == 1.0 and name in functions and used.count(name) == 1:
                outputs[name] = e.target
    kept = [e for e in found if e.target not in outputs.values()]
    return [dataclasses.replace(e, target=outputs.get(e.target, e.target)) for e in kept]


def _rounded(value: float, digits: int) -> float:
    """A number with this many significant digits."""
    return float(f"{value:.{digits}g}")


def _error(found: ndarray, F: ndarray, spread: ndarray) -> float:
    return float(np.sqrt(np.mean(((found - F) / spread) ** 2)))
