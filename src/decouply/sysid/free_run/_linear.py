r"""Linear state-space models: x+ = A x + B u + c_x, y = C x + D u + c_y.

Subspace identification gives A and C without iterations (MOESP with past inputs and outputs, Verhaegen 1994). Rows of
past and future signals are stacked. What the past says about future outputs, beyond what future inputs do, has the
observability matrix as its column space. B, D, the constants and the initial states then enter the outputs linearly. A
descent on the simulation error follows.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from jaxtyping import Complex, Float
from numpy import ndarray

from ..._support._arguments import as_array, as_count, as_number, read_array
from ..._support._errors import InputError, ModelFileError, pluralised, short_repr
from ..._support._optional_packages import needed
from ...model._decoupling import Decoupling
from ...write._record_file import Record, read_record, write_record
from ..signals._records import RecordBatch
from ._fit import FitResult, FreeRunObjective, fit_free_run
from ._simulation import simulate
from ._step import FreeParameters, StepArrays, whitening

_LARGEST_POLE = 0.999  # of a start: unstable ones are moved inside the unit circle
_MOST_COLUMNS = 20_000  # of stacked signals: more cost time and change little
_FIRST_SAMPLES = 16_384  # that a linear model is fitted to: more cost time and change little
_LINEAR_STEPS, _MOST_STEPS = 6, 30  # of the descents with A and C fixed, and with all free
_KIND, _VERSION = "linear state space", 1  # of files


@dataclass(frozen=True, eq=False)
class LinearStateSpace:
    """x(t+1) = A x(t) + B u(t) + c_x, y(t) = C x(t) + D u(t) + c_y.

    Attributes
    ----------
    A, B, C, D : arrays (n, n), (n, n_u), (n_y, n), (n_y, n_u)
        The matrices, (n, n), (n, inputs), (outputs, n) and (outputs, inputs).
    c_x, c_y : arrays (n,), (n_y,)
        Constants of the state and of the output.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> A, B, C, D = (np.array([[number]]) for number in (0.5, 1.0, 2.0, 0.0))
    >>> model = dc.sysid.LinearStateSpace(A, B, C, D, c_x=np.zeros(1), c_y=np.zeros(1))
    >>> model.A
    array([[0.5]])
    """

    A: Float[ndarray, "n n"]
    B: Float[ndarray, "n inputs"]
    C: Float[ndarray, "outputs n"]
    D: Float[ndarray, "outputs inputs"]
    c_x: Float[ndarray, " n"]
    c_y: Float[ndarray, " outputs"]

    def __post_init__(self) -> None:
        for name in ("A", "B", "C", "D", "c_x", "c_y"):
            axes = ("n",) if name.startswith("c_") else ("n", "m")
            object.__setattr__(self, name, as_array(name, getattr(self, name), axes))
        n, m, p = len(self.A), self.B.shape[1], len(self.C)
        sizes = {"A": (n, n), "B": (n, m), "C": (p, n), "D": (p, m), "c_x": (n,), "c_y": (p,)}
        for name, shape in sizes.items():
            if getattr(self, name).shape != shape or 0 in shape:
                raise InputError(
                    f"`{name}` must have shape {shape}, with {pluralised(n, 'state')}, {pluralised(m, 'input')} and "
                    f"{pluralised(p, 'output')}, at least one of each. Got {getattr(self, name).shape}."
                )

    @classmethod
    def of(cls, step: Decoupling, n: int) -> LinearStateSpace:
        """The linear part of one step (x, u) -> (x+, y)."""
        if not isinstance(step, Decoupling) or step.linear is None or step.offset is None:
            raise InputError(f"`step` must be a Decoupling with a linear part and an offset. Got {short_repr(step)}.")
        n = as_count("n", n, most=min(step.n_inputs, step.n_outputs) - 1)
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
        given = read_array("`frequencies` must be numbers", frequencies)
        f = as_array("frequencies", np.atleast_1d(given), ("k",))
        if f.size == 0:
            raise InputError("`frequencies` must hold at least one number. Got none.")
        z, I = np.exp(2j * np.pi * np.fmod(f, 1.0)), np.eye(len(self.A))
        try:
            return np.stack([self.C @ np.linalg.solve(v * I - self.A, self.B.astype(complex)) + self.D for v in z])
        except np.linalg.LinAlgError as error:
            raise InputError(
                "`frequencies` must not meet a pole on the unit circle: the response is infinite."
            ) from error

    def to_control(self, dt: float | bool = True) -> Any:
        """The matrices as a `control.StateSpace` of python-control; `dt` is the time between samples."""
        control = needed("control", "control", "LinearStateSpace.to_control")
        if not isinstance(dt, bool) and dt is not None:
            dt = as_number("dt", dt)
        return control.ss(self.A, self.B, self.C, self.D, dt)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the matrices to a .safetensors file; `load` reads it again."""
        write_record(path, _KIND, _VERSION, Record.of({f.name: getattr(self, f.name) for f in fields(self)}))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> LinearStateSpace:
        """Read what `save` wrote."""
        record = read_record(path, _KIND, "LinearStateSpace.save", (str(_VERSION),))
        try:
            return cls(**record.arrays)
        except (TypeError, InputError) as error:
            raise ModelFileError(f"`{path}` must hold matrices that fit together: {error}") from error

    def __repr__(self) -> str:
        n, m, p = len(self.A), self.B.shape[1], len(self.C)
        sizes = ", ".join(pluralised(k, noun) for k, noun in ((n, "state"), (m, "input"), (p, "output")))
        return f"LinearStateSpace({sizes}, largest pole {np.abs(self.poles[0]):.4g})"


