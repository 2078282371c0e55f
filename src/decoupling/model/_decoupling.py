r"""An L-layer decoupling :math:`f(x) = W_L g_L(W_{L-1} g_{L-1}(\cdots W_1 g_1(W_0 x)))`."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from .._support._checks import as_array, as_layer, as_permutation, as_points, as_some_points
from .._support._errors import InputError
from ..bases import AbstractBasis, rescaled, shifted
from ._functions import Functions
from ._paratuck import ParaTuck, check_chain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TINY = 1e-100  # what is smaller is as good as 0: its inverse, and powers of that, would overflow


@dataclass(frozen=True, eq=False)
class Decoupling:
    """Linear layers W_0, ..., W_L with layers of univariate functions g_1, ..., g_L between them.

    Parameters
    ----------
    W : L + 1 matrices
        ``W[l]`` has shape (r[l+1], r[l]), with r[0] = m and r[L+1] = n.
    g : L layers of `Functions`
        ``g[l-1]`` holds the r[l] functions of layer l.

    Examples
    --------
    >>> import decoupling as dc
    >>> square = dc.Functions(dc.Monomial(2), [[0.0, 0.0, 1.0]])
    >>> model = dc.Decoupling([[[1.0, 2.0]], [[1.0], [-1.0]]], [square])
    >>> model([[1.0, 1.0]])
    array([[ 9., -9.]])
    >>> model
    Decoupling(L=1, 2-1-2, degrees (2,), 7 parameters)
    """

    W: tuple[Float[ndarray, "_ _"], ...]
    g: tuple[Functions, ...]

    def __init__(self, W: Sequence[object] | ndarray, g: Sequence[Functions]) -> None:
        rule = "`W` and `g` must hold L + 1 matrices and L layers of functions, L >= 1"
        if not isinstance(W, Sequence | ndarray) or not isinstance(g, Sequence):
            raise InputError(f"{rule}. Got {type(W).__name__} and {type(g).__name__}.")
        if len(W) != len(g) + 1 or len(g) == 0:
            raise InputError(f"{rule}. Got {len(W)} and {len(g)}.")
        weights = tuple(as_array(f"W[{l}]", w, (f"r[{l + 1}]", f"r[{l}]")) for l, w in enumerate(W))
        check_chain(weights)
        for l, functions in enumerate(g):
            if not isinstance(functions, Functions) or functions.rank != weights[l].shape[0]:
                raise InputError(
                    f"`g[{l}]` must be dc.Functions with {weights[l].shape[0]} functions: one per row of `W[{l}]`. "
                    f"Got {functions!r}."
                )
        object.__setattr__(self, "W", weights)
        object.__setattr__(self, "g", tuple(g))

    # What it is

    @property
    def n_layers(self) -> int:
        return len(self.g)

    @property
    def n_inputs(self) -> int:
        return int(self.W[0].shape[1])

    @property
    def n_outputs(self) -> int:
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
        """All weights, all coefficients, and the constants of the last layer."""
        n_weights = sum(w.size for w in self.W)
        n_coefficients = sum(sum(g.layer.sizes) for g in self.g)
        return n_weights + n_coefficients + self.ranks[-1]

    # What it computes

    def __call__(self, X: object) -> Float[ndarray, "S n"]:
        """Values at the points X (S, m)."""
        u = self.inner_inputs(X)[-1]
        return self.g[-1](u) @ self.W[-1].T

    def inner_inputs(self, X: object) -> tuple[Float[ndarray, "S _"], ...]:
        """u_1 = W_0 x and u_l = W_(l-1) g_(l-1)(u_(l-1)): what the functions of each layer are given, (S, r_l) each."""
        points = as_points("X", X, self.n_inputs)
        u = [points @ self.W[0].T]
        for functions, W in zip(self.g[:-1], self.W[1:-1], strict=True):
            u.append(functions(u[-1]) @ W.T)
        return tuple(u)

    def factors(self, X: object) -> ParaTuck:
        """The ParaTuck-L factors of the Jacobian tensor at X: G^(l) holds the derivatives g_l'(u_l)."""
        return ParaTuck(self.W, [g.derivative(u) for g, u in zip(self.g, self.inner_inputs(X), strict=True)])

    def jacobian(self, X: object) -> Float[ndarray, "S n m"]:
        """Jacobians at the points X, by the chain rule."""
        return self.factors(X).to_tensor()

    # The same function written differently

    def without_inner_constants(self) -> Decoupling:
        """The same function with constants in the last layer only (the bias theorem).

        A constant b of layer l shifts the arguments of layer l + 1 by W_l b, which changes that layer's coefficients
        (for polynomials: Taylor shift, same degree) and gives it a constant, which moves on in turn.
        """
        layers = []
        b = np.zeros(self.n_inputs)
        for l, (W, functions) in enumerate(zip(self.W, self.g, strict=False)):
            shift = W @ b if l > 0 else np.zeros(functions.rank)
            C = np.zeros_like(functions.C)
            for j, basis in enumerate(functions.layer.bases):
                e = 1 + basis.size
                C[j, :e] = shifted(basis, functions.C[j, :e], shift[j]) if shift[j] else functions.C[j, :e]
            b = C[:, 0].copy()
            if l < self.n_layers - 1:
                C[:, 0] = 0.0
            layers.append(Functions(functions.layer.bases, C))
        return Decoupling(self.W, layers)

    def canonical(self, X: object) -> Decoupling:
        """The same function with the trivial ambiguities fixed at the points X.

        Within each layer the largest absolute u_j over X is 1 (where the basis allows it) and the largest entry of each
        row of W_(l-1) is positive; the functions have derivatives of root mean square 1 over X and a positive
        largest coefficient; components of one basis are ordered by their share of the Jacobian, largest first. Inner
        constants are moved to the last layer, where they are the smallest ones that give the same function.
        """
        as_some_points("X", X, self.n_inputs)
        model = self.without_inner_constants()
        for layer in range(1, self.n_layers + 1):
            model = model._normalised_inputs(layer, X)
            model = model._normalised_outputs(layer, X)
            model = model._ordered(layer, X)
        W_L, last = model.W[-1], model.g[-1]
        C = last.C.copy()
        C[:, 0] = np.linalg.pinv(W_L) @ (W_L @ C[:, 0])
        return Decoupling(model.W, [*model.g[:-1], Functions(last.layer.bases, C)])

    def permuted(self, layer: int, order: object) -> Decoupling:
        """The same function with the components of `layer` (1, ..., L) in another order."""
        l = as_layer(layer, self.n_layers)
        index = as_permutation(order, self.ranks[l])
        bases = self.g[l].layer.bases
        return self._with_layer(
            l, self.W[l][index], tuple(bases[i] for i in index), self.g[l].C[index], self.W[l + 1][:, index]
        )

    def scaled(self, layer: int, inputs: object, outputs: object) -> Decoupling:
        """The same function with u_j of `layer` multiplied by ``inputs[j]`` and the values of g_j by ``outputs[j]``."""
        l = as_layer(layer, self.n_layers)
        alpha, beta = (as_array(name, v, ("r",)) for name, v in (("inputs", inputs), ("outputs", outputs)))
        for name, v in (("inputs", alpha), ("outputs", beta)):
            if v.shape != (self.ranks[l],) or not np.all(v):
                raise InputError(f"`{name}` must be {self.ranks[l]} numbers other than 0. Got {v}.")
        bases = self.g[l].layer.bases
        C = np.zeros_like(self.g[l].C)
        for j, basis in enumerate(bases):
            e = 1 + basis.size
            c = self.g[l].C[j, :e]
            C[j, :e] = beta[j] * (c if alpha[j] == 1.0 else rescaled(basis, c, 1.0 / alpha[j]))
        return self._with_layer(l, alpha[:, None] * self.W[l], bases, C, self.W[l + 1] / beta)

    def _with_layer(
        self, l: int, before: ndarray, bases: tuple[AbstractBasis, ...], C: ndarray, after: ndarray
    ) -> Decoupling:
        W, g = list(self.W), list(self.g)
        W[l], g[l], W[l + 1] = before, Functions(bases, C), after
        return Decoupling(W, g)

    def _normalised_inputs(self, layer: int, X: object) -> Decoupling:
        W, u = self.W[layer - 1], self.inner_inputs(X)[layer - 1]
        largest = np.max(np.abs(u), axis=0)
        sign = np.sign(W[np.arange(W.shape[0]), np.argmax(np.abs(W), axis=1)])
        alive = largest > _TINY
        alpha = np.where(alive, sign / np.where(alive, largest, 1.0), 1.0)
        alpha = np.where(self.g[layer - 1].layer.scale_invariant, alpha, 1.0)
        return self.scaled(layer, alpha, np.ones_like(alpha))

    def _normalised_outputs(self, layer: int, X: object) -> Decoupling:
        functions = self.g[layer - 1]
        size = np.sqrt(np.mean(functions.derivative(self.inner_inputs(X)[layer - 1]) ** 2, axis=0))
        largest = np.argmax(np.abs(functions.C[:, 1:]), axis=1)
        sign = np.sign(functions.C[np.arange(functions.rank), 1 + largest])
        alive = size > _TINY
        beta = np.where(alive, sign / np.where(alive, size, 1.0), 1.0)
        return self.scaled(layer, np.ones_like(beta), beta)

    def _ordered(self, layer: int, X: object) -> Decoupling:
        if self.g[layer - 1].layer.shared is None:  # whoever gave each function its own basis gave them an order too
            return self
        return self.permuted(layer, np.argsort(-self.importance(X)[layer - 1], kind="stable"))

    def importance(self, X: object) -> tuple[Float[ndarray, " _"], ...]:
        """How much each internal function carries: root mean square over X of its share of the Jacobian, per layer."""
        factors = self.factors(X)
        # W_0 = T Q with orthonormal rows of Q: T has rows of the same lengths, and far fewer columns where m is large.
        T = np.linalg.qr(self.W[0].T).R.T
        right = [np.broadcast_to(T, (factors.n_samples, *T.shape))]
        for G, W in zip(factors.G[:-1], self.W[1:-1], strict=True):
            right.append(W @ (G[:, :, None] * right[-1]))
        left = [np.broadcast_to(self.W[-1], (factors.n_samples, *self.W[-1].shape))]
        for G, W in zip(factors.G[:0:-1], self.W[-2:0:-1], strict=True):
            left.insert(0, (left[0] * G[:, None, :]) @ W)
        return tuple(
            np.sqrt(np.mean(np.sum(A**2, axis=1) * G**2 * np.sum(B**2, axis=2), axis=0))
            for A, G, B in zip(left, factors.G, right, strict=True)
        )

    # Files and screens

    def formula(
        self,
        kind: Literal["text", "html", "latex", "python", "sympy"] = "text",
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
            numbers or arrays and returns a tuple; "sympy", a tuple of expressions. Polynomials are written in powers of
            their argument, whatever their basis: degrees above about 20 lose digits.
        inputs, outputs
            Names of the variables; by default x1, x2, ... and y1, y2, ...
        digits
            Significant digits of the coefficients. By default 4 for reading, and all of them otherwise. Rounded sums
            leave out terms with coefficients below 1e-15 of their largest.

        Examples
        --------
        >>> import decoupling as dc
        >>> square = dc.Functions(dc.Monomial(2), [[0.0, 0.5, 1.0]])
        >>> print(dc.Decoupling([[[1.0, 2.0]], [[3.0]]], [square]).formula())
        u1 = x1 + 2 x2
        z1 = 0.5 u1 + u1^2
        y1 = 3 z1
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
        ranges: Sequence[Any] | None = None,
        outside: Literal["clamp", "linear"] = "clamp",
    ) -> None:
        """Write an ONNX file of MatMul, Mul and Add (Cos and Sin for trigonometric bases), for any number of points.

        Polynomials are written in monomials, whatever their basis: high degrees lose digits, in float32 above all.

        Parameters
        ----------
        dtype
            Type of input, output and arithmetic.
        input_name, output_name
            What the points (S, m) and the values (S, n) are called in the graph.
        opset
            Version of the operators. Raise it if a program asks for a newer one.
        ranges
            For each layer a pair (low, high) of arrays (r_l,): arguments of its functions are moved into these limits
            first, by Clip. Limits that differ between functions cost a rounding of the size of the larger one.
        outside
            What functions do beyond `ranges`: hold their value ("clamp"), or go on along their tangents ("linear").

        Examples
        --------
        >>> import decoupling as dc
        >>> dc.systems.f1().save_onnx("f1.onnx", dtype="float64")  # doctest: +SKIP
        """
        from ..write._onnx import save_onnx

        names = {"input_name": input_name, "output_name": output_name}
        save_onnx(self, path, dtype=dtype, opset=opset, ranges=ranges, outside=outside, **names)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, bases: Sequence[type[AbstractBasis]] = ()) -> Decoupling:
        """Read a file written by `save`; name your own basis classes in `bases` if the model uses them."""
        from ..write._model_file import load_model

        return load_model(path, bases)

    def __repr__(self) -> str:
        dims = "-".join(str(d) for d in (self.n_inputs, *self.ranks, self.n_outputs))
        return f"Decoupling(L={self.n_layers}, {dims}, degrees {self.degrees}, {self.n_parameters} parameters)"

    def _repr_html_(self) -> str:
        from ..write._notebook import decoupling_html

        return decoupling_html(self)
