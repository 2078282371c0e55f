"""What a NARX model looks back on: x(t) = (u(t), ..., u(t - n_u), y(t - 1), ..., y(t - n_y))."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..._support._errors import InputError


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
