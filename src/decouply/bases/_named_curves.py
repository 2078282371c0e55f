"""Bases whose domain is found with everything else: curves that engineers have names for, and waves.

A domain that is free gives a curve its place and its width, so that one coefficient is left for its height. The kinks
of `Saturation` and `DeadZone` are a quarter of the domain away from its ends. Of waves it sets the frequency.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from .._support._arguments import as_count
from ._abstract import MOST_FUNCTIONS, AbstractBasis
from ._algebra import AbstractAlgebra

Values = Float[ndarray, "*shape"]
Table = Float[ndarray, "*shape d"]
Function = Callable[[Any], Any]
Derivatives = tuple[Function, Function, Function]  # values, first and second derivatives
_KINK = 0.5  # of the half-width: where saturations and dead zones begin and end


class AbstractCurve(AbstractBasis):
    """One function phi(t), or two, on a domain that is to be found."""

    words: ClassVar[str]  # what `in_words` says
    phi: ClassVar[tuple[Derivatives, ...]]  # one or two functions

    @property
    def size(self) -> int:
        return len(self.phi)

    @property
    def free_domain(self) -> bool:
        return True

    @property
    def in_words(self) -> str:
        return self.words

    def evaluate(self, t: Values) -> Table:
        return np.stack([value(t) for value, _, _ in self.phi], axis=-1)

    def derivative(self, t: Values) -> Table:
        return np.stack([slope(t) for _, slope, _ in self.phi], axis=-1)

    def second_derivative(self, t: Values) -> Table:
        return np.stack([bend(t) for _, _, bend in self.phi], axis=-1)

    def expression(self, algebra: AbstractAlgebra[Any], t: Any, c: Any) -> Any:
        curves = enumerate(self._curves(algebra, t), start=1)
        terms = [algebra.product([algebra.number(c[..., k]), curve]) for k, curve in curves]
        return algebra.sum([algebra.number(c[..., 0]), *terms])

    @abc.abstractmethod
    def _curves(self, algebra: AbstractAlgebra[Any], t: Any) -> tuple[Any, ...]:
        """The functions phi_k(t), written with the arithmetic of `algebra`."""


def _tanh_bend(t: Values) -> Values:
    value = np.tanh(t)
    return -2.0 * value * (1.0 - value**2)


_TANH: Derivatives = (np.tanh, lambda t: 1.0 - np.tanh(t) ** 2, _tanh_bend)


@dataclass(frozen=True)
class Tanh(AbstractCurve):
    """phi_1(t) = tanh t. A domain [a, b] puts the centre at (a + b) / 2 and the slope there at 2 / (b - a).

    >>> import decouply as dc, numpy as np
    >>> g = dc.Functions(dc.bases.Tanh(), [[0.0, 1.0]], domain=(2.0, 4.0))
    >>> g(np.array([[3.0]])), g.derivative(np.array([[3.0]]))
    (array([[0.]]), array([[1.]]))
    """

    words = "multiples of tanh"
    phi = (_TANH,)

    def _curves(self, algebra: AbstractAlgebra[Any], t: Any) -> tuple[Any, ...]:
        return (algebra.apply("tanh", t),)


@dataclass(frozen=True)
class Sigmoid(AbstractCurve):
    """phi_1(t) = 1 / (1 + exp(-t)) - 1/2, which is tanh(t / 2) / 2.

    >>> import decouply as dc, numpy as np
    >>> dc.bases.Sigmoid().evaluate(np.array([-2.0, 0.0, 2.0])).ravel().round(3)
    array([-0.381,  0.   ,  0.381])
    """

    words = "multiples of a sigmoid"
    phi = (
        (
            lambda t: 0.5 * np.tanh(0.5 * t),
            lambda t: 0.25 * (1.0 - np.tanh(0.5 * t) ** 2),
            lambda t: 0.125 * _tanh_bend(0.5 * t),
        ),
    )

    def _curves(self, algebra: AbstractAlgebra[Any], t: Any) -> tuple[Any, ...]:
        inner = algebra.product([algebra.number(0.5), t])
        return (algebra.product([algebra.number(0.5), algebra.apply("tanh", inner)]),)


@dataclass(frozen=True)
class Saturation(AbstractCurve):
    """phi_1(t) = 2 t between -1/2 and 1/2, and -1 or 1 beyond: a line that meets its limits.

    >>> import decouply as dc, numpy as np
    >>> dc.bases.Saturation().evaluate(np.array([-2.0, 0.0, 2.0])).ravel().round(3)
    array([-1.,  0.,  1.])
    """

    words = "saturations"
    phi = (
        (
            lambda t: np.clip(t / _KINK, -1.0, 1.0),
            lambda t: np.where(np.abs(t) <= _KINK, 1.0 / _KINK, 0.0),
            np.zeros_like,
        ),
    )

    def _curves(self, algebra: AbstractAlgebra[Any], t: Any) -> tuple[Any, ...]:
        return (algebra.product([algebra.number(1.0 / _KINK), algebra.clip(t, -_KINK, _KINK)]),)


@dataclass(frozen=True)
class DeadZone(AbstractCurve):
    """phi_1(t) = 0 between -1/2 and 1/2, and t -+ 1/2 beyond: nothing happens until something does.

    >>> import decouply as dc, numpy as np
    >>> dc.bases.DeadZone().evaluate(np.array([-2.0, 0.0, 2.0])).ravel().round(3)
    array([-1.5,  0. ,  1.5])
    """

    words = "dead zones"
    phi = ((lambda t: t - np.clip(t, -_KINK, _KINK), lambda t: np.where(np.abs(t) > _KINK, 1.0, 0.0), np.zeros_like),)

    def _curves(self, algebra: AbstractAlgebra[Any], t: Any) -> tuple[Any, ...]:
        return (algebra.sum([t, algebra.product([algebra.number(-1.0), algebra.clip(t, -_KINK, _KINK)])]),)


@dataclass(frozen=True)
class Absolute(AbstractCurve):
    """phi_1(t) = abs(t).

    >>> import decouply as dc, numpy as np
    >>> dc.bases.Absolute().evaluate(np.array([-2.0, 0.0, 2.0])).ravel().round(3)
    array([2., 0., 2.])
    """

    words = "multiples of |u|"
    phi = ((np.abs, np.sign, np.zeros_like),)

    def _curves(self, algebra: AbstractAlgebra[Any], t: Any) -> tuple[Any, ...]:
        return (algebra.apply("abs", t),)


@dataclass(frozen=True)
class ReLU(AbstractCurve):
    """phi_1(t) = max(t, 0).

    >>> import decouply as dc, numpy as np
    >>> dc.bases.ReLU().evaluate(np.array([-2.0, 0.0, 2.0])).ravel().round(3)
    array([0., 0., 2.])
    """

    words = "ReLUs"
    phi = ((lambda t: np.maximum(t, 0.0), lambda t: np.where(t > 0.0, 1.0, 0.0), np.zeros_like),)

    def _curves(self, algebra: AbstractAlgebra[Any], t: Any) -> tuple[Any, ...]:
        return (algebra.clip(t, 0.0, np.inf),)


@dataclass(frozen=True)
class Exponential(AbstractCurve):
    """phi_1(t) = exp(t) - 1.

    >>> import decouply as dc, numpy as np
    >>> dc.bases.Exponential().evaluate(np.array([-2.0, 0.0, 2.0])).ravel().round(3)
    array([-0.865,  0.   ,  6.389])
    """

    words = "multiples of exp"
    phi = ((np.expm1, np.exp, np.exp),)

    def _curves(self, algebra: AbstractAlgebra[Any], t: Any) -> tuple[Any, ...]:
        return (algebra.sum([algebra.apply("exp", t), algebra.number(-1.0)]),)


@dataclass(frozen=True)
class Logarithm(AbstractCurve):
    """phi_1(t) = log(1 + t) for t >= 0, and its mirror image -log(1 - t) below: it goes on for ever both ways.

    >>> import decouply as dc, numpy as np
    >>> dc.bases.Logarithm().evaluate(np.array([-0.5, 0.0, 0.5])).ravel().round(3)
    array([-0.405,  0.   ,  0.405])
    """

    words = "multiples of log"
    phi = (
        (
            lambda t: np.sign(t) * np.log1p(np.abs(t)),
            lambda t: 1.0 / (1.0 + np.abs(t)),
            lambda t: np.where(t < 0.0, 1.0, -1.0) / (1.0 + np.abs(t)) ** 2,
        ),
    )

    def roughness(self, order: int = 2) -> Float[ndarray, "k d"]:  # noqa: ARG002
        """The root of twice the integral of (1 + t)^-4 from 0 to 1: quadrature does not like the kink at 0."""
        return np.array([[np.sqrt(7.0 / 12.0)]])

    def _curves(self, algebra: AbstractAlgebra[Any], t: Any) -> tuple[Any, ...]:
        one, minus = algebra.number(1.0), algebra.number(-1.0)
        above = algebra.apply("log", algebra.sum([one, algebra.clip(t, 0.0, np.inf)]))
        below = algebra.apply("log", algebra.sum([one, algebra.product([minus, algebra.clip(t, -np.inf, 0.0)])]))
        return (algebra.sum([above, algebra.product([minus, below])]),)


@dataclass(frozen=True)
class Gaussian(AbstractCurve):
    """phi_1(t) = exp(-t^2) - 1.

    >>> import decouply as dc, numpy as np
    >>> dc.bases.Gaussian().evaluate(np.array([-2.0, 1.0, 2.0])).ravel().round(3)
    array([-0.982, -0.632, -0.982])
    """

    words = "Gaussian bells"
    phi = (
        (
            lambda t: np.expm1(-(t**2)),
            lambda t: -2.0 * t * np.exp(-(t**2)),
            lambda t: (4.0 * t**2 - 2.0) * np.exp(-(t**2)),
        ),
    )

    def _curves(self, algebra: AbstractAlgebra[Any], t: Any) -> tuple[Any, ...]:
        bell = algebra.apply("exp", algebra.polynomial([0.0, 0.0, -1.0], t))
        return (algebra.sum([bell, algebra.number(-1.0)]),)


@dataclass(frozen=True)
class Rational(AbstractCurve):
    """phi_1(t) = t / (1 + t^2): rises, turns and fades.

    >>> import decouply as dc, numpy as np
    >>> dc.bases.Rational().evaluate(np.array([-2.0, 0.0, 2.0])).ravel().round(3)
    array([-0.4,  0. ,  0.4])
    """

    words = "rational functions"
    phi = (
        (
            lambda t: t / (1.0 + t**2),
            lambda t: (1.0 - t**2) / (1.0 + t**2) ** 2,
            lambda t: 2.0 * t * (t**2 - 3.0) / (1.0 + t**2) ** 3,
        ),
    )

    def _curves(self, algebra: AbstractAlgebra[Any], t: Any) -> tuple[Any, ...]:
        below = algebra.polynomial([1.0, 0.0, 1.0], t)
        return (algebra.product([t, algebra.apply("reciprocal", below)]),)


@dataclass(frozen=True)
class Friction(AbstractCurve):
    """tanh t and t: dry friction, nearly a sign, and viscous friction beside it.

    >>> import decouply as dc, numpy as np
    >>> dc.bases.Friction().evaluate(np.array([-2.0, 0.0, 2.0])).round(3)
    array([[-0.964, -2.   ],
           [ 0.   ,  0.   ],
           [ 0.964,  2.   ]])
    """

    words = "dry and viscous friction"
    phi = (_TANH, (lambda t: t, np.ones_like, np.zeros_like))

    def _curves(self, algebra: AbstractAlgebra[Any], t: Any) -> tuple[Any, ...]:
        return algebra.apply("tanh", t), t


@dataclass(frozen=True)
class LeakyReLU(AbstractCurve):
    """max(t, 0) and min(t, 0): one slope on each side of a kink.

    >>> import decouply as dc, numpy as np
    >>> dc.bases.LeakyReLU().evaluate(np.array([-2.0, 0.0, 2.0])).round(3)
    array([[ 0., -2.],
           [ 0.,  0.],
           [ 2.,  0.]])
    """

    words = "lines with a kink"
    phi = (
        (lambda t: np.maximum(t, 0.0), lambda t: np.where(t > 0.0, 1.0, 0.0), np.zeros_like),
        (lambda t: np.minimum(t, 0.0), lambda t: np.where(t > 0.0, 0.0, 1.0), np.zeros_like),
    )

    def _curves(self, algebra: AbstractAlgebra[Any], t: Any) -> tuple[Any, ...]:
        return algebra.clip(t, 0.0, np.inf), algebra.clip(t, -np.inf, 0.0)


@dataclass(frozen=True)
class Trigonometric(AbstractBasis):
    """The first `count` of cos t, sin t, cos 2t, sin 2t, ...

    Parameters
    ----------
    count : int
        Number of functions.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> dc.bases.Trigonometric(3).evaluate(np.array([0.0]))
    array([[1., 0., 1.]])
    """

    count: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", as_count("count", self.count, most=MOST_FUNCTIONS))

    @property
    def size(self) -> int:
        return self.count

    @property
    def free_domain(self) -> bool:
        return True

    @property
    def in_words(self) -> str:
        return f"sums of {self.count} cosines and sines"

    def evaluate(self, t: Float[ndarray, "*shape"]) -> Float[ndarray, "*shape d"]:
        cos, sin, _ = self._waves(t)
        return self._interleave(cos, sin)

    def derivative(self, t: Float[ndarray, "*shape"]) -> Float[ndarray, "*shape d"]:
        cos, sin, k = self._waves(t)
        return self._interleave(-k * sin, k * cos)

    def second_derivative(self, t: Float[ndarray, "*shape"]) -> Float[ndarray, "*shape d"]:
        cos, sin, k = self._waves(t)
        return self._interleave(-(k**2) * cos, -(k**2) * sin)

    def expression(self, algebra: AbstractAlgebra[Any], t: Any, c: Any) -> Any:
        terms = [algebra.number(c[..., 0])]
        for i in range(1, self.count + 1):
            k = (i + 1) // 2
            at = t if k == 1 else algebra.product([algebra.number(float(k)), t])
            wave = algebra.apply("cos" if i % 2 else "sin", at)
            terms.append(algebra.product([algebra.number(c[..., i]), wave]))
        return algebra.sum(terms)

    def _waves(self, t: Float[ndarray, "*shape"]) -> tuple[ndarray, ndarray, ndarray]:
        """cos(k t), sin(k t) and k, for k = 1, 2, ... along a last axis."""
        k = np.arange(1.0, (self.count + 1) // 2 + 1)
        return np.cos(t[..., None] * k), np.sin(t[..., None] * k), k

    def _interleave(self, first: ndarray, second: ndarray) -> ndarray:
        pairs = np.stack([first, second], axis=-1)  # (..., k, 2)
        return pairs.reshape(*first.shape[:-1], -1)[..., : self.count]


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