def fit_linear(
    batch: RecordBatch, interpolated: RecordBatch, n: int, *, feedthrough: bool, n_integrators: int = 0
) -> FitResult:
    """The linear model with the smallest simulation error that a descent from the subspace model finds.

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


def subspace(
    u: tuple[Float[ndarray, "_ inputs"], ...], y: tuple[Float[ndarray, "_ outputs"], ...], n: int
) -> tuple[Float[ndarray, "n n"], Float[ndarray, "outputs n"]]:
    """A and C of a linear model with n states, poles within the unit circle."""
    p = y[0].shape[1]
    k = block_rows(u, y, n)
    M = np.concatenate([_hankel(a, b, k) for a, b in zip(u, y, strict=True) if len(a) >= 2 * k], axis=1)
    M = M[:, :: max(1, M.shape[1] // _MOST_COLUMNS)]
    L = np.asarray(np.linalg.qr(M.T, mode="r")).T
    n_inputs, n_past = u[0].shape[1] * k, (u[0].shape[1] + p) * k
    explained = L[n_inputs + n_past :, n_inputs : n_inputs + n_past]
    left, singular, _ = np.linalg.svd(explained)
    O = left[:, :n] * np.sqrt(singular[:n])
    A = np.linalg.lstsq(O[:-p], O[p:], rcond=None)[0]
    return stabilised(A), O[:p]


def integrating_subspace(
    u: tuple[Float[ndarray, "_ inputs"], ...], y: tuple[Float[ndarray, "_ outputs"], ...], n: int
) -> tuple[Float[ndarray, "n n"], Float[ndarray, "outputs n"]]:
    """A and C of a model whose outputs add up: y(t+1) - y(t) has a linear model with the other n - outputs states."""
    p = y[0].shape[1]
    inner, H = subspace(tuple(a[:-1] for a in u), tuple(np.diff(b, axis=0) for b in y), n - p)
    A = np.block([[np.eye(p), H], [np.zeros((n - p, p)), inner]])
    return A, np.eye(p, n)


def block_rows(u: tuple[Float[ndarray, "_ inputs"], ...], y: tuple[Float[ndarray, "_ outputs"], ...], n: int) -> int:
    """How many samples of past and future are looked at; fewer if the records are short."""
    channels = u[0].shape[1] + y[0].shape[1]
    longest = max(len(a) for a in u)
    k = min(max(2 * n, 15), longest // (4 * channels + 2))
    if k <= n:
        raise InputError(
            f"`u` and `y` must hold a record of at least {(n + 1) * (4 * channels + 2)} samples for "
            f"{pluralised(n, 'state')}. Got {longest}: give longer records, or lower `n_states`."
        )
    return k


def stabilised(A: Float[ndarray, "n n"]) -> Float[ndarray, "n n"]:
    """A with its poles no farther out than the largest that we take for stable."""
    poles, V = np.linalg.eig(A)
    size = np.abs(poles)
    if np.all(size <= _LARGEST_POLE):
        return A
    inside = np.where(size > _LARGEST_POLE, poles * _LARGEST_POLE / np.maximum(size, _LARGEST_POLE), poles)
    return np.real((V * inside) @ np.linalg.pinv(V))


def _hankel(u: Float[ndarray, "T inputs"], y: Float[ndarray, "T outputs"], k: int) -> Float[ndarray, "rows N"]:
    """Future inputs, past inputs, past outputs, future outputs, one column per time."""
    N = len(u) - 2 * k + 1

    def rows(signal: ndarray, begin: int) -> ndarray:
        return np.concatenate([signal[begin + j : begin + j + N].T for j in range(k)])

    return np.concatenate([rows(u, k), rows(u, 0), rows(y, 0), rows(y, k)])
