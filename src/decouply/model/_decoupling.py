r"""An L-layer decoupling :math:`f(x) = A x + W_L g_L(W_{L-1} g_{L-1}(\cdots W_1 g_1(W_0 x)))`, with or without A x."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from .._support._arguments import (
    ReadOnlyArrays,
    as_array,
    as_layer,
    as_permutation,
    as_points,
    as_some_points,
    warn_nonfinite,
)
from .._support._errors import InputError, short_repr
from ..bases import AbstractBasis
from ._facade import AbstractModelFacade
from ._functions import Functions
from ._names import as_names, column_names
from ._paratuck import ParaTuck, check_chain, component_shares

_CENTRED = 1e-12  # middles of domains below this share of their half-widths are rounding
_NEARER = 'take points nearer to the domains, or `with_outside("linear")`'
NOT_FINITE = f"`X` must be points at which the model is finite. Got points where it is not: {_NEARER}."
_CANCELLED = 1e-12  # of its terms: a sum that is smaller is 0


@dataclass(frozen=True, eq=False)
class Decoupling(ReadOnlyArrays, AbstractModelFacade):
    """Linear layers W_0, ..., W_L with layers of univariate functions g_1, ..., g_L between them.

    Parameters
    ----------
    W : L + 1 matrices
        ``W[l]`` has shape (r[l+1], r[l]), with r[0] = m and r[L+1] = n.
    g : L layers of `Functions`
        ``g[l-1]`` holds the r[l] functions of layer l.
    linear : (n, m), optional
        A matrix A: the model is A x + W_L g_L(...).
    offset : (n,), optional
        Constants of the outputs, for models whose last layer has fewer functions than outputs: W_L c reaches only
        some constants.
    inputs, outputs : optional
        Names of the variables, for formulas, plots and pages.

    Examples
    --------
    >>> import decouply as dc
    >>> square = dc.Functions(dc.Monomial(2), [[0.0, 0.0, 1.0]])
    >>> model = dc.Decoupling([[[1.0, 2.0]], [[1.0], [-1.0]]], [square])
    >>> model([[1.0, 1.0]])
    array([[ 9., -9.]])
    >>> model
    Decoupling(2 inputs → 1 polynomial of degree 2 → 2 outputs, 7 parameters)
    """

    W: tuple[Float[ndarray, "_ _"], ...]
    g: tuple[Functions, ...]
    linear: Float[ndarray, "n m"] | None
    offset: Float[ndarray, " n"] | None
    inputs: tuple[str, ...] | None
    outputs: tuple[str, ...] | None

    def __init__(
        self,
        W: Sequence[object] | ndarray,
        g: Sequence[Functions],
        *,
        linear: object = None,
        offset: object = None,
        inputs: Collection[str] | None = None,
        outputs: Collection[str] | None = None,
    ) -> None:
        rule = "`W` and `g` must hold L + 1 matrices and L layers of functions, L >= 1"
        if not isinstance(W, Sequence | ndarray) or not isinstance(g, Sequence) or getattr(W, "ndim", 1) == 0:
            raise InputError(f"{rule}. Got {type(W).__name__} and {type(g).__name__}.")
        if len(W) != len(g) + 1 or len(g) == 0:
            raise InputError(f"{rule}. Got {len(W)} and {len(g)}.")
        weights = tuple(as_array(f"W[{l}]", w, (f"r[{l + 1}]", f"r[{l}]")) for l, w in enumerate(W))
        check_chain(weights)
        for l, functions in enumerate(g):
            if not isinstance(functions, Functions) or functions.rank != weights[l].shape[0]:
                raise InputError(
                    f"`g[{l}]` must be dc.Functions with {weights[l].shape[0]} functions: one per row of `W[{l}]`. "
                    f"Got {short_repr(functions)}."
                )
        n, m = weights[-1].shape[0], weights[0].shape[1]
        A = None if linear is None else as_array("linear", linear, ("n", "m"))
        if A is not None and A.shape != (n, m):
            raise InputError(f"`linear` must have shape ({n}, {m}): outputs by inputs. Got {A.shape}.")
        b = None if offset is None else as_array("offset", offset, ("n",))
        if b is not None and b.shape != (n,):
            raise InputError(f"`offset` must hold {n} numbers, one per output. Got shape {b.shape}.")
        object.__setattr__(self, "W", weights)
        object.__setattr__(self, "g", tuple(g))
        object.__setattr__(self, "linear", A)
        object.__setattr__(self, "offset", b)
        object.__setattr__(self, "inputs", as_names("inputs", inputs, m))
        object.__setattr__(self, "outputs", as_names("outputs", outputs, n))

    # What it is

    @property
    def n_layers(self) -> int:
        """The number L of layers of functions."""
        return len(self.g)

    @property
    def n_inputs(self) -> int:
        """The number m of inputs."""
        return int(self.W[0].shape[1])

    @property
    def n_outputs(self) -> int:
        """The number n of outputs."""
        return int(self.W[-1].shape[0])

    @property
    def ranks(self) -> tuple[int, ...]:
        """(r_1, ..., r_L), from input to output."""
        return tuple(g.rank for g in self.g)

    @property
    def degrees(self) -> tuple[int, ...]:
        """(d_1, ..., d_L): basis functions per internal function. The largest if a layer mixes bases."""
        return tuple(g.degree for g in self.g)

    @property
    def n_parameters(self) -> int:
        """All weights and coefficients, the constants of the last layer or the offset, and the linear part.

        The middle of a domain counts if it was found (see `AbstractBasis.free_domain`) and is not 0 to machine
        precision. Other domains say where the functions were fitted, and change nothing that coefficients could not.
        """
        n_weights = sum(w.size for w in self.W)
        n_coefficients = sum(sum(g.layer.sizes) for g in self.g)
        n_constants = self.ranks[-1] if self.offset is None else self.n_outputs
        away = [np.abs(g.middle) > _CENTRED * g.half_width for g in self.g]
        n_middles = sum(int(np.count_nonzero(g.layer.free_domain & off)) for g, off in zip(self.g, away, strict=True))
        n_linear = 0 if self.linear is None else self.linear.size
        return n_weights + n_coefficients + n_constants + n_middles + n_linear

    # What it computes

    def __call__(self, X: object) -> Float[ndarray, "S n"]:
        """Values at the points X (S, m): an array, or a table whose columns may have the names of the inputs."""
        points = self._points(X)
        with np.errstate(all="ignore"):
            return warn_nonfinite("Values", self.values(points), _NEARER)

    def _points(self, X: Any) -> Float[ndarray, "S m"]:
        """Points as an array; columns of a table that have the names of the inputs come in the order of the model."""
        names = None if self.inputs is None else column_names(X)
        if names is not None and names != self.inputs and set(names) == set(self.inputs or ()):
            X = X[list(self.inputs or ())]
        return as_points("X", X, self.n_inputs)

    def values(self, X: Float[ndarray, "S m"]) -> Float[ndarray, "S n"]:
        """Values at points that are known to be fine, unchecked."""
        values = self.g[-1].values(self.arguments(X)[-1]) @ self.W[-1].T
        if self.linear is not None:
            values += X @ self.linear.T
        if self.offset is not None:
            values += self.offset
        return values

    def inner_inputs(self, X: object) -> tuple[Float[ndarray, "S _"], ...]:
        """u_1 = W_0 x and u_l = W_(l-1) g_(l-1)(u_(l-1)): what the functions of each layer are given, (S, r_l) each."""
        points = self._points(X)
        with np.errstate(all="ignore"):
            return tuple(warn_nonfinite("Arguments of functions", u, _NEARER) for u in self.arguments(points))

    def arguments(self, X: Float[ndarray, "S m"]) -> tuple[Float[ndarray, "S _"], ...]:
        """`inner_inputs`, unchecked."""
        u = [X @ self.W[0].T]
        for functions, W in zip(self.g[:-1], self.W[1:-1], strict=True):
            u.append(functions.values(u[-1]) @ W.T)
        return tuple(u)

    def factors(self, X: object) -> ParaTuck:
        """The ParaTuck-L factors of the Jacobian tensor at X, less A: G^(l) holds the derivatives g_l'(u_l)."""
        with np.errstate(all="ignore"):
            return ParaTuck(self.W, [g.slopes(u) for g, u in zip(self.g, self.inner_inputs(X), strict=True)])

    def jacobian(self, X: object) -> Float[ndarray, "S n m"]:
        """Jacobians at the points X, by the chain rule."""
        points = self._points(X)
        with np.errstate(all="ignore"):
            return warn_nonfinite("Jacobians", self.jacobians(points), _NEARER)

    def jacobians(self, X: Float[ndarray, "S m"]) -> Float[ndarray, "S n m"]:
        """Jacobians at points that are known to be fine, unchecked."""
        u = self.arguments(X)
        T = self.g[0].slopes(u[0])[:, :, None] * self.W[0]
        for functions, argument, W in zip(self.g[1:], u[1:], self.W[1:-1], strict=True):
            T = functions.slopes(argument)[:, :, None] * (W @ T)
        J = self.W[-1] @ T
        return J if self.linear is None else J + self.linear

    # The same function written differently

    def without_inner_constants(self) -> Decoupling:
        """The same function with constants in the last layer only (the bias theorem).

        A constant b of layer l shifts the arguments of layer l + 1 by W_l b, which moves the domains there: exactly,
        for every basis.
        """
        from ._canonical_form import without_inner_constants

        return without_inner_constants(self)

    def around_zero(self) -> Decoupling:
        """The paper's writing: polynomials in powers of u itself, constants in the last layer only.

        Domains become [-1, 1] and coefficients change, which is exact for polynomials (Taylor shift, same degree) up to
        the digits that powers of large numbers cost. Other bases are refused unless their domain is [-1, 1] already.
        """
        from ._canonical_form import around_zero

        return around_zero(self)

    def net_of_linear(self, X: object) -> Decoupling:
        """The same function with the linear trends of a single layer in the linear part.

        Each function loses the straight line that fits its slopes at the points X best, as far as its basis has lines.
        """
        from ._canonical_form import net_of_linear

        return net_of_linear(self, as_some_points("X", X, self.n_inputs))

    def canonical(self, X: object) -> Decoupling:
        """The same function with the trivial ambiguities fixed at the points X.

        Within each layer the arguments u_j run over a range of length 2 on X. The largest entry of each row of
        W_(l-1) is positive, if the basis allows that. The functions have derivatives of root mean square 1 over X
        and a positive largest outgoing weight (coefficient, in inner layers). Components of one basis are ordered by
        their share of the Jacobian, largest first. Inner constants are moved into the domains of the next layer; those
        of the last layer are the smallest ones that give the same function. With a linear part, the functions of a
        single layer are net of their trends.
        """
        from ._canonical_form import canonical_form

        return canonical_form(self, as_some_points("X", X, self.n_inputs))

    def permuted(self, layer: int, order: object) -> Decoupling:
        """The same function with the components of `layer` (1, ..., L) in another order."""
        l = as_layer(layer, self.n_layers)
        index = as_permutation(order, self.ranks[l])
        g = self.g[l]
        bases = tuple(g.layer.bases[i] for i in index)
        functions = Functions(bases, g.C[index], g.domain[index], g.outside)
        return self._with_layer(l, self.W[l][index], functions, self.W[l + 1][:, index])

    def scaled(self, layer: int, inputs: object, outputs: object) -> Decoupling:
        """The same function with u_j of `layer` multiplied by ``inputs[j]`` and the values of g_j by ``outputs[j]``."""
        l = as_layer(layer, self.n_layers)
        alpha, beta = (as_array(name, v, ("r",)) for name, v in (("inputs", inputs), ("outputs", outputs)))
        for name, v in (("inputs", alpha), ("outputs", beta)):
            if v.shape != (self.ranks[l],) or not np.all(v):
                raise InputError(f"`{name}` must be {self.ranks[l]} numbers other than 0. Got {v}.")
        g = self.g[l] if np.all(alpha == 1.0) else self.g[l].stretched(alpha)
        return self._with_layer(
            l, alpha[:, None] * self.W[l], g.with_coefficients(beta[:, None] * g.C), self.W[l + 1] / beta
        )

    def with_outside(self, outside: Literal["extend", "linear", "constant"]) -> Decoupling:
        """The same functions on their domains, and beyond them what `outside` says; see `Functions`."""
        return self.with_parts(g=[Functions(g.layer.bases, g.C, g.domain, outside) for g in self.g])

    def with_names(self, inputs: Collection[str] | None, outputs: Collection[str] | None) -> Decoupling:
        """The same model with these names of its variables."""
        return self.with_parts(inputs=inputs, outputs=outputs)

    def _with_layer(self, l: int, before: ndarray, functions: Functions, after: ndarray) -> Decoupling:
        W, g = list(self.W), list(self.g)
        W[l], g[l], W[l + 1] = before, functions, after
        return self.with_parts(W=W, g=g)

    def with_parts(self, **changes: Any) -> Decoupling:
        """The same model with some of its fields replaced."""
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return Decoupling(**(fields | changes))

    def importance(self, X: object) -> tuple[Float[ndarray, " _"], ...]:
        """How much each internal function carries: root mean square over X of its share of the Jacobian, per layer."""
        u = self.inner_inputs(X)
        with np.errstate(all="ignore"):
            shares = component_shares(self.W, [g.slopes(argument) for g, argument in zip(self.g, u, strict=True)])
            sizes = [np.sqrt(np.mean(share, axis=0)) for share in shares]
        return tuple(warn_nonfinite("Shares of functions", size, _NEARER) for size in sizes)

    def cancellation(self, X: object) -> float:
        """How much larger single contributions are than the outputs that they add up to.

        A contribution is the range over X of one function of the last layer times its weight; it is compared with the
        range of the output. Far above 1, functions cancel each other, and none of them means much by itself.
        """
        points = as_some_points("X", X, self.n_inputs)
        with np.errstate(all="ignore"):
            parts = np.abs(self.W[-1]) * np.ptp(self.g[-1].values(self.arguments(points)[-1]), axis=0)
            total = np.ptp(self.values(points), axis=0)[:, None]
        if not (np.isfinite(parts).all() and np.isfinite(total).all()):
            raise InputError(NOT_FINITE)
        return float(np.max(np.divide(parts, total, out=np.zeros_like(parts), where=total > _CANCELLED * parts)))

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, bases: Sequence[type[AbstractBasis]] = ()) -> Decoupling:
        """Read a file written by `save`; name your own basis classes in `bases` if the model uses them."""
        from ..write._model_file import load_model

        return load_model(path, bases)

    def __str__(self) -> str:
        first, last = (
            f"{n} {side if n == 1 else side + 's'}"
            for n, side in ((self.n_inputs, "input"), (self.n_outputs, "output"))
        )
        way = " → ".join([first, *(g.in_words for g in self.g), last])
        return f"{way}{', a linear part' if self.linear is not None else ''}, {self.n_parameters} parameters"

    def __repr__(self) -> str:
        return f"Decoupling({self})"
