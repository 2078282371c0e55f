r"""Functions that begin as an activation of a neural network, and may bend from there.

Without hinges the only function is the activation a itself: a layer of these is a layer of a plain network. With k
hinges there are a straight line and k shifted copies of the activation beside it:

    g(u) = c_0 + c_1 a(v) + c_2 v + c_3 (a(v - s_1) - a(-s_1)) + ... + c_{k+2} (a(v - s_k) - a(-s_k)),    v = 4 t.

The window is as wide as activations are curved. The middle of the domain takes the part of a bias, and is found with
everything else. A mirrored ReLU, GELU or SiLU is
among these functions too, since a(-v) = a(v) - v.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from .._support._arguments import as_count, is_word
from .._support._errors import InputError, short_repr
from ._algebra import AbstractAlgebra
from ._named_curves import AbstractCurve, Derivatives, Function, ReLU, Tanh, Values

ActivationName = Literal["relu", "gelu", "silu", "tanh", "sigmoid", "softplus"]
ACTIVATION_NAMES: tuple[ActivationName, ...] = get_args(ActivationName)
_MOST_HINGES = 4  # more are too much alike to be told apart
REACH = 4.0  # of the window, in units of the activation
_N_NODES = 100  # of quadrature
_PLACES = (2.0, -2.0, 1.0, -1.0)  # of hinges, in the same units
_GELU_SLOPE, _GELU_CUBIC = float(np.sqrt(2.0 / np.pi)), 0.044715  # x/2 (1 + tanh(slope (x + cubic x^3)))


@dataclass(frozen=True)
class Activation(AbstractCurve):
    """Functions that begin as an activation of a neural network: what `dc.nn.compress` trains like a network.

    Parameters
    ----------
    name : str
        "relu", "gelu" (in the form with tanh), "silu", "tanh", "sigmoid" or "softplus"; the last two less their value
        at 0.
    hinges : int
        Shifted copies of the activation, and a straight line with them: one function of the basis with none, 2 + k
        functions with k hinges. At most 4.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> ramp = dc.Functions(dc.Activation("relu"), [[0.0, 1.0, 0.0, -1.0]], domain=(-4, 4))  # from 0 to 2
    >>> ramp(np.array([[-1.0], [0.5], [3.0]]))[:, 0]
    array([0. , 0.5, 2. ])
    """

    name: ActivationName = "relu"
    hinges: int = 1

    def __post_init__(self) -> None:
        if not is_word(self.name, ACTIVATION_NAMES):
            known = ", ".join(ACTIVATION_NAMES)
            raise InputError(f"`name` must be one of {known}. Got {short_repr(self.name)}.")
        object.__setattr__(self, "hinges", as_count("hinges", self.hinges, least=0, most=_MOST_HINGES))

    @property
    def phi(self) -> tuple[Derivatives, ...]:  # type: ignore[override]  # of each instance
        own = _activation_from(self.name, 0.0)
        return (own, _LINE, *(_activation_from(self.name, place) for place in self.places)) if self.hinges else (own,)

    @property
    def is_activation(self) -> bool:
        return True

    @property
    def places(self) -> tuple[float, ...]:
        """Places of the hinges, in units of the activation."""
        return _PLACES[: self.hinges]

    def roughness(self, order: int = 2) -> Float[ndarray, "k d"]:
        """By more points than usual: activations bend within a part of the window."""
        assert order == 2
        nodes, weights = np.polynomial.legendre.leggauss(_N_NODES)
        return np.sqrt(weights)[:, None] * self.second_derivative(nodes)

    @property
    def words(self) -> str:  # type: ignore[override]
        kind = {"relu": "ReLU", "gelu": "GELU", "silu": "SiLU"}.get(self.name, self.name)
        if not self.hinges:
            return "ReLUs" if self.name == "relu" else f"multiples of {kind}"
        return f"{kind} functions with {self.hinges} hinge{'s' * (self.hinges > 1)}"

    def _curves(self, algebra: AbstractAlgebra[Any], t: Any) -> tuple[Any, ...]:
        return self.curves_of(algebra, algebra.product([algebra.number(REACH), t]))

    def curves_of(self, algebra: AbstractAlgebra[Any], v: Any) -> tuple[Any, ...]:
        """The functions of v = 4 t, written with the arithmetic of `algebra`."""
        curves = zip(self.moved_curves_of(algebra, v), self.moved_by, strict=True)
        return tuple(algebra.sum([curve, algebra.number(-by)]) if by else curve for curve, by in curves)

    def moved_curves_of(self, algebra: AbstractAlgebra[Any], v: Any) -> tuple[Any, ...]:
        """The same, with their values at 0, which are `moved_by`: a(v), v, a(v - s_1), ..."""
        moved = [algebra.sum([v, algebra.number(-place)]) for place in self.places]
        own, *others = [self._write(algebra, at) for at in (v, *moved)]
        return (own, v, *others) if self.hinges else (own,)

    @property
    def moved_by(self) -> tuple[float, ...]:
        """Values at 0 of `moved_curves_of`."""
        own, *others = (float(_at(self.name, -place)) for place in (0.0, *self.places))
        return (own, 0.0, *others) if self.hinges else (own,)

    def _write(self, algebra: AbstractAlgebra[Any], at: Any) -> Any:
        value = algebra.activation(self.name, at)
        return _formula(self.name, algebra, at) if value is None else value


def _formula(name: str, algebra: AbstractAlgebra[Any], t: Any) -> Any:
    """An activation in the arithmetic of `algebra`."""
    number, half = algebra.number, algebra.number(0.5)
    if name == "relu":
        return algebra.clip(t, 0.0, np.inf)
    if name == "tanh":
        return algebra.apply("tanh", t)
    if name == "softplus":  # without an exponential that overflows
        small = algebra.apply("exp", algebra.product([number(-1.0), algebra.apply("abs", t)]))
        return algebra.sum([algebra.clip(t, 0.0, np.inf), algebra.apply("log", algebra.sum([number(1.0), small]))])
    inner = algebra.product([half, t])
    if name == "gelu":
        inner = algebra.polynomial([0.0, _GELU_SLOPE, 0.0, _GELU_SLOPE * _GELU_CUBIC], t)
    share = algebra.sum([half, algebra.product([half, algebra.apply("tanh", inner)])])
    return share if name == "sigmoid" else algebra.product([t, share])


# Values, first and second derivatives


def _sigmoid(t: Values) -> Values:
    return 0.5 + 0.5 * np.tanh(0.5 * t)


def _sigmoid_slope(t: Values) -> Values:
    return _sigmoid(t) * _sigmoid(-t)


def _sigmoid_bend(t: Values) -> Values:
    return _sigmoid_slope(t) * (_sigmoid(-t) - _sigmoid(t))


def _gelu_share(t: Values) -> Values:
    """What GELU multiplies t by, and, below, its derivatives."""
    return 0.5 * (1.0 + np.tanh(_GELU_SLOPE * (t + _GELU_CUBIC * t**3)))


def _gelu_share_slope(t: Values) -> Values:
    share = _gelu_share(t)
    return 2.0 * share * (1.0 - share) * _GELU_SLOPE * (1.0 + 3.0 * _GELU_CUBIC * t**2)


def _gelu_share_bend(t: Values) -> Values:
    share, slope = _gelu_share(t), _gelu_share_slope(t)
    inner = _GELU_SLOPE * (1.0 + 3.0 * _GELU_CUBIC * t**2)
    return 2.0 * slope * (1.0 - 2.0 * share) * inner + 12.0 * share * (1.0 - share) * _GELU_SLOPE * _GELU_CUBIC * t


def _times_argument(share: Function, slope: Function, bend: Function) -> Derivatives:
    """t h(t), from h and its derivatives."""
    return (
        lambda t: t * share(t),
        lambda t: share(t) + t * slope(t),
        lambda t: 2.0 * slope(t) + t * bend(t),
    )


_SIGMOID: Derivatives = (_sigmoid, _sigmoid_slope, _sigmoid_bend)
_ACTIVATIONS: dict[str, Derivatives] = {
    "relu": ReLU.phi[0],
    "gelu": _times_argument(_gelu_share, _gelu_share_slope, _gelu_share_bend),
    "silu": _times_argument(*_SIGMOID),
    "tanh": Tanh.phi[0],
    "sigmoid": _SIGMOID,
    "softplus": (lambda t: np.logaddexp(0.0, t), _sigmoid, _sigmoid_slope),
}


_LINE: Derivatives = (lambda t: REACH * t, lambda t: np.full_like(t, REACH), np.zeros_like)


def _activation_from(name: str, place: float) -> Derivatives:
    """The activation from a place on, less its value at t = 0, as a function on the window."""
    value, slope, bend = _ACTIVATIONS[name]
    at_zero = _at(name, -place)
    return (
        lambda t: value(REACH * t - place) - at_zero,
        lambda t: REACH * slope(REACH * t - place),
        lambda t: REACH**2 * bend(REACH * t - place),
    )


def _at(name: str, v: float) -> float:
    return float(_ACTIVATIONS[name][0](np.array([v]))[0])
