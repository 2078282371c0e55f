r"""What the Jacobians tell about ranks before anything is fitted: singular values of their unfoldings.

J_s = W_L D_L^(s) ... D_1^(s) W_0, so all rows of all Jacobians lie in the row space of W_0, and all columns in the
column space of W_L. No single Jacobian has a rank above the narrowest layer. With one layer all of them are
combinations of r_1 matrices. Every number is a lower bound; if a rank is below the number of inputs or outputs, it is
usually the rank of the layer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ...samples._samples import Samples

_ROUNDING = 1e-12  # of the largest
_CLEAR = 1.5  # a singular value counts if it is so many times what noise could be


@dataclass(frozen=True)
class Unfolding:
    """Singular values of one unfolding of the Jacobian tensor, relative to the largest, and how many of them count."""

    name: str
    meaning: str
    singular_values: Float[ndarray, " k"]
    rank: int

    def __str__(self) -> str:
        shown = ", ".join(f"{value:.1g}" for value in self.singular_values[:6])
        more = ", ..." if len(self.singular_values) > 6 else ""
        return (
            f"{self.name}: {self.rank} of {len(self.singular_values)} ({shown}{more}), so {self.meaning} ≥ {self.rank}"
        )


@dataclass(frozen=True)
class Hints:
    """Lower bounds of ranks from the singular values of unfoldings; empty if there are no Jacobians."""

    unfoldings: tuple[Unfolding, ...]

    def least_ranks(self, n_layers: int) -> tuple[int, ...] | None:
        """The smallest ranks of a model with this many layers that these singular values allow."""
        if not self.unfoldings:
            return None
        rows, columns, slices, single = (unfolding.rank for unfolding in self.unfoldings)
        if n_layers == 1:
            return (max(rows, columns, slices),)
        return (rows, *[single] * (n_layers - 2), columns)

    def __str__(self) -> str:
        if not self.unfoldings:
            return "Without Jacobians there are no singular values to look at."
        return "\n".join(str(unfolding) for unfolding in self.unfoldings)


def hints_of(samples: Samples) -> Hints:
    """Singular values of the three unfoldings, and of the single Jacobians."""
    J = samples.J
    if J is None:
        return Hints(())
    assert isinstance(J, ndarray)
    S, n, m = J.shape
    tables = (
        ("rows of the Jacobians", "r_1", J.reshape(S * n, m)),
        ("columns of the Jacobians", "r_L", J.transpose(0, 2, 1).reshape(S * m, n)),
        ("whole Jacobians", "r_1 of a single layer", J.reshape(S, n * m)),
    )
    values = [_singular_values(table) for _, _, table in tables]
    # Noise of standard deviation sigma alone has singular values between sigma (sqrt(a) - sqrt(b)) and
    # sigma (sqrt(a) + sqrt(b)), so that the smallest one bounds sigma from above.
    edges = [np.sqrt(np.array([max(table.shape), min(table.shape)])) for _, _, table in tables]
    bounds = [v[-1] / (high - low) for v, (high, low) in zip(values, edges, strict=True) if high >= 1.2 * low]
    sigma = min(bounds, default=0.0)
    unfoldings = [
        _unfolding(name, meaning, v, sigma * (high + low))
        for (name, meaning, _), v, (high, low) in zip(tables, values, edges, strict=True)
    ]
    single = np.sqrt(np.mean(np.linalg.svd(J, compute_uv=False) ** 2, axis=0))
    unfoldings.append(_unfolding("each Jacobian by itself", "every r_l", single, sigma * (np.sqrt(n) + np.sqrt(m))))
    return Hints(tuple(unfoldings))


def _singular_values(table: Float[ndarray, "_ _"]) -> Float[ndarray, " k"]:
    small = np.linalg.qr(table).R if table.shape[0] > table.shape[1] else table
    return np.linalg.svd(small, compute_uv=False)


def _unfolding(name: str, meaning: str, values: Float[ndarray, " k"], noise: float) -> Unfolding:
    largest = values[0] or 1.0
    rank = int(np.count_nonzero(values > max(_CLEAR * noise, _ROUNDING * largest)))
    return Unfolding(name, meaning, values / largest, max(rank, 1))
