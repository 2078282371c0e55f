"""What fixes the canonical form: of all ways to write one function, the scales, signs and constants that points choose.

All of it comes from ranges of arguments and from sums over points, so that points need not be in one place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ._functions import Functions

_TINY = 1e-100  # what is smaller is as good as 0: its inverse, and powers of that, would overflow
_CONSTANT = 1e-14  # ranges of arguments below this share of their size are rounding
_ROUNDING = 1e-12  # relative: what constants may change the outputs by when they are replaced by smaller ones


@dataclass(frozen=True)
class Visits:
    """What the canonical form of a model depends on: per layer, the ranges of arguments, and sums over points of the
    squares of slopes and of shares of the Jacobian."""

    count: int
    low: tuple[Float[ndarray, " _"], ...]
    high: tuple[Float[ndarray, " _"], ...]
    squares: tuple[Float[ndarray, " _"], ...]
    shares: tuple[Float[ndarray, " _"], ...]

    @classmethod
    def of(
        cls,
        weights: Sequence[Float[ndarray, "_ _"]],
        arguments: Sequence[Float[ndarray, "S _"]],
        slopes: Sequence[Float[ndarray, "S _"]],
    ) -> Visits:
        """Those of points, by the arguments and slopes that they lead to."""
        return cls(
            len(arguments[0]),
            tuple(u.min(axis=0) for u in arguments),
            tuple(u.max(axis=0) for u in arguments),
            tuple(np.sum(G**2, axis=0) for G in slopes),
            tuple(share.sum(axis=0) for share in jacobian_shares(weights, slopes)),
        )

    @property
    def finite(self) -> bool:
        """Whether all that must be known is a number."""
        return all(np.isfinite(found).all() for part in (self.low, self.squares, self.shares) for found in part)

    def order(self, l: int) -> ndarray:
        """The functions of a layer, those with the largest share of the Jacobian first."""
        return np.argsort(-np.sqrt(self.shares[l] / self.count), kind="stable")


def jacobian_shares(
    weights: Sequence[Float[ndarray, "_ _"]], slopes: Sequence[Float[ndarray, "S _"]]
) -> tuple[Float[ndarray, "S _"], ...]:
    """Squares of the part of the Jacobian that goes through each function, at every point, layer by layer."""
    S = len(slopes[0])
    # W_0 = T Q with orthonormal rows of Q: T has rows of the same lengths, and far fewer columns where m is large.
    T = np.linalg.qr(weights[0].T).R.T
    right = [np.broadcast_to(T, (S, *T.shape))]
    for G, W in zip(slopes[:-1], weights[1:-1], strict=True):
        right.append(W @ (G[:, :, None] * right[-1]))
    left = [np.broadcast_to(weights[-1], (S, *weights[-1].shape))]
    for G, W in zip(slopes[:0:-1], weights[-2:0:-1], strict=True):
        left.insert(0, (left[0] * G[:, None, :]) @ W)
    return tuple(
        np.sum(A**2, axis=1) * G**2 * np.sum(B**2, axis=2) for A, G, B in zip(left, slopes, right, strict=True)
    )


def argument_scales(
    W: Float[ndarray, "r k"], functions: Functions, low: Float[ndarray, " r"], high: Float[ndarray, " r"]
) -> Float[ndarray, " r"]:
    """What gives arguments a range of length 2, and the largest entry of each row of W a positive sign where it can."""
    half = (high - low) / 2.0
    sign = np.sign(W[np.arange(len(W)), np.argmax(np.abs(W), axis=1)])
    sign = np.where((sign < 0.0) & functions.turns_around, -1.0, 1.0)
    alive = half > np.maximum(_TINY, _CONSTANT * np.maximum(np.abs(low), np.abs(high)))
    return np.where(alive, sign / np.where(alive, half, 1.0), 1.0)


def value_scales(functions: Functions, size: Float[ndarray, " r"]) -> Float[ndarray, " r"]:
    """What gives slopes of root mean square `size` the size 1, and the largest coefficient a positive sign."""
    C = functions.C[:, 1:]
    largest = np.sign(C[np.arange(len(C)), np.argmax(np.abs(C), axis=1)])
    lives = (size > _TINY) & (largest != 0.0)  # coefficients may vanish where slopes are tiny
    return np.where(lives, largest / np.where(lives, size, 1.0), 1.0)


def smallest_constants(W: Float[ndarray, "n r"], constants: Float[ndarray, " r"]) -> Float[ndarray, " r"]:
    """The smallest constants of the last layer that give the same outputs; those given where rounding is in the way."""
    wanted = W @ constants
    size = np.linalg.norm(W, axis=1)  # outputs may have very different units
    size = np.where(size > 0.0, size, 1.0)
    smallest = np.linalg.lstsq(W / size[:, None], wanted / size, rcond=None)[0]
    lost = np.any(np.abs(W @ smallest - wanted) > _ROUNDING * (np.abs(W) @ np.abs(constants)))
    return constants if lost else smallest
