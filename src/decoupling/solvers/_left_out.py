r"""What a model would leave of each sample if that had not been fitted, without fitting it again.

With derivatives Z of all data and the hat matrix :math:`H = Z Z^+` (ridge and roughness included), a fit without sample
s leaves :math:`(I - H_{ss})^{-1} r_s` there, to first order: :math:`r_s` is what the fit to all samples leaves, and
:math:`H_{ss}` the block of the rows of that sample.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..model._decoupling import Decoupling
from ..samples._samples import Samples
from ._inference import linearise

_LARGEST_SHARE = 0.999  # of a sample that parameters follow: a fit without it says nothing there


@dataclass(frozen=True)
class LeftOut:
    """How a fit uses its samples, one number per output.

    Attributes
    ----------
    used
        Degrees of freedom that the values of the output lost to the parameters, or its Jacobians without values.
    rise
        How many times larger the root mean square error is on samples that are left out.
    share
        Of all numbers, values and Jacobians, the share of degrees of freedom that went into parameters.
    """

    used: Float[ndarray, " n"]
    rise: Float[ndarray, " n"]
    share: float


def left_out(
    model: Decoupling, samples: Samples, fixed: Collection[str] = (), ridge: float = 0.0, *, smoothed: bool = False
) -> LeftOut:
    """Judge a fit to samples in memory by leaving out one at a time."""
    at = linearise(model, samples, fixed, ridge, smoothed=smoothed)
    assert at.residual is not None  # samples are in memory
    S, q, n = at.residual.shape
    rows = at.left[:, : at.rank].reshape(S, q * n, -1)
    used = np.sum(rows**2, axis=2).reshape(S, q, n)
    residual = at.residual.reshape(S, q * n)
    share, axes = np.linalg.eigh(rows @ rows.mT)
    share = np.clip(share, 0.0, _LARGEST_SHARE)
    apart = np.einsum("sab,sb,scb,sc->sa", axes, 1.0 / (1.0 - share), axes, residual, optimize=True).reshape(S, q, n)
    first = slice(0, 1) if samples.F is not None else slice(None)  # values come first
    fitted, unfitted = (np.sum(r[:, first] ** 2, axis=(0, 1)) for r in (at.residual, apart))
    rise = np.sqrt(np.divide(unfitted, fitted, out=np.ones(n), where=fitted > 0.0))
    return LeftOut(np.sum(used[:, first], axis=(0, 1)), rise, float(np.mean(used)))
