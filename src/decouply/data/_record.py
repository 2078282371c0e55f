"""One measured record: inputs, outputs, and how its simulation is scored."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from .._support._errors import InputError


@dataclass(frozen=True, eq=False)
class Record:
    """Input `u` and output `y` of one experiment, both (T,), copies of what is given.

    ``u, y = record`` works. The first `n_init` outputs of a test record may be used to start a simulation, and do not
    count in its score.
    """

    name: str
    u: Float[ndarray, " T"]
    y: Float[ndarray, " T"]
    sampling_time: float
    n_init: int = 0

    def __post_init__(self) -> None:
        for name in ("u", "y"):
            value = np.array(getattr(self, name), dtype=np.float64)
            if value.ndim != 1 or value.size == 0:
                raise InputError(f"`{name}` must be a vector with at least one entry. Got shape {value.shape}.")
            object.__setattr__(self, name, value)
        if len(self.u) != len(self.y) or not 0 <= self.n_init < len(self.y):
            raise InputError(
                f"`u` and `y` must have the same length, above `n_init`. Got {len(self.u)}, {len(self.y)} and "
                f"{self.n_init}."
            )

    @classmethod
    def of(cls, data: Any) -> Record:
        """A record of the package `nonlinear_benchmarks`: anything with u, y, sampling_time and, for tests, the length
        of the window that a simulation may start from."""
        try:
            window = getattr(data, "state_initialization_window_length", None)
            return cls(str(data.name), data.u, data.y, float(data.sampling_time), int(window or 0))
        except (AttributeError, TypeError, ValueError) as error:
            raise InputError(
                f"`data` must be a record of nonlinear_benchmarks with one input, one output and a sampling time. Got "
                f"{type(data).__name__}: {error}."
            ) from error

    def __iter__(self) -> Iterator[Float[ndarray, " T"]]:
        return iter((self.u, self.y))

    def __len__(self) -> int:
        return len(self.u)

    @property
    def y_init(self) -> Float[ndarray, " k"]:
        """The outputs that a simulation may start from."""
        return self.y[: self.n_init]

    def rmse(self, y_hat: object) -> float:
        """Root mean square error of simulated outputs, in units of y, without the initial window."""
        return float(np.sqrt(np.mean(self._error(y_hat) ** 2)))

    def relative_rmse(self, y_hat: object) -> float:
        """The same in percent of the standard deviation of y."""
        scored = self.y[self.n_init :]
        spread = np.linalg.norm(scored - scored.mean())
        if spread == 0.0:
            raise InputError("`y` must vary for an error relative to its spread. It is constant.")
        return float(100.0 * np.linalg.norm(self._error(y_hat)) / spread)

    def _error(self, y_hat: object) -> Float[ndarray, " _"]:
        try:
            given = np.asarray(y_hat, dtype=float)
        except (TypeError, ValueError) as error:
            raise InputError(f"`y_hat` must be an array of real numbers: {error}.") from error
        if given.size != self.y.size:
            raise InputError(f"`y_hat` must hold {self.y.size} outputs, like the record. Got shape {given.shape}.")
        return (self.y - given.reshape(self.y.shape))[self.n_init :]

    def __repr__(self) -> str:
        return f"Record({self.name!r}, {len(self)} samples every {self.sampling_time:.6g} s, n_init={self.n_init})"
