"""Curves that engineers have names for: one or two functions whose domain is found with everything else.

A domain that is free gives a curve its place and its width, so that one coefficient is left for its height. The kinks
of `Saturation` and `DeadZone` are a quarter of the domain away from its ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ._abstract import AbstractBasis
from ._algebra import AbstractAlgebra

Values = Float[ndarray, "*shape"]
Table = Float[ndarray, "*shape d"]
_KINK = 0.5  # of the half-width: where saturations and dead zones begin and end


class AbstractCurve(AbstractBasis):
    """A single function phi(t) on a domain that is to be found."""

    @property
    def size(self) -> int:
        return 1

    @property
    def free_domain(self) -> bool:
        return True

    def expression(self, algebra: AbstractAlgebra[Any], t: Any, c: Any) -> Any:
        curve = algebra.product([algebra.number(c[..., 1]), self._curve(algebra, t)])
        return algebra.sum([algebra.number(c[..., 0]), curve])

    def _curve(self, algebra: AbstractAlgebra[Any], t: Any) -> Any:
        raise NotImplementedError


@dataclass(frozen=True)
class Tanh(AbstractCurve):
    """phi_1(t) = tanh t. A domain [a, b] puts the centre at (a + b) / 2 and the slope there at 2 / (b - a).

    >>> import decouply as dc, numpy as np
    >>> g = dc.Functions(dc.Tanh(), [[0.0, 1.0]], domain=(2.0, 4.0))
    >>> g(np.array([[3.0]])), g.derivative(np.array([[3.0]]))
    (array([[0.]]), array([[1.]]))
    """

    @property
    def in_words(self) -> str:
        return "multiples of tanh"

    def evaluate(self, t: Values) -> Table:
        return np.tanh(t)[..., None]

    def derivative(self, t: Values) -> Table:
        return 1.0 - np.tanh(t)[..., None] ** 2

    def second_derivative(self, t: Values) -> Table:
        value = np.tanh(t)[..., None]
        return -2.0 * value * (1.0 - value**2)

    def _curve(self, algebra: AbstractAlgebra[Any], t: Any) -> Any:
        return algebra.apply("tanh", t)


@dataclass(frozen=True)
class Sigmoid(AbstractCurve):
    """phi_1(t) = 1 / (1 + exp(-t)) - 1/2, which is tanh(t / 2) / 2."""

    @property
    def in_words(self) -> str:
        return "multiples of a sigmoid"

    def evaluate(self, t: Values) -> Table:
        return 0.5 * np.tanh(0.5 * t)[..., None]

    def derivative(self, t: Values) -> Table:
        return 0.25 * (1.0 - np.tanh(0.5 * t)[..., None] ** 2)

    def second_derivative(self, t: Values) -> Table:
        value = np.tanh(0.5 * t)[..., None]
        return -0.25 * value * (1.0 - value**2)

    def _curve(self, algebra: AbstractAlgebra[Any], t: Any) -> Any:
        inner = algebra.product([algebra.number(0.5), t])
        return algebra.product([algebra.number(0.5), algebra.apply("tanh", inner)])


@dataclass(frozen=True)
class Saturation(AbstractCurve):
    """phi_1(t) = 2 t between -1/2 and 1/2, and -1 or 1 beyond: a line that meets its limits."""

    @property
    def in_words(self) -> str:
        return "saturations"

    def evaluate(self, t: Values) -> Table:
        return np.clip(t / _KINK, -1.0, 1.0)[..., None]

    def derivative(self, t: Values) -> Table:
        return np.where(np.abs(t) <= _KINK, 1.0 / _KINK, 0.0)[..., None]

    def second_derivative(self, t: Values) -> Table:
        return np.zeros((*np.shape(t), 1))

    def _curve(self, algebra: AbstractAlgebra[Any], t: Any) -> Any:
        return algebra.product([algebra.number(1.0 / _KINK), algebra.clip(t, -_KINK, _KINK)])


@dataclass(frozen=True)
class DeadZone(AbstractCurve):
    """phi_1(t) = 0 between -1/2 and 1/2, and t -+ 1/2 beyond: nothing happens until something does."""

    @property
    def in_words(self) -> str:
        return "dead zones"

    def evaluate(self, t: Values) -> Table:
        return (t - np.clip(t, -_KINK, _KINK))[..., None]

    def derivative(self, t: Values) -> Table:
        return np.where(np.abs(t) > _KINK, 1.0, 0.0)[..., None]

    def second_derivative(self, t: Values) -> Table:
        return np.zeros((*np.shape(t), 1))

    def _curve(self, algebra: AbstractAlgebra[Any], t: Any) -> Any:
        return algebra.sum([t, algebra.product([algebra.number(-1.0), algebra.clip(t, -_KINK, _KINK)])])


@dataclass(frozen=True)
class Absolute(AbstractCurve):
    """phi_1(t) = abs(t)."""

    @property
    def in_words(self) -> str:
        return "multiples of |u|"

    def evaluate(self, t: Values) -> Table:
        return np.abs(t)[..., None]

    def derivative(self, t: Values) -> Table:
        return np.sign(t)[..., None]

    def second_derivative(self, t: Values) -> Table:
        return np.zeros((*np.shape(t), 1))

    def _curve(self, algebra: AbstractAlgebra[Any], t: Any) -> Any:
        return algebra.apply("abs", t)


@dataclass(frozen=True)
class ReLU(AbstractCurve):
    """phi_1(t) = max(t, 0)."""

    @property
    def in_words(self) -> str:
        return "ReLUs"

    def evaluate(self, t: Values) -> Table:
        return np.maximum(t, 0.0)[..., None]

    def derivative(self, t: Values) -> Table:
        return np.where(t > 0.0, 1.0, 0.0)[..., None]

    def second_derivative(self, t: Values) -> Table:
        return np.zeros((*np.shape(t), 1))

    def _curve(self, algebra: AbstractAlgebra[Any], t: Any) -> Any:
        return algebra.clip(t, 0.0, np.inf)


@dataclass(frozen=True)
class Exponential(AbstractCurve):
    """phi_1(t) = exp(t) - 1."""

    @property
    def in_words(self) -> str:
        return "multiples of exp"

    def evaluate(self, t: Values) -> Table:
        return np.expm1(t)[..., None]

    def derivative(self, t: Values) -> Table:
        return np.exp(t)[..., None]

    def second_derivative(self, t: Values) -> Table:
        return np.exp(t)[..., None]

    def _curve(self, algebra: AbstractAlgebra[Any], t: Any) -> Any:
        return algebra.sum([algebra.apply("exp", t), algebra.number(-1.0)])


@dataclass(frozen=True)
class Logarithm(AbstractCurve):
    """phi_1(t) = log(1 + t) for t >= 0, and its mirror image -log(1 - t) below: it goes on for ever both ways."""

    @property
    def in_words(self) -> str:
        return "multiples of log"

    def evaluate(self, t: Values) -> Table:
        return (np.sign(t) * np.log1p(np.abs(t)))[..., None]

    def derivative(self, t: Values) -> Table:
        return (1.0 / (1.0 + np.abs(t)))[..., None]

    def second_derivative(self, t: Values) -> Table:
        return (np.where(t < 0.0, 1.0, -1.0) / (1.0 + np.abs(t)) ** 2)[..., None]

    def roughness(self, order: int = 2) -> Float[ndarray, "k d"]:  # noqa: ARG002
        """The root of twice the integral of (1 + t)^-4 from 0 to 1: quadrature does not like the kink at 0."""
        return np.array([[np.sqrt(7.0 / 12.0)]])

    def _curve(self, algebra: AbstractAlgebra[Any], t: Any) -> Any:
        one, minus = algebra.number(1.0), algebra.number(-1.0)
        above = algebra.apply("log", algebra.sum([one, algebra.clip(t, 0.0, np.inf)]))
        below = algebra.apply("log", algebra.sum([one, algebra.product([minus, algebra.clip(t, -np.inf, 0.0)])]))
        return algebra.sum([above, algebra.product([minus, below])])


@dataclass(frozen=True)
class Gaussian(AbstractCurve):
    """phi_1(t) = exp(-t^2) - 1."""

    @property
    def in_words(self) -> str:
        return "Gaussian bells"

    def evaluate(self, t: Values) -> Table:
        return np.expm1(-(t**2))[..., None]

    def derivative(self, t: Values) -> Table:
        return (-2.0 * t * np.exp(-(t**2)))[..., None]

    def second_derivative(self, t: Values) -> Table:
        return ((4.0 * t**2 - 2.0) * np.exp(-(t**2)))[..., None]

    def _curve(self, algebra: AbstractAlgebra[Any], t: Any) -> Any:
        bell = algebra.apply("exp", algebra.polynomial([0.0, 0.0, -1.0], t))
        return algebra.sum([bell, algebra.number(-1.0)])


@dataclass(frozen=True)
class Rational(AbstractCurve):
    """phi_1(t) = t / (1 + t^2): rises, turns and fades."""

    @property
    def in_words(self) -> str:
        return "rational functions"

    def evaluate(self, t: Values) -> Table:
        return (t / (1.0 + t**2))[..., None]

    def derivative(self, t: Values) -> Table:
        return ((1.0 - t**2) / (1.0 + t**2) ** 2)[..., None]

    def second_derivative(self, t: Values) -> Table:
        return (2.0 * t * (t**2 - 3.0) / (1.0 + t**2) ** 3)[..., None]

    def _curve(self, algebra: AbstractAlgebra[Any], t: Any) -> Any:
        below = algebra.polynomial([1.0, 0.0, 1.0], t)
        return algebra.product([t, algebra.apply("reciprocal", below)])


class AbstractTwoCurves(AbstractCurve):
    """Two functions on one domain."""

    @property
    def size(self) -> int:
        return 2

    def expression(self, algebra: AbstractAlgebra[Any], t: Any, c: Any) -> Any:
        parts = zip((c[..., 1], c[..., 2]), self._curves(algebra, t), strict=True)
        terms = [algebra.product([algebra.number(a), curve]) for a, curve in parts]
        return algebra.sum([algebra.number(c[..., 0]), *terms])

    def _curves(self, algebra: AbstractAlgebra[Any], t: Any) -> tuple[Any, Any]:
        raise NotImplementedError


@dataclass(frozen=True)
class Friction(AbstractTwoCurves):
    """tanh t and t: dry friction, nearly a sign, and viscous friction beside it."""

    @property
    def in_words(self) -> str:
        return "dry and viscous friction"

    def evaluate(self, t: Values) -> Table:
        return np.stack([np.tanh(t), t], axis=-1)

    def derivative(self, t: Values) -> Table:
        return np.stack([1.0 - np.tanh(t) ** 2, np.ones(np.shape(t))], axis=-1)

    def second_derivative(self, t: Values) -> Table:
        value = np.tanh(t)
        return np.stack([-2.0 * value * (1.0 - value**2), np.zeros(np.shape(t))], axis=-1)

    def _curves(self, algebra: AbstractAlgebra[Any], t: Any) -> tuple[Any, Any]:
        return algebra.apply("tanh", t), t


@dataclass(frozen=True)
class LeakyReLU(AbstractTwoCurves):
    """max(t, 0) and min(t, 0): one slope on each side of a kink."""

    @property
    def in_words(self) -> str:
        return "lines with a kink"

    def evaluate(self, t: Values) -> Table:
        return np.stack([np.maximum(t, 0.0), np.minimum(t, 0.0)], axis=-1)

    def derivative(self, t: Values) -> Table:
        above = np.where(t > 0.0, 1.0, 0.0)
        return np.stack([above, 1.0 - above], axis=-1)

    def second_derivative(self, t: Values) -> Table:
        return np.zeros((*np.shape(t), 2))

    def _curves(self, algebra: AbstractAlgebra[Any], t: Any) -> tuple[Any, Any]:
        return algebra.clip(t, 0.0, np.inf), algebra.clip(t, -np.inf, 0.0)


CURVES: tuple[type[AbstractCurve], ...] = (
    Tanh,
    Sigmoid,
    Saturation,
    DeadZone,
    Absolute,
    ReLU,
    LeakyReLU,
    Friction,
    Exponential,
    Logarithm,
    Gaussian,
    Rational,
)
