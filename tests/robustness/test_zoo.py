"""What a result says of itself is true, also for ill-conditioned problems; judged with many digits."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import decouply as dc
from tests.robustness.outcome import FINE
from tests.robustness.truths import judged, truth
from tests.robustness.zoo import BASES, PROBLEMS, SOLVERS, fitted
from tests.strategies import seeds

pytest.importorskip("mpmath")

# Every problem, every solver and every basis, without all their combinations, which `make fuzz` draws from.
SOME = [
    (problem, list(SOLVERS)[i % len(SOLVERS)], list(BASES)[(i + i // len(BASES)) % len(BASES)])
    for i, problem in enumerate(PROBLEMS)
]


@pytest.mark.parametrize(("problem", "solver", "basis"), SOME)
def test_statuses_errors_and_tables_are_true(problem, solver, basis):
    outcome = fitted(problem, solver, basis, seed=5)
    assert outcome.verdict == FINE, outcome


def test_exact_in_standard_units_is_what_exact_means():
    """One output in units 1e20 times those of the other: what is left of the small one counts as much."""
    outcome = fitted("units apart", "Hollander", "Chebyshev(degree=12)", seed=1182)
    assert outcome.verdict == FINE, outcome


def test_terms_that_cancel_are_told():
    rng = np.random.default_rng(18)
    X, F, J = PROBLEMS["one far off"](rng)
    with pytest.warns(dc.DecouplingWarning, match="Large terms may cancel each other"):
        options = {"solver": SOLVERS["Constr"](), "n_starts": 2, "progress": False}
        result = dc.decouple(dc.Samples(X, F=F, J=J), 2, basis=dc.bases.Trigonometric(3), **options)
    assert any("cancel" in note for note in result.notes)


@given(seeds, st.integers(1, 2), st.booleans(), st.booleans())
def test_the_canonical_form_of_ill_conditioned_models_is_the_same_function(seed, n_layers, linear, offset):
    rng = np.random.default_rng(seed)
    dims = rng.integers(1, 4, n_layers + 2)
    W, g = [], []
    for columns, rows in pairwise(dims):
        U, sizes, Vt = np.linalg.svd(rng.normal(size=(rows, columns)), full_matrices=False)
        W.append(10.0 ** rng.uniform(-6, 6) * (U * 10.0 ** -rng.uniform(0, 16, len(sizes))) @ Vt)
    for rank in dims[1:-1]:
        C = rng.normal(size=(rank, 5)) * 10.0 ** rng.uniform(-4, 4, (rank, 1))
        domain = np.sort(10.0 ** rng.uniform(-3, 6) + rng.normal(size=(rank, 2)), axis=1)
        g.append(dc.Functions(dc.Chebyshev(4), C, domain, outside="linear"))
    A = rng.normal(size=(dims[-1], dims[0])) if linear else None
    model = dc.Decoupling(W, g, linear=A, offset=rng.normal(size=dims[-1]) if offset else None)
    X = 10.0 ** rng.uniform(-3, 3) * rng.uniform(-1, 1, (20, dims[0])) + 10.0 ** rng.uniform(-3, 6)
    terms = np.abs(model.g[-1](model.inner_inputs(X)[-1])) @ np.abs(model.W[-1]).T
    terms += 0.0 if A is None else np.abs(X) @ np.abs(A).T
    terms += 0.0 if model.offset is None else np.abs(model.offset)
    assert np.all(np.abs(model.canonical(X)(X) - model(X)) <= 1e-7 * terms.max(axis=0))


@pytest.mark.parametrize("basis", [dc.Chebyshev(60), dc.bases.Bernstein(60), dc.bases.Bernstein(70)], ids=repr)
def test_high_degrees_are_fitted_to_rounding(basis):
    x = np.random.default_rng(0).uniform(-1, 1, (400, 1))
    result = dc.decouple(dc.Samples(x, F=np.sin(8 * x)), 1, basis=basis, progress=False)
    assert result.error_values < 1e-12 and result.status is dc.solvers.Status.EXACT


@pytest.mark.parametrize(
    "seed", [(1, 17), (1, 29), (1, 40), (1, 48), (3738, 72), (4141, 89), (4343, 140), (4343, 177)], ids=str
)
def test_verdicts_of_known_functions_are_true(seed):
    """Some were called noise: steps in one place, waves along directions that no search found, splines bent to both."""
    outcome = judged(truth(np.random.default_rng(seed)), str(seed))
    assert outcome.verdict == FINE, outcome


class Stops:
    """A callback that raises at its fifth report, and counts."""

    def __init__(self):
        self.calls = 0

    def __call__(self, **values):
        self.calls += 1
        if self.calls == 5:
            raise KeyboardInterrupt


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_callback_that_raises_keyboard_interrupt_interrupts(solver):
    X, F, J = PROBLEMS["noise"](np.random.default_rng(3))
    methods = {"VarPro": dc.VarPro, "TwoStage": lambda: dc.TwoStage(dc.Proj())}
    method = methods.get(solver) or getattr(dc, solver)
    stops = Stops()
    result = dc.decouple(dc.Samples(X, F=F, J=J), 2, 3, solver=method(), progress=stops)
    assert result.status is dc.solvers.Status.INTERRUPTED and stops.calls <= 7 and np.isfinite(result.error_values)
