"""The fast sweeps against the paper's matrices and `lstsq` (benchmarks/reference.py), factor by factor."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import decouply as dc
from benchmarks import reference
from benchmarks.problems import noise_samples, problem_of
from decouply.solvers.alternating._coefficient_updates import update_c_constr, update_c_proj
from decouply.solvers.alternating._loop import draw_factors
from decouply.solvers.alternating._sweep import sweep

UPDATES = {"proj": update_c_proj, "constr": update_c_constr}
CASES = [((3, 2, 4), (3,)), ((4, 3, 2, 3), (3, 2)), ((3, 2, 2, 2, 3), (3, 2, 2)), ((2, 2, 2, 2, 2, 3), (2, 2, 2, 2))]


@pytest.mark.parametrize("method", ["proj", "constr"])
@pytest.mark.parametrize(
    ("dims", "degrees", "start"),
    # Positive starts make the products of three and more factors nearly singular: there both sides lose digits.
    [(*case, dc.solvers.Normal()) for case in CASES] + [(*case, dc.solvers.Uniform(0.1, 10)) for case in CASES[:2]],
    ids=str,
)
def test_one_iteration_gives_the_same_factors(method, dims, degrees, start):
    samples, lam = noise_samples(dims[-1], dims[0], 60), 1e-2  # noise: no update is singular
    problem = problem_of(samples, dims[1:-1], degrees)
    state = draw_factors(problem, start, 2, np.random.default_rng(4))
    fast = sweep(problem, state, lam, UPDATES[method])
    for b in range(2):
        plain = reference.State([w[b] for w in state.W], [g[b] for g in state.G], state.R[b], [c[b] for c in state.C])
        slow = reference.iteration(samples.J, samples.F, samples.X, plain, list(degrees), lam, method)
        for ours, theirs in zip((*fast.W, *fast.G, fast.R), (*slow.W, *slow.G, slow.R), strict=True):
            assert_allclose(ours[b], theirs, rtol=0, atol=1e-8 * np.abs(theirs).max())
        objective = reference.objective(samples.J, samples.F, slow, lam)
        assert fast.residual_J[b] + lam * fast.residual_F[b] == pytest.approx(objective, rel=1e-8)


@pytest.mark.parametrize("method", ["proj", "constr"])
def test_more_functions_than_outputs_give_the_same_factors_too(method):
    samples = noise_samples(2, 5, 60)
    problem = problem_of(samples, (4,), (3,))
    state = draw_factors(problem, dc.solvers.Normal(), 1, np.random.default_rng(4))
    plain = reference.State([w[0] for w in state.W], [g[0] for g in state.G], state.R[0], [c[0] for c in state.C])
    slow = reference.iteration(samples.J, samples.F, samples.X, plain, [3], 1e-2, method)
    fast = sweep(problem, state, 1e-2, UPDATES[method])
    for ours, theirs in zip((*fast.W, *fast.G, fast.R), (*slow.W, *slow.G, slow.R), strict=True):
        assert_allclose(ours[0], theirs, rtol=0, atol=1e-8 * np.abs(theirs).max())
