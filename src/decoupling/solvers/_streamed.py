r"""Gauss-Newton over all samples, wherever they are, from a model that a pilot has led to.

Cost and gradient are sums over all samples: one pass. The normal matrix is a mean that a part of the samples gives well
enough: with a thousand numbers per unknown it is right to a few percent, and each pass then leaves a few percent of the
distance to the minimum. Large samples weigh most in it, so that these are drawn more often, and count the less. Steps
are taken by the one engine, with Levenberg's acceptance on the cost of all samples. As soon as a step does not do what
it promised, the matrix is summed over all samples as well.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..bases import LayerBasis
from ..samples._data import AbstractData, Portion, pick
from ._chain import Parameters
from ._exact import rounding_of
from ._levenberg import AbstractLinearisation, Dense, Descent, MatrixFree, descend
from ._overview import Frame
from ._residuals import AbstractResiduals, Complete
from ._updates import combine
from ._window import on_window

_NEAR = 1e-8  # damping of the first step: the pilot has led to the neighbourhood of the minimum
_DECIDED = 1e-2  # of the share p / N of the cost that N numbers leave open for p parameters: no need for more
_LEAST, _MOST = 1e-10, 1e-6  # that share is held between these
_SETTLED, _SETTLED_AFTER = 1e-4, 5  # the share of its cost that must still be lost in so many passes
_SLOW = 0.3  # what a good pass leaves of the promised decrease
_EVERYONE = 0.5  # the share of a part that is drawn without a look at the size of samples


@dataclass
class Streamed(AbstractResiduals):
    """All parameters as unknowns, all samples in the cost; `part` stands for them in the normal matrix."""

    data: AbstractData
    frame: Frame
    part: Complete
    enough: float  # the share of the cost that is not worth another pass
    progress: Callable[[], None]
    passes: int = 0
    whole_matrix: bool = False
    promised: float = np.inf  # the decrease that the last linearisation promises
    slow: bool = False  # it promises nearly as much as the one before
    reached: bool = False  # it promises none that counts
    costs: list[float] = field(default_factory=list)

    @property
    def layers(self) -> tuple[LayerBasis, ...]:
        return self.part.layers

    def linearise(self, theta: Parameters) -> tuple[Float[ndarray, " B"], AbstractLinearisation]:
        part, flat = self.part, self.part.unknowns.flatten(theta)
        small = (self.frame, part.layers, part.linear, theta)
        self.passes += 1
        if self.whole_matrix:
            cost, g, M = self.data.reduce(normal_task, *small, progress=self.progress)
            at: AbstractLinearisation = Dense(M + part.ridge * np.eye(len(g[0])), g - part.ridge * flat)
        else:
            cost, g = self.data.reduce(gradient_task, *small, progress=self.progress)
            at = self._with_matrix_of_part(theta, g - part.ridge * flat)
        if part.free is not None and isinstance(at, Dense):
            at = Dense(at.M * (part.free[:, None] & part.free), at.g * part.free)
        cost = cost + part.ridge * np.sum(flat**2, axis=1)
        _, promised = at.step(np.full(len(cost), _NEAR))
        self.slow, self.promised = bool(promised[0] > _SLOW * self.promised), float(promised[0])
        self.reached = bool(promised[0] <= self.enough * cost[0])
        return cost, at

    def _with_matrix_of_part(self, theta: Parameters, g: Float[ndarray, "1 N"]) -> AbstractLinearisation:
        part = dataclasses.replace(self.part, ridge=0.0, free=None)
        _, at = part.linearise(theta)
        if isinstance(at, Dense):
            return Dense(at.M + self.part.ridge * np.eye(g.shape[1]), g)
        assert isinstance(at, MatrixFree)
        return MatrixFree(at.forward, at.backward, g, self.part.ridge, self.part.free, at.rough)

    def moved(self, theta: Parameters, step: Float[ndarray, "B N"]) -> Parameters:
        return self.part.moved(theta, step)

    def wants_more(self, theta: Parameters, cost: ndarray) -> bool:  # noqa: ARG002 (observers are given it)
        """Whether another pass with the same matrix is worth its time."""
        self.costs.append(float(cost[0]))
        past = self.costs[-1 - _SETTLED_AFTER :]
        if len(past) > _SETTLED_AFTER and past[-1] > (1.0 - _SETTLED) * past[0]:
            self.reached = True  # a flat valley, along which each step promises more than it keeps
        return not self.reached and (self.whole_matrix or not self.slow)

    def with_whole_matrix(self) -> Streamed:
        return dataclasses.replace(self, whole_matrix=True, promised=np.inf, slow=False, costs=[])


def stream(
    residuals: Streamed, theta: Parameters, *, exact: float, max_steps: int, report: Callable[[float], None]
) -> tuple[Descent, int]:
    """Steps over all samples until they promise no more that counts, and the number of passes."""
    first = _steps(residuals, theta, exact, max_steps, report)
    forms = residuals.part.rows.forms_normal_matrix(residuals.part.unknowns.count(theta))
    if first.settled[0] or first.interrupted or float(first.cost[0]) <= exact or not forms:
        return first, residuals.passes
    again = residuals.with_whole_matrix()
    second = _steps(again, first.theta, exact, max_steps, report)
    second.record = first.record + second.record
    return second, again.passes


def _steps(
    residuals: Streamed, theta: Parameters, exact: float, max_steps: int, report: Callable[[float], None]
) -> Descent:
    descent = descend(
        residuals.linearise,
        residuals.moved,
        theta,
        max_steps=max_steps,
        exact=exact,
        deadline=np.inf,
        first_damping=_NEAR,
        observe=residuals.wants_more,
        progress=report,
    )
    descent.settled |= residuals.reached
    return descent


def worth(n_parameters: int, n_numbers: int) -> float:
    """The relative decrease of the cost below which noise in the data decides more than another pass."""
    return float(np.clip(_DECIDED * n_parameters / n_numbers, _LEAST, _MOST))


def meets_rounding(residuals: Streamed, theta: Parameters, cost: float, exact: float) -> bool:
    """Whether the cost is what rounding explains, of the data or of the parameters."""
    if cost <= exact:
        return True
    if cost > 1e-12 or not residuals.part.rows.forms_normal_matrix(residuals.part.unknowns.count(theta)):
        return False
    _, at = dataclasses.replace(residuals.part, ridge=0.0, free=None).linearise(theta)
    assert isinstance(at, Dense)
    flat = residuals.part.unknowns.flatten(theta)[0]
    return cost <= rounding_of(np.diagonal(at.M[0]), flat)


def on_whole_window(data: AbstractData, frame: Frame, layers: tuple[LayerBasis, ...], theta: Parameters) -> ndarray:
    """The standard points at which arguments and values of inner functions are extreme: they stand for all."""
    (points,) = data.reduce(extremes_task, frame, layers, theta[: 2 * len(layers) - 1], join="rows")
    return points


def rewritten(layers: tuple[LayerBasis, ...], theta: Parameters, points: ndarray) -> Parameters:
    """The same model with its arguments over the window at these points."""
    end = 2 * len(layers)
    return [*on_window(points, layers, theta[:end], exactly=True), *theta[end:]]


# Tasks


def part_task(
    portion: Portion, frame: Frame, count: float, n_samples: int, total: float, mean_weight: float
) -> tuple[ndarray, ...]:
    """About `count` samples of all, large ones more often, with the factors that make up for it; see `pick`."""
    Y = frame.rows(portion).Y
    size = np.einsum("sqn,sqn->s", Y, Y) / total
    chance = np.minimum(1.0, count * (_EVERYONE / n_samples + (1.0 - _EVERYONE) * size))
    rows = np.flatnonzero(_uniform(portion.first, len(portion)) < chance)
    found = pick(portion, portion.first + rows)
    weights = found[3] if portion.weights is not None else np.full(len(rows), mean_weight)
    factor = (1.0 / chance[rows]).reshape(-1, *[1] * (weights.ndim - 1))
    return (*found[:3], weights * factor)


def _uniform(first: int, count: int) -> Float[ndarray, " S"]:
    """A number in [0, 1) for every sample, the same in whatever portions they come (the mixer of SplitMix64)."""
    with np.errstate(over="ignore"):
        z = (np.arange(first, first + count, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((z ^ (z >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53


def gradient_task(
    portion: Portion, frame: Frame, layers: tuple[LayerBasis, ...], linear: bool, theta: Parameters
) -> tuple[ndarray, ndarray]:
    """Cost and gradient of a portion."""
    with np.errstate(all="ignore"):
        return Complete(frame.rows(portion), layers, linear).gradient(theta)


def normal_task(
    portion: Portion, frame: Frame, layers: tuple[LayerBasis, ...], linear: bool, theta: Parameters
) -> tuple[ndarray, ndarray, ndarray]:
    """Cost, gradient and normal matrix of a portion."""
    with np.errstate(all="ignore"):
        cost, at = Complete(frame.rows(portion), layers, linear).linearise(theta)
    assert isinstance(at, Dense)
    return cost, at.g, at.M


def extremes_task(portion: Portion, frame: Frame, layers: tuple[LayerBasis, ...], theta: Parameters) -> tuple[ndarray]:
    """The points of a portion where arguments and values of functions are smallest and largest."""
    X = frame.units.points(portion.X)
    with np.errstate(all="ignore"):
        z, C, found = X[None], theta[1::2], []
        for l, layer in enumerate(layers):
            W = theta[2 * l]
            t = z @ W[..., :-1].mT + W[:, None, :, -1]
            found += [np.argmin(t[0], axis=0), np.argmax(t[0], axis=0)]
            if l < len(layers) - 1:
                z = combine(layer.evaluate(t), C[l])
                found += [np.argmin(z[0], axis=0), np.argmax(z[0], axis=0)]
    return (X[np.unique(np.concatenate(found))],)
