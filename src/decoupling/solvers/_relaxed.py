r"""The first layer alone: everything after it is relaxed to one polynomial, which is eliminated.

    f(x) = h(g_1(W_0 x)),      h_i(z) = sum_p A_pi Phi_p(z)

with all products Phi_p of Chebyshev polynomials up to a total degree, over the box that the samples visit. What is left
to find is W_0 and c_1: far fewer unknowns than the whole model has, and far fewer poor minima. h is known explicitly
afterwards, with its slopes, wherever one wants to look.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement
from math import comb

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from ..bases import LayerBasis
from ._chain import Parameters, carried_back, derivatives_of_coefficients, derivatives_of_weights, samples_last
from ._levenberg import Dense, Tall
from ._residuals import AbstractResiduals, eliminate
from ._rows import Rows
from ._window import on_window

_RANK_RIDGE = 1e-12  # of a design with unit columns: polynomials over places that fill no box are nearly dependent


def n_products(n_variables: int, degree: int) -> int:
    """Polynomials of so many variables up to a total degree have so many coefficients."""
    return comb(n_variables + degree, degree)


@dataclass(frozen=True)
class Polynomials:
    """Products of Chebyshev polynomials of z up to a total degree, the constant first."""

    n_variables: int
    degree: int

    @cached_property
    def exponents(self) -> Int[ndarray, "p r"]:
        r = self.n_variables
        chosen = (c for k in range(self.degree + 1) for c in combinations_with_replacement(range(r), k))
        return np.array([[c.count(j) for j in range(r)] for c in chosen])

    def tables(self, z: Float[ndarray, "B r S"], box: tuple[ndarray, ndarray]) -> list[list[ndarray]]:
        """Values, first and second derivatives of the factor of every product in z_1, in z_2, ...: (B, p, S) each."""
        middle, half = box
        t = (z - middle[..., None]) / half[..., None]
        T, dT, ddT = (np.zeros((self.degree + 1, *t.shape)) for _ in range(3))
        T[0] = 1.0
        for k in range(1, self.degree + 1):
            first = k == 1
            T[k] = t if first else 2.0 * t * T[k - 1] - T[k - 2]
            dT[k] = 1.0 if first else 2.0 * T[k - 1] + 2.0 * t * dT[k - 1] - dT[k - 2]
            ddT[k] = 0.0 if first else 4.0 * dT[k - 1] + 2.0 * t * ddT[k - 1] - ddT[k - 2]
        scale = 1.0 / half[..., None]
        tables = (T, dT * scale, ddT * scale**2)
        return [[table[e, :, j].swapaxes(0, 1) for j, e in enumerate(self.exponents.T)] for table in tables]

    def values(self, tables: list[list[ndarray]]) -> Float[ndarray, "B p S"]:
        return _product(tables[0])

    def slopes(self, tables: list[list[ndarray]]) -> Float[ndarray, "B p r S"]:
        T, dT, _ = tables
        return np.stack([_product([*T[:k], dT[k], *T[k + 1 :]]) for k in range(self.n_variables)], axis=2)

    def bends(self, tables: list[list[ndarray]], A: Float[ndarray, "B p n"]) -> Float[ndarray, "B r r n S"]:
        """Second derivatives of h."""
        T, dT, ddT = tables
        r, (B, _, S) = self.n_variables, T[0].shape
        out = np.empty((B, r, r, A.shape[-1], S))
        for k in range(r):
            for l in range(k, r):
                others = [T[j] for j in range(r) if j not in (k, l)]
                out[:, k, l] = A.mT @ _product([*others, *([ddT[k]] if k == l else [dT[k], dT[l]])])
                out[:, l, k] = out[:, k, l]
        return out


@dataclass(frozen=True)
class Relaxed(AbstractResiduals):
    """Unknowns W_0 and c_1; what follows is a polynomial of the given total degree."""

    rows: Rows
    layer: LayerBasis
    degree: int

    @cached_property
    def polynomials(self) -> Polynomials:
        return Polynomials(len(self.layer.bases), self.degree)

    def linearise(self, theta: Parameters) -> tuple[Float[ndarray, " B"], Dense]:
        Z, basis, residual, cost = self._differentiated(theta)
        B, N, n = Z.shape[:3]
        flat = Z.reshape(B, N, -1)
        inside = (Z.reshape(B, N * n, -1) @ basis).reshape(B, N, -1)
        g = (flat @ residual.mT.reshape(B, -1, 1))[..., 0]
        return cost, Dense(flat @ flat.mT - inside @ inside.mT, g)

    def precisely(self, theta: Parameters) -> tuple[Float[ndarray, " B"], Tall]:
        """`linearise` for one start, to more digits."""
        Z, basis, residual, cost = self._differentiated(theta)
        tall = Z.reshape(1, -1, basis.shape[1])
        tall = tall - (tall @ basis) @ basis.mT
        return cost, Tall(tall.reshape(1, Z.shape[1], -1), residual.mT.reshape(1, -1))

    def _differentiated(self, theta: Parameters) -> tuple[ndarray, ndarray, ndarray, ndarray]:
        """Weighted derivatives (B, N, n, q, S), a basis of the design (B, R, p), residuals (B, R, n) and cost."""
        rows, W, polynomials = self.rows, theta[0][..., :-1], self.polynomials
        S, q, n = rows.Y.shape
        (B, r, m), d = W.shape, theta[1].shape[-1]
        Phi, dPhi, _, z, a, b = self._first_layer(theta)
        P = a[:, :, None] * W[..., None]  # (B, r, m, S)
        tables = polynomials.tables(z, box_of(z))
        G = polynomials.slopes(tables)
        A, basis, residual, cost = eliminate(self._design(tables, G, P), rows, 0.0, rank_ridge=_RANK_RIDGE)
        h = (A.mT @ G.reshape(B, -1, r * S)).reshape(B, n, r, S).swapaxes(1, 2)
        V = np.broadcast_to(W[..., None], P.shape)
        H = None
        if rows.jacobians:
            bends = polynomials.bends(tables, A)  # (B, r, r, n, S)
            H = np.zeros((B, r, n, m, S))
            for l in range(r):
                H += bends[:, :, l, :, None] * P[:, None, l, None]
        D, T = carried_back(h, H, a, b, V)
        Z = np.empty((B, r * m + r * d, n, q, S))
        derivatives_of_weights(Z[:, : r * m].reshape(B, r, m, n, q, S), D, T, rows.X.T[None], None)
        derivatives_of_coefficients(Z[:, r * m :].reshape(B, r, d, n, q, S), h, H, Phi, dPhi, V)
        Z *= rows.weights.T
        return Z, basis, residual, cost

    def _first_layer(self, theta: Parameters) -> Sequence[ndarray]:
        """Phi, Phi', Phi'' (B, r, d, S), then z and its first two derivatives (B, r, S)."""
        W, C = theta
        t = (W[..., :-1] @ self.rows.X.T + W[..., -1:]).mT
        layer = self.layer
        tables = [samples_last(f(t)) for f in (layer.evaluate, layer.derivative, layer.second_derivative)]
        return *tables, *((C[:, :, None] @ table)[:, :, 0] for table in tables)

    def _design(self, tables: list[list[ndarray]], G: ndarray, P: ndarray) -> Float[ndarray, "B p R"]:
        rows = self.rows
        B, p, r, S = G.shape
        o = int(rows.values)
        design = np.zeros((B, p, rows.Y.shape[1], S))
        if rows.values:
            design[:, :, 0] = self.polynomials.values(tables)
        if rows.jacobians:
            for k in range(r):
                design[:, :, o:] += G[:, :, k, None] * P[:, None, k]
        design *= rows.weights.T
        return design.reshape(B, p, -1)

    def moved(self, theta: Parameters, step: Float[ndarray, "B N"]) -> Parameters:
        W, C = theta
        B, r, k = W.shape
        moves = step[:, : r * (k - 1)].reshape(B, r, k - 1), step[:, r * (k - 1) :].reshape(C.shape)
        return self.on_window([np.concatenate([W[..., :-1] + moves[0], W[..., -1:]], axis=-1), C + moves[1]])

    def on_window(self, theta: Parameters, *, exactly: bool = False) -> Parameters:
        """The same first layers with arguments over the window and values of size 1."""
        nothing = np.zeros((*theta[1].shape[:2], theta[1].shape[1] + 1))  # what would come next
        return on_window(self.rows.X, (self.layer, self.layer), [*theta, nothing], exactly=exactly)[:2]

    def tail(self, theta: Parameters, more: Float[ndarray, "k r"]) -> tuple[ndarray, ndarray, ndarray]:
        """z (S, r), h(z) (S, n) and its slopes (S, n, r) of one start, at the samples and at `more` places."""
        *_, z, a, _ = self._first_layer(theta)
        polynomials, box = self.polynomials, box_of(z)
        tables = polynomials.tables(z, box)
        P = a[:, :, None] * theta[0][..., :-1, None]
        A, *_ = eliminate(self._design(tables, polynomials.slopes(tables), P), self.rows, 0.0, rank_ridge=_RANK_RIDGE)
        places = np.concatenate([z, more.T[None]], axis=-1)
        tables = polynomials.tables(places, box)
        h = (A.mT @ polynomials.values(tables))[0].T
        slopes = np.einsum("pn,prs->snr", A[0], polynomials.slopes(tables)[0])
        return places[0].T, h, slopes


def box_of(z: Float[ndarray, "B r S"]) -> tuple[Float[ndarray, "B r"], Float[ndarray, "B r"]]:
    """Middle and half width of the range of z."""
    low, high = z.min(axis=-1), z.max(axis=-1)
    return (low + high) / 2.0, np.where(high > low, (high - low) / 2.0, 1.0)


def _product(factors: Sequence[ndarray]) -> ndarray:
    out = factors[0]
    for factor in factors[1:]:
        out = out * factor
    return out
