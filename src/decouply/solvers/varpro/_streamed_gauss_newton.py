r"""Gauss-Newton over all samples, wherever they are, from a model that a subsample has led to.

Cost and gradient are sums over all samples: one pass. The normal matrix is a mean that a subsample gives well enough.
With a thousand numbers per unknown it is right to a few percent, and each pass then leaves a few percent of the
distance to the minimum (see `importance_sample`). Steps are taken by Levenberg and Marquardt's
method, with acceptance on the cost of all samples. As soon as steps leave much of the predicted decrease, the matrix is
summed over all samples, once. Its difference from the matrix of the subsample corrects the latter from then on.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ...bases import LayerBasis
from ...model._units import Units
from ...samples._portions import Portion, fold, pick
from ...samples._samples import Samples
from ..least_squares._levenberg_marquardt import (
    AbstractLinearisation,
    Dense,
    Descent,
    DescentOptions,
    MatrixFree,
    descend,
)
from ..least_squares._parameters import Parameters, rescale_to_window
from ..least_squares._variable_projection import AbstractResiduals, Complete
from ..problem._batched_linalg import combine
from ..problem._prepared_samples import PreparedSamples, in_units
from ..problem._weighted_rows import RowScaling

_PREDICTION_DAMPING = 1e-8  # of the step whose decrease is predicted
_GROWTH = 10.0  # of the damping after a rejected step, which is a pass that is lost
_DECIDED = 1e-2  # of the share p / N of the cost that N numbers leave open for p parameters: no need for more
_MIN_TOLERANCE, _MAX_TOLERANCE = 1e-10, 1e-6  # that share is held between these
_FLAT_SHARE, _FLAT_PASSES = 1e-4, 5  # the share of its cost that must still be lost in this many passes
_SLOW = 0.3  # of the last predicted decrease: a good pass leaves less to be predicted
_CURVED = 0.1  # of the predicted decrease: who reaches less follows a curved valley, and no better matrix would help
_BLOCK = 4096  # samples whose gradients are taken at a time
_UNIFORM_SHARE = 0.5  # of a subsample that is drawn regardless of the size of samples
# This many times as many samples are looked at as are drawn, and this many more: some are certain to be drawn.
_EXTRA_FACTOR, _EXTRA_SAMPLES = 1.5, 30


@dataclass
class StreamedResiduals(AbstractResiduals):
    """All parameters as unknowns, all samples in the cost; a subsample stands for them in the normal matrix."""

    data: PreparedSamples
    scaling: RowScaling
    subsample: Complete
    tolerance: float  # the share of the cost that is not worth another pass
    progress: Callable[[], None]
    passes: int = 0
    sums_matrix: bool = False  # over all samples, once
    correction: Float[ndarray, "1 N N"] | None = None  # the matrix of all samples minus that of the subsample
    predicted_decrease: float = np.inf  # by the last linearisation
    last_decrease: float = np.inf  # predicted before the last accepted step
    is_slow: bool = False  # the last step left nearly as much to be gained as before
    is_settled: bool = False  # it left nothing that counts
    costs: list[float] = field(default_factory=list)  # of accepted steps

    def linearise(self, theta: Parameters) -> tuple[Float[ndarray, " B"], AbstractLinearisation]:
        sub, flat = self.subsample, self.subsample.unknowns.flatten(theta)
        small = (self.scaling, sub.layers, sub.linear, theta)
        self.passes += 1
        first = not self.costs
        if self.sums_matrix and self.correction is None:
            first = True
            cost, g, M = self.data.reduce(normal_task, *small, progress=self.progress)
            own = self._with_matrix_of_subsample(theta, g)
            assert isinstance(own, Dense)
            self.correction = M - own.M
        else:
            cost, g = self.data.reduce(gradient_task, *small, progress=self.progress)
        at = self._with_matrix_of_subsample(theta, g - sub.ridge * flat)
        if isinstance(at, Dense):
            M = at.M + sub.ridge * np.eye(len(flat[0]))
            at = Dense(M if self.correction is None else M + self.correction, at.g)
        if sub.free is not None and isinstance(at, Dense):
            at = Dense(at.M * (sub.free[:, None] & sub.free), at.g * sub.free)
        cost = cost + sub.ridge * np.sum(flat**2, axis=1)
        if sub.penalty is not None and isinstance(at, Dense):
            sub.penalty.add(at.M, at.g, cost, theta, sub.unknowns)
        self.predicted_decrease = float(at.step(np.full(len(cost), _PREDICTION_DAMPING))[1][0])
        if first:
            self.last_decrease = self.predicted_decrease
            self.costs = self.costs or [float(cost[0])]
        return cost, at

    def _with_matrix_of_subsample(self, theta: Parameters, g: Float[ndarray, "1 N"]) -> AbstractLinearisation:
        plain = dataclasses.replace(self.subsample, ridge=0.0, free=None, penalty=None)
        _, at = plain.linearise(theta)
        if isinstance(at, Dense):
            return Dense(at.M, g)
        assert isinstance(at, MatrixFree)
        return MatrixFree(at.forward, at.backward, g, self.subsample.ridge, self.subsample.free, at.rough)

    def after_step(self, theta: Parameters, step: Float[ndarray, "B N"]) -> Parameters:
        if self.correction is not None:  # it belongs to this scaling of the parameters
            return self.subsample.unknowns.after_step(theta, step)
        return self.subsample.after_step(theta, step)

    def has_more_to_gain(self, theta: Parameters, cost: ndarray) -> bool:  # noqa: ARG002 (observers are given it)
        """Whether another step counts, judged after an accepted one."""
        now = float(cost[0])
        if now >= self.costs[-1]:
            return True  # rejected: what it would have predicted tells nothing
        follows_prediction = self.costs[-1] - now > _CURVED * self.last_decrease
        self.is_slow = follows_prediction and self.predicted_decrease > _SLOW * self.last_decrease
        self.last_decrease = self.predicted_decrease
        self.costs.append(now)
        self.is_settled = self.predicted_decrease <= self.tolerance * now
        return not self.is_settled

    def is_worth_a_pass(self, theta: Parameters, cost: ndarray) -> bool:
        """Whether another pass with the same matrix is worth its time."""
        self.has_more_to_gain(theta, cost)
        past = self.costs[-1 - _FLAT_PASSES :]
        if len(past) > _FLAT_PASSES and past[-1] > (1.0 - _FLAT_SHARE) * past[0]:
            self.is_settled = True  # a flat valley, along which each step predicts more than it reaches
        return not self.is_settled and (self.sums_matrix or not self.is_slow)


def descend_on_subsample(
    residuals: StreamedResiduals, theta: Parameters, max_steps: int, report: Callable[[float], None]
) -> Descent[Parameters]:
    """Steps over samples in memory, which are those of the matrix too: they cost little, and may be many."""
    options = DescentOptions(max_steps=max_steps, exact=residuals.data.rounding_floor)
    return _descend(residuals, theta, options, residuals.has_more_to_gain, report)


def descend_on_all(
    residuals: StreamedResiduals, theta: Parameters, max_steps: int, report: Callable[[float], None], damping: float
) -> tuple[Descent[Parameters], int]:
    """Steps over all samples until they predict no decrease that counts, and the number of passes."""
    options = DescentOptions(max_steps, residuals.data.rounding_floor, first_damping=damping, first_growth=_GROWTH)
    descent = _descend(residuals, theta, options, residuals.is_worth_a_pass, report)
    sub = residuals.subsample
    exact = float(descent.cost[0]) <= options.exact
    ended = descent.settled[0] or descent.interrupted or exact or descent.steps >= max_steps
    if ended or not sub.rows.forms_normal_matrix(sub.unknowns.count(theta)):
        return descent, residuals.passes
    better = dataclasses.replace(residuals, sums_matrix=True, is_slow=False)
    options = dataclasses.replace(options, max_steps=max_steps - descent.steps, first_damping=descent.damping)
    more = _descend(better, descent.theta, options, better.is_worth_a_pass, report)
    more.record = descent.record + more.record
    return more, better.passes


def _descend(
    residuals: StreamedResiduals,
    theta: Parameters,
    options: DescentOptions,
    observe: Callable[[Parameters, ndarray], bool],
    report: Callable[[float], None],
) -> Descent[Parameters]:
    descent = descend(
        residuals.linearise,
        residuals.after_step,
        theta,
        options,
        deadline=np.inf,
        observe=observe,
        progress=report,
    )
    descent.settled |= residuals.is_settled
    return descent


def stopping_tolerance(n_parameters: int, n_numbers: int) -> float:
    """The relative decrease of the cost below which noise in the data decides more than another pass."""
    return float(np.clip(_DECIDED * n_parameters / n_numbers, _MIN_TOLERANCE, _MAX_TOLERANCE))


def extreme_points(data: PreparedSamples, layers: tuple[LayerBasis, ...], theta: Parameters) -> ndarray:
    """The standard points at which arguments and values of inner functions are extreme: they stand for all."""
    (points,) = data.reduce(extremes_task, layers, theta.inner, join="rows")
    return points


def rescale_to_all_samples(data: PreparedSamples, layers: tuple[LayerBasis, ...], theta: Parameters) -> Parameters:
    """The same model with the arguments of its functions over the window on all samples."""
    return rescale_to_window(extreme_points(data, layers, theta), layers, theta, exactly=True)


def importance_sample(all_samples: PreparedSamples, scaling: RowScaling, count: int, *, key: int = 0) -> Samples:
    """About `count` samples, in memory, that stand for all: large ones are drawn more often, and count less.

    Costs are sums of squares, of which few large samples may hold most: polynomials of high degree are large in few
    corners only. Samples are drawn by their size, and weighted by one over the chance of being drawn. They give the
    cost of all on average, with a far smaller variance than samples drawn regardless of size.

    Every sample has a share q of the drawing and a random number u. Those with the smallest u / q are taken, and the
    next one of these tells the chances (priority sampling). Only if few samples hold nearly all may it be fewer.
    """
    samples, S = all_samples.samples, all_samples.samples.n_samples
    total = all_samples.zero_cost(scaling)
    most = _EXTRA_FACTOR * count + _EXTRA_SAMPLES
    small = (all_samples.units, scaling, most, S, total, all_samples.ranges.total_weight / S, key)
    X, F, J, weights, place, share = samples.data.reduce(importance_task, *small, join="rows")
    taken, last = np.arange(len(X)), most
    if len(X) > count:
        order = np.argsort(place, kind="stable")
        taken, last = np.sort(order[:count]), float(place[order[count]])
    chance = np.minimum(1.0, last * share[taken])
    weights = weights[taken] / chance.reshape(-1, *[1] * (weights.ndim - 1))
    values, jacobians = F[taken] if samples.has_values else None, J[taken] if samples.has_jacobians else None
    return Samples(X[taken], F=values, J=jacobians, weights=weights)


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
    """The points of a portion with the smallest and largest arguments and values of functions."""
    X = portion.X
    with np.errstate(all="ignore"):
        z, found = X[None], []
        for l, layer in enumerate(layers):
            t = z @ theta.W[l].mT + theta.b[l][:, None]
            found += [np.argmin(t[0], axis=0), np.argmax(t[0], axis=0)]
            if l < len(layers) - 1:
                z = combine(layer.evaluate(t), theta.c[l])
                found += [np.argmin(z[0], axis=0), np.argmax(z[0], axis=0)]
    return (X[np.unique(np.concatenate(found))],)


def importance_task(
    portion: Portion,
    units: Units,
    scaling: RowScaling,
    most: float,
    n_samples: int,
    total: float,
    mean_weight: float,
    key: int,
) -> tuple[ndarray, ...]:
    """Those of a portion that may be drawn, see `pick`, with their places u / q and their shares q."""
    Y = scaling.rows(in_units(portion, units)).Y
    size = np.einsum("sqn,sqn->s", Y, Y) / (total or 1.0)
    share = _UNIFORM_SHARE / n_samples + (1.0 - _UNIFORM_SHARE) * size
    place = _uniform(portion.first, len(portion), key) / share
    rows = np.flatnonzero(place < most)
    found = pick(portion, portion.first + rows)
    weights = found[3] if portion.weights is not None else np.full(len(rows), mean_weight)
    return (*found[:3], weights, place[rows], share[rows])


def _uniform(first: int, count: int, key: int) -> Float[ndarray, " S"]:
    """A number in [0, 1) for every sample, the same in whatever portions they come (the mixer of SplitMix64)."""
    with np.errstate(over="ignore"):
        z = np.arange(first, first + count, dtype=np.uint64) + np.uint64(1)
        z = (z + np.uint64(key)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((z ^ (z >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53
