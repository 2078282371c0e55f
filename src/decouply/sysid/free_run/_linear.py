r"""Linear state-space models: x+ = A x + B u + c_x, y = C x + D u + c_y."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from jaxtyping import Complex, Float
from numpy import ndarray

from ..._support._errors import ModelFileError
from ..._support._messages import pluralised
from ..._support._optional_packages import needed
from ...model._decoupling import Decoupling
from ...write._record_file import Record, read_record, write_record
from ..signals._record_batch import RecordBatch
from ._fit import FitResult, FreeRunObjective, fit_free_run
from ._free_parameters import FreeParameters
from ._simulation import simulate
from ._step_arrays import StepArrays, whitening
from ._subspace import integrating_subspace, subspace

_FIRST_SAMPLES = 16_384  # that a linear model is fitted to: more cost time and change little
_LINEAR_STEPS, _MOST_STEPS = 6, 30  # of the descents with A and C fixed, and with all free
_KIND, _VERSION = "linear state space", 1  # of files


@dataclass(frozen=True, eq=False)
class LinearStateSpace:
    """x(t+1) = A x(t) + B u(t) + c_x, y(t) = C x(t) + D u(t) + c_y.

    Attributes
    ----------
    A, B, C, D
        The matrices, (n, n), (n, inputs), (outputs, n) and (outputs, inputs).
    c_x, c_y
        Constants of the state and of the output.
    """

    A: Float[ndarray, "n n"]
    B: Float[ndarray, "n inputs"]
    C: Float[ndarray, "outputs n"]
    D: Float[ndarray, "outputs inputs"]
    c_x: Float[ndarray, " n"]
    c_y: Float[ndarray, " outputs"]

    @classmethod
    def of(cls, step: Decoupling, n: int) -> LinearStateSpace:
        """The linear part of one step (x, u) -> (x+, y)."""
        assert step.linear is not None
        assert step.offset is not None
        F, c = step.linear, step.offset
        return cls(F[:n, :n], F[:n, n:], F[n:, :n], F[n:, n:], c[:n], c[n:])

    @property
    def poles(self) -> Complex[ndarray, " n"]:
        """Eigenvalues of A, slowest first."""
        poles = np.linalg.eigvals(self.A).astype(complex)
        return poles[np.argsort(-np.abs(poles), kind="stable")]

    @property
    def is_stable(self) -> bool:
        """Whether all poles lie inside the unit circle."""
        return bool(np.all(np.abs(self.poles) < 1.0))

    def frequency_response(self, frequencies: object) -> Complex[ndarray, "k outputs inputs"]:
        """C (z I - A)^-1 B + D at z = exp(2 pi i f), with frequencies f in cycles per sample, 0 to 1/2."""
        z = np.exp(2j * np.pi * np.atleast_1d(np.asarray(frequencies, dtype=float)))
        I = np.eye(len(self.A))
        return np.stack([self.C @ np.linalg.solve(v * I - self.A, self.B.astype(complex)) + self.D for v in z])

    def to_control(self, dt: float | bool = True) -> Any:
        """The matrices as a `control.StateSpace` of python-control; `dt` is the time between samples."""
        control = needed("control", "control", "LinearStateSpace.to_control")
        return control.ss(self.A, self.B, self.C, self.D, dt)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the matrices to a .safetensors file; `load` reads it again."""
        write_record(path, _KIND, _VERSION, Record.of({f.name: getattr(self, f.name) for f in fields(self)}))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> LinearStateSpace:
        """Read what `save` wrote."""
        record = read_record(path, _KIND, "LinearStateSpace.save", (str(_VERSION),))
        try:
            model = cls(**record.arrays)
            np.block([[model.A, model.B, model.c_x[:, None]], [model.C, model.D, model.c_y[:, None]]])
        except (TypeError, ValueError, IndexError) as error:
            raise ModelFileError(f"`{path}` must hold matrices that fit together: {error}") from error
        return model

    def __repr__(self) -> str:
        n, m, p = len(self.A), self.B.shape[1], len(self.C)
        sizes = ", ".join(pluralised(k, noun) for k, noun in ((n, "state"), (m, "input"), (p, "output")))
        return f"LinearStateSpace({sizes}, largest pole {np.abs(self.poles[0]):.4g})"


def fit_linear(
    batch: RecordBatch, interpolated: RecordBatch, n: int, *, feedthrough: bool, n_integrators: int = 0
) -> FitResult:
    """The linear model with the smallest free-run error that a descent from the subspace model finds.

    Its states have unit variance. `interpolated` holds outputs as often as inputs, for the subspace step. Integrators,
    one per output, are the first states, and the outputs.
    """
    k, m, p = n_integrators, batch.u[0].shape[1], batch.y[0].shape[1]
    A, C = (integrating_subspace if k else subspace)(interpolated.u, interpolated.y, n)
    part = batch.first_samples(_FIRST_SAMPLES)
    linear, offset = np.zeros((n + p, n + m), dtype=bool), np.zeros(n + p, dtype=bool)
    linear[:, n:] = True
    offset[slice(k, 2 * k) if k else slice(n, None)] = True
    if k or not feedthrough:
        linear[n:, n:] = False
    # With A and C given, the outputs are linear in all the rest.
    begin = StepArrays.of_linear(A, np.zeros((n, m)), C, np.zeros((p, m)))
    parameters = FreeParameters(begin, {"linear": linear, "offset": offset})
    first = FreeRunObjective(parameters, part, part.default_initial_states(n, k), known_x0=k > 0)
    result = _with_white_states(fit_free_run(first, max_steps=_LINEAR_STEPS), part, k)
    # Then all of A, B, C and D.
    everything = np.ones((n + p, n + m), dtype=bool)
    everything[n:, n:] = feedthrough
    if k:
        everything[:, :k] = everything[n:] = False
    parameters = FreeParameters(result.step, {"linear": everything, "offset": offset})
    second = FreeRunObjective(parameters, part, result.x0, known_x0=k > 0)
    return _with_white_states(fit_free_run(second, max_steps=_MOST_STEPS), part, k)


def _with_white_states(result: FitResult, batch: RecordBatch, n_integrators: int) -> FitResult:
    """The same model with states of unit variance; integrators, which are the outputs, have it already."""
    n, k = result.x0.shape[1], n_integrators
    run = simulate(result.step, batch, result.x0)
    if run is None:
        return result
    T = np.eye(n)
    T[k:, k:] = whitening(run.points[:, k:n])
    return replace(result, step=result.step.in_states(T), x0=np.linalg.solve(T, result.x0.T).T)
