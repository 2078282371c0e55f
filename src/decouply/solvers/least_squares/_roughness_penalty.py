r"""Functions that are as smooth as the data allow: a penalty on roughness, with weights chosen by the data.

The penalty on function j of layer l is

    weight_lj ||W_l[:, j]||^2 ||L_j c_lj||^2,

with L_j a root of the roughness of its basis (`AbstractBasis.roughness`) and W_l the matrix behind it. It does not
change when a factor moves from c to W, so there is no scale to hide in. For an eliminated last layer, whose outputs
have separate coefficients, it is the sum over outputs.

Weights follow restricted maximum likelihood by the step of Fellner and Schall,

    weight  <-  noise x effective parameters of the function / its roughness,

from one inverse of the Gauss-Newton matrix.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ...bases import LayerBasis
from ._parameters import Parameters, Unknowns

FIRST_WEIGHT = 1e-4  # of all functions, before anything is known
_LARGEST_WEIGHT_RATIO = 1e3  # factor by which a weight may change at a time
LEAST_PARAMETERS = 1e-3  # effective ones of a function: with none its weight would be 0 for ever
_LEAST_ROUGHNESS = 1e-30
_LEAST_DIAGONAL = 1e-200  # of a Gauss-Newton matrix, as a share of the largest number there
_SINGULAR_VALUE_OF_ROUNDING = 1e-10  # singular values of a scaled Gauss-Newton matrix below this share count as 0


@dataclass(frozen=True)
class Penalty:
    """Roots of the roughness and weights of all functions, layer by layer."""

    roots: tuple[Float[ndarray, "_ _ _"], ...]
    weights: tuple[Float[ndarray, " _"], ...]

    @classmethod
    def of(cls, layers: tuple[LayerBasis, ...], weight: float, *, everything: bool, order: int = 2) -> Penalty | None:
        """The same weight for all functions whose basis asks to be smoothed, or for all; None if there are none."""
        wanted = [np.array([everything or basis.smooths for basis in layer.bases]) for layer in layers]
        if not any(mask.any() for mask in wanted):
            return None
        return cls(
            tuple(_roots(layer, order) for layer in layers), tuple(np.where(mask, weight, 0.0) for mask in wanted)
        )

    def with_effect_of(self, theta: Parameters, other: Penalty, of_other: Parameters) -> Penalty:
        """The weights with which all functions of a model count as much as the same functions in other bases did."""
        weights = []
        for l, (own, theirs) in enumerate(zip(self.weights, other.weights, strict=True)):
            here, there = self._roughness(theta, l), other._roughness(of_other, l)
            ratio = (there + _LEAST_ROUGHNESS) / (here + _LEAST_ROUGHNESS)
            weights.append(np.where(own > 0.0, theirs * ratio, 0.0))
        return dataclasses.replace(self, weights=tuple(weights))

    def _roughness(self, theta: Parameters, l: int) -> Float[ndarray, " r"]:
        """||L_j c_lj||^2 of a single model."""
        c = theta.c[l][0, :, -self.roots[l].shape[2] :]
        return np.sum((self.roots[l] @ c[..., None]) ** 2, axis=(1, 2))

    def last_rows(self) -> Float[ndarray, "K p"]:
        """Rows that are added to the design of an eliminated last layer, for the coefficients of its functions."""
        root, weight = self.roots[-1], self.weights[-1]
        r, k, d = root.shape
        rows = np.zeros((r, k, r, d))
        for j in range(r):
            rows[j, :, j] = np.sqrt(weight[j]) * root[j]
        return rows.reshape(r * k, r * d)

    def add(
        self,
        M: Float[ndarray, "B N N"],
        g: Float[ndarray, "B N"],
        cost: Float[ndarray, " B"],
        theta: Parameters,
        unknowns: Unknowns,
    ) -> None:
        """Add the penalty of all layers whose coefficients are unknowns to matrix, right-hand side and cost."""
        for l, j, c_at, w_at in self._places(theta, unknowns):
            weight = self.weights[l][j]
            if weight == 0.0:
                continue
            P = self._square(l, j)
            c, w = theta.c[l][:, j, -P.shape[0] :], theta.W[l + 1][:, :, j]
            Pc, size = c @ P, np.sum(w**2, axis=1)
            rough = np.sum(c * Pc, axis=1)
            cross = weight * Pc[:, :, None] * w[:, None, :]
            M[:, c_at[:, None], c_at] += weight * size[:, None, None] * P
            M[:, w_at, w_at] += weight * rough[:, None]
            M[:, c_at[:, None], w_at] += cross
            M[:, w_at[:, None], c_at] += cross.mT
            g[:, c_at] -= weight * size[:, None] * Pc
            g[:, w_at] -= weight * rough[:, None] * w
            cost += weight * size * rough

    def rows(self, theta: Parameters, unknowns: Unknowns) -> Float[ndarray, "K N"]:
        """The penalty on the coefficients of one model as rows, for which 0 is wanted."""
        found = []
        for l, j, c_at, _ in self._places(theta, unknowns):
            rows = np.zeros((self.roots[l].shape[1], unknowns.count(theta)))
            size = np.sum(theta.W[l + 1][0, :, j] ** 2)
            rows[:, c_at] = np.sqrt(self.weights[l][j] * size) * self.roots[l][j]
            found.append(rows)
        return np.concatenate(found)

    def value(self, theta: Parameters) -> Float[ndarray, " B"]:
        """The penalty of all layers that have coefficients in `theta`."""
        total = np.zeros(len(theta))
        for l, behind in enumerate(theta.W[1:]):
            for j, weight in enumerate(self.weights[l]):
                P = self._square(l, j)
                c = theta.c[l][:, j, -P.shape[0] :]
                total += weight * np.sum(behind[:, :, j] ** 2, axis=1) * np.sum(c * (c @ P), axis=1)
        return total

    def improve_weights(
        self,
        plain: Float[ndarray, "N N"],
        misfit: float,
        n_numbers: int,
        theta: Parameters,
        unknowns: Unknowns,
    ) -> tuple[Penalty, float]:
        """Weights for the next phase, and the effective number of parameters, of a single model.

        `plain` is its Gauss-Newton matrix without the penalty.
        """
        M = plain[None].copy()
        self.add(M, np.zeros(M.shape[:2]), np.zeros(1), theta, unknowns)
        M = M[0]
        diagonal = np.diagonal(M)  # of a function that has vanished it is 0, and the inverse must not overflow
        scale = 1.0 / np.sqrt(np.maximum(diagonal, _LEAST_DIAGONAL * (diagonal.max() or 1.0)))
        inverse = (
            np.linalg.pinv(M * scale[:, None] * scale, rcond=_SINGULAR_VALUE_OF_ROUNDING, hermitian=True)
            * scale[:, None]
            * scale
        )
        used = float(np.sum(inverse * plain))
        noise = misfit / max(n_numbers - used, 1.0)
        weights = [w.copy() for w in self.weights]
        for l, j, c_at, _ in self._places(theta, unknowns):
            weight = self.weights[l][j]
            if weight == 0.0:
                continue
            P = self._square(l, j)
            c = theta.c[l][0, j, -P.shape[0] :]
            size = float(np.sum(theta.W[l + 1][:, :, j] ** 2))
            own = self.roots[l].shape[1] - weight * size * float(np.sum(inverse[c_at[:, None], c_at] * P))
            rough = size * float(c @ P @ c)
            new = noise * max(own, LEAST_PARAMETERS) / max(rough, _LEAST_ROUGHNESS)
            weights[l][j] = np.clip(new, weight / _LARGEST_WEIGHT_RATIO, weight * _LARGEST_WEIGHT_RATIO)
        return dataclasses.replace(self, weights=tuple(weights)), used

    def _square(self, l: int, j: int) -> Float[ndarray, "d d"]:
        root = self.roots[l][j]
        return root.T @ root

    def _places(self, theta: Parameters, unknowns: Unknowns) -> list[tuple[int, int, ndarray, ndarray]]:
        """Layer, function, and where its coefficients and the weights behind it are among the unknowns."""
        begins = unknowns.first_positions(theta)
        found = []
        for l, behind in enumerate(theta.W[1:]):
            r, _, d = self.roots[l].shape
            e, n = theta.c[l].shape[2], behind.shape[1]
            for j in range(r):
                c_at = begins[f"g{l + 1}"] + j * e + (e - d) + np.arange(d)
                found.append((l, j, c_at, begins[f"W{l + 1}"] + np.arange(n) * r + j))
        return found


def roughness_orders(layers: tuple[LayerBasis, ...]) -> tuple[int, ...]:
    """The orders of roughness between which the data can choose: the plain one first."""
    return tuple(
        sorted({order for layer in layers for basis in layer.bases if basis.smooths for order in basis.orders})
    )


def _roots(layer: LayerBasis, order: int) -> Float[ndarray, "r k d"]:
    """The roots of all functions, padded with zeros to one shape; bases without this order have their first."""
    each = [basis.roughness(order if order in basis.orders else basis.orders[0]) for basis in layer.bases]
    padded = np.zeros((len(each), max(len(root) for root in each), layer.size))
    for j, root in enumerate(each):
        padded[j, : len(root), : root.shape[1]] = root
    return padded
