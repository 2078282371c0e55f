"""The same function written differently: constants, straight lines, and the canonical form.

Of all ways to write one function, the canonical form has the scales, signs and constants that points choose. All of it
comes from ranges of arguments and from sums over points, so that points need not be in one place. A model in another
shape, more or fewer functions or other bases, starts from the canonical form too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from .._support._errors import InputError
from ..bases import LayerBasis
from ._decoupling import NOT_FINITE, Decoupling
from ._functions import Functions
from ._paratuck import component_shares

_SMALLEST_SCALE = 1e-100  # what is smaller is as good as 0: its inverse, and powers of that, would overflow
_WIDTH_OF_CONSTANTS = 1e-14  # ranges of arguments below this share of their size are rounding
_EQUAL_SIZES = 1e-9  # entries whose sizes differ by a smaller share are equal
_CHANGE_OF_OUTPUTS = 1e-12  # relative: what constants may change the outputs by when they are replaced by smaller ones
_PER_TERM = 4  # points of a grid for each coefficient of a function that is written in another basis
_FAINT = 1e-2  # weight of a new function, relative to the others: with 0 it would have no derivative to follow


def without_inner_constants(model: Decoupling) -> Decoupling:
    """See `Decoupling.without_inner_constants`."""
    layers, shift = [], None
    for l, functions in enumerate(model.g):
        here = functions if shift is None or not shift.any() else functions.shifted(shift)
        if l < model.n_layers - 1:
            shift = model.W[l + 1] @ here.constants
            if here.constants.any():
                C = here.C.copy()
                C[:, 0] = 0.0
                here = here.with_coefficients(C)
        layers.append(here)
    return model.with_parts(g=layers)


def around_zero(model: Decoupling) -> Decoupling:
    """See `Decoupling.around_zero`."""
    for l in range(model.n_layers):
        model = without_inner_constants(model)
        g = list(model.g)
        g[l] = g[l].on_domain((-1.0, 1.0))
        model = model.with_parts(g=g)
    return without_inner_constants(model)


def net_of_linear(model: Decoupling, X: Float[ndarray, "S m"]) -> Decoupling:
    """See `Decoupling.net_of_linear`."""
    if model.n_layers != 1:
        raise InputError(
            f"`net_of_linear` must have a model of one layer: deeper, a straight line inside is not one of x. "
            f"Got L = {model.n_layers}."
        )
    u = model.inner_inputs(X)[0]
    with np.errstate(all="ignore"):
        slopes = model.g[0].slopes(u).mean(axis=0)
    if not np.isfinite(slopes).all():
        raise InputError(NOT_FINITE)
    return net_of_slopes(model, slopes)


def net_of_slopes(model: Decoupling, slopes: Float[ndarray, " r"]) -> Decoupling:
    """`net_of_linear` of a model whose functions have these mean slopes."""
    # Coefficients of the function u itself, constant first; the trends of bases without straight lines stay.
    g, trend = model.g[0], np.array(slopes)
    lines = np.zeros_like(g.C)
    for j, basis in enumerate(g.layer.bases):
        line = basis.line()
        if line is None:
            trend[j] = 0.0
        else:
            lines[j, : 1 + basis.size] = g.half_width[j] * line
            lines[j, 0] += g.middle[j]
    A = (model.W[1] * trend) @ model.W[0]
    functions = g.with_coefficients(g.C - trend[:, None] * lines)
    return model.with_parts(g=[functions], linear=A if model.linear is None else model.linear + A)


# The canonical form


@dataclass(frozen=True)
class Visits:
    """What the canonical form of a model depends on: per layer, the ranges of arguments, and sums over points of the
    squares of slopes and of shares of the Jacobian."""

    count: int
    low: tuple[Float[ndarray, " _"], ...]
    high: tuple[Float[ndarray, " _"], ...]
    squares: tuple[Float[ndarray, " _"], ...]
    shares: tuple[Float[ndarray, " _"], ...]

    @classmethod
    def of(cls, model: Decoupling, X: Float[ndarray, "S m"]) -> Visits:
        """Those of the points X, unchecked."""
        u = model.arguments(X)
        slopes = [g.slopes(argument) for g, argument in zip(model.g, u, strict=True)]
        return cls(
            len(X),
            tuple(argument.min(axis=0) for argument in u),
            tuple(argument.max(axis=0) for argument in u),
            tuple(np.sum(G**2, axis=0) for G in slopes),
            tuple(share.sum(axis=0) for share in component_shares(model.W, slopes)),
        )

    @property
    def finite(self) -> bool:
        """Whether all that must be known is a number."""
        return all(np.isfinite(found).all() for part in (self.low, self.squares, self.shares) for found in part)


def canonical_form(model: Decoupling, X: Float[ndarray, "S m"]) -> Decoupling:
    """See `Decoupling.canonical`."""
    return canonical_form_by(model, lambda plain: net_of_linear(plain, X), lambda plain: Visits.of(plain, X))


def canonical_form_by(
    model: Decoupling, net: Callable[[Decoupling], Decoupling], visits_of: Callable[[Decoupling], Visits]
) -> Decoupling:
    """The canonical form at points that are known by `net_of_linear` and by what they visit, wherever they are."""
    model = without_inner_constants(model)
    if model.linear is not None and model.n_layers == 1:
        model = net(model)
    with np.errstate(all="ignore"):
        visits = visits_of(model)
        if not visits.finite:  # a ridge can make arguments so small that squares of slopes overflow
            model = without_inner_constants(_with_constants_for_vanished(model, visits))
            visits = visits_of(model)
    if not visits.finite:
        raise InputError(NOT_FINITE)
    for l in range(model.n_layers):
        # Earlier layers keep their values, so that only the scale of this layer's own arguments has changed.
        alpha = _argument_scales(model.W[l], model.g[l], visits.low[l], visits.high[l])
        model = model.scaled(l + 1, alpha, np.ones_like(alpha))
        size = np.sqrt(visits.squares[l] / visits.count) / np.abs(alpha)
        after = model.W[-1] if l == model.n_layers - 1 else None
        model = model.scaled(l + 1, np.ones_like(alpha), _value_scales(model.g[l], size, after))
        if model.g[l].layer.shared is not None:  # whoever gave each function its own basis gave them an order too
            shares = np.sqrt(visits.shares[l] / visits.count)  # of the Jacobian: the largest first
            model = model.permuted(l + 1, np.argsort(-shares, kind="stable"))
    # Constants of the last layer: in the offset if there is one, else the smallest that give the same outputs.
    last, offset = model.g[-1], model.offset
    C = last.C.copy()
    C[:, 0] = 0.0 if offset is not None else _smallest_constants(model.W[-1], last.constants)
    offset = None if offset is None else offset + model.W[-1] @ last.constants
    return model.with_parts(g=[*model.g[:-1], last.with_coefficients(C)], offset=offset)


def _with_constants_for_vanished(model: Decoupling, visits: Visits) -> Decoupling:
    """The same function, with constants in place of functions whose arguments do not move."""
    W, g = list(model.W), list(model.g)
    for l, (low, high) in enumerate(zip(visits.low, visits.high, strict=True)):
        value = g[l].values(low[None])[0]
        gone = (high - low < _SMALLEST_SCALE) & np.isfinite(value)
        if gone.any():
            C, domain = g[l].C.copy(), g[l].domain.copy()
            C[gone] = 0.0
            C[gone, 0] = value[gone]
            domain[gone] = (-1.0, 1.0)
            W[l] = np.where(gone[:, None], 0.0, W[l])
            g[l] = Functions(g[l].layer.bases, C, domain, g[l].outside)
    return model.with_parts(W=W, g=g)


def first_largest(A: Float[ndarray, "n r"], axis: int) -> Int[ndarray, " _"]:
    """The place of the entry of largest size: the first of equal ones, so that rounding does not choose a sign."""
    size = np.abs(A)
    return np.argmax(size >= (1.0 - _EQUAL_SIZES) * np.max(size, axis=axis, keepdims=True), axis=axis)


def _argument_scales(
    W: Float[ndarray, "r k"], functions: Functions, low: Float[ndarray, " r"], high: Float[ndarray, " r"]
) -> Float[ndarray, " r"]:
    """What gives arguments a range of length 2, and the largest entry of each row of W a positive sign if it can."""
    half = (high - low) / 2.0
    sign = np.sign(W[np.arange(len(W)), first_largest(W, axis=1)])
    sign = np.where((sign < 0.0) & functions.turns_around, -1.0, 1.0)
    alive = half > np.maximum(_SMALLEST_SCALE, _WIDTH_OF_CONSTANTS * np.maximum(np.abs(low), np.abs(high)))
    return np.where(alive, sign / np.where(alive, half, 1.0), 1.0)


def _value_scales(
    functions: Functions, size: Float[ndarray, " r"], after: Float[ndarray, "n r"] | None
) -> Float[ndarray, " r"]:
    """What gives slopes of root mean square `size` the size 1, and the largest outgoing weight a positive sign.

    Without weights `after` it is the largest coefficient: signs of inner weights are those of the next arguments too.
    """
    signed = functions.C[:, 1:].T if after is None else after
    largest = np.sign(signed[first_largest(signed, axis=0), np.arange(functions.rank)])
    lives = (size > _SMALLEST_SCALE) & np.any(
        functions.C[:, 1:], axis=1
    )  # coefficients may vanish where slopes are tiny
    return np.where(lives, np.where(largest < 0.0, -1.0, 1.0) / np.where(lives, size, 1.0), 1.0)


def _smallest_constants(W: Float[ndarray, "n r"], constants: Float[ndarray, " r"]) -> Float[ndarray, " r"]:
    """The smallest constants of the last layer that give the same outputs; those given if rounding is in the way."""
    wanted = W @ constants
    size = np.linalg.norm(W, axis=1)  # outputs may have very different units
    size = np.where(size > 0.0, size, 1.0)
    smallest = np.linalg.lstsq(W / size[:, None], wanted / size, rcond=None)[0]
    lost = np.any(np.abs(W @ smallest - wanted) > _CHANGE_OF_OUTPUTS * (np.abs(W) @ np.abs(constants)))
    return constants if lost else smallest


# Another shape


def resize_model(
    model: Decoupling, layers: tuple[LayerBasis, ...], X: Float[ndarray, "S m"], rng: np.random.Generator
) -> Decoupling:
    """The model with other layers: coefficients fitted to its functions on the range of the points X.

    A layer that shrinks keeps the functions that carry most; one that grows gets functions of random directions and
    small weight.
    """
    model = model.canonical(X)  # most important functions first
    W, g, z = list(model.W), [], X
    for l, (layer, functions, u) in enumerate(zip(layers, model.g, model.arguments(X), strict=True)):
        rank, kept = len(layer.bases), min(len(layer.bases), functions.rank)
        C = np.zeros((rank, 1 + layer.size))
        # Functions that stay, fitted in the new basis on the same domain.
        for j, (old, basis) in enumerate(zip(functions.layer.bases[:kept], layer.bases, strict=False)):
            c = functions.C[j, : 1 + old.size]
            if old != basis:
                t = (u[:, j] - functions.middle[j]) / functions.half_width[j]
                # Between samples as well: pieces without one would be anything there.
                t = np.concatenate([t, np.linspace(t.min(), t.max(), _PER_TERM * basis.size)])
                values = c[0] + old.evaluate(t) @ c[1:]
                c = np.linalg.lstsq(np.insert(basis.evaluate(t), 0, 1.0, axis=1), values)[0]
            C[j, : 1 + basis.size] = c
        # New functions of random directions, on the range of their arguments, or around a single one.
        for j in range(kept, rank):
            C[j, 1 : 1 + layer.sizes[j]] = rng.normal(size=layer.sizes[j])
        spread = z.std(axis=0)
        new = rng.normal(size=(rank - kept, W[l].shape[1])) / np.where(spread > 0.0, spread, 1.0)
        W[l] = np.vstack([W[l][:kept], new])
        # In the units of each output: a share of thrust in newtons would bury a fuel consumption in kilograms.
        size = _FAINT * np.sqrt(np.mean(W[l + 1] ** 2, axis=1, keepdims=True))
        W[l + 1] = np.hstack([W[l + 1][:, :kept], rng.normal(size=(W[l + 1].shape[0], rank - kept)) * size])
        v = z @ new.T
        low, high = v.min(axis=0, initial=np.inf), v.max(axis=0, initial=-np.inf)
        room = np.where(high > low, 0.0, 1.0)
        domain = np.vstack([functions.domain[:kept], np.stack([low - room, high + room], axis=1)])
        g.append(Functions(layer.bases, C, domain, functions.outside))
        z = g[l].values(z @ W[l].T)
    return model.with_parts(W=W, g=g)
