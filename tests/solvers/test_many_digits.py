"""One sweep in double precision against the paper's matrices in arithmetic of 120 digits (benchmarks/reference.py)."""

import numpy as np
import pytest

import decouply as dc
from benchmarks import reference
from benchmarks.problems import noise_samples, problem_of
from decouply.solvers.alternating import _block_updates
from decouply.solvers.alternating._coefficient_updates import update_c_constr, update_c_proj
from decouply.solvers.alternating._loop import draw_factors
from decouply.solvers.alternating._sweep import sweep
from tests.strategies import sampled

mpmath = pytest.importorskip("mpmath")

LAM = 0.0625  # whose root is exact
UPDATES = {"proj": update_c_proj, "constr": update_c_constr}


@pytest.fixture
def many_digits(monkeypatch):
    def lstsq(M, b, rcond=None):
        """Normal equations: with so many digits they lose none that matter."""
        inverse = np.array((mpmath.matrix((M.T @ M).tolist()) ** -1).tolist(), dtype=object)
        return (inverse @ (M.T @ b),)

    monkeypatch.setattr(np.linalg, "lstsq", lstsq)
    with mpmath.workdps(120):
        yield np.vectorize(mpmath.mpf, otypes=[object])


def worst_error(many_digits, samples, ranks, degrees, method, seed):
    """The largest error of any factor, relative to its largest entry, after one sweep from entries in [0.1, 10]."""
    problem = problem_of(samples, ranks, degrees)
    start = draw_factors(problem, dc.solvers.Uniform(0.1, 10), 1, np.random.default_rng(seed))
    fast = sweep(problem, start, LAM, UPDATES[method])
    state = reference.State(
        *([many_digits(a[0]) for a in factors] for factors in (start.W, start.G)),
        many_digits(start.R[0]),
        [many_digits(c[0]) for c in start.C],
    )
    data = (many_digits(a) for a in (samples.J, samples.F, samples.X))
    exact = reference.iteration(*data, state, list(degrees), LAM, method)
    pairs = zip((*fast.W, *fast.G, fast.R), (*exact.W, *exact.G, exact.R), strict=True)
    return max(float(np.max(abs(many_digits(a[0]) - b)) / np.max(abs(b))) for a, b in pairs)


CASES = {
    "PROJ-3, square": ((2, 2, 2, 2, 2), (2, 2, 2), "proj", 1),
    "PROJ-3": ((3, 2, 2, 2, 3), (3, 2, 2), "proj", 8),
    "PROJ-4": ((3, 2, 2, 2, 2, 3), (2, 2, 2, 2), "proj", 9),
    "CONSTR-3": ((3, 2, 2, 2, 3), (3, 2, 2), "constr", 5),
}


@pytest.mark.parametrize(("dims", "degrees", "method", "seed"), CASES.values(), ids=CASES)
def test_a_sweep_keeps_eight_digits_with_three_and_more_layers(many_digits, dims, degrees, method, seed):
    samples = sampled(dc.systems.random_system(dims, degrees, rng=seed), 20, seed=1)
    assert worst_error(many_digits, samples, dims[1:-1], degrees, method, seed) < 1e-8


@pytest.mark.parametrize("method", ["proj", "constr"])
def test_a_sweep_of_two_layers_keeps_them_without_refinement(many_digits, method):
    samples = noise_samples(3, 3, 20)
    assert worst_error(many_digits, samples, (2, 2), (3, 2), method, 4) < 1e-10


def test_without_refinement_digits_are_lost(many_digits, monkeypatch):
    """What the refinement is for: more than two of these digits come back."""
    dims, degrees, method, seed = CASES["PROJ-4"]
    samples = sampled(dc.systems.random_system(dims, degrees, rng=seed), 20, seed=1)
    refined = worst_error(many_digits, samples, dims[1:-1], degrees, method, seed)
    monkeypatch.setattr(_block_updates, "REFINEMENT_STEPS", 0)
    assert worst_error(many_digits, samples, dims[1:-1], degrees, method, seed) > 1e2 * refined
