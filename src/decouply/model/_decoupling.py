r"""An L-layer decoupling :math:`f(x) = A x + W_L g_L(W_{L-1} g_{L-1}(\cdots W_1 g_1(W_0 x)))`, with or without A x."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

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
from ._canonical import Visits, argument_scales, jacobian_shares, smallest_constants, value_scales
from ._functions import Functions
from ._names import as_names
from ._paratuck import ParaTuck, check_chain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_CENTRED = 1e-12  # middles of domains below this share of their half-widths are rounding
_NEARER = 'take points nearer to the domains, or `with_outside("linear")`'
_VANISHED = 1e-100  # range of arguments
_NOT_FINITE = f"`X` must be points at which the model is finite. Got points where it is not: {_NEARER}."
_ROUNDING = 1e-12  # of its terms: a sum that is smaller is 0


@dataclass(frozen=True, eq=False)
class Decoupling(ReadOnlyArrays):
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
    Decoupling(L=1, 2-1-2, degree 2, 7 parameters)
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
        """(d_1, ..., d_L): basis functions per internal function; the largest where a layer mixes bases."""
        return tuple(g.degree for g in self.g)

    @property
    def n_parameters(self) -> int:
        """All weights and coefficients, the constants of the last layer or the offset, and the linear part.

        The middle of a domain counts where it was found (see `AbstractBasis.free_domain`) and is not 0 to rounding.
        Other domains say where the functions were fitted, and change nothing that coefficients could not.
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
        """Values at the points X (S, m)."""
        points = as_points("X", X, self.n_inputs)
        with np.errstate(all="ignore"):
            return warn_nonfinite("Values", self.values(points), _NEARER)

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
        points = as_points("X", X, self.n_inputs)
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
        points = as_points("X", X, self.n_inputs)
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
        layers, shift = [], None
        for l, functions in enumerate(self.g):
            here = functions if shift is None or not shift.any() else functions.shifted(shift)
            if l < self.n_layers - 1:
                shift = self.W[l + 1] @ here.constants
                if here.constants.any():
                    C = here.C.copy()
                    C[:, 0] = 0.0
                    here = here.with_coefficients(C)
            layers.append(here)
        return self.with_parts(g=layers)

    def around_zero(self) -> Decoupling:
        """The paper's writing: polynomials in powers of u itself, constants in the last layer only.

        Domains become [-1, 1] and coefficients change, which is exact for polynomials (Taylor shift, same degree) up to
        the digits that powers of large numbers cost. Other bases are refused unless their domain is [-1, 1] already.
        """
        model = self
        for l in range(self.n_layers):
            model = model.without_inner_constants()
            g = list(model.g)
            g[l] = g[l].on_domain((-1.0, 1.0))
            model = model.with_parts(g=g)
        return model.without_inner_constants()

    def net_of_linear(self, X: object) -> Decoupling:
        """The same function with the linear trends of a single layer in the linear part.

        Each function loses the straight line that fits its slopes at the points X best, as far as its basis has lines.
        """
        if self.n_layers != 1:
            raise InputError(
                f"`net_of_linear` must have a model of one layer: deeper, a straight line inside is not one of x. "
                f"Got L = {self.n_layers}."
            )
        u = self.inner_inputs(as_some_points("X", X, self.n_inputs))[0]
        with np.errstate(all="ignore"):
            slopes = self.g[0].slopes(u).mean(axis=0)
        if not np.isfinite(slopes).all():
            raise InputError(_NOT_FINITE)
        return self.net_of_slopes(slopes)

    def net_of_slopes(self, slopes: Float[ndarray, " r"]) -> Decoupling:
        """`net_of_linear` with the mean slopes of the functions known."""
        g, lines = self.g[0], straight_lines(self.g[0])
        trend = np.where(np.isfinite(lines).all(axis=1), slopes, 0.0)
        C = g.C - trend[:, None] * np.where(np.isfinite(lines), lines, 0.0)
        A = (self.W[1] * trend) @ self.W[0]
        return self.with_parts(g=[g.with_coefficients(C)], linear=A if self.linear is None else self.linear + A)

    def canonical(self, X: object) -> Decoupling:
        """The same function with the trivial ambiguities fixed at the points X.

        Within each layer the arguments u_j run over a range of length 2 on X and the largest entry of each row of
        W_(l-1) is positive (where the basis allows that); the functions have derivatives of root mean square 1 over X
        and a positive largest coefficient; components of one basis are ordered by their share of the Jacobian, largest
        first. Inner constants are moved into the domains of the next layer; those of the last layer are the smallest
        ones that give the same function. With a linear part, the functions of a single layer are net of their trends.
        """
        points = as_some_points("X", X, self.n_inputs)
        model = self.without_inner_constants()
        if model.linear is not None and model.n_layers == 1:
            model = model.net_of_linear(points)
        with np.errstate(all="ignore"):
            visits = model.visits(points)
            if not visits.finite:  # a ridge can make arguments so small that squares of slopes overflow
                model = model._without_vanished(visits).without_inner_constants()
                visits = model.visits(points)
        if not visits.finite:
            raise InputError(_NOT_FINITE)
        return model.canonical_for(visits)

    def _without_vanished(self, visits: Visits) -> Decoupling:
        """The same function, with constants in place of functions whose arguments do not move."""
        W, g = list(self.W), list(self.g)
        for l, (low, high) in enumerate(zip(visits.low, visits.high, strict=True)):
            value = g[l].values(low[None])[0]
            gone = (high - low < _VANISHED) & np.isfinite(value)
            if gone.any():
                C, domain = g[l].C.copy(), g[l].domain.copy()
                C[gone] = 0.0
                C[gone, 0] = value[gone]
                domain[gone] = (-1.0, 1.0)
                W[l] = np.where(gone[:, None], 0.0, W[l])
                g[l] = Functions(g[l].layer.bases, C, domain, g[l].outside)
        return self.with_parts(W=W, g=g)

    def visits(self, X: Float[ndarray, "S m"]) -> Visits:
        """What the canonical form must know of the points, unchecked."""
        u = self.arguments(X)
        return Visits.of(self.W, u, [g.slopes(argument) for g, argument in zip(self.g, u, strict=True)])

    def canonical_for(self, visits: Visits) -> Decoupling:
        """The canonical form of a model without inner constants, net of trends, for points known by what they visit."""
        model = self
        for l in range(model.n_layers):
            # Earlier layers keep their values, so that only the scale of this layer's own arguments has changed.
            alpha = argument_scales(model.W[l], model.g[l], visits.low[l], visits.high[l])
            model = model.scaled(l + 1, alpha, np.ones_like(alpha))
            size = np.sqrt(visits.squares[l] / visits.count) / np.abs(alpha)
            model = model.scaled(l + 1, np.ones_like(alpha), value_scales(model.g[l], size))
            if model.g[l].layer.shared is not None:  # whoever gave each function its own basis gave them an order too
                model = model.permuted(l + 1, visits.order(l))
        return model._with_smallest_constants()

    def _with_smallest_constants(self) -> Decoupling:
        W_L, last = self.W[-1], self.g[-1]
        C = last.C.copy()
        if self.offset is not None:
            C[:, 0] = 0.0
            offset = self.offset + W_L @ last.constants
            return self.with_parts(g=[*self.g[:-1], last.with_coefficients(C)], offset=offset)
        C[:, 0] = smallest_constants(W_L, last.constants)
        return self.with_parts(g=[*self.g[:-1], last.with_coefficients(C)])

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
            shares = self._importance([g.slopes(argument) for g, argument in zip(self.g, u, strict=True)])
        return tuple(warn_nonfinite("Shares of functions", share, _NEARER) for share in shares)

    def _importance(self, slopes: list[Float[ndarray, "S _"]]) -> tuple[Float[ndarray, " _"], ...]:
        return tuple(np.sqrt(np.mean(share, axis=0)) for share in jacobian_shares(self.W, slopes))

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
            raise InputError(_NOT_FINITE)
        return float(np.max(np.divide(parts, total, out=np.zeros_like(parts), where=total > _ROUNDING * parts)))

    # What its functions are

    def recognise(
        self,
        X: object,
        *,
        curves: Sequence[str] | None = None,
        tolerance: float | None = None,
        max_seconds: float | None = None,
        progress: bool | Callable[..., None] = True,
    ) -> Any:
        r"""Name the internal functions: for each the simplest curve that the data cannot tell from it.

        Constant, line, parabola, cubic (odd or not), polynomials of degree 4 and 5, tanh, saturation, dead zone, \|u\|,
        ReLU, leaky ReLU, friction, sine, exponential, logarithm, Gaussian and a rational function are fitted to every
        function and ranked by misfit and number of parameters. A sigmoid is a tanh. Names that are no better than a
        smooth curve of any shape are not given.

        Parameters
        ----------
        X : (S, m), or `Samples`
            Where the functions are looked at. With samples that hold values or Jacobians these are what curves are
            compared with, and the noise in them is what curves may be off by; with points, the functions themselves.
        curves
            Names to choose from; all of them by default.
        tolerance
            What a curve may be off by at single points whatever the samples say, as a share of the spread of the
            function: 0.002 by default, and 0.02 where there are points only.
        max_seconds
            After about so long no more kinds are tried; functions that were not reached have no name. None is no limit.
        progress
            As in `decouple`.

        Returns
        -------
        Recognition
            A table of names with what speaks for them; ``recognition[1, 2].best`` is the curve of g_1,2.

        Notes
        -----
        With a linear part and a single layer, straight lines can move between the functions and the linear part: \|u\|
        and ReLU, saturation and dead zone are then the same, and the first of each is named.

        Examples
        --------
        >>> import decouply as dc, numpy as np
        >>> g = dc.Functions(dc.Saturation(), [[0.0, 1.0]], domain=(-1.4, 1.4))
        >>> model = dc.Decoupling([[[1.0, 0.5]], [[2.0]]], [g])
        >>> model.recognise(np.random.default_rng(0).uniform(-1, 1, (200, 2))).sentences()
        ('g_1 is a saturation at u = ±0.7',)
        """
        from ..fit.interpret._recognise import recognise

        return recognise(self, X, curves=curves, tolerance=tolerance, max_seconds=max_seconds, progress=progress)

    def ablation(
        self, samples: Any, *, max_seconds: float = 20.0, progress: bool | Callable[..., None] = True
    ) -> tuple[Any, ...]:
        """What every function is worth: the error of the model without it.

        Sizes of contributions mislead where these cancel each other. Here the other functions of the layer, of the same
        arguments, and all that follows are fitted again. Returns one row per function, layer by layer, with `layer`,
        `index` (from 1), `error`, `error_without` (both in percent) and `refitted`: whether the time was enough for
        that.

        Parameters
        ----------
        samples
            What the model was fitted to.
        max_seconds
            Time for all functions together.
        progress
            As for `dc.decouple`.
        """
        from ..fit.refit._ablation import ablation

        return ablation(self, samples, max_seconds=max_seconds, progress=progress)

    def simplified(
        self,
        X: object,
        *,
        curves: Mapping[tuple[int, int], str] | Sequence[str] | None = None,
        prune: bool = True,
        tolerance: float | None = None,
        max_seconds: float | None = None,
        progress: bool | Callable[..., None] = True,
    ) -> Any:
        """Put curves that have names in place of functions, drop and merge functions, and refit the rest.

        Parameters
        ----------
        X : (S, m), or `Samples`
            What the simpler model is fitted to: values and Jacobians of the samples, or this model at the points.
        curves
            Which function becomes what, such as ``{(1, 2): "saturation"}`` for g_1,2; or names to choose from. By
            default every function becomes what `recognise` calls it, and one without a name stays as it is.
        prune
            Whether functions that do nothing are dropped and functions that double each other merged, where that is
            worth the parameters that it saves.
        tolerance
            As in `recognise`.
        max_seconds
            After about so long nothing more is tried, and the best so far is returned. None is no limit but one minute
            for every fit.
        progress
            As in `decouple`.

        Returns
        -------
        Simplified
            The simpler model with its `Result`, and what every step did to the error.

        Examples
        --------
        >>> import decouply as dc, numpy as np
        >>> X = np.random.default_rng(0).uniform(-1, 1, (200, 2))
        >>> F = np.clip(X @ [[1.0], [0.5]], -0.7, 0.7)
        >>> result = dc.decouple(dc.Samples(X, F=F), ranks=1, basis=dc.Spline(16))
        >>> simpler = result.decoupling.simplified(result.samples).decoupling
        >>> simpler.g[0].basis, simpler.n_parameters
        (Saturation(), 5)
        """
        from ..fit.refit._simplify import simplified

        return simplified(
            self, X, curves=curves, prune=prune, tolerance=tolerance, max_seconds=max_seconds, progress=progress
        )

    # Files and screens

    def formula(
        self,
        kind: Literal["text", "html", "latex", "python", "c", "matlab", "sympy"] = "text",
        *,
        inputs: Collection[str] | None = None,
        outputs: Collection[str] | None = None,
        digits: int | None = None,
    ) -> Any:
        """The model written out, layer by layer.

        Parameters
        ----------
        kind
            "text", "html" and "latex" for reading; "python", the source of a function f of the inputs that takes
            numbers or arrays and returns a tuple; "c", the source of ``void f(const double *x, double *y)`` in C99;
            "matlab", the source of ``y = f(x)`` of a vector, for MATLAB and Octave; "sympy", a tuple of expressions.
            The sources compute functions by the recurrence of their basis, so that high degrees lose no digits. The
            others write polynomials in powers of their argument, less the middle of the domain, whatever their basis.
        inputs, outputs
            Names of the variables; by default those of the model, and x1, x2, ... and y1, y2, ... where it has none.
            For "python" and "sympy" they must be Python names; names of the model are changed into such.
        digits
            Significant digits of the coefficients. By default 4 for reading, and all of them otherwise. Arguments
            whose domain is far from 0 get as many more as that distance takes. Rounded sums leave out terms with
            coefficients below 1e-15 of their largest.

        Examples
        --------
        >>> import decouply as dc
        >>> square = dc.Functions(dc.Monomial(2), [[0.0, 0.5, 1.0]])
        >>> print(dc.Decoupling([[[1.0, 2.0]], [[3.0]]], [square]).formula())
        u1 = x1 + 2 x2
        z1 = 0.5 u1 + u1^2
        y1 = 3 z1
        >>> square = dc.Functions(dc.Monomial(2), [[0.0, 0.5, 1.0]], domain=(300.0, 302.0), outside="linear")
        >>> model = dc.Decoupling([[[1.0, 2.0]], [[3.0]]], [square], linear=[[0.0, 0.2]], offset=[4.0])
        >>> print(model.formula(inputs=["a", "b"]))
        u1 = a + 2 b - 301
        z1 = 0.5 u1 + u1^2  for -1 <= u1 <= 1, its tangents beyond
        y1 = 3 z1 + 0.2 b + 4
        """
        from ..write._formula import formula

        return formula(self, kind, inputs=inputs, outputs=outputs, digits=digits)

    def plot(
        self,
        X: object,
        *,
        inputs: Collection[str] | None = None,
        outputs: Collection[str] | None = None,
        dark: bool = False,
    ) -> Figure:
        """Draw the network as a block diagram, with its functions over the range that the points X visit.

        It is `Result.plot` for a model without a result, and so without bands.
        """
        from ..report import Layout, draw_diagram

        return draw_diagram(Layout.of(self, X, inputs=inputs, outputs=outputs), dark=dark)

    def plot_functions(self, X: object, *, dark: bool = False) -> Figure:
        """Draw the internal functions over the range that the points X visit; ticks mark the points."""
        from ..report import plot_functions

        return plot_functions(self, as_some_points("X", X, self.n_inputs), dark=dark)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a .safetensors file: arrays and a short description, no pickle."""
        from ..write._model_file import save_model

        save_model(self, path)

    def save_onnx(
        self,
        path: str | os.PathLike[str],
        *,
        dtype: Literal["float32", "float64"] = "float32",
        input_name: str = "x",
        output_name: str = "y",
        opset: int = 17,
    ) -> None:
        """Write an ONNX file of MatMul, Mul and Add, for any number of points.

        Cos, Sin and Tanh come in where a basis needs them, Clip where functions are not extended beyond their domains,
        and Concat where a layer has several bases. Functions are computed by the recurrence of their basis.

        Parameters
        ----------
        dtype
            Type of input, output and arithmetic.
        input_name, output_name
            What the points (S, m) and the values (S, n) are called in the graph.
        opset
            Version of the operators. Raise it if a program asks for a newer one.

        Examples
        --------
        >>> import decouply as dc
        >>> dc.systems.f1().save_onnx("f1.onnx", dtype="float64")  # doctest: +SKIP
        """
        from ..write._onnx import save_onnx

        save_onnx(self, path, dtype=dtype, input_name=input_name, output_name=output_name, opset=opset)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, bases: Sequence[type[AbstractBasis]] = ()) -> Decoupling:
        """Read a file written by `save`; name your own basis classes in `bases` if the model uses them."""
        from ..write._model_file import load_model

        return load_model(path, bases)

    def __repr__(self) -> str:
        dims, degrees = (
            "-".join(map(str, numbers)) for numbers in ((self.n_inputs, *self.ranks, self.n_outputs), self.degrees)
        )
        word = "degree" if self.n_layers == 1 else "degrees"
        return f"Decoupling(L={self.n_layers}, {dims}, {word} {degrees}, {self.n_parameters} parameters)"

    def _repr_html_(self) -> str:
        from ..write._notebook import decoupling_html

        return decoupling_html(self)


def straight_lines(functions: Functions) -> Float[ndarray, "r e"]:
    """Coefficients, constant first, of the function u of each; NaN where the basis has no straight line."""
    rows = np.full_like(functions.C, np.nan)
    for j, basis in enumerate(functions.layer.bases):
        line = basis.line()
        if line is not None:
            rows[j] = 0.0
            rows[j, : 1 + basis.size] = functions.half_width[j] * line
            rows[j, 0] += functions.middle[j]
    return rows
