"""What a NARX model looks back on: x(t) = (u(t), ..., u(t - n_u), y(t - 1), ..., y(t - n_y)).

Past inputs and outputs are the states of a NARX model: `as_state_space` writes one step of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from ..._support._errors import InputError
from ..free_run._step_arrays import StepArrays


@dataclass(frozen=True)
class Lags:
    """The regressors of a NARX model, in the order above; within one time all channels in turn."""

    n_u: int
    n_y: int
    n_inputs: int
    n_outputs: int

    @property
    def longest(self) -> int:
        """Samples that must have passed before the first prediction."""
        return max(self.n_u, self.n_y)

    @property
    def n_regressors(self) -> int:
        return (self.n_u + 1) * self.n_inputs + self.n_y * self.n_outputs

    @property
    def n_states(self) -> int:
        """Past inputs and outputs that enter: all regressors but u(t)."""
        return self.n_regressors - self.n_inputs

    @property
    def names(self) -> tuple[str, ...]:
        """u(t), u(t-1), ..., y(t-1), ...; channels are numbered where there are several."""
        past_u = [(t, i) for t in range(self.n_u + 1) for i in range(self.n_inputs)]
        past_y = [(t, i) for t in range(1, self.n_y + 1) for i in range(self.n_outputs)]
        return tuple(
            [_name("u", i, self.n_inputs, t) for t, i in past_u] + [_name("y", i, self.n_outputs, t) for t, i in past_y]
        )

    @property
    def output_names(self) -> tuple[str, ...]:
        return tuple(_name("y", i, self.n_outputs, 0) for i in range(self.n_outputs))

    def repeated(self, of_u: ndarray, of_y: ndarray) -> Float[ndarray, " m"]:
        """One number per channel becomes one per regressor."""
        return np.concatenate([np.tile(of_u, self.n_u + 1), np.tile(of_y, self.n_y)])

    def input_windows(self, u: Float[ndarray, "T inputs"], first: int) -> Float[ndarray, "steps window"]:
        """The input part of the regressors for the times first, ..., T - 1."""
        return np.concatenate([u[first - k : len(u) - k] for k in range(self.n_u + 1)], axis=1)

    def regressors(
        self, u: Float[ndarray, "T inputs"], y: Float[ndarray, "T outputs"], first: int | None = None
    ) -> Float[ndarray, "steps m"]:
        """All regressors for the times first, ..., T - 1; by default from the first possible time on."""
        start = self.longest if first is None else first
        past = [y[start - k : len(y) - k] for k in range(1, self.n_y + 1)]
        return np.concatenate([self.input_windows(u, start), *past], axis=1)

    def check_length(self, name: str, n_samples: int) -> None:
        if n_samples <= self.longest:
            raise InputError(
                f"`{name}` must be longer than the longest lag, {self.longest} samples. Got {n_samples}: give longer "
                "records or lower `n_u` and `n_y`."
            )


def _name(letter: str, channel: int, n_channels: int, lag: int) -> str:
    number = str(channel + 1) if n_channels > 1 else ""
    return f"{letter}{number}(t-{lag})" if lag else f"{letter}{number}(t)"


def as_state_space(of_regressors: StepArrays, lags: Lags) -> StepArrays:
    """One step (x, u) -> (x+, y) with x = (u(t - 1), ..., u(t - n_u), y(t - 1), ..., y(t - n_y)): the same model.

    The newest output enters the state as it leaves: its rows stand in W_L twice, see `repeated_outputs`.
    """
    n, m, p = lags.n_states, lags.n_inputs, lags.n_outputs
    first_y, order = lags.n_u * m, _states_first(lags)
    linear, offset = np.zeros((n + p, n + m)), np.zeros(n + p)
    W = np.zeros((n + p, of_regressors.W[-1].shape[1]))
    linear[:first_y, n:][:m] = np.eye(m)[: min(m, first_y)]  # u(t) is the newest past input
    for begin, end, size in ((0, first_y, m), (first_y, n, p)):  # older ones move on
        linear[np.arange(begin + size, end), np.arange(begin, max(begin, end - size))] = 1.0
    copies = repeated_outputs(lags)
    for rows in (list(range(n, n + p)), list(copies)):
        source = [copies.get(row, row) - n for row in rows]
        linear[rows] = of_regressors.linear[source][:, order]
        offset[rows], W[rows] = of_regressors.offset[source], of_regressors.W[-1][source]
    return StepArrays((of_regressors.W[0][:, order], *of_regressors.W[1:-1], W), of_regressors.g, linear, offset)


def as_narx(step: StepArrays, lags: Lags) -> StepArrays:
    """The inverse of `as_state_space`: the map from regressors to outputs."""
    n, order = lags.n_states, np.argsort(_states_first(lags))
    W = (step.W[0][:, order], *step.W[1:-1], step.W[-1][n:])
    return replace(step, W=W, linear=step.linear[n:][:, order], offset=step.offset[n:])


def repeated_outputs(lags: Lags) -> dict[int, int]:
    """Rows of (x+, y) that hold the newest output as a state, and the rows of the output itself."""
    newest = lags.n_u * lags.n_inputs
    return {newest + i: lags.n_states + i for i in range(lags.n_outputs if lags.n_y else 0)}


def _states_first(lags: Lags) -> Int[ndarray, " m"]:
    """The order of regressors as (x, u): u(t) comes last."""
    return np.r_[np.arange(lags.n_inputs, lags.n_regressors), np.arange(lags.n_inputs)]
