"""A decoupling as SymPy expressions.

Functions are computed as polynomials with exact fractions, in u - middle and in whatever cannot be multiplied out, such
as cos(2 u). Numbers have as many digits more as powers cost, so that high degrees lose none at exact arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np

from .._support._optional_packages import needed
from ..bases import AbstractAlgebra
from ..bases._algebra import Piece, at_origins
from ..model._decoupling import Decoupling
from ..model._names import Name
from ._equations import Linear, Shown, equations, finite, function

# Powers of atoms, each the number of an atom and an exponent, with their coefficients.
Polynomial = dict[tuple[tuple[int, int], ...], Fraction]
_DIGITS = 17


def sympy_expressions(
    model: Decoupling, x: tuple[Name, ...], y: tuple[Name, ...], shown: Shown, *, rounded: bool
) -> tuple[Any, ...]:
    """The outputs as expressions in symbols of the inputs."""
    sympy = needed("sympy", "sympy", 'formula("sympy")')
    values: dict[str, Any] = {name.text: sympy.Symbol(name.python) for name in x}
    outputs = []
    digits = _DIGITS + max(model.degrees) // 2  # coefficients of powers are up to 3^d times those of a basis
    for e in equations(model, x, y, shifted=True, rounded=rounded):
        algebra = SymPyAlgebra(sympy, digits, shown if rounded else None, e.extra if isinstance(e, Linear) else 0)
        if isinstance(e, Linear):
            parts = [algebra.product([algebra.number(w), algebra.atom(values[name.text])]) for w, name in e.terms]
            value = algebra.expression(algebra.sum([*parts, algebra.number(e.constant)]))
        else:
            half = Fraction(e.half)
            t = algebra.product([{(): 1 / half}, algebra.atom(values[e.argument.text])])
            value = algebra.expression(function(algebra, e.basis, t, e.c, e.outside))
        if e.target in y:
            outputs.append(value)
        else:
            values[e.target.text] = value
    return tuple(outputs)


class SymPyAlgebra(AbstractAlgebra[Polynomial]):
    """Expressions are polynomials in atoms, which are expressions of SymPy."""

    def __init__(self, sympy: Any, digits: int, shown: Shown | None, extra: int) -> None:
        self._sympy, self._digits, self._shown, self._extra = sympy, digits, shown, extra
        self._atoms: list[Any] = []

    def atom(self, expression: Any) -> Polynomial:
        """An expression that is not multiplied out."""
        self._atoms.append(expression)
        return {((len(self._atoms) - 1, 1),): Fraction(1)}

    def number(self, value: Any) -> Polynomial:
        return {(): Fraction(finite(value))}

    def sum(self, terms: Sequence[Polynomial]) -> Polynomial:
        found: Polynomial = {}
        for term in terms:
            for powers, value in term.items():
                found[powers] = found.get(powers, Fraction(0)) + value
        return found

    def product(self, factors: Sequence[Polynomial]) -> Polynomial:
        return reduce(_times, factors)

    def apply(self, function: str, argument: Polynomial) -> Polynomial:
        if function == "reciprocal":
            return self.atom(1 / self.expression(argument))
        called = getattr(self._sympy, {"abs": "Abs"}.get(function, function))
        return self.atom(called(self.expression(argument)))

    def clip(self, argument: Polynomial, low: float, high: float) -> Polynomial:
        inside = self.expression(argument)
        for kind, end in ((self._sympy.Max, low), (self._sympy.Min, high)):
            if np.isfinite(end):  # SymPy takes seconds to find out that nothing can be evaluated
                inside = kind(inside, self._number(Fraction(end)), evaluate=False)
        return self.atom(inside)

    def pieces(self, start: Any, pieces: Sequence[Piece], argument: Polynomial) -> Polynomial:
        """A `Piecewise`, whose cases are read from the first on; of splines it would be too deep for SymPy."""
        inside = self.expression(argument)
        if inside.has(self._sympy.Piecewise, self._sympy.Max, self._sympy.Min):
            return super().pieces(start, pieces, argument)
        cases = []
        for value, piece in zip(at_origins(start, pieces), pieces, strict=True):
            v = self.sum([argument, self.number(-piece.origin)])
            here = self.expression(self.polynomial([value, *piece.powers], v))
            last = not np.isfinite(piece.high)
            cases.append((here, True if last else inside <= self._number(Fraction(piece.high))))
        return self.atom(self._sympy.Piecewise(*cases, evaluate=False))

    def expression(self, polynomial: Polynomial) -> Any:
        """What SymPy takes."""
        terms = []
        for powers, value in polynomial.items():
            factors = [self._atoms[i] ** k for i, k in powers]
            terms.append(self._sympy.Mul(self._number(value), *factors))
        return self._sympy.Add(*terms)

    def _number(self, value: Fraction) -> Any:
        if self._shown is not None:
            return self._sympy.Float(self._shown(float(value), self._extra))
        if value.denominator == 1:
            return self._sympy.Integer(value.numerator)
        return self._sympy.Float(self._sympy.Rational(value.numerator, value.denominator), self._digits)


def _times(a: Polynomial, b: Polynomial) -> Polynomial:
    found: Polynomial = {}
    for left, v in a.items():
        for right, w in b.items():
            powers = dict(left)
            for i, k in right:
                powers[i] = powers.get(i, 0) + k
            key = tuple(sorted(powers.items()))
            found[key] = found.get(key, Fraction(0)) + v * w
    return found
