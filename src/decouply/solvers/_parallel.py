r"""One polynomial whose gradient is parallel to a combination of given gradients, and the combination.

For a unit vector k let a = J^T k at every sample. A polynomial whose gradients are parallel to a is a null vector of

    M(k) = |a| B grad phi_q,          B an orthonormal basis of all that is orthogonal to a,

with m - 1 rows for every sample and one column for every polynomial phi_q. Combinations k for which M(k) is singular
are isolated, one for each function, and Newton's steps lead to the nearest one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ._null_space import null_vectors
from ._sampled import Budget

_STEPS, _LONGEST = 25, 0.5
_SHORTER = (1.0, 0.3, 0.1, 0.03)
_STALLED = 0.999
_SAME = 1.0 - 1e-9  # cosine between combinations that are the same one
_REFINED = 4  # guesses per function that are refined
_TRIED = 3  # random starts per function in a round
_ROUNDS = 10
_ROOT = 1e-4  # of the median size at random combinations


@dataclass(frozen=True)
class Singular:
    """A combination k, the most singular vector of M(k), and what M(k) leaves of it."""

    k: Float[ndarray, " r"]
    vector: Float[ndarray, " p"]
    size: float


@dataclass(frozen=True)
class Parallel:
    """Gradients of r outputs at S points, and those of p polynomials there."""

    J: Float[ndarray, "S r m"]
    slopes: Float[ndarray, "p m S"]
    rng: np.random.Generator
    budget: Budget

    def at(self, k: Float[ndarray, " r"]) -> Singular:
        """What is nearest to a parallel gradient for this combination."""
        _, M = self._rows(k)
        vector = null_vectors(M, 1, self.rng)[:, 0]
        return Singular(k, vector, float(np.linalg.norm(M @ vector)))

    def _rows(self, k: Float[ndarray, " r"]) -> tuple[Float[ndarray, "S m"], Float[ndarray, "R p"]]:
        a = k @ self.J
        return a, self._across(a, self.slopes.T).reshape(-1, len(self.slopes))

    @staticmethod
    def _across(a: Float[ndarray, "S m"], b: Float[ndarray, "S m q"]) -> Float[ndarray, "S m1 q"]:
        """|a| B b, with B from the reflection that turns a to the first axis."""
        size = np.linalg.norm(a, axis=1, keepdims=True)
        w = a.copy()
        w[:, :1] += np.where(w[:, :1] < 0.0, -1.0, 1.0) * size
        length = np.sum(w**2, axis=1, keepdims=True)
        share = 2.0 * w / np.where(length > 0.0, length, 1.0)
        return size[..., None] * (b - share[..., None] * (w[:, None] @ b))[:, 1:]

    def refined(self, one: Singular) -> Singular:
        """Newton's steps of k and the vector together, while they help."""
        for _ in range(_STEPS):
            k, v = one.k, one.vector
            turns = np.linalg.svd(k[None])[2][1:]  # directions in which k may turn
            a, M = self._rows(k)
            b, da = np.einsum("p,pms->sm", v, self.slopes), (turns @ self.J).mT  # (S, m, r - 1)
            square = np.maximum(np.sum(a**2, axis=1), np.finfo(float).tiny)[:, None]
            # b = beta a + c with c across a: only beta and the length of a change what is across.
            beta, longer = np.sum(a * b, axis=1, keepdims=True) / square, (a[:, None] @ da)[:, 0] / square
            turned = self._across(a, b[..., None] * longer[:, None] - beta[..., None] * da).reshape(len(M), -1)
            table = np.block([[M, turned, (M @ v)[:, None]], [v, np.zeros(len(turns) + 1)]])
            R = np.asarray(np.linalg.qr(table, mode="r"))[:-1]  # the right-hand side is its last column
            move = np.linalg.solve(R[len(v) :, len(v) : -1], R[len(v) :, -1]) @ turns
            move *= min(1.0, _LONGEST / max(float(np.linalg.norm(move)), np.finfo(float).tiny))
            trials = (self.at(_unit(k - part * move)) for part in _SHORTER)
            better = next((trial for trial in trials if trial.size < one.size), None)
            if better is None:
                break
            stalled, one = better.size > _STALLED * one.size, better
            if stalled:
                break
        return one

    def found(self, guesses: Iterable[Float[ndarray, " r"]]) -> list[Singular]:
        """Different singular combinations near the best of the guesses, the most singular first."""
        near = sorted((self.at(k) for k in guesses), key=lambda one: one.size)
        out: list[Singular] = []
        for guess in near[: _REFINED * self.n_functions]:
            _enter(out, self.refined(guess))
        return sorted(out, key=lambda one: one.size)

    def searched(self) -> list[Singular]:
        """Singular combinations from random ones; fewer than there are functions where they do not stand out."""
        roots: list[Singular] = []
        for count in range(_ROUNDS):
            guesses = self.rng.normal(size=(_TRIED * self.n_functions, self.n_functions))
            if roots:  # half of them away from what is known
                known = np.linalg.qr(np.stack([root.k for root in roots]).T)[0]
                guesses[::2] -= (guesses[::2] @ known) @ known.T
            near = sorted((self.at(_unit(k)) for k in guesses), key=lambda one: one.size)
            for guess in near:
                if self.budget.over():
                    return roots
                one = self.refined(guess)
                self.budget.progress(one.size)
                if one.size <= _ROOT * near[len(near) // 2].size:
                    _enter(roots, one)
                if len(roots) == self.n_functions:
                    return roots
            if count >= 1 and not roots:
                break
        return roots

    @property
    def n_functions(self) -> int:
        return self.J.shape[1]


def _enter(known: list[Singular], one: Singular) -> None:
    if all(abs(one.k @ other.k) < _SAME for other in known):
        known.append(one)


def _unit(k: Float[ndarray, " r"]) -> Float[ndarray, " r"]:
    return k / np.linalg.norm(k)
