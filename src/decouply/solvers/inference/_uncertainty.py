r"""How well the data determine functions and predictions: standard errors by the delta method.

The parameters vary like Z^+ times the noise. Noise is independent, of one size for the values and one for the Jacobians
of every output. Both come from the residuals and the degrees of freedom that the parameters left. A penalty counts as
prior knowledge, so that its bias is part of the error. The rows of roughness have the noise of the data, as in Bayesian
intervals of penalised splines. Those of a ridge say that parameters have the size that the fit gave them.

Samples need not be left out to tell what a model would leave of them. :math:`H = Z Z^+` is the hat matrix, ridge and
roughness included. A fit without sample s leaves :math:`(I - H_{ss})^{-1} r_s` there, to first order. Here :math:`r_s`
is the residual of the fit to all samples, and :math:`H_{ss}` the block of the rows of that sample.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from ..._support._arguments import as_number
from ..._support._errors import InputError, SolverError, short_repr
from ..._support._machine import one_thread
from ..._support._progress import silent
from ...model._decoupling import Decoupling
from ...model._functions import Functions
from ...samples._duplicates import originals
from ...samples._model_errors import canonical_at
from ...samples._samples import Samples
from ..least_squares._derivatives import run_chain
from ..least_squares._logistic_deviance import LARGEST_SHARE
from ..least_squares._parameters import parameters_of
from ..problem._problem import Problem
from ..varpro._varpro import VarPro
from ._canonical_moves import LayerMoves, canonical_moves, function_ranges, value_moves
from ._identifiability import free_moves, undetermined_functions
from ._linearisation import Linearisation

_MIN_SHARE_PREDICTED = 0.9  # of the samples: where fits say something about fewer, nothing is known
_STILL = 1e-5  # of the largest weight: one that moves by less, when parameters change no data, is determined
_FEWEST_OF_GROUP = 3.0  # degrees of freedom of a group, with fewer of which its noise is that of all


@dataclass(frozen=True)
class Uncertainty:
    """What is known of the errors of a fit, from its linearisation; `other` is the same fit without a ridge."""

    at: Linearisation
    other: Decoupling | None = None

    @cached_property
    def freedom(self) -> float:
        """Degrees of freedom that the parameters left; at least one."""
        return max(float(self.at.residuals.counts.sum() - np.sum(self._shares)), 1.0)

    @cached_property
    def _shares(self) -> Float[ndarray, " G"]:
        """Degrees of freedom of every group that went into parameters."""
        residuals = self.at.residuals
        own = np.sum(self.at.left[:, : self.at.rank] ** 2, axis=1)
        return np.bincount(residuals.group, weights=own, minlength=len(residuals.counts))

    @cached_property
    def noise(self) -> Float[ndarray, " G"]:
        """The variance of the noise of every group."""
        residuals = self.at.residuals
        freedom = residuals.counts - self._shares
        pooled = residuals.squares.sum() / self.freedom
        return np.where(freedom >= _FEWEST_OF_GROUP, residuals.squares / np.maximum(freedom, 1.0), pooled)

    @cached_property
    def spread(self) -> Float[ndarray, "k N"]:
        """A square root of the covariance of the parameters, in the scale of the columns of the table."""
        at = self.at
        rank = at.rank
        rows = [at.left[:, :rank] * np.sqrt(self.noise[at.residuals.group])[:, None]]
        if len(at.left_of_penalties):
            known = np.full(len(at.left_of_penalties), self.at.residuals.squares.sum() / self.freedom)
            if at.ridge > 0.0:
                theta = at.unknowns.flatten(at.theta)[0]
                used = at.free & ~at.dead
                size = float(np.mean(theta[used] ** 2)) if used.any() else 1.0
                known[: len(theta)] = max(at.ridge * size, known[0])
            rows.append(at.left_of_penalties[:, :rank] * np.sqrt(known)[:, None])
        triangle = np.linalg.qr(np.concatenate(rows) / at.singular[:rank], mode="r")
        return triangle @ at.right[:rank]

    def of_functions(self, u: list[Float[ndarray, "_ _"]] | None = None) -> tuple[Float[ndarray, "_ _"], ...]:
        """Standard errors of all functions, at one array (p, r_l) of arguments per layer, or where the samples lie.

        The same function of another fit is comparable if three numbers agree: the range of its arguments, the root
        mean square of its slopes and its mean over the samples. Functions that the data do not determine have
        infinite errors.
        """
        at, (wider, larger) = self.at, self._factors_of_writing
        points = None
        if u is not None:
            plain = at.model.without_inner_constants()
            points = [w * (p - g.middle) / g.half_width for w, p, g in zip(wider, u, plain.g, strict=True)]
        moved = canonical_moves(at, at.moves(self.spread), points)
        return self._with_distance_and_open(
            [np.sqrt(np.sum(layer.curves**2, axis=0)) / size for layer, size in zip(moved, larger, strict=True)]
        )

    @cached_property
    def _factors_of_writing(self) -> tuple[list[Float[ndarray, " _"]], list[Float[ndarray, " _"]]]:
        """The linearisation may have the model in another writing: arguments and values times these factors."""
        at, layers = self.at, self.at.problem.layers
        theta = parameters_of(at.problem, at.model)
        as_given = function_ranges(layers, theta, run_chain(layers, theta.inner, at.chain.z[0][0]))
        here = function_ranges(layers, at.theta, at.chain)
        wider, larger = (
            [
                np.divide(a[i], b[i], out=np.ones_like(a[i]), where=b[i] > 0.0)
                for a, b in zip(here, as_given, strict=True)
            ]
            for i in range(2)
        )
        return wider, larger

    def of_weights(self) -> tuple[Float[ndarray, "_ _"], ...]:
        """Standard errors of W_0, ..., W_L, with arguments over the same range and slopes of the same size.

        Weights that the data do not determine have infinite errors.
        """
        at, units, (wider, larger) = self.at, self.at.problem.units, self._factors_of_writing
        rows = [g.half_width / w for g, w in zip(at.model.g, wider, strict=True)] + [units.y_scale]

        def changes(layers: list[LayerMoves]) -> list[Float[ndarray, "k _ _"]]:
            tables = [*(layer.before for layer in layers), layers[-1].after]
            scaled = [row[:, None] * table for row, table in zip(rows, tables, strict=True)]
            return [scaled[0] @ units.T.T, *(table * size for table, size in zip(scaled[1:], larger, strict=True))]

        moved, freely = changes(canonical_moves(at, at.moves(self.spread))), changes(free_moves(at)[1])
        errors = (np.sqrt(np.sum(table**2, axis=0)) for table in moved)
        return tuple(
            np.where(np.abs(free).max(axis=0, initial=0.0) > _STILL * np.abs(W).max(), np.inf, error)
            for error, free, W in zip(errors, freely, at.model.W, strict=True)
        )

    def of_functions_by_simulation(
        self, solver: VarPro, n: int, rng: np.random.Generator, u: list[Float[ndarray, "_ _"]] | None = None
    ) -> tuple[Float[ndarray, "_ _"], ...]:
        """The same from `n` fits to data simulated with the model and its noise (parametric bootstrap).

        Derivatives at the model are not asked, so that this checks them. `solver` begins at the model.
        """
        at, samples = self.at, self.at.samples
        (S, n_out), units = (samples.n_samples, samples.n_outputs), at.problem.units
        sd_J = np.sqrt(self.noise[-n_out:]) / at.problem.prepared.row_scaling(1.0).factor_J  # in standard units
        weights = np.ones(1) if samples.weights is None else samples.weights
        wide = 1.0 / np.sqrt(np.where(weights > 0.0, weights, np.inf)).reshape(len(weights), -1)
        total, n_fitted = [np.zeros(1) for _ in at.model.g], 0
        for _ in range(n):
            F = J = None
            if samples.has_values:
                F = at.model.values(samples.X) + wide * self.noise_of_values * rng.normal(size=(S, n_out))
            if samples.has_jacobians:
                E = (sd_J * units.y_scale)[:, None] * rng.normal(size=(S, n_out, units.T.shape[1]))
                J = at.model.jacobians(samples.X) + wide[..., None] * (E @ units.T.T)
            made = Samples(samples.X, F=F, J=J, weights=samples.weights)
            problem = Problem.build(made, at.problem.layers, linear=at.model.linear is not None)
            try:
                with one_thread():
                    solution = solver.solve(problem, n_starts=1, rng=rng, progress=silent)
                found = canonical_at(solution.decoupling, made)
            except (InputError, SolverError):  # it went astray, to numbers that are none
                continue
            with np.errstate(all="ignore"):
                apart = differences_of_functions(at.model, found, samples.X, u)
            if not all(np.isfinite(table).all() for table in apart):
                continue
            total, n_fitted = [before + more**2 for before, more in zip(total, apart, strict=True)], n_fitted + 1
        if not n_fitted:
            raise SolverError("No fit to simulated data had an end: `bootstrap` must be 0 for this model.")
        return self._with_distance_and_open([np.sqrt(squares / n_fitted) for squares in total])

    def _with_distance_and_open(self, errors: list[ndarray]) -> tuple[Float[ndarray, "_ _"], ...]:
        """Errors with the distance to the fit without a ridge, and infinite ones of functions that are open."""
        if self.other is not None:
            apart = distances_of_functions(self.at.model, self.other, self.at.samples.shown.X)
            errors = [np.hypot(error, distance) for error, distance in zip(errors, apart, strict=True)]
        unknown = undetermined_functions(self.at)
        return tuple(np.where(open_, np.inf, error) for open_, error in zip(unknown, errors, strict=True))

    def of_values(self, X: Float[ndarray, "S m"]) -> Float[ndarray, "S n"]:
        """Standard errors of the outputs at the points X, without noise."""
        return np.sqrt(np.sum(value_moves(self.at, self.at.moves(self.spread), X) ** 2, axis=0))

    @property
    def noise_of_values(self) -> Float[ndarray, " n"]:
        """The standard deviation of the noise of every output, for samples of weight 1; NaN without values."""
        at = self.at
        n = at.model.n_outputs
        if not len(at.residuals.of_values):
            return np.full(n, np.nan)
        factor = at.problem.prepared.row_scaling(1.0).factor_F
        return np.sqrt(self.noise[at.residuals.of_values]) / factor * at.problem.units.y_scale


def fit_without_ridge(model: Decoupling, samples: Samples, fixed: Collection[str]) -> Decoupling | None:
    """The end of Gauss-Newton steps without a ridge from a model. None for parts that are held, which have no ridge."""
    if fixed:
        return None
    problem = Problem.build(samples, tuple(g.layer for g in model.g), linear=model.linear is not None)
    solver = VarPro(start=model, ridge=0.0)
    with one_thread():
        solution = solver.solve(problem, n_starts=1, rng=np.random.default_rng(0), progress=silent)
    return canonical_at(solution.decoupling, samples)


def differences_of_functions(
    model: Decoupling, other: Decoupling, X: Float[ndarray, "S m"], points: list[Float[ndarray, "_ _"]] | None = None
) -> list[Float[ndarray, "_ _"]]:
    """How far the functions of a model are from those of another fit in its writing, at arguments or the samples."""
    from scipy.optimize import linear_sum_assignment

    found = []
    own, others = (list(zip(one.g, one.arguments(X), strict=True)) for one in (model, other))
    for (g, u), (h, v), wanted in zip(own, others, points or model.arguments(X), strict=True):
        t, s = _over_window(u, u), _over_window(v, v)
        spread = np.sqrt(np.outer(np.mean(_centre(t) ** 2, axis=0), np.mean(_centre(s) ** 2, axis=0)))
        alike = _centre(t).T @ _centre(s) / len(t) / np.where(spread > 0.0, spread, 1.0)
        rows, columns = linear_sum_assignment(-np.nan_to_num(np.abs(alike)))
        turns = np.where(alike[rows, columns] < 0.0, -1.0, 1.0)
        # The functions of the other model at the same places of the range, in the order and with the sign of these.
        half, middle = np.ptp(v, axis=0) / 2.0, (v.max(axis=0) + v.min(axis=0)) / 2.0
        at = np.concatenate([u, wanted])
        places = np.empty((len(at), h.rank))
        places[:, columns] = turns * _over_window(at, u)[:, rows]
        # Values less their means over the samples, where each model has them, and with slopes of the same size.
        ours = g.values(at) - g.values(u).mean(axis=0)
        theirs = (h.values(middle + half * places) - h.values(v).mean(axis=0)) * _inverse(_size(h, v))
        theirs = theirs[:, columns] * _size(g, u)
        signs = np.sign(np.sum(ours[: len(u)] * theirs[: len(u)], axis=0))
        found.append((ours - signs * theirs)[len(u) :])
    return found


def distances_of_functions(
    model: Decoupling, other: Decoupling, X: Float[ndarray, "S m"]
) -> list[Float[ndarray, " _"]]:
    """How far these are, but for constants: root mean squares over the samples."""
    return [apart.std(axis=0) for apart in differences_of_functions(model, other, X)]


def sizes_of_functions(model: Decoupling, X: Float[ndarray, "S m"]) -> list[Float[ndarray, " _"]]:
    """How far the values of functions go over half of the range of their arguments, by their slopes at the points."""
    return [_size(g, u) for g, u in zip(model.g, model.arguments(X), strict=True)]


def _over_window(at: Float[ndarray, "p r"], u: Float[ndarray, "S r"]) -> Float[ndarray, "p r"]:
    """Arguments on the range of those at the samples."""
    return (at - (u.max(axis=0) + u.min(axis=0)) / 2.0) * _inverse(np.ptp(u, axis=0) / 2.0)


def _centre(values: Float[ndarray, "S r"]) -> Float[ndarray, "S r"]:
    return values - values.mean(axis=0)


def _size(g: Functions, u: Float[ndarray, "S r"]) -> Float[ndarray, " r"]:
    """How far the values of functions go over half of their range, by their slopes."""
    return np.sqrt(np.mean(g.slopes(u) ** 2, axis=0)) * np.ptp(u, axis=0) / 2.0


def _inverse(size: Float[ndarray, " r"]) -> Float[ndarray, " r"]:
    return np.divide(1.0, size, out=np.zeros_like(size), where=size > 0.0)


def t_quantile(level: float, freedom: float) -> float:
    """How many standard errors to either side hold this share of all errors."""
    from scipy.stats import t

    share = as_number("level", level, above=True)
    if share >= 1.0:
        raise InputError(f"`level` must be a probability below 1, such as 0.95. Got {short_repr(level)}.")
    return float(t.ppf((1.0 + share) / 2.0, freedom))


# Samples that are left out


@dataclass(frozen=True)
class LeaveOneOut:
    """How a fit uses its samples, one number per output."""

    used: Float[ndarray, " n"]  # degrees of freedom that values, or Jacobians without values, lost to the parameters
    # How many times larger the root mean square error is on samples that are left out. NaN if too few of these can be
    # predicted from the others, as with more parameters than numbers.
    rise: Float[ndarray, " n"]
    share: float  # of the degrees of freedom of all numbers, values and Jacobians: what went into parameters


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
        told[members] = (share.max(axis=1, initial=0.0) < LARGEST_SHARE)[:, None]
        share = np.clip(share, 0.0, LARGEST_SHARE)
        more = np.einsum("gab,gb,gcb,gc->ga", axes, share / (1.0 - share), axes, r, optimize=True)
        apart[members] = (r + more).reshape(-1, c, a)
    return apart, told
