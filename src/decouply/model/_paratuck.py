r"""ParaTuck-L: a third-order tensor whose slices are :math:`W_L D_L^{(s)} W_{L-1} \cdots D_1^{(s)} W_0`.

The trivial ambiguities (other factors of the same tensor) are operations here: permutations, and two free
diagonal scalings per layer (the third one is their inverse). For L >= 2 there is one scaling per slice and layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from .._support._arguments import ReadOnlyArrays, as_array, as_count, as_layer, as_permutation
from .._support._errors import InputError, short_repr


@dataclass(frozen=True, eq=False)
class ParaTuck(ReadOnlyArrays):
    """Factors of a ParaTuck-L decomposition; L = 1 is the CPD [[W_1, W_0^T, G^(1)]].

    Parameters
    ----------
    W : L + 1 matrices
        ``W[l]`` has shape (r[l+1], r[l]), with r[0] = m and r[L+1] = n.
    G : L matrices
        ``G[l-1]`` has shape (S, r[l]): row s is the diagonal of D_l in slice s.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> dc.ParaTuck([[[1.0, 2.0]], [[3.0]]], [[[1.0], [10.0]]]).to_tensor()
    array([[[ 3.,  6.]],
    <BLANKLINE>
           [[30., 60.]]])
    """

    W: tuple[Float[ndarray, "_ _"], ...]
    G: tuple[Float[ndarray, "S _"], ...]

    def __init__(self, W: object, G: object) -> None:
        rule = "`W` and `G` must be sequences of L + 1 and L matrices, with L >= 1"
        if not isinstance(W, tuple | list | ndarray) or not isinstance(G, tuple | list | ndarray):
            raise InputError(f"{rule}. Got {type(W).__name__} and {type(G).__name__}.")
        if getattr(W, "ndim", 1) == 0 or getattr(G, "ndim", 1) == 0:
            raise InputError(f"{rule}. Got a number.")
        if len(W) != len(G) + 1 or len(G) == 0:
            raise InputError(f"{rule}. Got {len(W)} and {len(G)}.")
        weights = tuple(as_array(f"W[{l}]", w, (f"r[{l + 1}]", f"r[{l}]")) for l, w in enumerate(W))
        diagonals = tuple(as_array(f"G[{l}]", g, ("S", f"r[{l + 1}]")) for l, g in enumerate(G))
        check_chain(weights)
        S = diagonals[0].shape[0]
        for l, g in enumerate(diagonals):
            if g.shape != (S, weights[l].shape[0]):
                raise InputError(
                    f"`G[{l}]` must have shape ({S}, {weights[l].shape[0]}): one row per sample and one column per row "
                    f"of `W[{l}]`. Got {g.shape}."
                )
        object.__setattr__(self, "W", weights)
        object.__setattr__(self, "G", diagonals)

    @property
    def n_layers(self) -> int:
        """The number L of layers."""
        return len(self.G)

    @property
    def ranks(self) -> tuple[int, ...]:
        """(r_1, ..., r_L), from input to output."""
        return tuple(g.shape[1] for g in self.G)

    @property
    def n_samples(self) -> int:
        """The number S of samples, one per slice."""
        return int(self.G[0].shape[0])

    def to_tensor(self) -> Float[ndarray, "S n m"]:
        """The tensor, slices first."""
        T = self.G[0][:, :, None] * self.W[0]  # D_1 W_0: (S, r_1, m)
        for G, W in zip(self.G[1:], self.W[1:-1], strict=True):
            T = G[:, :, None] * (W @ T)
        return self.W[-1] @ T

    def unfold(self, mode: int) -> Float[ndarray, "_ _"]:
        """The mode-1, -2 or -3 unfolding of the paper's n x m x S tensor (columns ordered as by Kolda and Bader)."""
        return unfold(self.to_tensor(), mode)

    def to_cp(self) -> Any:
        """One layer as a CP tensor for TensorLy: unit weights, and the factors G^(1), W_1, W_0^T of the modes S, n, m.

        It is a `tensorly.CPTensor` in the current backend if TensorLy is installed, else the pair (weights, factors).
        """
        if self.n_layers != 1:
            raise InputError(
                f"A CP tensor must have one layer. Got L = {self.n_layers}: give `to_tensor()` to other tools."
            )
        weights, factors = np.ones(self.ranks[0]), [self.G[0].copy(), self.W[1].copy(), self.W[0].T.copy()]
        try:
            import tensorly
            from tensorly.cp_tensor import CPTensor
        except ImportError:
            return weights, factors
        return CPTensor((tensorly.tensor(weights), [tensorly.tensor(factor) for factor in factors]))

    @classmethod
    def from_cp(cls, cp: Any) -> ParaTuck:
        """One layer from a CP tensor with modes (S, n, m), such as TensorLy's `parafac` finds for Jacobians.

        Parameters
        ----------
        cp : CP tensor
            A `tensorly.CPTensor`, or a pair (weights, factors): r numbers or None, and three matrices of r columns.

        Examples
        --------
        >>> import decouply as dc
        >>> one = [[1.0], [2.0]]
        >>> dc.ParaTuck.from_cp(([3.0], [one, one, one])).to_tensor()[0]
        array([[ 3.,  6.],
               [ 6., 12.]])
        """
        rule = "`cp` must be a CP tensor, (weights, factors), with three factors of shape (S, r), (n, r), (m, r)"
        try:
            weights, factors = cp
            G, W_1, transposed = factors
        except Exception as error:  # whatever a foreign object does when it is asked for its parts
            raise InputError(f"{rule}. Got {type(cp).__name__}: {error}.") from error
        G, W_1, transposed = (as_array(f"factors[{i}]", f, ("size", "r")) for i, f in enumerate((G, W_1, transposed)))
        shapes = G.shape, W_1.shape, transposed.shape
        if len({columns for _, columns in shapes}) > 1:
            raise InputError(f"{rule}. Got the shapes {shapes}.")
        scale = np.ones(G.shape[1]) if weights is None else as_array("weights", weights, ("r",))
        if scale.shape != (G.shape[1],):
            raise InputError(f"`weights` must be None or {G.shape[1]} numbers, one per component. Got {scale.shape}.")
        return cls([transposed.T, W_1], [G * scale])

    def permuted(self, layer: int, order: object) -> ParaTuck:
        """The same tensor with the components of `layer` (1, ..., L) in another order."""
        l = as_layer(layer, self.n_layers)
        index = as_permutation(order, self.ranks[l])
        W, G = list(self.W), list(self.G)
        W[l], W[l + 1], G[l] = W[l][index], W[l + 1][:, index], G[l][:, index]
        return ParaTuck(W, G)

    def scaled(self, layer: int, left: object, right: object) -> ParaTuck:
        """The same tensor with rows of W_(l-1) times `left`, columns of W_l times `right`, G^(l) divided by both."""
        l = as_layer(layer, self.n_layers)
        first = self._factors("left", left, self.ranks[l])
        second = self._factors("right", right, self.ranks[l])
        W, G = list(self.W), list(self.G)
        W[l], W[l + 1], G[l] = first[:, None] * W[l], W[l + 1] * second, G[l] / (first * second)
        return ParaTuck(W, G)

    def slicewise_scaled(self, layer: int, other: int, factors: object) -> ParaTuck:
        """The same tensor with row s of one layer's G times ``factors[s]`` and of another layer's divided by it."""
        i, j = as_layer(layer, self.n_layers), as_layer(other, self.n_layers)
        if i == j:
            raise InputError(
                f"`layer` and `other` must differ: slice-wise scalings move between two layers, and there are none for "
                f"L = 1. Got {layer} twice."
            )
        gamma = self._factors("factors", factors, self.n_samples)[:, None]
        G = list(self.G)
        G[i], G[j] = G[i] * gamma, G[j] / gamma
        return ParaTuck(self.W, G)

    @staticmethod
    def _factors(name: str, value: object, size: int) -> ndarray:
        factors = as_array(name, value, (str(size),))
        if factors.shape != (size,) or not np.all(factors):
            raise InputError(f"`{name}` must be {size} numbers other than 0. Got {factors}.")
        return factors

    def __repr__(self) -> str:
        dims = "-".join(str(d) for d in (self.W[0].shape[1], *self.ranks, self.W[-1].shape[0]))
        return f"ParaTuck(L={self.n_layers}, {dims}, S={self.n_samples})"


