"""The state of an alternating solver, for a batch of starts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray


@dataclass
class Iterate:
    """Factors of B starts after a step; all arrays have the batch axis first.

    They are in the units of the solver: standard ones, or the data's with ``as_given=True``; inputs may be compressed.
    An iterate is not changed once it has been handed out.

    The functions of layer l live on `domain[l - 1]`; W has the scale of the paper's algorithm (see `_sweep`).
    `A` is the linear part, where the model has one.
    `residual_J` and `residual_F` are the weighted squared residuals ||J - J_hat||^2 and ||F - F_hat||^2.
    """

    W: list[Float[ndarray, "B _ _"]]
    domain: list[Float[ndarray, "B _ 2"]]
    C: list[Float[ndarray, "B _ _"]]
    G: list[Float[ndarray, "B S _"]]
    R: Float[ndarray, "B S _"]
    A: Float[ndarray, "B n m"] | None
    residual_J: Float[ndarray, " B"]
    residual_F: Float[ndarray, " B"]

    @classmethod
    def unrated(
        cls,
        W: list[ndarray],
        domain: list[ndarray],
        C: list[ndarray],
        G: list[ndarray],
        R: ndarray,
        A: ndarray | None = None,
    ) -> Iterate:
        """Factors whose residuals are not known yet (NaN)."""
        return cls(W, domain, C, G, R, A, np.full(len(R), np.nan), np.full(len(R), np.nan))

    def take(self, rows: ndarray) -> Iterate:
        """The starts with these indices."""
        return Iterate(
            [a[rows] for a in self.W],
            [a[rows] for a in self.domain],
            [a[rows] for a in self.C],
            [a[rows] for a in self.G],
            self.R[rows],
            None if self.A is None else self.A[rows],
            self.residual_J[rows],
            self.residual_F[rows],
        )
