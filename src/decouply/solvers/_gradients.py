r"""The arguments of the last layer by linear algebra, where everything before it is a polynomial.

Let K = W_L^-1. Then sum_i K_ji f_i = g_j(u_j), so that at every point the gradient of the sum is parallel to that of
u_j, whatever the function g_j is:

    sum_i K_ji (grad f_i ^ grad u_j) = 0,                    a ^ b = a b^T - b a^T.

u_j is a polynomial of x whose total degree is the product of the degrees of the layers before. The equations are linear
in the products of K_ji and the coefficients of u_j; no other polynomials of this degree solve them than sums of these
products, one for each function, and an eigenvalue problem tells them apart (as in `_algebraic`).

That takes as many equations as there are products. Two functions need only as many as a polynomial has coefficients:
with K_j = (lambda, -1) they are eigenvectors of a pencil with more rows than columns. So do more functions, with a
search over unit vectors K_j, which are few numbers (see `_parallel`).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from math import ceil, comb

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ._algebraic import cpd_directions
from ._null_space import null_vectors
from ._parallel import Parallel
from ._polynomials import Polynomials, box_of, n_products
from ._sampled import Budget

_MOST_COEFFICIENTS = 1000  # of a polynomial
_MOST_PRODUCTS = 4000
_ENOUGH = 1.5  # times as many equations as unknowns
_DEPENDENT = 1e14  # condition number of outputs that are fewer than they seem
_REAL = 1e-3  # imaginary parts of eigenvalues that may be rounding


def solvable(n_samples: int, n_inputs: int, n_functions: int, degree: int) -> bool:
    """Whether there are enough equations, and not too many unknowns."""
    p = n_products(n_inputs, degree) - 1
    return n_inputs >= 2 and p <= _MOST_COEFFICIENTS and n_samples * (n_inputs - 1) >= p + n_functions


def slopes_of_arguments(
    X: Float[ndarray, "S m"], J: Float[ndarray, "S r m"], degree: int, rng: np.random.Generator, budget: Budget
) -> Float[ndarray, "S r m"] | None:
    """The gradients of u_1, ..., u_r at all samples, each up to a factor; None where they are not found.

    There are as many outputs as functions.
    """
    S, r, m = J.shape
    size = np.linalg.norm(J, axis=(1, 2))
    told = size > 0.0
    if not told.any():
        return None
    # Every sample counts: polynomials of high degree span many powers of ten.
    unit = J[told] / size[told, None, None]
    whole = np.asarray(np.linalg.qr(unit.mT.reshape(-1, r), mode="r"))
    if np.linalg.cond(whole) > _DEPENDENT:
        return None
    unit = np.linalg.solve(whole.T, unit)
    polynomials = Polynomials(m, degree)
    z = X.T[None]
    table = polynomials.slopes(polynomials.tables(z, box_of(z)))[0, 1:]  # (p, m, S): constants have no slopes
    p = len(table)
    basis = np.linalg.qr(table.reshape(p, -1).T)[0].T.reshape(p, m, S)
    told_basis = basis[..., told]
    parallel = Parallel(*_some(unit, told_basis, ceil(_ENOUGH * p / (m - 1)), rng), rng, budget)
    lifted = r * p / _per_sample(m, r)
    try:
        if r == 2:
            found = parallel.found(_eigenvalues(_wedges(parallel.J, parallel.slopes), rng))
        elif lifted <= len(unit) and r * p <= _MOST_PRODUCTS:
            found = parallel.found(_products(_wedges(*_some(unit, told_basis, ceil(_ENOUGH * lifted), rng)), rng))
        else:
            found = parallel.searched()
    except np.linalg.LinAlgError:
        return None
    if len(found) < r:
        return None
    return np.einsum("rp,pms->srm", np.stack([one.vector for one in found[:r]]), basis)


def _some(
    J: Float[ndarray, "S r m"], slopes: Float[ndarray, "p m S"], count: int, rng: np.random.Generator
) -> tuple[Float[ndarray, "s r m"], Float[ndarray, "p m s"]]:
    """So many of the samples, if there are more."""
    used = rng.permutation(len(J))[:count]
    return J[used], slopes[..., used]


def _per_sample(m: int, r: int) -> int:
    """Sums of r products a ^ b with given a have so many free entries."""
    return comb(m, 2) - comb(max(m - r, 0), 2)


def _wedges(J: Float[ndarray, "S r m"], slopes: Float[ndarray, "p m S"]) -> Float[ndarray, "r E p"]:
    """The equations for the coefficients of u if K were the unit vector i, for every i: pairs of inputs by samples."""
    (S, r, m), p = J.shape, len(slopes)
    pairs = list(combinations(range(m), 2))
    out = np.empty((r, len(pairs), S, p))
    for e, (a, b) in enumerate(pairs):
        out[:, e] = J[:, :, a].T[..., None] * slopes[:, b].T - J[:, :, b].T[..., None] * slopes[:, a].T
    return out.reshape(r, -1, p)


def _products(blocks: Float[ndarray, "r E p"], rng: np.random.Generator) -> Iterator[Float[ndarray, " r"]]:
    """Rows of K: the null space of all equations, told apart into products."""
    r, E, p = blocks.shape
    null = null_vectors(blocks.transpose(1, 0, 2).reshape(E, r * p), r, rng).T.reshape(r, r, p)
    K = cpd_directions(null.transpose(2, 0, 1), r, rng)
    yield from () if K is None else K


def _eigenvalues(blocks: Float[ndarray, "2 E p"], rng: np.random.Generator) -> Iterator[Float[ndarray, " 2"]]:
    """Rows of K among others: singular combinations of as many sums of rows as there are columns."""
    from scipy.linalg import eigvals

    _, E, p = blocks.shape
    mixed = np.linalg.qr(rng.normal(size=(E, p)))[0].T @ blocks
    for value in eigvals(mixed[1], mixed[0]):
        if np.isfinite(value) and abs(value.imag) <= _REAL * abs(value):
            yield np.array([value.real, -1.0]) / np.hypot(value.real, 1.0)
