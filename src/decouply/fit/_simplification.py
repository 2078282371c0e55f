r"""Fewer and simpler functions: dropped, merged, named, or left out to see what they are worth.

Two functions of a layer double each other under two conditions. One argument is a multiple of the other, up to a shift,
and what both bring to the next layer, :math:`w_i g_i(u_i) + w_j g_j(u_j)`, is one function of that argument times one
vector. Whatever is changed, the parameters that remain are refitted, and the change of the error is reported.

Contributions can cancel each other, so their sizes mislead: functions that add up to little may each be large, and one
that looks small may be needed. So a function is left out, and what can make up for it is fitted again: the other
functions of its layer and all that follows. Their arguments stay as they are; free to turn, the rest of two functions
would be the best single one, whichever of them is left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from .._support._arguments import as_flag, as_number, as_some_points, is_word
from .._support._errors import InputError, SolverError, short_repr, silenced
from .._support._progress import progress_callback
from .._support._time_limit import OUT_OF_TIME, deadline_after, now
from ..model._decoupling import Decoupling
from ..model._functions import Functions
from ..samples._samples import Samples
from ._fit_one_shape import fit_one_shape
from ._relative_errors import Measure
from ._result import Result
from ._settings import REFIT_SECONDS, Settings
from .interpret._named_curves import KINDS
from .interpret._recognise import TOLERANCES, NamedCurve, Recognition, recognise, symbol

PARALLEL = 0.99  # correlation of arguments from which two functions may double each other
_STEPS = 20  # for the rest, which starts near the end


# A simpler model


def without_functions(model: Decoupling, l: int, dropped: Sequence[int], X: Float[ndarray, "S m"]) -> Decoupling:
    """The model without some functions of layer l (from 0), which keep their mean values over the points X."""
    functions, kept = model.g[l], [j for j in range(model.ranks[l]) if j not in dropped]
    means = functions.values(model.arguments(X)[l]).mean(axis=0)
    gone = model.W[l + 1][:, list(dropped)] @ means[list(dropped)]
    bases = tuple(functions.layer.bases[j] for j in kept)
    size = max(basis.size for basis in bases)
    g = Functions(bases, functions.C[kept, : 1 + size], functions.domain[kept], functions.outside)
    W = [*model.W[:l], model.W[l][kept], model.W[l + 1][:, kept], *model.W[l + 2 :]]
    layers = [*model.g[:l], g, *model.g[l + 1 :]]
    if l == model.n_layers - 1:
        return model.with_parts(W=W, g=layers, offset=gone if model.offset is None else model.offset + gone)
    layers[l + 1] = layers[l + 1].shifted(gone)
    return model.with_parts(W=W, g=layers)


def parallel_pairs(model: Decoupling, X: Float[ndarray, "S m"]) -> list[tuple[int, int, int]]:
    """Layer (from 0) and places of pairs whose arguments are nearly the same, the nearest first."""
    found = []
    for l, u in enumerate(model.arguments(X)):
        spread = np.std(u, axis=0)
        moving = spread > 0.0
        unit = np.where(moving, (u - u.mean(axis=0)) / np.where(moving, spread, 1.0), 0.0)
        same = np.abs(unit.T @ unit) / len(u)
        pairs = [(i, j) for i in range(len(same)) for j in range(i + 1, len(same)) if same[i, j] > PARALLEL]
        found += [(float(-same[i, j]), l, i, j) for i, j in pairs]
    return [(l, i, j) for _, l, i, j in sorted(found)]


def with_merged_pair(model: Decoupling, l: int, i: int, j: int, X: Float[ndarray, "S m"]) -> Decoupling:
    """The model with one function, in the basis and of the argument of the first, in place of functions i and j."""
    functions, behind = model.g[l], model.W[l + 1]
    u = model.arguments(X)[l]
    z = functions.values(u)[:, [i, j]]
    mean = z.mean(axis=0)
    both = (z - mean) @ behind[:, [i, j]].T
    _, _, directions = np.linalg.svd(both, full_matrices=False)
    w = directions[0]
    target = both @ w
    basis = functions.layer.bases[i]
    t = (u[:, i] - functions.middle[i]) / functions.half_width[i]
    c = np.linalg.lstsq(np.insert(basis.evaluate(t), 0, 1.0, axis=1), target, rcond=None)[0]
    C, W = functions.C.copy(), behind.copy()
    C[i] = 0.0
    C[i, : 1 + basis.size] = c
    W[:, i] = w
    # What leaves with function j is its mean; the mean of function i stays behind as a constant of the next layer.
    kept = model.with_parts(
        W=[*model.W[: l + 1], W, *model.W[l + 2 :]], g=[*model.g[:l], functions.with_coefficients(C), *model.g[l + 1 :]]
    )
    return _with_constant(without_functions(kept, l, [j], X), l, behind[:, i] * mean[0])


def _with_constant(model: Decoupling, l: int, constant: Float[ndarray, " q"]) -> Decoupling:
    """The model with a constant more behind the functions of layer l."""
    if l == model.n_layers - 1:
        return model.with_parts(offset=constant if model.offset is None else model.offset + constant)
    g = [*model.g]
    g[l + 1] = g[l + 1].shifted(constant)
    return model.with_parts(g=g)


_NAMING = 0.7  # of the time that is left: the rest is for the last fit
_LEAST_SECONDS = 0.05
_ANY_ERROR = 1e6  # relative: larger tolerances allow no more
Place = tuple[int, int]  # layer and index of a function, from 1


@dataclass(frozen=True)
class Change:
    """One thing that was done.

    Attributes
    ----------
    words : str
        What it was, such as "g_1 is a saturation at u = ±0.7".
    error : float
        The error after it: root of the relative squared error of values and Jacobians, in percent.
    n_parameters : int
        The parameters of the model after it.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> X = np.random.default_rng(0).uniform(-1, 1, (60, 2))
    >>> samples = dc.Samples(X, F=(X @ [[1.0], [2.0]]) ** 3)
    >>> result = dc.decouple(samples, ranks=1, degrees=3)
    >>> [change.n_parameters for change in result.simplified().changes]
    [7, 7]
    """

    words: str
    error: float
    n_parameters: int


@dataclass(frozen=True, eq=False)
class Simplified:
    """A simpler model and the way to it. See `Decoupling.simplified`.

    Attributes
    ----------
    result : Result
        The last fit: a `Result` like that of `decouple`.
    changes : tuple of Change
        What was done, with the error after every step; the first row is the model as it was.
    notes : tuple of str
        What the user should know, in sentences.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> X = np.random.default_rng(0).uniform(-1, 1, (60, 2))
    >>> samples = dc.Samples(X, F=(X @ [[1.0], [2.0]]) ** 3)
    >>> result = dc.decouple(samples, ranks=1, degrees=3)
    >>> simple = result.simplified()
    >>> simple.result.decoupling.n_parameters
    7
    >>> simple.notes
    ()
    """

    result: Result
    changes: tuple[Change, ...]
    notes: tuple[str, ...] = ()

    @property
    def decoupling(self) -> Decoupling:
        """The simpler model."""
        return self.result.decoupling

    def __repr__(self) -> str:
        rows = [("", "error", "parameters")]
        rows += [(c.words, f"{c.error:.3g} %", str(c.n_parameters)) for c in self.changes]
        widths = [max(len(row[i]) for row in rows) for i in range(3)]
        lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n".join([*lines, *self.notes])


def simplified(
    model: Decoupling,
    where: object,
    *,
    curves: Mapping[Place, str] | Sequence[str] | None = None,
    prune: bool = True,
    tolerance: float | None = None,
    max_seconds: float | None = None,
    progress: bool | Callable[..., None] = True,
) -> Simplified:
    """A simpler model; see `Decoupling.simplified`."""
    prune = as_flag("prune", prune)
    chosen = dict(curves) if isinstance(curves, Mapping) else None
    names = None if isinstance(curves, Mapping) else curves
    _check_names(chosen or {})
    deadline = deadline_after(max_seconds)
    with progress_callback(progress, "Simplifying") as report:
        samples, known = _samples(model, where)
        least = (
            TOLERANCES[not known]
            if tolerance is None
            else min(as_number("tolerance", tolerance, above=True), _ANY_ERROR)
        )
        way = _Simplification(samples, least, deadline, report)
        way.record("as it was", model, None)
        if prune and chosen is None:
            model = way.without_doubles(model)
        looked_at = samples if known else samples.X
        found = recognise(
            model,
            looked_at,
            curves=names,
            tolerance=least,
            n_parameters=way.used,
            chosen=chosen,
            max_seconds=None if max_seconds is None else _NAMING * way.seconds_left,
            progress=report,
        )
        wanted = _curves_to_use(found, chosen)
        named = _with_curves(model, wanted)
        if wanted or way.result is None:
            words = [f"{found.symbol(found[place])} is {curve.words}" for place, curve in wanted.items()]
            way.refit("; ".join(words) or "refitted", named)
        if prune and not way.late:
            way.drop(named, _idle_functions(found, wanted, model.ranks))
            if chosen is not None:
                way.without_doubles(way.model)
    assert way.result is not None
    return Simplified(way.result, tuple(way.changes), (OUT_OF_TIME,) if way.late else ())


class _Simplification:
    """The steps that were taken: what they led to, and what they cost."""

    def __init__(self, samples: Samples, tolerance: float, deadline: float, progress: Callable[..., None]) -> None:
        self.samples, self.measure, self.tolerance = samples, Measure.of(samples), tolerance
        self.changes: list[Change] = []
        self.result: Result | None = None
        self.used = 0.0
        self._deadline, self._progress = deadline, progress

    @property
    def late(self) -> bool:
        """Whether the time is over."""
        return now() > self._deadline

    @property
    def seconds_left(self) -> float:
        """Time for the next step, which takes a little in any case."""
        return max(self._deadline - now(), _LEAST_SECONDS)

    @property
    def model(self) -> Decoupling:
        assert self.result is not None
        return self.result.decoupling

    def record(self, words: str, model: Decoupling, used: float | None) -> None:
        """Note a step; `used` is the number of effective parameters if functions were smoothed."""
        error = 100.0 * self.measure.error(model, self.samples)
        self.changes.append(Change(words, error, model.n_parameters))
        self.used = model.n_parameters if used is None else used
        self._progress(stage=words, done=len(self.changes))

    def refit(self, words: str, model: Decoupling) -> None:
        """Keep the shape of a model, fit all that is left of it, and note the step."""
        self._keep(words, self._refit(model))

    def _refit(self, model: Decoupling) -> Result:
        settings = Settings.of_model(model, max_seconds=min(REFIT_SECONDS, self.seconds_left))
        return fit_one_shape(self.samples, settings, progress=self._progress)

    def drop(self, model: Decoupling, idle: dict[int, list[int]]) -> None:
        """Leave functions out."""
        names = [_symbol(model, l, j) for l in idle for j in idle[l]]
        for l, dropped in idle.items():
            model = without_functions(model, l, dropped, self.samples.X)
        if names:
            verb = "does nothing and is dropped" if len(names) == 1 else "do nothing and are dropped"
            self.refit(f"{' and '.join(names)} {verb}", model)

    def without_doubles(self, model: Decoupling) -> Decoupling:
        """Merge pairs of functions as long as that is worth the parameters that it saves."""
        again = bool(parallel_pairs(model, self.samples.X))
        if again and self.result is None:  # what the model uses of its parameters is known once it is smoothed here
            self.used = self._refit(model).n_effective or model.n_parameters
        while again:
            again = False
            for l, i, j in parallel_pairs(model, self.samples.X):
                if self.late:
                    return model
                candidate = self._refit(with_merged_pair(model, l, i, j, self.samples.X))
                used = candidate.n_effective or candidate.decoupling.n_parameters
                if self._score(candidate.decoupling, used) <= self._score(model, self.used):
                    pair = " and ".join(_symbol(model, l, k) for k in (i, j))
                    self._keep(f"{pair} are one function", candidate)
                    model, again = self.model, True
                    break
        return model

    def _keep(self, words: str, result: Result) -> None:
        self.result = result
        self.record(words, result.decoupling, result.n_effective)

    def _score(self, model: Decoupling, used: float) -> float:
        """The Bayesian information criterion, for errors down to the tolerance."""
        squares, counts = self.measure.squares(model, self.samples), self.measure.counts
        misfit = sum(
            count * np.log(max(square, self.tolerance**2)) for square, count in zip(squares, counts, strict=True)
        )
        return float(misfit + used * np.log(sum(counts)))


def _symbol(model: Decoupling, l: int, j: int) -> str:
    return symbol(l + 1, j + 1, model.n_layers)


def _samples(model: Decoupling, where: object) -> tuple[Samples, bool]:
    """What the simpler model is fitted to, the samples or the model itself at the points, and whether it is samples."""
    if isinstance(where, Samples) and (where.F is not None or where.J is not None):
        return where, True
    X = as_some_points("X", where.X if isinstance(where, Samples) else where, model.n_inputs)
    return Samples(X, F=model(X), J=model.jacobian(X), inputs=model.inputs, outputs=model.outputs), False


def _check_names(chosen: dict[Place, str]) -> None:
    known = [kind.name for kind in KINDS]
    for place, name in chosen.items():
        if not is_word(name, known):
            raise InputError(f"`curves[{place}]` must be one of {', '.join(known)}. Got {short_repr(name)}.")


def _curves_to_use(found: Recognition, chosen: dict[Place, str] | None) -> dict[Place, NamedCurve]:
    """The curves to put in place: those that earn their names, or those that were chosen."""
    if chosen is None:
        best = {(f.layer, f.index): f.best for f in found}
        return {place: curve for place, curve in best.items() if curve is not None and curve.name != "constant"}
    wanted = {}
    for place, name in chosen.items():
        candidates = {c.name: c for c in found[place].candidates}
        if name not in candidates:
            raise InputError(
                f"`curves[{place}]` must be a curve that can be fitted to this function"
                + (f", such as {', '.join(candidates)}" if candidates else "")
                + f". Got {short_repr(name)}."
            )
        wanted[place] = candidates[name]
    return wanted


def _idle_functions(
    found: Recognition, wanted: dict[Place, NamedCurve], ranks: tuple[int, ...]
) -> dict[int, list[int]]:
    """Functions that are constants, by layer, from 0; of a layer at least one stays."""
    idle: dict[int, list[int]] = {}
    for f in found:
        if f.name == "constant" and (f.layer, f.index) not in wanted:
            idle.setdefault(f.layer - 1, []).append(f.index - 1)
    return {l: places[: ranks[l] - 1] for l, places in idle.items() if ranks[l] > 1}


def _with_curves(model: Decoupling, wanted: dict[Place, NamedCurve]) -> Decoupling:
    """The model with these curves in place of its functions; their straight lines go into the linear part."""
    W, g, linear = [w.copy() for w in model.W], [], model.linear
    for l, functions in enumerate(model.g):
        here = {place[1] - 1: curve for place, curve in wanted.items() if place[0] == l + 1}
        bases = tuple(here[j].basis if j in here else basis for j, basis in enumerate(functions.layer.bases))
        C, domain = np.zeros((len(bases), 1 + max(basis.size for basis in bases))), functions.domain.copy()
        for j, basis in enumerate(bases):
            C[j, : 1 + basis.size] = here[j].c if j in here else functions.C[j, : 1 + basis.size]
        for j, curve in here.items():
            domain[j] = curve.domain
            if curve.slope and linear is not None:
                linear = linear + curve.slope * np.outer(W[l + 1][:, j], W[l][j])
            if curve.turned:
                W[l][j] = -W[l][j]
        g.append(Functions(bases, C, domain, functions.outside))
    return model.with_parts(W=W, g=g, linear=linear)


# What every function is worth


@dataclass(frozen=True)
class AblationRow:
    """What one function is worth: the error of the model with and without it.

    Attributes
    ----------
    layer, index : int
        Its place, from 1.
    error : float
        The error of the whole model: root of the relative squared error of values and Jacobians, in percent.
    error_without : float
        The error without it, after the rest of its layer and all that follows was fitted again.
    refitted : bool
        Whether there was time for that; otherwise the function was only replaced by its mean.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> system = dc.systems.random_system((3, 2, 3), (3,), rng=0)
    >>> X = np.random.default_rng(0).uniform(-1, 1, (40, 3))
    >>> samples = dc.Samples(X, F=system(X), J=system.jacobian(X))
    >>> result = dc.decouple(samples, ranks=2, degrees=3)
    >>> [(row.layer, row.index) for row in result.ablation()]
    [(1, 1), (1, 2)]
    """

    layer: int
    index: int
    error: float
    error_without: float
    refitted: bool


def ablation(
    model: Decoupling,
    samples: object,
    *,
    max_seconds: float = 20.0,
    progress: bool | Callable[..., None] = True,
) -> tuple[AblationRow, ...]:
    """One row per function, layer by layer; see `Decoupling.ablation`."""
    if not isinstance(samples, Samples) or not samples.in_memory or not (samples.has_values or samples.has_jacobians):
        raise InputError("`samples` must be dc.Samples in memory, with values or Jacobians: `samples.pilot(10_000)`.")
    as_number("max_seconds", max_seconds, above=True)
    measure = Measure.of(samples)
    error = 100.0 * measure.error(model, samples)
    until = time.perf_counter() + max_seconds
    n = sum(model.ranks)
    rows: list[AblationRow] = []
    with progress_callback(progress, "Weighing functions") as report:
        for l, rank in enumerate(model.ranks):
            for j in range(rank):
                lost, again = _error_without(measure, model, samples, l, j, until - time.perf_counter())
                rows.append(AblationRow(l + 1, j + 1, error, max(lost, error) if again else lost, again))
                report(done=len(rows), total=n)
    return tuple(rows)


def _error_without(
    measure: Measure, model: Decoupling, samples: Samples, l: int, j: int, seconds: float
) -> tuple[float, bool]:
    """The error without a function, and whether the rest was fitted again."""
    if model.ranks[l] == 1:  # nothing passes the layer any more
        return _error_of_the_rest(measure, model, samples), True
    smaller = without_functions(model, l, [j], samples.X).without_inner_constants()
    if seconds > 0.0:
        with silenced():
            try:
                before = {f"W{k}": smaller.W[k] for k in range(l + 1)} | {f"g{k + 1}": smaller.g[k] for k in range(l)}
                settings = Settings.of_model(smaller, max_seconds=seconds, max_steps=_STEPS, fixed=before)
                found = fit_one_shape(samples, settings, progress=lambda **_: None)
                return min(100.0 * measure.error(m, samples) for m in (found.decoupling, smaller)), True
            except SolverError:
                pass
    return 100.0 * measure.error(smaller, samples), False


def _error_of_the_rest(measure: Measure, model: Decoupling, samples: Samples) -> float:
    """The error of the best linear part alone, or of the best constant if the model has none."""
    S = len(samples.X)
    straight = model.linear is not None
    squares = []
    if samples.J is not None:
        J = measure.units.jacobians(samples.J)
        squares.append(float(np.sum((J - straight * J.mean(axis=0)) ** 2)) / measure.sizes[0])
    if samples.F is not None:
        F = samples.F / measure.units.y_scale
        Z = np.column_stack([np.ones(S), samples.X] if straight else [np.ones(S)])
        left = F - Z @ np.linalg.lstsq(Z, F, rcond=None)[0]
        squares.append(float(np.sum(left**2)) / measure.sizes[-1])
    return 100.0 * float(np.sqrt(np.mean(squares)))
