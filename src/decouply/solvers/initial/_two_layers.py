r"""Two layers from their Jacobians: directions by an algebraic ParaTuck-2, then the functions of the first layer.

The algebra leaves the slopes h of the first layer open up to one factor per sample, so that their coefficients are one
null vector. That needs domains. Functions that have none yet are polynomials at first, whose slopes tell where the
domains are. With the first layer known, the slopes of the second tell its domains.

A curve such as tanh sits somewhere on its arguments and has some width there. If slopes are known, sums of its basis
functions are fitted to them with many middles and widths, and the best ones are refined. It is one function of one
variable at a time, so that a grid will do.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ...bases import AbstractBasis, Chebyshev, LayerBasis
from ..least_squares._parameters import Parameters, existing_coefficients, visited_range
from ._start_data import StartData
from ._tensor_decompositions import decompose_paratuck2

# Of domains, relative to the half range of the arguments.
_GRID_WIDTHS, _GRID_MIDDLES = np.geomspace(0.05, 8.0, 40), np.linspace(-1.5, 1.5, 25)
_REFINED_CELLS = 10  # of the grid, the best ones
_MAX_ARGUMENTS = 400  # that a domain is fitted to
_REFINE_TOLERANCE = 1e-15  # relative, of the refinement of a domain: to rounding
_SLOPE_RIDGE = 1e-9  # of a table with unit columns
_MAX_STAND_IN_DEGREE = 16  # largest degree of polynomials in place of functions whose domains are not known


def two_layers(data: StartData, layers: tuple[LayerBasis, ...], rng: np.random.Generator) -> Parameters | None:
    """The inner parameters of one model: W_0, c_1 and W_1. None if the algebra fails."""
    assert data.J is not None
    factors = decompose_paratuck2(data.J, rng)
    if factors is None:
        return None
    layer, r = layers[0], len(layers[0].bases)
    unplaced = layer.free_domain.any()
    degree = int(np.clip(len(data.X) // (2 * r), 3, _MAX_STAND_IN_DEGREE))
    fitted = LayerBasis.of(Chebyshev(degree), r) if unplaced else layer
    u = data.X @ factors.C.T
    middle, half = (a[0] for a in visited_range(u[None], fitted, exactly=True))
    W, b, t = factors.C / half[:, None], -middle / half, (u - middle) / half
    # Their coefficients are one null vector, for slopes by t.
    there = existing_coefficients(fitted, fitted.size)
    c = np.zeros(there.shape)
    c[there] = np.linalg.svd(first_coefficients_triangle(fitted, t, factors.h))[2][-1]
    c = c * half[:, None]
    if unplaced:
        W, b, c = _with_domains(layer, W, b, t, _function_values(fitted.derivative(t), c))
    V, b_1 = factors.B, np.zeros(len(factors.B))
    if layers[1].free_domain.any():
        t = data.X @ W.T + b
        # The rows of W have the directions of those of C, and other lengths.
        ratio: ndarray = np.einsum("rk,rk->r", W, factors.C) / np.einsum("rk,rk->r", factors.C, factors.C)
        h = _function_values(layer.derivative(t), c) * ratio
        factor = np.einsum("sr,sr->s", h, factors.h)[:, None]
        slopes = factors.g / np.where(factor != 0.0, factor, 1.0)
        V, b_1, _ = _with_domains(layers[1], V, b_1, _function_values(layer.evaluate(t), c) @ factors.B.T, slopes)
    inner = Parameters((W[None], V[None]), (b[None], b_1[None]), (c[None],))
    return inner if inner.is_finite else None


def first_coefficients_triangle(
    layer: LayerBasis, t: Float[ndarray, "S r"], h: Float[ndarray, "S r"]
) -> Float[ndarray, "q q"]:
    """A triangle for (I - h h^T) g' = 0 at every sample, with g'_j = sum_k c_jk phi'_k(t_j) and rows h of length 1."""
    slopes = layer.derivative(t)
    S, r, d = slopes.shape
    table = -h[:, :, None, None] * (h[:, None, :, None] * slopes[:, None])
    table[:, np.arange(r), np.arange(r)] += slopes
    return np.asarray(np.linalg.qr(table.reshape(S * r, r * d)[:, existing_coefficients(layer, d).ravel()], mode="r"))


