r"""The arguments of the last layer by linear algebra, if everything before it is a polynomial.

Let K = W_L^-1. Then sum_i K_ji f_i = g_j(u_j), so that at every point the gradient of the sum is parallel to that of
u_j, whatever the function g_j is:

    sum_i K_ji (grad f_i ^ grad u_j) = 0,                    a ^ b = a b^T - b a^T.

u_j is a polynomial of x whose total degree is the product of the degrees of the layers before. The equations are linear
in the products of K_ji and the coefficients of u_j. No other polynomials of this degree solve them than sums of these
products, one for each function, and an eigenvalue problem tells them apart (as in `_tensor_decompositions`).

That takes as many equations as there are products. Two functions need only as many as a polynomial has coefficients:
with K_j = (lambda, -1) they are eigenvectors of a pencil with more rows than columns. So do more functions, with a
search over unit vectors k = K_j, which are few numbers. Let a = J^T k at every sample. A polynomial whose gradients are
parallel to a is a null vector of

    M(k) = |a| B grad phi_q,          B an orthonormal basis of all that is orthogonal to a,

with m - 1 rows for every sample and one column for every polynomial phi_q. Combinations k for which M(k) is singular
are isolated, one for each function, and Newton's steps lead to the nearest one.

A bottleneck, a layer with fewer functions than inputs, is simpler. Everything that the model computes is a function of
its r arguments u. So the kernel of the Jacobian of the model, m - r directions at every sample, is also that of u:

    grad u_j . n_s = 0,                    J_s n_s = 0.

These equations are linear in the coefficients of u_j. Their solutions are sums of the u_j, and of nothing else: r
polynomials v with u = M v.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations
from math import ceil, comb

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ._multivariate_polynomials import Polynomials, box_of, n_products
from ._start_data import Budget
from ._tensor_decompositions import cpd_directions

_MAX_COEFFICIENTS = 1000  # of a polynomial
_MAX_PRODUCTS = 4000  # of coefficients and entries of K: columns of one dense matrix
_SINGULAR_VALUE_OF_KERNEL = 1e-6  # of the largest of a Jacobian, in the median of samples
_SIZE_OF_SOLUTION = 1e-6  # of what unit vectors leave on average
_EQUATIONS_PER_UNKNOWN = 1.5  # times as many equations as unknowns
_CONDITION_OF_DEPENDENT = 1e14  # condition number of outputs that are fewer than they seem
_IMAGINARY_SHARE_OF_REAL = 1e-3  # imaginary parts of eigenvalues that may be rounding
_INVERSE_ITERATIONS = 4  # each multiplies the parts of other vectors by the square of a ratio of singular values
_PIVOT_OF_ZERO = 1e-18  # of the largest entry: what a pivot that is 0 is replaced by
_NEWTON_STEPS, _LONGEST_STEP = 25, 0.5  # of a unit vector k
_STEP_SHARES = (1.0, 0.3, 0.1, 0.03)  # of a Newton step, the first that helps is taken
_STALLED_RATIO = 0.999  # between sizes before and after a step that is the last one
_COSINE_OF_SAME = 1.0 - 1e-9  # cosine between combinations that are the same one
_REFINED_PER_FUNCTION = 4  # guesses per function that are refined
_TRIED_PER_FUNCTION = 3  # random starts per function in a round
_SEARCH_ROUNDS = 10  # of random starts
_RELATIVE_SIZE_OF_ROOT = 1e-4  # of the median size at random combinations


def null_vectors(M: Float[ndarray, "E p"], count: int, rng: np.random.Generator) -> Float[ndarray, "p c"]:
    """Right singular vectors of the smallest singular values, by inverse iteration: cheaper than all of them."""
    from scipy.linalg import solve_triangular

    R = np.asarray(np.linalg.qr(M, mode="r"))
    if len(R) < R.shape[1]:
        raise np.linalg.LinAlgError("fewer equations than unknowns")
    at = np.arange(len(R))
    R[at, at] += np.where(R[at, at] == 0.0, _PIVOT_OF_ZERO * (np.abs(R).max() or 1.0), 0.0)
    V = rng.normal(size=(R.shape[1], count))
    for _ in range(_INVERSE_ITERATIONS):
        V = solve_triangular(R, solve_triangular(R, V, trans="T", check_finite=False), check_finite=False)
        if not np.all(np.isfinite(V)):
            raise np.linalg.LinAlgError("singular beyond rounding")
        V = np.linalg.qr(V / np.abs(V).max(axis=0))[0]
    return V


@dataclass(frozen=True)
class Singular:
    """A combination k, the most singular vector of M(k), and what M(k) leaves of it."""

    k: Float[ndarray, " r"]
    vector: Float[ndarray, " p"]
    size: float


@dataclass(frozen=True)
class Parallel:
    """Gradients of r outputs at S points, and those of p polynomials there."""

    J: Float[ndarray, "S r m"]
    slopes: Float[ndarray, "p m S"]
    rng: np.random.Generator
    budget: Budget

    def at(self, k: Float[ndarray, " r"]) -> Singular:
        """What is nearest to a parallel gradient for this combination."""
        _, M = self._rows(k)
        vector = null_vectors(M, 1, self.rng)[:, 0]
        return Singular(k, vector, float(np.linalg.norm(M @ vector)))

    def _rows(self, k: Float[ndarray, " r"]) -> tuple[Float[ndarray, "S m"], Float[ndarray, "R p"]]:
        a = k @ self.J
        return a, self._across(a, self.slopes.T).reshape(-1, len(self.slopes))

    @staticmethod
    def _across(a: Float[ndarray, "S m"], b: Float[ndarray, "S m q"]) -> Float[ndarray, "S m1 q"]:
        """|a| B b, with B from the reflection that turns a to the first axis."""
        size = np.linalg.norm(a, axis=1, keepdims=True)
        w = a.copy()
        w[:, :1] += np.where(w[:, :1] < 0.0, -1.0, 1.0) * size
        length = np.sum(w**2, axis=1, keepdims=True)
        share = 2.0 * w / np.where(length > 0.0, length, 1.0)
        return size[..., None] * (b - share[..., None] * (w[:, None] @ b))[:, 1:]

    def refine(self, one: Singular) -> Singular:
        """Newton's steps of k and the vector together, while they help."""
        for _ in range(_NEWTON_STEPS):
            k, v = one.k, one.vector
            turns = np.linalg.svd(k[None])[2][1:]  # directions in which k may turn
            a, M = self._rows(k)
            b, da = np.einsum("p,pms->sm", v, self.slopes), (turns @ self.J).mT  # (S, m, r - 1)
            square = np.maximum(np.sum(a**2, axis=1), np.finfo(float).tiny)[:, None]
            # b = beta a + c with c across a: only beta and the length of a change what is across.
            beta, longer = np.sum(a * b, axis=1, keepdims=True) / square, (a[:, None] @ da)[:, 0] / square
            turned = self._across(a, b[..., None] * longer[:, None] - beta[..., None] * da).reshape(len(M), -1)
            table = np.block([[M, turned, (M @ v)[:, None]], [v, np.zeros(len(turns) + 1)]])
            R = np.asarray(np.linalg.qr(table, mode="r"))[:-1]  # the right-hand side is its last column
            move = np.linalg.solve(R[len(v) :, len(v) : -1], R[len(v) :, -1]) @ turns
            move *= min(1.0, _LONGEST_STEP / max(float(np.linalg.norm(move)), np.finfo(float).tiny))
            trials = (self.at(_normalise(k - part * move)) for part in _STEP_SHARES)
            better = next((trial for trial in trials if trial.size < one.size), None)
            if better is None:
                break
            stalled, one = better.size > _STALLED_RATIO * one.size, better
            if stalled:
                break
        return one

    def roots_near(self, guesses: Iterable[Float[ndarray, " r"]]) -> list[Singular]:
        """Different singular combinations near the best of the guesses, the most singular first."""
        near = sorted((self.at(k) for k in guesses), key=lambda one: one.size)
        out: list[Singular] = []
        for guess in near[: _REFINED_PER_FUNCTION * self.n_functions]:
            _add_if_new(out, self.refine(guess))
        return sorted(out, key=lambda one: one.size)

    def search_roots(self) -> list[Singular]:
        """Singular combinations from random ones; fewer than there are functions if they do not stand out."""
        roots: list[Singular] = []
        for count in range(_SEARCH_ROUNDS):
            guesses = self.rng.normal(size=(_TRIED_PER_FUNCTION * self.n_functions, self.n_functions))
            if roots:  # half of them away from what is known
                known = np.linalg.qr(np.stack([root.k for root in roots]).T)[0]
                guesses[::2] -= (guesses[::2] @ known) @ known.T
            near = sorted((self.at(_normalise(k)) for k in guesses), key=lambda one: one.size)
            for guess in near:
                if self.budget.is_over():
                    return roots
                one = self.refine(guess)
                self.budget.progress(one.size)
                if one.size <= _RELATIVE_SIZE_OF_ROOT * near[len(near) // 2].size:
                    _add_if_new(roots, one)
                if len(roots) == self.n_functions:
                    return roots
            if count >= 1 and not roots:
                break
        return roots

    @property
    def n_functions(self) -> int:
        return self.J.shape[1]


def _add_if_new(known: list[Singular], one: Singular) -> None:
    if all(abs(one.k @ other.k) < _COSINE_OF_SAME for other in known):
        known.append(one)


def _normalise(k: Float[ndarray, " r"]) -> Float[ndarray, " r"]:
    return k / np.linalg.norm(k)


def has_enough_equations(n_samples: int, n_inputs: int, n_functions: int, degree: int) -> bool:
    """Whether there are enough equations, and not too many unknowns."""
    p = n_products(n_inputs, degree) - 1
    return n_inputs >= 2 and p <= _MAX_COEFFICIENTS and n_samples * (n_inputs - 1) >= p + n_functions


def slopes_of_arguments(
    X: Float[ndarray, "S m"], J: Float[ndarray, "S r m"], degree: int, rng: np.random.Generator, budget: Budget
) -> Float[ndarray, "S r m"] | None:
    """The gradients of u_1, ..., u_r at all samples, each up to a factor; None if they are not found.

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
    if np.linalg.cond(whole) > _CONDITION_OF_DEPENDENT:
        return None
    unit = np.linalg.solve(whole.T, unit)
    polynomials = Polynomials(m, degree)
    z = X.T[None]
    table = polynomials.slopes(polynomials.tables(z, box_of(z)))[0, 1:]  # (p, m, S): constants have no slopes
    p = len(table)
    basis = np.linalg.qr(table.reshape(p, -1).T)[0].T.reshape(p, m, S)
    told_basis = basis[..., told]
    parallel = Parallel(*_subset(unit, told_basis, ceil(_EQUATIONS_PER_UNKNOWN * p / (m - 1)), rng), rng, budget)
    lifted = r * p / (comb(m, 2) - comb(max(m - r, 0), 2))  # free entries of sums of r products a ^ b with given a
    try:
        if r == 2:
            found = parallel.roots_near(_pencil_rows(_wedges(parallel.J, parallel.slopes), rng))
        elif lifted <= len(unit) and r * p <= _MAX_PRODUCTS:
            wedges = _wedges(*_subset(unit, told_basis, ceil(_EQUATIONS_PER_UNKNOWN * lifted), rng))
            found = parallel.roots_near(_product_rows(wedges, rng))
        else:
            found = parallel.search_roots()
    except np.linalg.LinAlgError:
        return None
    if len(found) < r:
        return None
    return np.einsum("rp,pms->srm", np.stack([one.vector for one in found[:r]]), basis)


def _subset(
    J: Float[ndarray, "S r m"], slopes: Float[ndarray, "p m S"], count: int, rng: np.random.Generator
) -> tuple[Float[ndarray, "s r m"], Float[ndarray, "p m s"]]:
    """So many of the samples, if there are more."""
    used = rng.permutation(len(J))[:count]
    return J[used], slopes[..., used]


def _wedges(J: Float[ndarray, "S r m"], slopes: Float[ndarray, "p m S"]) -> Float[ndarray, "r E p"]:
    """The equations for the coefficients of u if K were the unit vector i, for every i: pairs of inputs by samples."""
    (S, r, m), p = J.shape, len(slopes)
    pairs = list(combinations(range(m), 2))
    out = np.empty((r, len(pairs), S, p))
    for e, (a, b) in enumerate(pairs):
        out[:, e] = J[:, :, a].T[..., None] * slopes[:, b].T - J[:, :, b].T[..., None] * slopes[:, a].T
    return out.reshape(r, -1, p)


def _product_rows(blocks: Float[ndarray, "r E p"], rng: np.random.Generator) -> Iterator[Float[ndarray, " r"]]:
    """Rows of K: the null space of all equations, separated into products."""
    r, E, p = blocks.shape
    null = null_vectors(blocks.transpose(1, 0, 2).reshape(E, r * p), r, rng).T.reshape(r, r, p)
    K = cpd_directions(null.transpose(2, 0, 1), r, rng)
    yield from () if K is None else K


def _pencil_rows(blocks: Float[ndarray, "2 E p"], rng: np.random.Generator) -> Iterator[Float[ndarray, " 2"]]:
    """Rows of K among others: singular combinations of as many sums of rows as there are columns."""
    from scipy.linalg import eigvals

    _, E, p = blocks.shape
    mixed = np.linalg.qr(rng.normal(size=(E, p)))[0].T @ blocks
    for value in eigvals(mixed[1], mixed[0]):
        if np.isfinite(value) and abs(value.imag) <= _IMAGINARY_SHARE_OF_REAL * abs(value):
            yield np.array([value.real, -1.0]) / np.hypot(value.real, 1.0)


# A bottleneck


def bottleneck_has_enough_equations(n_samples: int, n_inputs: int, n_functions: int, degree: int) -> bool:
    """Whether there are enough equations, and not too many unknowns."""
    p = n_products(n_inputs, degree) - 1
    return n_functions < n_inputs and p <= _MAX_COEFFICIENTS and n_samples * (n_inputs - n_functions) >= p


def functions_at_bottleneck(
    X: Float[ndarray, "S m"], J: Float[ndarray, "S n m"], r: int, degree: int, rng: np.random.Generator
) -> tuple[Float[ndarray, "S r"], Float[ndarray, "S r m"]] | None:
    """Values and slopes of r polynomials that all outputs are functions of; None if there are none."""
    _, sizes, right = np.linalg.svd(J)
    if not sizes[:, 0].all():
        return None
    if sizes.shape[1] > r and np.median(sizes[:, r] / sizes[:, 0]) > _SINGULAR_VALUE_OF_KERNEL:
        return None
    polynomials, z = Polynomials(X.shape[1], degree), X.T[None]
    tables = polynomials.tables(z, box_of(z))
    slopes, values = polynomials.slopes(tables)[0, 1:], polynomials.values(tables)[0, 1:]  # (p, m, S) and (p, S)
    R = np.asarray(np.linalg.qr(slopes.reshape(len(slopes), -1).T, mode="r"))
    try:
        slopes = np.linalg.solve(R.T, slopes.reshape(len(R), -1)).reshape(slopes.shape)
        values = np.linalg.solve(R.T, values)
        equations = np.einsum("skm,pms->skp", right[:, r:], slopes).reshape(-1, len(R))
        found = null_vectors(equations, r, rng)
    except np.linalg.LinAlgError:
        return None
    if np.linalg.norm(equations @ found) > _SIZE_OF_SOLUTION * np.linalg.norm(equations) * np.sqrt(r / len(R)):
        return None
    return values.T @ found, np.einsum("pms,pr->srm", slopes, found)
