r"""Polynomial state space (PNLSS), and its decoupling: the way of the literature (Paduart 2010, Dreesen 2015).

    x(t+1) = A x + B u + E m(x, u),      y(t) = C x + D u + c_y + F m(x, u)

with m all monomials of degree 2 and more. Powers of enough linear forms in general position span all polynomials of
their degree. So this is a decoupled state space with many functions whose directions stay fixed, and the same engine
fits it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np
from numpy import ndarray

from ..._support._arguments import as_count, as_flag, as_generator
from ..._support._errors import InputError, ModelFileError, pluralised, short_repr
from ..._support._machine import one_thread
from ...bases import Monomial
from ...fit._decouple import decouple
from ...samples._samples import Samples
from ...solvers import VarPro
from ..free_run._fit import fit_initial_states
from ..free_run._step import FreeParameters, StepArrays
from ..signals._records import Signals
from ._decoupled import DecoupledStateSpace
from ._search import SearchOptions, in_measured_units
from ._structure import StateSpaceStructure, read_layers

_SAMPLES = 300


@dataclass(frozen=True, eq=False)
class PolynomialStateSpace:
    """A state-space model with all monomials of states and inputs, of degree 2 up to `degree` (PNLSS).

    x+ = A x + B u + E m(x, u), y = C x + D u + c_y + F m(x, u), with the monomials m.

    Parameters
    ----------
    n_states : int
        The number n of states.
    degree : int
        2 or 3.
    feedthrough : bool
        Without it, the input and the monomials do not reach the output at once: D = 0 and F = 0.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> u = np.random.default_rng(0).uniform(-1, 1, 400)
    >>> y = np.zeros(400)
    >>> for t in range(1, 400):
    ...     y[t] = 0.7 * y[t - 1] - 0.1 * y[t - 1] ** 3 + u[t - 1]
    >>> pnlss = dc.sysid.PolynomialStateSpace(1, feedthrough=False).fit(u, y)
    >>> decoupled = pnlss.decouple(1)  # one function
    >>> bool(np.allclose(decoupled.simulate(u, y[:20]), y, atol=1e-4))
    True
    """

    n_states: int
    degree: int = 3
    feedthrough: bool = True
    model: DecoupledStateSpace | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_states", as_count("n_states", self.n_states))
        if not isinstance(self.degree, int) or self.degree not in (2, 3):
            raise InputError(f"`degree` must be 2 or 3. Got {short_repr(self.degree)}.")
        object.__setattr__(self, "feedthrough", as_flag("feedthrough", self.feedthrough))

    def fit(
        self,
        u: object,
        y: object,
        *,
        validation: Any = 0.25,
        max_steps: int = 40,
        max_seconds: float | None = None,
        rng: int | np.random.Generator = 0,
        progress: bool | Callable[..., None] = True,
    ) -> PolynomialStateSpace:
        """Fit the simulation; options as for `DecoupledStateSpace.fit`. Returns the fitted model."""
        m = self.n_states + Signals.read(u, y).n_inputs
        layers, state_only = read_layers(_powers(m, self.degree), None, None, None)
        structure = StateSpaceStructure(
            self.n_states, layers, state_only, feedthrough=self.feedthrough, fixed_functions=True
        )
        model = DecoupledStateSpace.of(structure).fit(
            u, y, n_starts=1, validation=validation, search=SearchOptions(max_steps=max_steps),
            max_seconds=max_seconds, rng=rng, progress=progress,
        )  # fmt: skip
        return PolynomialStateSpace(self.n_states, self.degree, self.feedthrough, model)

    @property
    def fitted(self) -> DecoupledStateSpace:
        """The same model as a decoupled state space with many functions."""
        if self.model is None:
            raise InputError("The model must be fitted first: call fit(u, y), which returns it.")
        return self.model

    @property
    def n_parameters(self) -> int:
        """A, B, C, D, c_y, E and F, as far as they may move; initial states do not count."""
        return self.fitted.n_parameters

    def simulate(self, u: object, y_init: Any = None) -> ndarray:
        """Run freely; see `DecoupledStateSpace.simulate`."""
        return self.fitted.simulate(u, y_init)

    def decouple(
        self,
        ranks: int | Sequence[int],
        degrees: int | Sequence[int] | None = None,
        *,
        n_samples: int = _SAMPLES,
        n_starts: int = 16,
        max_seconds: float | None = None,
        rng: int | np.random.Generator = 0,
        progress: bool | Callable[..., None] = True,
    ) -> DecoupledStateSpace:
        """Replace the polynomials by a decoupling of them, found from values and Jacobians along the training run.

        What comes back meets the polynomials, not the records: go on with
        ``DecoupledStateSpace(n_states, ranks=..., degrees=...).fit(u, y, search=SearchOptions(start=decoupled))``.
        After `max_seconds` it is the best so far, as for `dc.decouple`.
        """
        step, points, records = self.fitted.step, self.fitted.fitted.points, self.fitted.training_records
        if records is None:
            raise InputError(
                "The model must know its records to be decoupled, and a file does not hold them: fit it again."
            )
        generator = as_generator(rng)
        count = min(len(points), as_count("n_samples", n_samples, least=2))
        X = points[generator.choice(len(points), count, replace=False)]
        samples = Samples(X, F=step(X), J=step.jacobian(X), inputs=step.inputs, outputs=step.outputs)
        shape = self.degree if degrees is None else degrees
        result = decouple(
            samples, ranks, shape, linear=True, solver=VarPro(lam=100.0), n_starts=n_starts,
            max_seconds=max_seconds, rng=generator, progress=progress,
        )  # fmt: skip
        # Errors and initial states of the decoupled model on the same records.
        fitted, n = self.fitted.fitted, self.n_states
        structure = DecoupledStateSpace(n, ranks=ranks, degrees=shape, feedthrough=self.feedthrough).structure
        units, everything = fitted.units, fitted.units.batch(records)
        arrays, linear = (StepArrays.of(model).in_standard_units(units) for model in (result.decoupling, fitted.linear))
        n_free = FreeParameters(arrays, structure.free_entries(arrays)).count
        with one_thread(), np.errstate(all="ignore"):
            fit, linear_fit = (fit_initial_states(some, n, everything) for some in (arrays, linear))
            record = in_measured_units(fit, linear_fit, units, records, fitted.starts, n_free=n_free)
        return DecoupledStateSpace.of(structure, record)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model; `DecoupledStateSpace.load` reads the same file as one with many functions."""
        self.fitted.save(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> PolynomialStateSpace:
        """Read what `save` wrote."""
        model = DecoupledStateSpace.load(path)
        step = model.step
        degree, m = max(step.degrees), step.n_inputs
        if degree not in (2, 3) or list(step.g[0].layer.bases) != _powers(m, degree):
            raise ModelFileError(
                f"`{path}` must hold a polynomial state space, written by PolynomialStateSpace.save. It holds another "
                "one: read it with dc.sysid.DecoupledStateSpace.load."
            )
        return cls(model.n_states, degree, model.structure.feedthrough, model)

    def __repr__(self) -> str:
        size = "not fitted" if self.model is None else f"{self.n_parameters} parameters"
        return f"PolynomialStateSpace({pluralised(self.n_states, 'state')}, degree {self.degree}, {size})"


def _powers(m: int, degree: int) -> list[Monomial]:
    """Of as many linear forms as there are monomials of m numbers, for every degree from 2 on."""
    return [Monomial(q) for q in range(2, degree + 1) for _ in range(comb(m + q - 1, q))]
