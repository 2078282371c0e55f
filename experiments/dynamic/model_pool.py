"""The models among which held-back training data choose, for every benchmark of nonlinear system identification.

The lists were written down before any of them was measured on held-back data: two to four states, one to three
functions of several kinds, with and without feedthrough, windows or integrators where they make sense. That of
Wiener-Hammerstein, where a fit takes minutes, was cut short after two fits.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from decouply._support._errors import DecouplingWarning, SolverError, pluralised
from decouply.bases import AbstractBasis, Friction, Monomial, Spline, Tanh
from decouply.data import Record, cascaded_tanks, emps, silverbox, wiener_hammerstein
from decouply.sysid import DecoupledStateSpace, SearchOptions, StateFunction

_BASES: dict[str, AbstractBasis] = {
    "cubic": Monomial(3),
    "quintic": Monomial(5),
    "tanh": Tanh(),
    "friction": Friction(),
    **{f"spline-{pieces}": Spline(pieces) for pieces in (4, 8, 20)},
}


@dataclass(frozen=True)
class Candidate:
    """Options of a model and of its fit, as plain data.

    Attributes
    ----------
    functions
        Names with commas between them: "cubic, state-tanh" for a cubic and a tanh of the state alone.
    """

    n_states: int
    functions: str
    oversample: int = 1
    feedback: bool = True
    feedthrough: bool = True
    integrating: bool = False
    window: int | None = None
    n_starts: int = 5
    max_steps: int = 40

    @property
    def words(self) -> str:
        """The options that tell candidates apart."""
        words = [f"{pluralised(self.n_states, 'state')}: {self.functions}"]
        words += [f"{self.oversample} steps per sample"] * (self.oversample > 1)
        words += ["no feedthrough"] * (self.feedback and not self.feedthrough)
        words += ["integrating"] * self.integrating
        words += [f"windows of {self.window}"] * (self.window is not None)
        return "; ".join(words)

    def fit(
        self, train: Record, tests: Sequence[Record], scale: float, rng: np.random.Generator
    ) -> tuple[DecoupledStateSpace | None, list[float], float]:
        """The model fitted to a record, its free-run errors on tests, and the processor time of the fit.

        Errors are infinite if there is no model or if its free run escapes.
        """
        model = DecoupledStateSpace(
            self.n_states,
            [_function(name) for name in self.functions.split(", ")],
            oversample=self.oversample,
            feedback=self.feedback,
            feedthrough=self.feedthrough,
            integrating=self.integrating,
        )
        search = SearchOptions(window=self.window, max_steps=self.max_steps)
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DecouplingWarning)  # escapes are infinite errors
            try:
                fitted = model.fit(*train, n_starts=self.n_starts, search=search, rng=rng, progress=False)
            except SolverError:
                return None, [math.inf] * len(tests), time.process_time() - began
            seconds = time.process_time() - began
            return fitted, [scale * test.rmse(fitted.simulate(test.u, test.y_init)) for test in tests], seconds


def _function(name: str) -> Any:
    basis = _BASES[name.removeprefix("state-")]
    return StateFunction(basis) if name.startswith("state-") else basis


@dataclass(frozen=True)
class Pool:
    """One benchmark and its candidates.

    Attributes
    ----------
    records
        The training record and the tests.
    n_samples
        How many samples of the training record the choice uses; all of them with None.
    unit, scale
        What errors are shown in.
    most_runs
        Seeds of the choice at most, where fits take long.
    tests
        What the test records are called.
    n_folds
        With 2, candidates are fitted to the last three quarters too and scored on the first: for short records.
    """

    records: Callable[[], tuple[Record, tuple[Record, ...]]]
    candidates: tuple[Candidate, ...]
    unit: str
    scale: float
    n_samples: int | None = None
    most_runs: int = 1000
    n_folds: int = 1
    tests: tuple[str, ...] = ("test",)


def _pair(benchmark: Any) -> tuple[Record, tuple[Record, ...]]:
    return benchmark.train, (benchmark.test,)


def _of_silverbox() -> tuple[Record, tuple[Record, ...]]:
    data = silverbox()
    return data.train, data.tests


def _oscillator(n: int, seed: int) -> Record:
    """A cubic oscillator of our own, simulated: a benchmark that needs no files."""
    u = np.random.default_rng(seed).uniform(-1.0, 1.0, n)
    y = np.zeros(n)
    for t in range(2, n):
        y[t] = 1.2 * y[t - 1] - 0.5 * y[t - 2] + 0.3 * u[t - 1] - 0.1 * y[t - 1] ** 3
    noise = 1e-3 * np.random.default_rng(seed + 1).standard_normal(n)
    return Record("Oscillator", u, y + noise, 1.0, 50)


def _tanks(n_states: int, functions: str, *, feedthrough: bool = False) -> Candidate:
    return Candidate(n_states, functions, feedthrough=feedthrough, n_starts=30)


def _emps(n_states: int, functions: str, *, integrating: bool = True, window: int | None = None) -> Candidate:
    return Candidate(n_states, functions, feedthrough=False, integrating=integrating, window=window, n_starts=3)


def _wiener_hammerstein(functions: str, *, oversample: int = 1) -> Candidate:
    return Candidate(6, functions, oversample=oversample, feedback=False, n_starts=3, max_steps=400)


_OF_TWO_STATES = ("cubic", "quintic", "cubic, state-tanh", "quintic, state-tanh", "cubic, tanh")
_POOLS: dict[str, Pool] = {
    "Silverbox, causal": Pool(
        _of_silverbox,
        (
            *(Candidate(2, f) for f in _OF_TWO_STATES),
            *(Candidate(2, f) for f in ("quintic, tanh", "state-cubic, state-tanh", "state-quintic, state-tanh")),
            *(Candidate(2, f) for f in ("cubic, state-tanh, state-tanh", "cubic, cubic")),
            *(Candidate(2, f, feedthrough=False) for f in ("cubic, state-tanh", "quintic, state-tanh")),
            *(Candidate(3, f) for f in ("cubic", "cubic, state-tanh", "quintic, state-tanh")),
            *(Candidate(4, f) for f in ("cubic", "cubic, state-tanh", "quintic, state-tanh")),
            *(Candidate(n, "cubic, state-tanh", feedthrough=False) for n in (3, 4)),
        ),
        "mV",
        1e3,
        most_runs=2,
        tests=("multisine test", "arrow test", "arrow test without extrapolation"),
    ),
    "Cascaded tanks": Pool(
        lambda: _pair(cascaded_tanks()),
        (
            *(_tanks(2, f) for f in ("tanh", "state-tanh", "cubic", "tanh, tanh", "state-tanh, state-tanh")),
            *(_tanks(2, f) for f in ("cubic, tanh", "cubic, cubic", "tanh, tanh, tanh", "spline-4, spline-4")),
            _tanks(2, "tanh, tanh", feedthrough=True),
            *(_tanks(3, f) for f in ("tanh", "tanh, tanh")),
        ),
        "V",
        1.0,
        n_folds=2,
    ),
    "Wiener-Hammerstein": Pool(
        lambda: _pair(wiener_hammerstein()),
        tuple(_wiener_hammerstein(f) for f in ("spline-8", "spline-20")),
        "mV",
        1e3,
        n_samples=16_384,
        most_runs=1,
    ),
    "EMPS": Pool(
        lambda: _pair(emps()),
        (
            *(_emps(2, f) for f in ("state-tanh", "state-friction", "tanh", "state-spline-8")),
            _emps(2, "state-tanh, state-tanh"),
            *(_emps(2, f) for f in ("state-friction, state-tanh", "state-cubic, state-tanh", "tanh, state-tanh")),
            *(_emps(2, f) for f in ("state-tanh, state-tanh, state-tanh", "state-friction, state-tanh, state-tanh")),
            *(_emps(2, "state-tanh, state-tanh", window=w) for w in (1000, 4000)),
            *(_emps(3, f) for f in ("state-tanh", "state-tanh, state-tanh")),
            *(_emps(n, "state-tanh, state-tanh", integrating=False, window=2500) for n in (2, 3)),
        ),
        "mm",
        1e3,
        n_folds=2,
    ),
}
_OVERSAMPLED = {
    "Silverbox, causal": (
        *(Candidate(2, f, oversample=2) for f in (*_OF_TWO_STATES, "cubic, state-tanh, state-tanh")),
        Candidate(3, "cubic, state-tanh", oversample=2),
    ),
    "Wiener-Hammerstein": tuple(_wiener_hammerstein(f, oversample=2) for f in ("spline-8", "spline-20")),
}
POOLS: dict[str, Pool] = {}
for _name, _pool in _POOLS.items():  # a pool with two steps per sample comes behind that with one
    POOLS[_name] = _pool
    if _name in _OVERSAMPLED:
        POOLS[f"{_name.split(',')[0]}, oversampled"] = replace(_pool, candidates=_OVERSAMPLED[_name])
QUICK_POOLS: dict[str, Pool] = {
    "Oscillator": Pool(
        lambda: (_oscillator(800, 0), (_oscillator(300, 7),)),
        (Candidate(1, "cubic", n_starts=1), Candidate(2, "cubic", n_starts=1)),
        "1",
        1.0,
        n_folds=2,
    )
}
