"""The same state-space model with other coordinates of its state."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ...bases import Monomial
from ...model._decoupling import Decoupling
from ...model._functions import Functions


def linear_step(
    A: Float[ndarray, "n n"],
    B: Float[ndarray, "n inputs"],
    C: Float[ndarray, "outputs n"],
    D: Float[ndarray, "outputs inputs"],
) -> Decoupling:
    """One step (x, u) -> (x+, y) of a linear model, as a decoupling whose one function has no weight."""
    linear = np.block([[A, B], [C, D]])
    nothing = Functions(Monomial(1), np.zeros((1, 2)))
    return Decoupling(
        [np.zeros((1, linear.shape[1])), np.zeros((linear.shape[0], 1))],
        [nothing],
        linear=linear,
        offset=np.zeros(len(linear)),
    )


def with_state(step: Decoupling, T: Float[ndarray, "n n"], centre: Float[ndarray, " n"] | None = None) -> Decoupling:
    """The same model with the state x' where x = T x' + centre."""
    n = len(T)
    assert step.linear is not None
    assert step.offset is not None
    inputs, outputs = np.eye(step.n_inputs), np.eye(step.n_outputs)
    inputs[:n, :n], outputs[:n, :n] = T, np.linalg.inv(T)
    shift = np.zeros(step.n_inputs)
    offset = step.offset.copy()
    g = list(step.g)
    if centre is not None:
        shift[:n] = centre
        offset = offset + step.linear @ shift
        offset[:n] -= centre
        g[0] = g[0].shifted(step.W[0] @ shift)
    return step.with_parts(
        W=[step.W[0] @ inputs, *step.W[1:-1], outputs @ step.W[-1]],
        g=g,
        linear=outputs @ step.linear @ inputs,
        offset=outputs @ offset,
    )


def in_smaller_steps(step: Decoupling, n: int, factor: int) -> Decoupling:
    """About the same model with `factor` steps per sample: A^(1/factor), and what enters the state shared out.

    Linear models of constant inputs are met exactly.
    """
    from scipy.linalg import fractional_matrix_power

    assert step.linear is not None
    assert step.offset is not None
    root = np.real(fractional_matrix_power(step.linear[:n, :n], 1.0 / factor))
    share = np.linalg.inv(sum(np.linalg.matrix_power(root, k) for k in range(factor)))
    outputs = np.eye(step.n_outputs)
    outputs[:n, :n] = share
    linear = outputs @ step.linear
    linear[:n, :n] = root
    return step.with_parts(W=[*step.W[:-1], outputs @ step.W[-1]], linear=linear, offset=outputs @ step.offset)


def whitening(X: Float[ndarray, "T n"]) -> Float[ndarray, "n n"]:
    """T such that x' = T^-1 x has unit covariance over the rows of X."""
    spread, axes = np.linalg.eigh(np.atleast_2d(np.cov(X.T)))
    return axes * np.sqrt(np.maximum(spread, 1e-12 * spread.max()))
