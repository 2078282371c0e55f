"""One function per argument for all outputs, from functions of every output's own."""

import numpy as np
from numpy.testing import assert_allclose

from decouply.solvers.least_squares._fitting_problem import (
    fit_shared_functions,
    functions_of_dependent_arguments,
    nearest_shared_functions,
)

B, R, D, N, FIRST = 2, 3, 2, 4, 1


def test_functions_that_outputs_share_are_found_at_once():
    rng = np.random.default_rng(0)
    c, W = rng.normal(size=(B, R, D)), rng.normal(size=(B, N, R))
    found_c, found_W, shared = nearest_shared_functions(np.einsum("brd,bnr->brdn", c, W))
    assert shared
    assert_allclose(np.einsum("brd,bnr->brdn", found_c, found_W), np.einsum("brd,bnr->brdn", c, W), atol=1e-12)


def noisy():
    """A design with nearly dependent columns, shared functions, a constant of every output, and noise."""
    rng = np.random.default_rng(1)
    design = rng.normal(size=(B, FIRST + R * D, 60))
    design[:, 2] = design[:, 1] + 1e-3 * design[:, 2]
    c, W = rng.normal(size=(B, R, D)), rng.normal(size=(B, N, R))
    free = np.concatenate([rng.normal(size=(B, 1, N)), np.einsum("brd,bnr->brdn", c, W).reshape(B, R * D, N)], axis=1)
    Y = design.mT @ free + 0.01 * rng.normal(size=(B, 60, N))
    A = np.stack([np.linalg.lstsq(design[b].T, Y[b])[0] for b in range(B)])
    return design, Y, A


def misfit(design, Y, c, W, rest):
    A = rest.copy()
    A[:, FIRST:] = np.einsum("brd,bnr->brdn", c, W).reshape(B, R * D, N)
    return np.sum((Y - design.mT @ A) ** 2, axis=(1, 2))


def test_data_decide_where_outputs_differ():
    design, Y, A = noisy()
    c, W, shared = nearest_shared_functions(A[:, FIRST:].reshape(B, R, D, N))
    assert not shared
    before = misfit(design, Y, c, W, A)
    after = misfit(design, Y, *fit_shared_functions(c, W, design @ design.mT, A, FIRST))
    best = np.sum((Y - design.mT @ A) ** 2, axis=(1, 2))
    assert (after < 0.1 * before).all() and (after < 1.2 * best).all()


def test_weights_are_the_best_for_the_functions_found():
    design, Y, A = noisy()
    c, W, _ = nearest_shared_functions(A[:, FIRST:].reshape(B, R, D, N))
    c, W, rest = fit_shared_functions(c, W, design @ design.mT, A, FIRST)
    least = misfit(design, Y, c, W, rest)
    for n in range(N):
        other = W.copy()
        other[:, n] *= 1.001
        assert (misfit(design, Y, c, other, rest) > least - 1e-6).all()


def test_arguments_that_depend_on_each_other_leave_lines_open_but_no_functions():
    """Three cubics of two values: linear parts can be exchanged, for every output on its own."""
    rng = np.random.default_rng(2)
    t = rng.uniform(-1, 1, (B, 80, 2)) @ rng.normal(size=(B, 2, R))
    columns = [np.ones((B, 80, 1)), *(t[..., [j]] ** np.arange(1, 4) for j in range(R))]
    design = np.concatenate(columns, axis=-1).mT
    c, W = rng.normal(size=(B, R, 3)), rng.normal(size=(B, N, R))
    Y = design[:, 1:].mT @ np.einsum("brd,bnr->brdn", c, W).reshape(B, 3 * R, N)
    A = np.stack([np.linalg.lstsq(design[b].T, Y[b])[0] for b in range(B)])
    gram, free = design @ design.mT, A[:, 1:].reshape(B, R, 3, N)
    assert not nearest_shared_functions(free)[2]
    found_c, found_W = functions_of_dependent_arguments(free, gram, A, 1, 2)
    found = np.einsum("brd,bnr->brdn", found_c, found_W)
    assert_allclose(found, np.einsum("brd,bnr->brdn", c, W), atol=1e-6)
