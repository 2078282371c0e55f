r"""Gauss-Newton over all samples, wherever they are, from a model that a pilot has led to.

Cost and gradient are sums over all samples: one pass. The normal matrix is a mean that a part of the samples gives well
enough: with a thousand numbers per unknown it is right to a few percent, and each pass then leaves a few percent of the
distance to the minimum (`_part` says how it is drawn). Steps are taken by the one engine, with Levenberg's acceptance
on the cost of all samples. As soon as a step does not do what it promised, the matrix is summed over all samples, once:
what it is beyond that of the part is added to that of the part from then on.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ...bases import LayerBasis
from ...samples._portions import Portion, fold
from ..least_squares._derivatives import Parameters
from ..least_squares._levenberg_marquardt import AbstractLinearisation, Dense, Descent, MatrixFree, descend
from ..least_squares._rescaling import on_window
from ..least_squares._variable_projection import AbstractResiduals, Complete
from ..problem._batched_linalg import combine
from ..problem._prepared_samples import PreparedSamples
from ..problem._rounding import parameter_rounding
from ..problem._weighted_rows import RowScaling

_NEAR = 1e-8  # damping of the step that is asked what it promises
_GROWTH = 10.0  # of the damping after a rejected step, which is a pass that is lost
_DECIDED = 1e-2  # of the share p / N of the cost that N numbers leave open for p parameters: no need for more
_LEAST, _MOST = 1e-10, 1e-6  # that share is held between these
_SETTLED, _SETTLED_AFTER = 1e-4, 5  # the share of its cost that must still be lost in so many passes
_SLOW = 0.3  # what a good pass leaves of the promised decrease
_BLOCK = 4096  # samples whose gradients are taken at a time
_CURVED = 0.1  # who keeps less than this of a promise follows a curved valley: no better matrix would help


Report = Callable[[float], None]


@dataclass
class Streamed(AbstractResiduals):
    """All parameters as unknowns, all samples in the cost; `part` stands for them in the normal matrix."""

    data: PreparedSamples
    scaling: RowScaling
    part: Complete
    enough: float  # the share of the cost that is not worth another pass
    progress: Callable[[], None]
    passes: int = 0
    whole_matrix: bool = False
    correction: Float[ndarray, "1 N N"] | None = None  # what the matrix of all samples was beyond that of the part
    promised: float = np.inf  # the decrease that the last linearisation promises
    kept: float = np.inf  # the one that the last accepted step led to
    slow: bool = False  # this was nearly as much as before that step
    reached: bool = False  # this was none that counts
    costs: list[float] = field(default_factory=list)  # of accepted steps

    @property
    def layers(self) -> tuple[LayerBasis, ...]:
        return self.part.layers

    def linearise(self, theta: Parameters) -> tuple[Float[ndarray, " B"], AbstractLinearisation]:
        part, flat = self.part, self.part.unknowns.flatten(theta)
        small = (self.scaling, part.layers, part.linear, theta)
        self.passes += 1
        first = not self.costs
        if self.whole_matrix and self.correction is None:
            first = True
            cost, g, M = self.data.reduce(normal_task, *small, progress=self.progress)
            own = self._with_matrix_of_part(theta, g)
            assert isinstance(own, Dense)
            self.correction = M - own.M
        else:
            cost, g = self.data.reduce(gradient_task, *small, progress=self.progress)
        at = self._with_matrix_of_part(theta, g - part.ridge * flat)
        if isinstance(at, Dense):
            M = at.M + part.ridge * np.eye(len(flat[0]))
            at = Dense(M if self.correction is None else M + self.correction, at.g)
        if part.free is not None and isinstance(at, Dense):
            at = Dense(at.M * (part.free[:, None] & part.free), at.g * part.free)
        cost = cost + part.ridge * np.sum(flat**2, axis=1)
        if part.penalty is not None and isinstance(at, Dense):
            part.penalty.add(at.M, at.g, cost, theta, part.unknowns)
        self.promised = float(at.step(np.full(len(cost), _NEAR))[1][0])
        if first:
            self.kept = self.promised
            self.costs = self.costs or [float(cost[0])]
        return cost, at

    def _with_matrix_of_part(self, theta: Parameters, g: Float[ndarray, "1 N"]) -> AbstractLinearisation:
        part = dataclasses.replace(self.part, ridge=0.0, free=None, penalty=None)
        _, at = part.linearise(theta)
        if isinstance(at, Dense):
            return Dense(at.M, g)
        assert isinstance(at, MatrixFree)
        return MatrixFree(at.forward, at.backward, g, self.part.ridge, self.part.free, at.rough)

    def moved(self, theta: Parameters, step: Float[ndarray, "B N"]) -> Parameters:
        if self.correction is not None:
            return self.part.unknowns.moved(theta, step)  # it is that of this writing
        return self.part.moved(theta, step)

    def counts(self, theta: Parameters, cost: ndarray) -> bool:  # noqa: ARG002 (observers are given it)
        """Whether another step counts, judged after an accepted one."""
        now = float(cost[0])
        if now >= self.costs[-1]:
            return True  # rejected: what it would have promised tells nothing
        keeps = self.costs[-1] - now > _CURVED * self.kept
        self.slow, self.kept = keeps and self.promised > _SLOW * self.kept, self.promised
        self.costs.append(now)
        self.reached = self.promised <= self.enough * now
        return not self.reached

    def wants_more(self, theta: Parameters, cost: ndarray) -> bool:
        """Whether another pass with the same matrix is worth its time."""
        self.counts(theta, cost)
        past = self.costs[-1 - _SETTLED_AFTER :]
        if len(past) > _SETTLED_AFTER and past[-1] > (1.0 - _SETTLED) * past[0]:
            self.reached = True  # a flat valley, along which each step promises more than it keeps
        return not self.reached and (self.whole_matrix or not self.slow)

    def with_whole_matrix(self) -> Streamed:
        return dataclasses.replace(self, whole_matrix=True, slow=False)


def near(residuals: Streamed, theta: Parameters, *, exact: float, max_steps: int, report: Report) -> Descent:
    """Steps over samples in memory, which are those of the matrix too: they cost little, and may be many."""
    return _steps(residuals, theta, exact, max_steps, report, {"observe": residuals.counts})


def stream(
    residuals: Streamed, theta: Parameters, *, exact: float, max_steps: int, damping: float, report: Report
) -> tuple[Descent, int]:
    """Steps over all samples until they promise no more that counts, and the number of passes."""

    def steps(passes: Streamed, at: Parameters, left: int, level: float) -> Descent:
        how = {"observe": passes.wants_more, "first_damping": level, "first_growth": _GROWTH}
        return _steps(passes, at, exact, left, report, how)

    descent = steps(residuals, theta, max_steps, damping)
    forms = residuals.part.rows.forms_normal_matrix(residuals.part.unknowns.count(theta))
    ended = descent.settled[0] or descent.interrupted or float(descent.cost[0]) <= exact
    if ended or not forms or descent.steps >= max_steps:
        return descent, residuals.passes
    better = residuals.with_whole_matrix()
    more = steps(better, descent.theta, max_steps - descent.steps, descent.damping)
    more.record = descent.record + more.record
    return more, better.passes


def _steps(
    residuals: Streamed, theta: Parameters, exact: float, max_steps: int, report: Report, how: dict[str, Any]
) -> Descent:
    descent = descend(
        residuals.linearise,
        residuals.moved,
        theta,
        max_steps=max_steps,
        exact=exact,
        deadline=np.inf,
        progress=report,
        **how,
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
    return cost <= parameter_rounding(np.diagonal(at.M[0]), flat)


def on_whole_window(data: PreparedSamples, layers: tuple[LayerBasis, ...], theta: Parameters) -> ndarray:
    """The standard points at which arguments and values of inner functions are extreme: they stand for all."""
    (points,) = data.reduce(extremes_task, layers, theta[: 2 * len(layers) - 1], join="rows")
    return points


def rewritten(layers: tuple[LayerBasis, ...], theta: Parameters, points: ndarray) -> Parameters:
    """The same model with its arguments over the window at these points."""
    end = 2 * len(layers)
    return [*on_window(points, layers, theta[:end], exactly=True), *theta[end:]]


# Tasks


def gradient_task(
    portion: Portion, scaling: RowScaling, layers: tuple[LayerBasis, ...], linear: bool, theta: Parameters
) -> tuple[ndarray, ndarray]:
    """Cost and gradient of a portion."""
    with np.errstate(all="ignore"):
        blocks = (Complete(scaling.rows(some), layers, linear).gradient(theta) for some in portion.blocks(_BLOCK))
        cost, g = fold(blocks, "sum")
    return cost, g


def normal_task(
    portion: Portion, scaling: RowScaling, layers: tuple[LayerBasis, ...], linear: bool, theta: Parameters
) -> tuple[ndarray, ndarray, ndarray]:
    """Cost, gradient and normal matrix of a portion."""
    with np.errstate(all="ignore"):
        return Complete(scaling.rows(portion), layers, linear).normal(theta)


def extremes_task(portion: Portion, layers: tuple[LayerBasis, ...], theta: Parameters) -> tuple[ndarray]:
    """The points of a portion where arguments and values of functions are smallest and largest."""
    X = portion.X
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
