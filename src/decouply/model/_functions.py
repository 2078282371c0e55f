r"""One layer of univariate functions, each on its domain [a_j, b_j].

.. math:: g_j(u) = c_{j0} + \sum_k c_{jk} \phi_k(t), \qquad t = (2 u - a_j - b_j) / (b_j - a_j).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from .._support._arguments import ReadOnlyArrays, as_array, as_points, is_word, read_array, warn_nonfinite
from .._support._errors import InputError, short_repr
from ..bases import AbstractBasis, LayerBasis

Outside = Literal["extend", "linear", "constant"]
OUTSIDE: tuple[Outside, ...] = ("extend", "linear", "constant")
_SAME_FUNCTION = 1e-9  # of the largest value: what a function may change by when it is written in other coefficients
_PLURAL = re.compile(r"\b(polynomial|spline|sum|multiple|saturation|zone|ReLU|bell|function|line|combination)s\b")


@dataclass(frozen=True, eq=False)
class Functions(ReadOnlyArrays):
    """The internal functions g_1, ..., g_r of one layer.

    Parameters
    ----------
    basis : AbstractBasis or tuple of AbstractBasis
        One basis for all functions, or a tuple with one for each.
    C : (r, 1 + d)
        Coefficients, constant first. With one basis per function, d is the largest size and the coefficients past a
        function's own size must be 0.
    domain : (2,) or (r, 2)
        The interval [a, b] that is mapped to the window [-1, 1] of the basis, for all functions or for each.
    outside : "extend", "linear" or "constant"
        What functions do beyond their domain: their formula goes on ("extend"), they continue linearly
        ("linear"), or they keep the value at the end ("constant").

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> g = dc.Functions(dc.Monomial(2), [[1.0, 0.0, 3.0]])
    >>> g(np.array([[2.0]])), g.derivative(np.array([[2.0]]))
    (array([[13.]]), array([[12.]]))
    >>> dc.Functions(dc.Monomial(2), [[1.0, 0.0, 3.0]], domain=(0.0, 2.0), outside="constant")(np.array([[2.0], [9.0]]))
    array([[4.],
           [4.]])
    """

    layer: LayerBasis
    C: Float[ndarray, "r e"]
    domain: Float[ndarray, "r 2"]
    outside: Outside

    def __init__(
        self,
        basis: AbstractBasis | tuple[AbstractBasis, ...],
        C: object,
        domain: object = (-1.0, 1.0),
        outside: Outside = "extend",
    ) -> None:
        coefficients = as_array("C", C, ("r", "1 + d"))
        rank = coefficients.shape[0]
        if rank == 0:
            raise InputError("`C` must have at least one row: one per internal function. Got none.")
        layer = LayerBasis.of(basis, rank)
        if coefficients.shape[1] != 1 + layer.size:
            raise InputError(
                f"`C` must have shape ({rank}, {1 + layer.size}): the constant, then one per basis function. "
                f"Got {coefficients.shape}."
            )
        for j, size in enumerate(layer.sizes):
            if np.any(coefficients[j, 1 + size :]):
                raise InputError(f"`C[{j}]` must be 0 past entry {size}, the size of its basis. Got {coefficients[j]}.")
        if not is_word(outside, OUTSIDE):
            raise InputError(f"`outside` must be one of {', '.join(OUTSIDE)}. Got {short_repr(outside)}.")
        object.__setattr__(self, "layer", layer)
        object.__setattr__(self, "C", coefficients)
        object.__setattr__(self, "domain", as_domain(domain, rank))
        object.__setattr__(self, "outside", outside)

    @classmethod
    def unchecked(
        cls, layer: LayerBasis, C: Float[ndarray, "r e"], domain: Float[ndarray, "r 2"], outside: Outside
    ) -> Functions:
        """Functions of arrays that are known to fit together, for loops in which checks would cost most of the time."""
        functions = object.__new__(cls)
        functions.__dict__.update(layer=layer, C=C, domain=domain, outside=outside)
        return functions

    @property
    def rank(self) -> int:
        """The number r of functions."""
        return len(self.layer.bases)

    @property
    def degree(self) -> int:
        """The largest number d of basis functions that a function of this layer combines."""
        return self.layer.size

    @property
    def basis(self) -> AbstractBasis | tuple[AbstractBasis, ...]:
        """The basis of all functions, or one for each if they differ."""
        return self.layer.shared or self.layer.bases

    @property
    def in_words(self) -> str:
        """How many functions of which kind: "2 splines of 8 pieces"."""
        shared = self.layer.shared
        kind = "functions of several kinds" if shared is None else shared.in_words
        return f"{self.rank} {kind}" if self.rank > 1 else "1 " + _PLURAL.sub(r"\1", kind, count=1)

    @property
    def constants(self) -> Float[ndarray, " r"]:
        """The constants of the functions."""
        return self.C[:, 0]

    @cached_property
    def middle(self) -> Float[ndarray, " r"]:
        """Middles of the domains."""
        return self.domain[:, 0] / 2.0 + self.domain[:, 1] / 2.0

    @cached_property
    def half_width(self) -> Float[ndarray, " r"]:
        """Half the widths of the domains."""
        return self.domain[:, 1] / 2.0 - self.domain[:, 0] / 2.0

    # What they compute

    def __call__(self, u: object) -> Float[ndarray, "S r"]:
        """Values g_j(u_j)."""
        return self._with_warning("Values", self.values, u)

    def derivative(self, u: object) -> Float[ndarray, "S r"]:
        """Derivatives g_j'(u_j)."""
        return self._with_warning("Derivatives", self.slopes, u)

    def second_derivative(self, u: object) -> Float[ndarray, "S r"]:
        """Second derivatives g_j''(u_j)."""
        return self._with_warning("Second derivatives", self.bends, u)

    def _with_warning(self, what: str, compute: Callable[[ndarray], ndarray], u: object) -> Float[ndarray, "S r"]:
        points = as_points("u", u, self.rank)
        with np.errstate(all="ignore"):
            return warn_nonfinite(
                what, compute(points), 'stay nearer to the domain, or say outside="linear"', stacklevel=4
            )

    # The same for arguments that are known to be fine

    def values(self, u: Float[ndarray, "*shape r"]) -> Float[ndarray, "*shape r"]:
        """g_j(u_j), unchecked."""
        return self.C[:, 0] + np.sum(self.table(u) * self.C[:, 1:], axis=-1)

    def slopes(self, u: Float[ndarray, "*shape r"]) -> Float[ndarray, "*shape r"]:
        """g_j'(u_j), unchecked."""
        return np.sum(self.table(u, order=1) * self.C[:, 1:], axis=-1)

    def bends(self, u: Float[ndarray, "*shape r"]) -> Float[ndarray, "*shape r"]:
        """g_j''(u_j), unchecked."""
        return np.sum(self.table(u, order=2) * self.C[:, 1:], axis=-1)

    def table(self, u: Float[ndarray, "*shape r"], *, order: int = 0) -> Float[ndarray, "*shape r d"]:
        """Basis functions, or their derivatives in u of the given order, at the arguments; unchecked."""
        evaluate = (self.layer.evaluate, self.layer.derivative, self.layer.second_derivative)
        t = (u - self.middle) / self.half_width
        rate = self.half_width[:, None] ** -order
        if self.outside == "extend":
            return evaluate[order](t) * rate if order else evaluate[order](t)
        inside = np.clip(t, -1.0, 1.0)
        beyond = (t - inside)[..., None]
        table = evaluate[order](inside)
        if not beyond.any():
            return table * rate if order else table
        if order == 0:
            return table + self.layer.derivative(inside) * beyond if self.outside == "linear" else table
        goes_on = (beyond == 0.0) | (order == 1 and self.outside == "linear")
        return np.where(goes_on, table, 0.0) * rate

    # The same functions written differently

    def with_coefficients(self, C: object) -> Functions:
        """Other functions of the same bases on the same domains."""
        return Functions(self.layer.bases, C, self.domain, self.outside)

    def shifted(self, shift: Float[ndarray, " r"]) -> Functions:
        """u -> g_j(u + shift_j): another domain and nothing else."""
        return Functions(self.layer.bases, self.C, self.domain - self._one_each("shift", shift)[:, None], self.outside)

    def stretched(self, factor: Float[ndarray, " r"]) -> Functions:
        """u -> g_j(u / factor_j), for factors other than 0: another domain.

        Negative factors turn the functions around, which needs other coefficients; see `turns_around`.
        """
        scale = self._one_each("factor", factor)
        if not np.all(scale):
            raise InputError(f"`factor` must be {self.rank} numbers other than 0. Got {short_repr(factor)}.")
        domain = np.sort(self.domain * scale[:, None], axis=1)
        C, around = self.C, scale < 0.0
        if np.any(around):
            if not np.all(self.turns_around[around]):
                raise InputError(f"`factor` must be positive: functions of {self.basis!r} cannot be turned around.")
            C = np.where(around[:, None], self._coefficients_turned_around, self.C)
        return Functions(self.layer.bases, C, domain, self.outside)

    def _one_each(self, name: str, value: object) -> Float[ndarray, " r"]:
        array = as_array(name, value, (str(self.rank),))
        if len(array) != self.rank:
            raise InputError(f"`{name}` must be {self.rank} numbers, one per function. Got {len(array)}.")
        return array

    @cached_property
    def _coefficients_turned_around(self) -> Float[ndarray, "r e"]:
        one = np.ones(self.rank)
        turned = self.layer.moved(self.C, -one, 0.0 * one)
        # Turned around at t = 0, functions that vanish there still do: their constant changes by rounding only.
        same = np.abs(turned[:, 0] - self.C[:, 0]) <= _SAME_FUNCTION * np.max(np.abs(self.C), axis=1)
        turned[:, 0] = np.where(same, self.C[:, 0], turned[:, 0])
        return turned

    @cached_property
    def turns_around(self) -> ndarray:
        """Which functions stay in the span of their basis when their argument changes its sign."""
        t = np.repeat(np.linspace(-1.0, 1.0, 8 * self.degree + 9)[:, None], self.rank, axis=1)
        plain = self.C[:, 0] + np.sum(self.layer.evaluate(-t) * self.C[:, 1:], axis=-1)
        turned = self._coefficients_turned_around[:, 0] + np.sum(
            self.layer.evaluate(t) * self._coefficients_turned_around[:, 1:], axis=-1
        )
        return np.max(np.abs(turned - plain), axis=0) <= _SAME_FUNCTION * np.maximum(
            np.max(np.abs(plain), axis=0), 1e-300
        )

    def on_domain(self, domain: object) -> Functions:
        """The same functions with coefficients for other domains, for bases whose span allows that.

        >>> import decouply as dc
        >>> dc.Functions(dc.Monomial(2), [[0.0, 0.0, 1.0]]).on_domain((0.0, 2.0)).C
        array([[1., 2., 1.]])
        """
        new = as_domain(domain, self.rank)
        middle, half = new.sum(axis=1) / 2.0, (new[:, 1] - new[:, 0]) / 2.0
        C = self.layer.moved(self.C, half / self.half_width, (middle - self.middle) / self.half_width)
        moved = Functions(self.layer.bases, C, new, self.outside)
        u = np.linspace(new[:, 0], new[:, 1], 8 * self.degree + 9)
        wanted = self.C[:, 0] + np.sum(
            self.layer.evaluate((u - self.middle) / self.half_width) * self.C[:, 1:], axis=-1
        )
        if np.any(np.abs(moved.values(u) - wanted) > _SAME_FUNCTION * max(1.0, float(np.max(np.abs(wanted))))):
            raise InputError(
                f"`domain` must stay as it is for functions of {self.basis!r}, whose span depends on it. "
                f"Got {new.tolist()} instead of {self.domain.tolist()}."
            )
        return moved

    def __repr__(self) -> str:
        plain = np.array_equal(self.domain, np.tile([-1.0, 1.0], (self.rank, 1)))
        where = "" if plain else ", domain"
        if not plain:
            same = bool(np.all(self.domain == self.domain[0]))
            where = f", domain={_pair(self.domain[0])}" if same else f", domains {_pair(self.domain[0])}, ..."
        tails = "" if self.outside == "extend" else f", outside={self.outside!r}"
        return f"Functions({self.basis!r}, r={self.rank}{where}{tails})"


def as_domain(domain: Any, rank: int) -> Float[ndarray, "r 2"]:
    """Check intervals [a, b], one for all functions or one for each, and spread them over all."""
    found = read_array("`domain` must be (a, b), or one row (a, b) per function", domain)
    given = as_array("domain", found, ("2",) if found.ndim == 1 else ("r", "2"))
    if given.shape not in ((2,), (rank, 2)):
        raise InputError(f"`domain` must be (a, b), or {rank} rows (a, b), one per function. Got shape {given.shape}.")
    spread = np.array(np.broadcast_to(given, (rank, 2)))
    if np.any(spread[:, 0] >= spread[:, 1]):
        wrong = int(np.flatnonzero(spread[:, 0] >= spread[:, 1])[0])
        raise InputError(
            f"`domain` must have a < b for every function. Got {_pair(spread[wrong])} for function {wrong}."
        )
    spread.flags.writeable = False
    return spread


def _pair(pair: ndarray) -> str:
    return f"({pair[0]:.4g}, {pair[1]:.4g})"
