"""States corrected by the last measured outputs: to first order, at all times at once."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ...model._decoupling import Decoupling
from ..free_run._free_parameters import Along

_RIDGE = 1e-10  # of the largest entry: directions that the window does not see are left alone


def corrections(
    step: Decoupling, n: int, points: Float[ndarray, "T m"], residuals: Float[ndarray, "T outputs"], window: int
) -> Float[ndarray, "T outputs"]:
    """What the outputs of a free run change by when its state meets the `window` outputs before best.

    Along the run, d x(t+1) = F(t) d x(t) and d y(t) = H(t) d x(t). For every t the change of x(t - window) that
    explains the residuals from there to t - 1 best is carried on to t.
    """
    J = np.moveaxis(Along(step, points).state_jacobian(n), 2, 0)  # (T, n + outputs, n)
    F, H = J[:, :n], J[:, n:]
    count = len(points) - window
    carried = np.broadcast_to(np.eye(n), (count, n, n))  # d x(t - window + k) / d x(t - window)
    M, g = np.zeros((count, n, n)), np.zeros((count, n))
    for k in range(window):
        O = H[k : k + count] @ carried
        M += O.mT @ O
        g += np.einsum("toi,to->ti", O, residuals[k : k + count])
        carried = F[k : k + count] @ carried
    ridge = _RIDGE * np.abs(M).max(axis=(1, 2), keepdims=True) + 1e-300
    change = np.linalg.solve(M + ridge * np.eye(n), g[..., None])
    out = np.zeros_like(residuals)
    out[window:] = (H[window:] @ carried @ change)[..., 0]
    return out
