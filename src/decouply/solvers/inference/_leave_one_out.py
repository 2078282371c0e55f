r"""What a model would leave of each sample if that had not been fitted, without fitting it again.

Z are the derivatives of all data, and :math:`H = Z Z^+` is the hat matrix, ridge and roughness included. A fit without
sample s leaves :math:`(I - H_{ss})^{-1} r_s` there, to first order. Here :math:`r_s` is the residual of the fit to all
samples, and :math:`H_{ss}` the block of the rows of that sample. Copies of a sample are left out with it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from ...samples._duplicates import originals
from ._linearisation import Linearisation

_LARGEST_SHARE = 0.999  # of a sample that parameters follow: a fit without it says nothing there
_MIN_SHARE_PREDICTED = 0.9  # of the samples: where fits say something about fewer, nothing is known


@dataclass(frozen=True)
class LeaveOneOut:
    """How a fit uses its samples, one number per output.

    Attributes
    ----------
    used
        Degrees of freedom that the values of the output lost to the parameters, or its Jacobians without values.
    rise
        How many times larger the root mean square error is on samples that are left out. NaN if too few of these
        can be predicted from the others, as with more parameters than numbers.
    share
        Of all numbers, values and Jacobians, the share of degrees of freedom that went into parameters.
    """

    used: Float[ndarray, " n"]
    rise: Float[ndarray, " n"]
    share: float


def leave_one_out(at: Linearisation) -> LeaveOneOut:
    """Judge a fit to samples in memory by leaving out one sample at a time, with its copies."""
    samples = at.samples
    assert at.residual is not None  # samples are in memory
    S, q, n = at.residual.shape
    rows = at.left[:, : at.rank].reshape(S, q * n, at.rank)
    used = np.sum(rows**2, axis=2).reshape(S, q, n)
    apart, told = _leave_out_residuals(rows, at.residual.reshape(S, q * n), originals(samples))
    first = slice(0, 1) if samples.F is not None else slice(None)  # values come first
    fitted, unfitted = (np.sum(r.reshape(S, q, n)[:, first] ** 2, axis=(0, 1)) for r in (at.residual, apart))
    rise = np.sqrt(np.divide(unfitted, fitted, out=np.ones(n), where=fitted > 0.0))
    if np.mean(told) < _MIN_SHARE_PREDICTED:
        rise[:] = np.nan
    return LeaveOneOut(np.sum(used[:, first], axis=(0, 1)), rise, float(np.mean(used)))


def _leave_out_residuals(
    rows: Float[ndarray, "S a k"], residual: Float[ndarray, "S a"], which: Int[ndarray, " S"]
) -> tuple[Float[ndarray, "S a"], Bool[ndarray, " S"]]:
    """What fits without a sample and its copies leave of it, and whether others tell anything about it."""
    S, a, k = rows.shape
    apart, told = np.empty((S, a)), np.empty(S, dtype=bool)
    count = np.bincount(which)
    together = np.argsort(which, kind="stable")
    for c in np.unique(count):
        members = together[count[which[together]] == c].reshape(-1, c)  # one row per sample that is there c times
        U, r = rows[members].reshape(len(members), c * a, k), residual[members].reshape(-1, c * a)
        if c * a <= k:
            share, axes = np.linalg.eigh(U @ U.mT)
        else:  # by the smaller matrix; all other axes have no share
            share, turns = np.linalg.eigh(U.mT @ U)
            axes = U @ turns / np.sqrt(np.maximum(share, np.finfo(float).tiny))[:, None]
        told[members] = (share.max(axis=1, initial=0.0) < _LARGEST_SHARE)[:, None]
        share = np.clip(share, 0.0, _LARGEST_SHARE)
        more = np.einsum("gab,gb,gcb,gc->ga", axes, share / (1.0 - share), axes, r, optimize=True)
        apart[members] = (r + more).reshape(-1, c, a)
    return apart, told
