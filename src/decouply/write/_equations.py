r"""A decoupling as a list of equations, each a linear combination or a univariate function.

    u_l = W_(l-1) z_(l-1),   z_l = g_l(u_l),   y = W_L z_L + A x + b.

All kinds of formulas are written from this list. For people the middle of a domain is taken from the argument,
u = W x - middle, so that functions are powers of a variable that runs around 0. Beyond its domain a function goes on by
its tangents: with t_c = clip(t, -1, 1),

    g(t_c) + g'(1) max(t - 1, 0) + g'(-1) min(t + 1, 0),

in which the slopes are numbers; functions that are held are g(t_c).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from itertools import count
from math import floor, log10
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from .._support._arguments import as_count
from .._support._errors import InputError
from ..bases import AbstractAlgebra, AbstractBasis
from ..model._decoupling import Decoupling
from ..model._functions import Outside
from ..model._names import Name

NOISE = 1e-15  # coefficients that are so much smaller than others of their sum are left out of rounded formulas
_NO_SHIFT = 1e-14  # of the half-width: a middle that is nothing but rounding
MOST_DIGITS = 1000
_ALL_DIGITS = 17

Shown = Callable[[float, int], str]  # a number, with so many digits more than usual


@dataclass(frozen=True, eq=False)
class Linear:
    """target = sum of coefficient times variable, plus a constant; or `factor` times that.

    `extra` digits are needed if the constant takes away most of the sum.
    """

    target: Name
    terms: tuple[tuple[float, Name], ...]
    constant: float
    extra: int = 0
    factor: Name | None = None


@dataclass(frozen=True, eq=False)
class Univariate:
    """target = g(argument), on the domain from middle - half to middle + half, with coefficients constant first.

    Or g'(argument), for `order` 1.
    """

    target: Name
    argument: Name
    basis: AbstractBasis
    c: Float[ndarray, " e"]
    middle: float
    half: float
    outside: Outside
    extra: int = 0
    domain: tuple[float, float] | None = None  # where it is not around the middle
    order: int = 0

    @property
    def limits(self) -> tuple[float, float]:
        """The ends of the domain."""
        return self.domain or (self.middle - self.half, self.middle + self.half)


Equation = Linear | Univariate


def equations(
    model: Decoupling, x: tuple[Name, ...], y: tuple[Name, ...], *, shifted: bool, rounded: bool
) -> list[Equation]:
    """The equations of a model in the order in which they are computed.

    `shifted` takes the middles of domains from the arguments, and `rounded` leaves out what is nothing but rounding.
    """
    layers = _layers(model, x, (*x, *y), shifted=shifted, rounded=rounded)
    found: list[Equation] = [e for layer in layers for part in layer for e in part]
    behind = tuple(e.target for e in layers[-1][1])
    for i, name in enumerate(y):
        terms = _terms(model.W[-1][i], behind, rounded)
        if model.linear is not None:
            terms += _terms(model.linear[i], x, rounded)
        found.append(Linear(name, terms, 0.0 if model.offset is None else float(model.offset[i])))
    return found


def jacobian_equations(
    model: Decoupling, x: tuple[Name, ...], taken: tuple[Name, ...], *, rounded: bool
) -> tuple[list[Equation], tuple[tuple[Name, ...], ...]]:
    r"""The equations of a Jacobian, and what its entries are called, row by row.

    With s_l = g_l'(u_l) and D_l = diag(s_l), rows are multiplied from the left, output by output:

        a_L = W_L D_L,   a_l = a_(l+1) W_l D_l,   J = a_1 W_0 + A.
    """
    of_s, of_a, of_J = free_letter("grq", taken), free_letter("ael", taken), free_letter("JNM", taken)
    layers = _layers(model, x, taken, shifted=False, rounded=rounded)
    found: list[Equation] = []
    slopes = []
    for l, (linears, functions) in enumerate(layers, start=1):
        slopes.append([replace(e, target=Name(of_s, e.target.indices), order=1) for e in functions])
        found += [*linears, *(functions if l < model.n_layers else ()), *slopes[-1]]
    weights = [np.array([_without_noise(row, rounded) for row in W]) for W in model.W]
    entries = tuple(tuple(Name(of_J, (i + 1, j + 1)) for j in range(len(x))) for i in range(model.n_outputs))
    for i, row in enumerate(entries):
        behind: tuple[Name, ...] = ()
        for W, of_layer in zip(weights[:0:-1], reversed(slopes), strict=True):
            a = tuple(Name(of_a, (i + 1, *e.target.indices)) for e in of_layer)
            for k, (name, e) in enumerate(zip(a, of_layer, strict=True)):
                terms = _terms(W[:, k], behind) if behind else ()
                constant = 0.0 if behind else float(W[i, k])
                found.append(Linear(name, terms, constant, factor=e.target))
            behind = a
        for j, name in enumerate(row):
            constant = 0.0 if model.linear is None else float(model.linear[i, j])
            found.append(Linear(name, _terms(weights[0][:, j], behind), constant))
    return found, entries


def _layers(
    model: Decoupling, x: tuple[Name, ...], taken: tuple[Name, ...], *, shifted: bool, rounded: bool
) -> list[tuple[list[Linear], list[Univariate]]]:
    """u_l = W_(l-1) z_(l-1) and z_l = g_l(u_l) of every layer."""
    found = []
    of_u, of_z = free_letter("uvs", taken), free_letter("zwh", taken)
    entering = x
    for l, (W, g) in enumerate(zip(model.W[:-1], model.g, strict=True), start=1):
        prefix = (l,) if model.n_layers > 1 else ()
        u = tuple(Name(of_u, (*prefix, j + 1)) for j in range(g.rank))
        z = tuple(Name(of_z, (*prefix, j + 1)) for j in range(g.rank))
        linears, functions = [], []
        for j, basis in enumerate(g.layer.bases):
            middle, half = float(g.middle[j]), float(g.half_width[j])
            if rounded and abs(middle) <= _NO_SHIFT * half:
                middle = 0.0
            extra = max(0, floor(log10(abs(middle) / half))) if middle else 0
            linears.append(Linear(u[j], _terms(W[j], entering, rounded), -middle if shifted else 0.0, extra))
            c = _without_noise(g.C[j, : 1 + basis.size], rounded)
            functions.append(Univariate(z[j], u[j], basis, c, 0.0 if shifted else middle, half, g.outside, extra))
        found.append((linears, functions))
        entering = z
    return found


def function(
    algebra: AbstractAlgebra[Any], basis: AbstractBasis, t: Any, c: Float[ndarray, "*functions e"], outside: Outside
) -> Any:
    """g(t), for the coefficients of one function or of several that share a basis."""
    if outside == "extend":
        return basis.expression(algebra, t, c)
    value = basis.expression(algebra, algebra.clip(t, -1.0, 1.0), c)
    if outside == "constant":
        return value
    first, last = np.moveaxis(c[..., 1:] @ basis.derivative(np.array([-1.0, 1.0])).T, -1, 0)
    above = algebra.clip(algebra.sum([t, algebra.number(-1.0)]), 0.0, np.inf)
    below = algebra.clip(algebra.sum([t, algebra.number(1.0)]), -np.inf, 0.0)
    tails = [algebra.product([algebra.number(slope), part]) for slope, part in ((last, above), (first, below))]
    return algebra.sum([value, *tails])


def free_letter(letters: str, taken: Collection[Name]) -> str:
    """A beginning for our own variables that no name of the user has."""
    used = [unicodedata.normalize("NFKC", text) for name in taken for text in (name.text, name.python)]
    candidates = (letter * k for k in count(1) for letter in letters)
    return next(c for c in candidates if not any(text.startswith(c) for text in used))


def rounding(digits: int | None) -> Shown:
    """How numbers are shown: with this many significant digits, or with all."""
    if digits is None:
        return lambda value, _extra: repr(float(value))
    places = as_count("digits", digits, most=MOST_DIGITS)
    return lambda value, extra: f"{value:.{min(places + extra, max(places, _ALL_DIGITS))}g}"


def finite(value: Any) -> float:
    """A number, unless it has overflown on the way to a formula."""
    if not np.isfinite(value):
        raise InputError(
            f"The model must have coefficients that can be written as numbers. Got {value}: rescale it with "
            "`Decoupling.canonical`."
        )
    return float(value)


def _terms(row: Float[ndarray, " k"], names: tuple[Name, ...], rounded: bool = False) -> tuple[tuple[float, Name], ...]:
    return tuple((float(w), name) for w, name in zip(_without_noise(row, rounded), names, strict=True))


def _without_noise(c: Float[ndarray, " k"], rounded: bool) -> Float[ndarray, " k"]:
    """Coefficients that are nothing but rounding, beside the largest of their sum, are 0."""
    return np.where(np.abs(c) > NOISE * np.max(np.abs(c)), c, 0.0) if rounded else c
