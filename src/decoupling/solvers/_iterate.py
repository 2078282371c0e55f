"""The state of an alternating solver, for a batch of starts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray


@dataclass
class Iterate:
    """Factors of B starts; all arrays have the batch axis first.

    The functions of layer l take u_l / scale_l; W has the scale of the paper's algorithm (see `_sweep`).
    `residual_J` and `residual_F` are the weighted squared residuals ||J - J_hat||^2 and ||F - F_hat||^2.
    """

    W: list[Float[ndarray, "B _ _"]]
    scale: list[Float[ndarray, "B _"]]
    C: list[Float[ndarray, "B _ _"]]
    G: list[Float[ndarray, "B S _"]]
    R: Float[ndarray, "B S _"]
    residual_J: Float[ndarray, " B"]
    residual_F: Float[ndarray, " B"]

    @classmethod
    def unrated(cls, W: list[ndarray], scale: list[ndarray], C: list[ndarray], G: list[ndarray], R: ndarray) -> Iterate:
        """Factors whose residuals are not known yet (NaN)."""
        return cls(W, scale, C, G, R, np.full(len(R), np.nan), np.full(len(R), np.nan))

    def take(self, rows: ndarray) -> Iterate:
        """The starts with these indices."""
        return Iterate(
            [a[rows] for a in self.W],
            [a[rows] for a in self.scale],
            [a[rows] for a in self.C],
            [a[rows] for a in self.G],
            self.R[rows],
            self.residual_J[rows],
            self.residual_F[rows],
        )
