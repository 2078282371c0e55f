r"""Classes instead of values: a model of log-odds f(x), fitted by maximum likelihood with a ridge.

With probabilities p_s from f(x_s), by the logistic function for two classes (n = 1) and by softmax for more, and y_s
the class that was seen, the cost is

.. math:: -2 \sum_s w_s \log p_s(y_s) + \rho \|\theta\|^2.

Its Gauss-Newton step is that of Fisher scoring: residuals y_s - p_s, and the curvature
:math:`H_s = \operatorname{diag}(p_s) - p_s p_s^T` between derivatives of the log-odds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from ...bases import LayerBasis
from ..problem._weighted_rows import Rows
from ._derivatives import run_chain
from ._levenberg_marquardt import Dense
from ._parameters import Parameters
from ._variable_projection import AbstractResiduals, Complete

LARGEST_SHARE = 0.999  # of a sample that parameters follow: a fit without it says nothing there


def probabilities(f: Float[ndarray, "S n"]) -> Float[ndarray, "S n"]:
    """Those of the second of two classes (n = 1), or of all classes."""
    from scipy import special

    return special.expit(f) if f.shape[1] == 1 else special.softmax(f, axis=1)


def log_likelihoods(f: Float[ndarray, "S n"], y: Float[ndarray, "S n"]) -> Float[ndarray, " S"]:
    """log p_s(y_s); `y` is 0 or 1 for two classes, and a 1 among zeros for more."""
    from scipy import special

    if f.shape[1] == 1:
        return special.log_expit(np.where(y > 0.5, f, -f))[:, 0]
    return np.sum(y * special.log_softmax(f, axis=1), axis=1)


@dataclass(frozen=True)
class Deviance(AbstractResiduals):
    """The cost above, as a function of all parameters of a model with values `centre` + W_L g_L(...).

    The first `n_fixed` numbers, from W_0 on, stay as they are; `copies` says how often each sample is there.
    """

    X: Float[ndarray, "S k"]
    y: Float[ndarray, "S n"]
    weights: Float[ndarray, " S"]
    copies: Int[ndarray, " S"]
    centre: Float[ndarray, " n"]
    layers: tuple[LayerBasis, ...]
    linear: bool
    ridge: float
    n_fixed: int = 0

    @property
    def _complete(self) -> Complete:
        S, n = self.y.shape
        rows = Rows(self.X, np.zeros((S, 1, n)), np.ones((S, 1)), values=True, jacobians=False)
        return Complete(rows, self.layers, self.linear)

    def _at(self, theta: Parameters) -> tuple[Float[ndarray, "S n"], Float[ndarray, "S n N"]]:
        """Log-odds of a batch of one, and their derivatives."""
        complete = self._complete
        chain = run_chain(self.layers, theta.inner, self.X)
        f = self.centre - complete.residual(theta, chain)[0, :, 0]
        Z = complete.derivatives(theta, chain, slice(None))[0, :, :, 0].transpose(2, 1, 0)
        if self.n_fixed:
            Z = Z.copy()
            Z[..., : self.n_fixed] = 0.0
        return f, Z

    def linearise(self, theta: Parameters) -> tuple[Float[ndarray, " B"], Dense]:
        f, Z = self._at(theta)
        flat = self._complete.unknowns.flatten(theta)
        cost = -2.0 * self.weights @ log_likelihoods(f, self.y) + self.ridge * np.sum(flat**2)
        p = probabilities(f)
        g = np.einsum("sn,snN->N", self.weights[:, None] * (self.y - p), Z) - self.ridge * flat[0]
        g[: self.n_fixed] = 0.0
        return np.array([cost]), Dense(self._curvature(p, Z)[None], g[None])

    def _curvature(self, p: Float[ndarray, "S n"], Z: Float[ndarray, "S n N"]) -> Float[ndarray, "N N"]:
        tall = Z.reshape(-1, Z.shape[2])
        M = tall.T @ (self.weights[:, None, None] * _apply_curvature(p, Z)).reshape(tall.shape)
        M = M + self.ridge * np.eye(len(M))
        M[range(self.n_fixed), range(self.n_fixed)] = 1.0
        return M

    def after_step(self, theta: Parameters, step: Float[ndarray, "B N"]) -> Parameters:
        return self._complete.unknowns.after_step(theta, step)

    def leave_one_out_log_odds(self, theta: Parameters) -> Float[ndarray, "S n"]:
        """The log-odds that fits without sample s and its copies give it, to first order.

        A weight counts samples too: of w_s such samples one is left out.
        """
        f, Z = self._at(theta)
        p = probabilities(f)
        inverse = np.linalg.pinv(self._curvature(p, Z), hermitian=True)
        V = Z @ inverse @ Z.mT  # (S, n, n)
        H = _apply_curvature(p, np.broadcast_to(np.eye(f.shape[1]), V.shape))
        V = self.copies[:, None, None] * V
        stays = np.eye(f.shape[1]) - LARGEST_SHARE * H @ V
        return f - (V @ np.linalg.solve(stays, (self.y - p)[..., None]))[..., 0]

    def mean_deviance(self, f: Float[ndarray, "S n"]) -> float:
        """-2 log p_s(y_s) for log-odds f, the mean over the samples with their weights."""
        return float(-2.0 * self.weights @ log_likelihoods(f, self.y) / self.weights.sum())


def _apply_curvature(p: Float[ndarray, "S n"], Z: Float[ndarray, "S n N"]) -> Float[ndarray, "S n N"]:
    """H_s Z_s."""
    if p.shape[1] == 1:
        return (p * (1.0 - p))[..., None] * Z
    return p[..., None] * (Z - np.einsum("sn,snN->sN", p, Z)[:, None])