def unfold(T: Float[ndarray, "S n m"], mode: int) -> Float[ndarray, "_ _"]:
    """The mode-`mode` unfolding of the n x m x S tensor that is stored here as (S, n, m).

    Mode 1 is (J_1 ... J_S), mode 2 is (J_1^T ... J_S^T), mode 3 has the column-major vec(J_s) as row s.
    """
    S, n, m = T.shape
    if as_count("mode", mode) == 1:
        return T.transpose(1, 0, 2).reshape(n, S * m)
    if mode == 2:
        return T.transpose(2, 0, 1).reshape(m, S * n)
    if mode == 3:
        return T.transpose(0, 2, 1).reshape(S, m * n)
    raise InputError(f"`mode` must be 1, 2 or 3. Got {short_repr(mode)}.")


def component_shares(
    W: Sequence[Float[ndarray, "_ _"]], G: Sequence[Float[ndarray, "S _"]]
) -> tuple[Float[ndarray, "S _"], ...]:
    """Squares of the part of each slice that goes through each component, layer by layer."""
    S = len(G[0])
    # W_0 = T Q with orthonormal rows of Q: T has rows of the same lengths, and far fewer columns where m is large.
    T = np.linalg.qr(W[0].T).R.T
    right = [np.broadcast_to(T, (S, *T.shape))]
    for diagonal, w in zip(G[:-1], W[1:-1], strict=True):
        right.append(w @ (diagonal[:, :, None] * right[-1]))
    left = [np.broadcast_to(W[-1], (S, *W[-1].shape))]
    for diagonal, w in zip(G[:0:-1], W[-2:0:-1], strict=True):
        left.insert(0, (left[0] * diagonal[:, None, :]) @ w)
    return tuple(np.sum(A**2, axis=1) * g**2 * np.sum(B**2, axis=2) for A, g, B in zip(left, G, right, strict=True))


def check_chain(W: tuple[ndarray, ...]) -> None:
    """Each linear layer must take what the one before it gives."""
    for l, (first, second) in enumerate(pairwise(W)):
        if second.shape[1] != first.shape[0] or 0 in first.shape + second.shape:
            raise InputError(
                f"`W[{l + 1}]` must have {first.shape[0]} columns: one per row of `W[{l}]`, and no axis may be empty. "
                f"Got shapes {first.shape} and {second.shape}."
            )
