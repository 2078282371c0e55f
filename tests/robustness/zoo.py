"""Ill-conditioned problems, for every solver and every basis: statuses and errors must be true."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

import decouply as dc
from decouply.solvers.problem._prepared_samples import PreparedSamples
from tests.robustness import exact
from tests.robustness.outcome import FINE, Outcome
from tests.solvers.every import ALTERNATING, quick

S = 24
_ONE_PERCENT = 0.01
_LAST_DIGITS = 16.0 * float(np.finfo(float).eps)
_ROUNDINGS = 100.0  # times what rounding of the data explains: a model in other units has lost a digit

Rng = np.random.Generator
Data = tuple[Any, Any, Any]  # X, F, J


def _system(rng: Rng, m: int = 2, n: int = 2) -> dc.Decoupling:
    return dc.systems.random_system((m, 2, n), (3,), rng=rng)


def _sampled(rng: Rng, X: Any = None) -> Data:
    model = _system(rng)
    points = rng.uniform(-1.0, 1.0, (S, 2)) if X is None else X
    return points, model(points), model.jacobian(points)


def _moved(rng: Rng, by: float, spread: float) -> Data:
    X, F, J = _sampled(rng)
    return by + spread * X, F, J / spread


def _scaled(rng: Rng, inputs: Any, outputs: Any) -> Data:
    X, F, J = _sampled(rng)
    a, b = np.broadcast_to(inputs, 2), np.broadcast_to(outputs, 2)
    return X * a, F * b, J * b[:, None] / a


def _constant_input(rng: Rng) -> Data:
    X, F, J = _sampled(rng)
    return np.stack([X[:, 0], np.full(S, 7.0)], axis=1), F, J


def _along_a_line(rng: Rng, off: float) -> Data:
    t = rng.uniform(-1.0, 1.0, S)
    return _sampled(rng, np.stack([t, t + off * rng.normal(size=S)], axis=1))


def _with(change: Callable[[Any, Any, Any, Rng], Data]) -> Callable[[Rng], Data]:
    return lambda rng: change(*_sampled(rng), rng)


def _one_far(X: Any, F: Any, J: Any, rng: Rng) -> Data:
    F = F.copy()
    F[3] *= 1e12
    return X, F, J


def _nearly_parallel(rng: Rng) -> Data:
    a = rng.normal(size=2)
    W0 = np.stack([a, a + 1e-7 * rng.normal(size=2)])
    model = dc.Decoupling([W0, rng.normal(size=(2, 2))], list(_system(rng).g))
    X = rng.uniform(-1.0, 1.0, (S, 2))
    return X, model(X), model.jacobian(X)


PROBLEMS: dict[str, Callable[[Rng], Data]] = {
    "plain": _sampled,
    "constant input": _constant_input,
    "inputs on a line": lambda rng: _along_a_line(rng, 0.0),
    "inputs nearly on a line": lambda rng: _along_a_line(rng, 1e-8),
    "inputs far from 0": lambda rng: _moved(rng, 1e6, 1.0),
    "inputs very far from 0": lambda rng: _moved(rng, 1e10, 1.0),
    "inputs far, in small units": lambda rng: _moved(rng, 300.0, 1e-6),
    "tiny inputs": lambda rng: _scaled(rng, 1e-40, 1.0),
    "huge inputs": lambda rng: _scaled(rng, 1e40, 1.0),
    "tiny outputs": lambda rng: _scaled(rng, 1.0, 1e-60),
    "huge outputs": lambda rng: _scaled(rng, 1.0, 1e60),
    "units apart": lambda rng: _scaled(rng, [1e-12, 1e12], [1e10, 1e-10]),
    "outputs far from 0": _with(lambda X, F, J, rng: (X, F + 1e9, J)),
    "equal outputs": _with(lambda X, F, J, rng: (X, F[:, [0, 0]], J[:, [0, 0]])),
    "one output of zeros": _with(lambda X, F, J, rng: (X, F * [1.0, 0.0], J * np.array([[1.0], [0.0]]))),
    "constant outputs": _with(lambda X, F, J, rng: (X, 0 * F + [3.0, -1.0], 0 * J)),
    "zeros": _with(lambda X, F, J, rng: (X, 0 * F, 0 * J)),
    "Jacobians of zeros": _with(lambda X, F, J, rng: (X, F, 0 * J)),
    "values of zeros": _with(lambda X, F, J, rng: (X, 0 * F, J)),
    "contradiction": _with(lambda X, F, J, rng: (X, F, rng.normal(size=J.shape))),
    "noise": _with(lambda X, F, J, rng: (X, rng.normal(size=F.shape), rng.normal(size=J.shape))),
    "one far off": _with(_one_far),
    "two points": lambda rng: _sampled(rng, rng.uniform(-1.0, 1.0, (2, 2))),
    "two points many times": lambda rng: _sampled(rng, np.repeat(rng.uniform(-1.0, 1.0, (2, 2)), S // 2, axis=0)),
    "nearly parallel functions": _nearly_parallel,
    "linear": _with(lambda X, F, J, rng: (X, X @ [[1.0, 2.0], [3.0, 4.0]], 0 * J + [[1.0, 3.0], [2.0, 4.0]])),
    "values only": _with(lambda X, F, J, rng: (X, F, None)),
    "Jacobians only": _with(lambda X, F, J, rng: (X, None, J)),
    "values only, far": lambda rng: (*_moved(rng, 1e8, 1.0)[:2], None),
}
SOLVERS: dict[str, Callable[[], dc.solvers.AbstractSolver]] = {
    "VarPro": lambda: dc.VarPro(max_steps=30, polish_steps=60, max_seconds=3.0, batch_size=4),
    **{kind.__name__: partial(quick, kind, 25) for kind in ALTERNATING},
    "TwoStage": lambda: dc.TwoStage(quick(dc.Proj, 10), max_runs=3),
}
BASES: dict[str, dc.bases.AbstractBasis] = {
    repr(basis): basis
    for basis in (
        *(
            kind(3)
            for kind in (dc.Monomial, dc.bases.ScaledMonomial, dc.bases.Bernstein, dc.Chebyshev, dc.bases.Trigonometric)
        ),
        *(dc.Chebyshev(12), dc.Spline(4), dc.bases.Tanh(), dc.bases.Absolute()),
    )
}


def fits(count: int, seed: int) -> Iterator[Outcome]:
    """So many fits of random members of the zoo."""
    rng = np.random.default_rng(seed)
    for i in range(count):
        names = (str(rng.choice(list(kind))) for kind in (PROBLEMS, SOLVERS, BASES))
        yield fitted(*names, seed=seed + i)


def fitted(problem: str, solver: str, basis: str, *, seed: int) -> Outcome:
    """One fit, and whether what it says of itself is true."""
    said = f"{problem}, {solver}, {basis}, seed {seed}"
    X, F, J = PROBLEMS[problem](np.random.default_rng(seed))
    samples = dc.Samples(X, F=F, J=J)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = dc.decouple(samples, 2, basis=BASES[basis], solver=SOLVERS[solver](), n_starts=2, progress=False)
            told = result.error_values, result.error_jacobian
        except dc.DecouplingError:
            return Outcome(FINE, said)
        except Exception as error:
            return Outcome("raw", said, repr(error))
    foreign = [w for w in caught if not issubclass(w.category, dc.DecouplingWarning)]
    if foreign:
        return Outcome("warning", said, str(foreign[0].message))
    with exact.workdps():
        return _judged(said, result, told)


def _judged(said: str, result: dc.Result, told: tuple[float, float]) -> Outcome:
    samples, model = result.samples, result.decoupling
    floor = PreparedSamples.of(samples).rounding_floor
    units = PreparedSamples.of(samples).full_units
    true = [
        ("values", samples.F, exact.values, told[0], units.y_centre, None),
        ("Jacobians", samples.J, exact.jacobians, told[1], 0.0, units.back.T),
    ]
    for name, given, compute, error, centre, back in true:
        if given is None:
            continue
        found = compute(model, samples.X)
        known = exact.relative(given, found)
        if not _agree(error, known, floor) and not _agree(*_of_decided(model, samples.X, given, compute), floor):
            return Outcome("wrong error", said, f"{name}: told {error:.3g}, is {known:.3g}")
        if back is not None:
            given, found = (exact.product(part, back) for part in (given, found))
        standard = exact.relative(given, found, units.y_scale, centre)
        best = min(result.starts, key=lambda row: row.objective if row.lam == result.lam else np.inf)
        row = best.error_values if name == "values" else best.error_jacobian
        worse = result.ridge == 0.0 and result.n_effective is None and standard > 1.1 * row + _ROUNDINGS * floor
        if worse and not any("cancel" in note for note in result.notes):
            return Outcome("false table", said, f"{name}: the start had {row:.3g}, the model has {standard:.3g}")
        if result.status is dc.solvers.Status.EXACT and standard > _ROUNDINGS * floor:
            return Outcome("false status", said, f"EXACT, but the error of {name} is {standard:.3g}")
    return Outcome(FINE, said)


def _agree(told: float, known: float, floor: float) -> bool:
    return bool(np.isfinite(told)) and abs(told - known) <= _ONE_PERCENT * known + floor


def _of_decided(model: dc.Decoupling, X: Any, given: Any, compute: Any) -> tuple[float, float]:
    """The two errors without samples at a kink: there the last digits of X decide on which side of it they are."""
    sides = [compute(model, X * (1.0 + shift)) for shift in (-_LAST_DIGITS, _LAST_DIGITS)]
    apart = np.abs(sides[1] - sides[0]).reshape(len(X), -1).max(axis=1)
    decided = np.array([bool(step <= _ONE_PERCENT * np.abs(sides[0]).max()) for step in apart])
    if decided.all() or not decided.any():
        return np.nan, np.nan
    is_values = compute is exact.values
    double = model(X) if is_values else model.jacobian(X)
    told = (dc.error_values if is_values else dc.error_jacobian)(given[decided], double[decided])
    return told, exact.relative(given[decided], compute(model, X)[decided])
