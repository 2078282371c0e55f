r"""ParaTuck-L without functions: the factors of a tensor alone, by algebra if possible, and by least squares.

This is what decoupling adds functions to: the diagonals G are free here, a row for every slice.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from .._support._arguments import as_array, as_count, as_counts, as_generator, as_number
from .._support._errors import InputError
from .._support._time_limit import deadline_after, now
from ..bases._abstract import MOST_FUNCTIONS
from ..model._paratuck import ParaTuck
from .alternating._block_updates import (
    diagonal_equations,
    input_products,
    left_products,
    output_equations,
    right_products,
    solve_output_equations,
    update_diagonals,
    update_inner_factor,
    update_input_factor,
)
from .initial._tensor_decompositions import cpd_directions, decompose_paratuck2, samples_for_paratuck2
from .problem._batched_linalg import gram_of_columns, outer
from .problem._start_distributions import MOST_STARTS

_ERROR_OF_EXACT = 1e-24  # a relative squared error that no sweep improves


@dataclass(frozen=True, eq=False)
class ParaTuckFit:
    """The factors of a tensor, and how well they give it.

    Attributes
    ----------
    paratuck : ParaTuck
        The factors.
    error : float
        ||J - J_hat||^2 / ||J||^2.
    found_by : str
        "CPD", "algebraic ParaTuck-2" or "random start 3": the start of the sweeps of least squares.
    n_steps : int
        How many sweeps were made.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> system = dc.systems.random_system((3, 2, 3), (3,), rng=0)
    >>> X = np.random.default_rng(0).uniform(-1, 1, (40, 3))
    >>> samples = dc.Samples(X, F=system(X), J=system.jacobian(X))
    >>> fit = dc.paratuck(samples.J, 2)
    >>> fit.paratuck.ranks, bool(fit.error < 1e-20)
    ((2,), True)
    """

    paratuck: ParaTuck
    error: float
    found_by: str
    n_steps: int

    def __repr__(self) -> str:
        return f"ParaTuckFit({self.paratuck!r}, error {self.error:.2e}, by {self.found_by})"


def paratuck(
    J: object,
    ranks: int | Sequence[int],
    *,
    method: str = "auto",
    n_starts: int = 10,
    max_steps: int = 500,
    rtol: float = 1e-8,
    max_seconds: float | None = None,
    rng: int | np.random.Generator = 0,
) -> ParaTuckFit:
    """Decompose a tensor into ParaTuck-L factors, without internal functions.

    One layer (a CPD) and two layers begin with an algebraic solution, if ranks and slices suffice: exact for exact
    data. Random starts follow unless that was exact. All are improved by alternating least squares. With
    ``method="algebra"`` the algebraic solution is the answer, as it is: CPD by generalised eigenvectors, or algebraic
    ParaTuck-2.

    The factors are not unique. Components of a layer can be permuted, and scaled in W_(l-1), G^(l) and W_l. For L >= 2
    every slice can besides move a factor between the rows of two G's: ``G[0][s] * a, G[1][s] / a``. So columns of a
    single G mean something only relative to each other at one slice, and only constraints such as functions of one
    argument tie the slices together. For L >= 3 there may be more freedom than that.

    Parameters
    ----------
    J : (S, n, m)
        The tensor, slices first.
    ranks : int or sequence of int
        (r_1, ..., r_L), from input to output, or one number for one layer.
    method : str
        "auto" is algebra and then least squares. "algebra" is algebra alone, for one or two layers. "als" is
        alternating least squares from random starts alone.
    n_starts : int
        Random starts, if the algebraic one is impossible or not exact.
    max_steps : int
        Sweeps of alternating least squares.
    rtol : float
        A start ends when the relative decrease of its error in one sweep is below this.
    max_seconds : float, optional
        Sweeps end after this many seconds, with the best so far. None is no limit.
    rng : int or numpy Generator
        Seed or generator.

    Returns
    -------
    ParaTuckFit
        The factors, their error and how they were found.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> system, X = dc.systems.f2(), np.random.default_rng(0).uniform(-1, 1, (30, 3))
    >>> fit = dc.paratuck(system.jacobian(X), (2, 2))
    >>> fit.paratuck, fit.found_by, fit.error < 1e-20
    (ParaTuck(L=2, 3-2-2-3, S=30), 'algebraic ParaTuck-2', True)
    """
    tensor = as_array("J", J, ("S", "n", "m"))
    widths = as_counts("ranks", ranks, most=MOST_FUNCTIONS)
    if method not in ("auto", "algebra", "als"):
        raise InputError(f'`method` must be "auto", "algebra" or "als". Got {method!r}.')
    as_count("n_starts", n_starts, most=MOST_STARTS)
    as_count("max_steps", max_steps)
    as_number("rtol", rtol)
    deadline = deadline_after(max_seconds)
    if not np.any(tensor):
        raise InputError("`J` must not be 0 everywhere: it has no factors to find.")
    generator = as_generator(rng)
    exponent = int(np.frexp(np.max(np.abs(tensor)))[1])
    unit, limits = np.ldexp(tensor, -exponent), (max_steps, deadline)  # a tensor whose numbers have squares
    S, n, m = unit.shape
    best: ParaTuckFit | None = None
    with np.errstate(all="ignore"):  # starts that overflow have an infinite error
        name, start = ("", None) if method == "als" else _algebraic_start(unit, widths, generator)
        if start is not None:
            best = _improve(unit, *start, (0, 0.0) if method == "algebra" else limits, rtol, lambda _: name)
        if method == "algebra" and best is None:
            two = len(widths) == 2 <= min(widths)
            needs = f"{samples_for_paratuck2(*widths)} slices" if two else "ranks of at least 2"
            raise InputError(
                f'`method="algebra"` needs one layer, or two with {needs}, and r_1 <= m = {m} and r_L <= n = {n}, in a '
                f'generic tensor. Got ranks {widths} and {S} slices: use method="als".'
            )
        if best is None or (best.error > _ERROR_OF_EXACT and method != "algebra"):
            W = [generator.normal(size=(n_starts, after, before)) for before, after in pairwise((m, *widths, n))]
            G = [generator.normal(size=(n_starts, S, r)) for r in widths]
            random = _improve(unit, W, G, limits, rtol, lambda b: f"random start {b + 1}")
            best = random if best is None or random.error < best.error else best
        *W, last = best.paratuck.W
        return dataclasses.replace(best, paratuck=ParaTuck([*W, np.ldexp(last, exponent)], best.paratuck.G))


Start = tuple[list[ndarray], list[ndarray]]  # W and G, with a batch axis first


def _algebraic_start(J: ndarray, ranks: tuple[int, ...], rng: np.random.Generator) -> tuple[str, Start | None]:
    """The start that algebra gives, None if ranks or slices do not allow it."""
    S, n, m = J.shape
    if len(ranks) > 2 or ranks[0] > m or ranks[-1] > n:
        return "", None
    if len(ranks) == 1:
        W0 = cpd_directions(J, ranks[0], rng)
        if W0 is None:
            return "", None
        columns = J @ np.linalg.pinv(W0)  # W_1 D_s: one matrix (S, n) of rank one per component
        left, sizes, right = np.linalg.svd(columns.transpose(2, 0, 1), full_matrices=False)
        return "CPD", ([W0[None], right[:, 0].T[None]], [(left[..., 0] * sizes[:, :1]).T[None]])
    V = np.linalg.svd(J.reshape(S * n, m), full_matrices=False)[2][: ranks[0]].T
    U = np.linalg.svd(J.transpose(0, 2, 1).reshape(S * m, n), full_matrices=False)[2][: ranks[1]].T
    found = decompose_paratuck2(U.T @ J @ V, rng)
    if found is None:
        return "", None
    W = [found.C @ V.T, found.B, U @ found.A]
    return "algebraic ParaTuck-2", ([w[None] for w in W], [found.h[None], found.g[None]])


def _improve(
    J: ndarray, W: list[ndarray], G: list[ndarray], limits: tuple[int, float], rtol: float, name: Callable[[int], str]
) -> ParaTuckFit:
    """Sweeps until no start improves, or steps or time are used up; the best one."""
    max_steps, deadline = limits
    size, error = float(np.sum(J**2)), _squared_residuals(J, W, G)
    steps = 0
    while steps < max_steps and error.min() > _ERROR_OF_EXACT * size:
        steps += 1
        trial_W, trial_G = als_sweep(J, W, G)
        new = _squared_residuals(J, trial_W, trial_G)
        better = new < error
        W, G = (
            [np.where(better[:, None, None], a, b) for a, b in zip(new_, old, strict=True)]
            for new_, old in ((trial_W, W), (trial_G, G))
        )
        done = np.all(new >= (1.0 - rtol) * error)
        error = np.minimum(new, error)
        if done or now() > deadline:
            break
    best = int(np.argmin(error))
    factors = ParaTuck([w[best] for w in W], [g[best] for g in G])
    return ParaTuckFit(factors, float(error[best]) / size, name(best), steps)


def als_sweep(J: Float[ndarray, "S n m"], W: list[ndarray], G: list[ndarray]) -> Start:
    """Every factor once, each by least squares with the others held: W_0, G^(1), W_1, ..., G^(L), W_L."""
    W, G = list(W), list(G)
    L = len(G)
    A = left_products(W, G)
    AA = [gram_of_columns(a) for a in A]
    P = A[0] * G[0][:, :, None, :]
    W[0] = update_input_factor(J, P)
    K, N = input_products(J, W[0])
    for l in range(L):
        G[l] = update_diagonals(*diagonal_equations(A[l], AA[l], K, N))
        if l < L - 1:  # slice by slice, a factor moves on to the next layer: numbers stay of one size
            rms = np.sqrt(np.mean(G[l] ** 2, axis=2, keepdims=True))
            rms = np.where(rms > 0.0, rms, 1.0)
            G[l], G[l + 1] = G[l] / rms, G[l + 1] * rms
        KD, Q = K * G[l][:, :, None, :], N * outer(G[l])
        if l < L - 1:
            P = A[l + 1] * G[l + 1][:, :, None, :]
            W[l + 1] = update_inner_factor(P, AA[l + 1] * outer(G[l + 1]), KD, Q)
            K, N = right_products(KD, Q, W[l + 1])
    W[L] = solve_output_equations(*output_equations(KD, Q, None))
    return W, G


def _squared_residuals(J: ndarray, W: list[ndarray], G: list[ndarray]) -> Float[ndarray, " B"]:
    P = left_products(W, G)[0] * G[0][:, :, None, :]
    total = np.sum((J - P @ W[0][:, None]) ** 2, axis=(1, 2, 3))
    return np.where(np.isfinite(total), total, np.inf)