def _with_domains(
    layer: LayerBasis,
    W: Float[ndarray, "r k"],
    b: Float[ndarray, " r"],
    t: Float[ndarray, "S r"],
    slopes: Float[ndarray, "S r"],
) -> tuple[Float[ndarray, "r k"], Float[ndarray, " r"], Float[ndarray, "r d"]]:
    """W and b with domains that meet the slopes g'(t), for functions that have to find theirs, and all coefficients."""
    middle, half = np.zeros(len(W)), np.ones(len(W))
    c = np.zeros((len(W), layer.size))
    for j, basis in enumerate(layer.bases):
        found = fit_domain(basis, t[:, j], slopes[:, j]) if basis.free_domain else None
        if found is None:
            c[j, : basis.size] = np.linalg.lstsq(basis.derivative(t[:, j]), slopes[:, j], rcond=None)[0]
        else:
            middle[j], half[j], c[j, : basis.size] = found
    return W / half[:, None], (b - middle) / half, c


def _function_values(table: Float[ndarray, "S r d"], c: Float[ndarray, "r d"]) -> Float[ndarray, "S r"]:
    out: ndarray = np.einsum("srd,rd->sr", table, c)
    return out


class DomainFit(NamedTuple):
    """g(t) = sum_k c_k phi_k((t - middle) / half)."""

    middle: float
    half: float
    c: Float[ndarray, " d"]


def fit_domain(basis: AbstractBasis, t: Float[ndarray, " S"], slopes: Float[ndarray, " S"]) -> DomainFit | None:
    """The place and width at which the slopes of the basis functions meet these best; None if nothing is known."""
    from scipy.optimize import least_squares

    low, high = t.min(), t.max()
    if not np.all(np.isfinite(slopes)) or not high > low or not slopes.any():
        return None
    some = np.unique(np.linspace(0, len(t) - 1, min(len(t), _MAX_ARGUMENTS)).astype(int))
    size = float(np.abs(slopes[some]).max()) or 1.0
    t, slopes = t[some], slopes[some] / size
    place, width = (low + high) / 2.0, (high - low) / 2.0
    scaled = (t - place) / width

    def misfit(p: Float[ndarray, "K 2"]) -> Float[ndarray, "K S"]:
        return slopes - _fit_slopes(basis, scaled, slopes, p)[0]

    def one_misfit(p: ndarray) -> ndarray:
        return misfit(p[None])[0]

    grid = np.stack(np.meshgrid(_GRID_MIDDLES, np.log(_GRID_WIDTHS), indexing="ij"), axis=-1).reshape(-1, 2)
    order = np.argsort(np.sum(misfit(grid) ** 2, axis=1), kind="stable")[:_REFINED_CELLS]
    tol = _REFINE_TOLERANCE
    ends = [least_squares(one_misfit, grid[i], xtol=tol, ftol=tol, gtol=tol).x for i in order]
    best = min(ends, key=lambda end: float(np.sum(misfit(end[None]) ** 2)))
    half = width * float(np.exp(best[1]))
    c = _fit_slopes(basis, scaled, slopes, best[None])[1][0]
    return DomainFit(place + width * float(best[0]), half, c * half * size)


def _fit_slopes(
    basis: AbstractBasis, t: Float[ndarray, " S"], slopes: Float[ndarray, " S"], p: Float[ndarray, "K 2"]
) -> tuple[ndarray, ndarray]:
    """Slopes of the best sums at every place and log width, and their coefficients."""
    table = basis.derivative((t - p[:, :1]) / np.exp(p[:, 1:]))  # (K, S, d)
    size = np.linalg.norm(table, axis=1, keepdims=True)
    table = table / np.where(size > 0.0, size, 1.0)
    normal = table.mT @ table + _SLOPE_RIDGE * np.eye(basis.size)
    c = np.linalg.solve(normal, table.mT @ slopes[:, None])
    c = c + np.linalg.solve(normal, table.mT @ (slopes[:, None] - table @ c))  # what the ridge took
    return (table @ c)[..., 0], c[..., 0] / np.where(size > 0.0, size, 1.0)[:, 0]
