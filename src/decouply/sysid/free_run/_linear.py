r"""Linear state-space models: x+ = A x + B u + c_x, y = C x + D u + c_y."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from jaxtyping import Complex, Float
from numpy import ndarray

from ..._support._errors import ModelFileError
from ..._support._messages import pluralised
from ..._support._optional_packages import needed
from ...model._decoupling import Decoupling
from ...write._arrays_file import load_arrays, save_arrays
from ._fit import Fitted, fit_free_run
from ._free_parameters import Movable
from ._simulation import Pieces, run
from ._state_coordinates import linear_step, whitening, with_state
from ._subspace import integrating, subspace

_SAMPLES = 16_384  # of the first descent: more cost time and tell little
_STEPS = 30
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
        save_arrays(path, _KIND, _VERSION, {f.name: getattr(self, f.name) for f in fields(self)}, {})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> LinearStateSpace:
        """Read what `save` wrote."""
        arrays, _ = load_arrays(path, _KIND, "LinearStateSpace.save", (str(_VERSION),))
        try:
            model = cls(**arrays)
            np.block([[model.A, model.B, model.c_x[:, None]], [model.C, model.D, model.c_y[:, None]]])
        except (TypeError, ValueError, IndexError) as error:
            raise ModelFileError(f"`{path}` must hold matrices that fit together: {error}") from error
        return model

    def __repr__(self) -> str:
        n, m, p = len(self.A), self.B.shape[1], len(self.C)
        sizes = ", ".join(pluralised(k, noun) for k, noun in ((n, "state"), (m, "input"), (p, "output")))
        return f"LinearStateSpace({sizes}, largest pole {np.abs(self.poles[0]):.4g})"


def best_linear(pieces: Pieces, slow: Pieces, n: int, *, feedthrough: bool, n_integrators: int = 0) -> Fitted:
    """The linear model with the smallest free-run error that a descent from the subspace model finds.

    Its states have unit variance. `slow` holds outputs as often as inputs, for the subspace step. Integrators, one
    per output, are the first states, and the outputs.
    """
    A, C = integrating(slow.u, slow.y, n) if n_integrators else subspace(slow.u, slow.y, n)
    m, p = pieces.u[0].shape[1], pieces.y[0].shape[1]
    part = pieces.first(_SAMPLES)
    x0 = part.begun(n, n_integrators)
    begun = linear_step(A, np.zeros((n, m)), C, np.zeros((p, m)))
    shape, k = (n + p, n + m), n_integrators
    linear, offset = np.zeros(shape, dtype=bool), np.zeros(n + p, dtype=bool)
    linear[:, n:] = True
    offset[slice(k, 2 * k) if k else slice(n, None)] = True
    if k or not feedthrough:
        linear[n:, n:] = False
    # With A and C given, the outputs are linear in all the rest.
    first = fit_free_run(Movable(begun, {"linear": linear, "offset": offset}), part, x0, max_steps=6, known_x0=k > 0)
    everything = np.ones(shape, dtype=bool)
    everything[n:, n:] = feedthrough
    if k:
        everything[:, :k] = everything[n:] = False
    fitted = _white(first, part, k)
    fitted = fit_free_run(
        Movable(fitted.step, {"linear": everything, "offset": offset}),
        part,
        fitted.x0,
        max_steps=_STEPS,
        known_x0=k > 0,
    )
    return _white(fitted, part, k)


def _white(fitted: Fitted, pieces: Pieces, n_integrators: int) -> Fitted:
    """The same model with states of unit variance; integrators, which are the outputs, have it already."""
    n = fitted.x0.shape[1]
    found = run(fitted.step, pieces, fitted.x0)
    if found is None:
        return fitted
    T, k = np.eye(n), n_integrators
    T[k:, k:] = whitening(found.points[:, k:n])
    return Fitted(with_state(fitted.step, T), np.linalg.solve(T, fitted.x0.T).T, fitted.rmse, fitted.steps)
