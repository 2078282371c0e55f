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
from dataclasses import dataclass
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
_MOST_DIGITS = 1000
_ALL_DIGITS = 17

Shown = Callable[[float, int], str]  # a number, with so many digits more than usual


@dataclass(frozen=True, eq=False)
class Linear:
    """target = sum of coefficient times variable, plus a constant.

    `extra` digits are needed where the constant takes away most of the sum.
    """

    target: Name
    terms: tuple[tuple[float, Name], ...]
    constant: float
    extra: int = 0


@dataclass(frozen=True, eq=False)
class Univariate:
    """target = g(argument), on the domain from middle - half to middle + half, with coefficients constant first."""

    target: Name
    argument: Name
    basis: AbstractBasis
    c: Float[ndarray, " e"]
    middle: float
    half: float
    outside: Outside
    extra: int = 0


Equation = Linear | Univariate


def equations(
    model: Decoupling, x: tuple[Name, ...], y: tuple[Name, ...], *, shifted: bool, rounded: bool
) -> list[Equation]:
    """The equations of a model in the order in which they are computed.

    `shifted` takes the middles of domains from the arguments, and `rounded` leaves out what is nothing but rounding.
    """
    found: list[Equation] = []
    of_u, of_z = free_letter("uvs", (*x, *y)), free_letter("zwh", (*x, *y))
    entering = x
    for l, (W, g) in enumerate(zip(model.W[:-1], model.g, strict=True), start=1):
        prefix = (l,) if model.n_layers > 1 else ()
        u = tuple(Name(of_u, (*prefix, j + 1)) for j in range(g.rank))
        z = tuple(Name(of_z, (*prefix, j + 1)) for j in range(g.rank))
        functions = []
        for j, basis in enumerate(g.layer.bases):
            middle, half = float(g.middle[j]), float(g.half_width[j])
            if rounded and abs(middle) <= _NO_SHIFT * half:
                middle = 0.0
            extra = max(0, floor(log10(abs(middle) / half))) if middle else 0
            found.append(Linear(u[j], _terms(W[j], entering, rounded), -middle if shifted else 0.0, extra))
            c = _without_noise(g.C[j, : 1 + basis.size], rounded)
            functions.append(Univariate(z[j], u[j], basis, c, 0.0 if shifted else middle, half, g.outside, extra))
        found += functions
        entering = z
    for i, name in enumerate(y):
        terms = _terms(model.W[-1][i], entering, rounded)
        if model.linear is not None:
            terms += _terms(model.linear[i], x, rounded)
        found.append(Linear(name, terms, 0.0 if model.offset is None else float(model.offset[i])))
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
    """How numbers are shown: with so many significant digits, or with all."""
    if digits is None:
        return lambda value, _extra: repr(float(value))
    places = as_count("digits", digits, most=_MOST_DIGITS)
    return lambda value, extra: f"{value:.{min(places + extra, max(places, _ALL_DIGITS))}g}"


def finite(value: Any) -> float:
    """A number, unless it has overflown on the way to a formula."""
    if not np.isfinite(value):
        raise InputError(
            f"The model must have coefficients that can be written as numbers. Got {value}: rescale it with "
            "`Decoupling.canonical`."
        )
    return float(value)


def _terms(row: Float[ndarray, " k"], names: tuple[Name, ...], rounded: bool) -> tuple[tuple[float, Name], ...]:
    return tuple((float(w), name) for w, name in zip(_without_noise(row, rounded), names, strict=True))


def _without_noise(c: Float[ndarray, " k"], rounded: bool) -> Float[ndarray, " k"]:
    """Coefficients that are nothing but rounding, beside the largest of their sum, are 0."""
    return np.where(np.abs(c) > NOISE * np.max(np.abs(c)), c, 0.0) if rounded else c
