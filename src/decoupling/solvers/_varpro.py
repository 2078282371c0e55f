r"""VarPro: Gauss-Newton on the true constrained problem, with the last layer eliminated.

Alternating schemes ignore that the inputs of later layers depend on earlier factors, and stall. Here all of it is
differentiated. Batches of random starts descend on the problem without its last layer (`Eliminated`), the worse half
dropped now and then; the best ones get a last layer of rank one per function and are polished with all parameters free
(`Complete`). New batches are drawn until one start meets the data to rounding, several agree on the same minimum, or
the budget of starts or seconds is used up.

Elimination needs one design matrix for all outputs. Where weights differ between outputs, the search is made with one
factor per sample, the mean of the diagonal of M_s, and the polish with the weights themselves.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy import ndarray

from .._support._checks import as_count, as_number
from .._support._errors import InputError, SolverError
from ..model._decoupling import Decoupling
from ..model._functions import Functions
from ._abstract import AbstractWeightedSolver, History, ProgressCallback, Solution, StartRow
from ._algebraic import cpd_directions
from ._chain import Parameters, Unknowns, run_chain
from ._exact import exact_below
from ._levenberg import Descent, descend
from ._parameters import Fixed, blank_parameters, exists, parameters_of, position
from ._problem import Problem
from ._residuals import Complete, Eliminated, Rows, on_window
from ._starts import AbstractStart, Normal, Orthonormal
from ._status import Status
from ._weighting import by_output

_HALVE_EVERY = 30  # steps after which the worse half of a batch is dropped
_POLISHED = 4  # starts of a batch that are polished
_SETTLED = 1e-4  # the share of its cost that a polished start must still lose in fifteen steps
_POLISHING = 0.3  # how much longer that may take, as a share of `max_seconds`
# Agreement of starts counts from so many on, times 4 for every further layer: the deeper the model, the smaller the
# share of starts that find the best minimum, and a poor one may be found three times before it.
_LEAST_STARTS = 32
_AGREEING = 3  # starts that must reach the same minimum ...
_AGREEMENT = 1e-6  # ... up to this relative difference


@dataclass(frozen=True, kw_only=True)
class VarPro(AbstractWeightedSolver):
    """Variable projection: finds exact decouplings where alternating solvers stall. Takes values, Jacobians or both.

    Parameters
    ----------
    lam
        Weight of the values. Scale-free: both terms are divided by the size of their data. Without Jacobians, or
        without values, it has no effect.
    ridge
        Penalty on the squared size of all weights and coefficients.
    max_steps, polish_steps
        Steps of a batch with the last layer eliminated, and of its best starts with all parameters free.
    batch_size
        Starts that are run side by side.
    max_seconds
        The search ends after about so long. A result that was cut off by it depends on the speed of the machine.
    start
        Distribution of the random start values, or a `Decoupling` to start from: it comes first in the first batch, and
        is polished as it is besides. With a single start it is polished only.
    fixed
        Parts that are given and stay as they are: matrices by the names "W0", "W1", ..., `Functions` by "g1", "g2", ...
    """

    lam: float = 1.0
    ridge: float = 0.0
    max_steps: int = 150
    polish_steps: int = 200
    batch_size: int = 32
    max_seconds: float = 60.0
    start: AbstractStart | Decoupling = field(default_factory=Orthonormal)
    fixed: Mapping[str, object] = field(default_factory=dict, hash=False, compare=False)

    def __post_init__(self) -> None:
        as_number("lam", self.lam, above=True)
        as_number("ridge", self.ridge)
        as_count("max_steps", self.max_steps)
        as_count("polish_steps", self.polish_steps)
        as_count("batch_size", self.batch_size)
        as_number("max_seconds", self.max_seconds, above=True)
        if not isinstance(self.fixed, Mapping):
            raise InputError(f"`fixed` must be a dictionary such as {{'W0': W0}}. Got {self.fixed!r}.")
        if not isinstance(self.start, AbstractStart | Decoupling):
            raise InputError(f"`start` must be a distribution such as dc.Normal() or a Decoupling. Got {self.start!r}.")

    @property
    def default_n_starts(self) -> int:
        return 1024

    def check(self, problem: Problem) -> None:
        problem.needs_arrays("VarPro")
        Fixed.of(self.fixed, problem.as_given())
        if isinstance(self.start, Decoupling):
            parameters_of(problem, self.start)

    @property
    def stops_by_itself(self) -> bool:
        return True

    def with_lam(self, lam: float) -> VarPro:
        return dataclasses.replace(self, lam=lam)

    @property
    def given_start(self) -> Decoupling | None:
        return self.start if isinstance(self.start, Decoupling) else None

    def started_at(self, model: Decoupling, *, max_steps: int | None = None) -> VarPro:
        steps = self.polish_steps if max_steps is None else min(max_steps, self.polish_steps)
        return dataclasses.replace(self, start=model, polish_steps=steps)

    def within(self, seconds: float) -> VarPro:
        return dataclasses.replace(self, max_seconds=min(self.max_seconds, seconds))

    def solve(
        self, problem: Problem, *, n_starts: int, rng: np.random.Generator, progress: ProgressCallback
    ) -> Solution:
        began = time.perf_counter()
        search = Search(self, problem, n_starts, rng, progress, began)
        while search.go_on():
            search.run_batch()
        return search.solution()


class Search:
    """The batches of one call and what they have found so far."""

    def __init__(
        self,
        options: VarPro,
        problem: Problem,
        n_starts: int,
        rng: np.random.Generator,
        progress: ProgressCallback,
        began: float,
    ) -> None:
        if options.fixed:
            problem = problem.as_given()  # given parts are in the units of the user
        self.fixed = Fixed.of(options.fixed, problem) if options.fixed else None
        self.options, self.problem, self.n_starts, self.rng = options, problem, n_starts, rng
        self.progress, self.began = progress, began
        self.rows = Rows.of(problem, options.lam)
        self.floor = exact_below(problem.samples)
        self.template = blank_parameters(problem)
        L = len(problem.layers)
        unknowns = Unknowns.of(problem.layers)
        n_unknowns = unknowns.count(self.template)
        small = self.rows.forms_normal_matrix(n_unknowns)  # large starts are run one at a time
        self.batch_size = min(options.batch_size, n_starts) if small else 1
        held = {position(name, L) for name in options.fixed}
        free = unknowns.mask(self.template, held) if held else None
        inner = unknowns.mask(self.template[: 2 * L - 1], held) if held else None
        searched = self.rows
        if self.rows.mixing is not None:
            searched = Rows.of(dataclasses.replace(problem, weights=problem.sample_weights), options.lam)
        self.eliminated = Eliminated(searched, problem.layers, problem.linear, options.ridge, inner)
        self.complete = Complete(self.rows, problem.layers, problem.linear, options.ridge, free)
        given = isinstance(options.start, Decoupling)
        self.eliminates = not {f"W{L}", f"g{L}"} & set(options.fixed) and not (given and n_starts == 1)
        self.interrupted = False
        self.table: list[StartRow] = []
        self.minima: list[tuple[float, Parameters, list[float], Status]] = []

    # Budget

    def go_on(self) -> bool:
        """Whether another batch is worth its time."""
        if not self.table:
            return True
        out_of_time = time.perf_counter() - self.began > self.options.max_seconds
        if self.interrupted or out_of_time or len(self.table) >= self.n_starts:
            return False
        best = min((cost for cost, *_ in self.minima), default=np.inf)
        if best <= self.floor:
            return False
        least = _LEAST_STARTS * 4 ** (len(self.problem.layers) - 1)
        return self.agreeing(best) < _AGREEING or len(self.table) < least

    def agreeing(self, best: float) -> int:
        """How many polished starts reached the best cost, up to rounding."""
        return sum(cost <= best * (1.0 + _AGREEMENT) + self.floor for cost, *_ in self.minima)

    # One batch

    def run_batch(self) -> None:
        first = len(self.table)
        size = min(self.batch_size, self.n_starts - first)
        theta = self.draw(size, first)
        if self.eliminates:
            halvings = tuple(range(_HALVE_EVERY, self.options.max_steps, _HALVE_EVERY))
            descent = descend(
                self.eliminated.linearise,
                self.eliminated.moved,
                theta[: 2 * len(self.problem.layers) - 1],
                max_steps=self.options.max_steps,
                exact=self.floor,
                deadline=self.began + self.options.max_seconds,
                halve_at=halvings if size > _POLISHED else (),
                progress=self._report(first, size),
            )
            best = np.argsort(descent.cost, kind="stable")[:_POLISHED]
            best = best[np.isfinite(descent.cost[best])]
            split = self.with_last_layer([t[best] for t in descent.theta]) if best.size else []
            starts = descent.index[best]
        else:
            descent = Descent(theta, np.zeros(size), np.arange(size), 0, np.zeros(size, dtype=bool))
            starts, split = np.arange(size), theta
        self._tabulate(first, size, descent)
        if self.eliminates and first == 0 and isinstance(self.options.start, Decoupling):
            # A last layer with more functions than inputs is not what elimination would find again.
            self.polish([t[:1] for t in theta], descent, np.array([0]), first)
        if starts.size:
            self.polish(split, descent, starts, first)

    def polish(self, theta: Parameters, descent: Descent, starts: ndarray, first: int) -> None:
        """Free all parameters of the best starts of a batch and note where they end."""
        polished = descend(
            self.complete.linearise,
            self.complete.moved,
            theta,
            max_steps=self.options.polish_steps,
            exact=self.floor,
            settles_at=_SETTLED,
            to_rounding=True,
            deadline=self.began + (1.0 + _POLISHING) * self.options.max_seconds,
            progress=self._report(first, len(starts)),
        )
        self.interrupted |= polished.interrupted
        for i in range(len(polished.cost)):
            cost = float(polished.cost[i])
            if not np.isfinite(cost):
                continue
            if cost <= self.floor:
                status = Status.EXACT
            elif polished.settled[i]:
                status = Status.CONVERGED
            elif polished.cost.min() <= self.floor:
                status = Status.DROPPED
            else:
                status = Status.OUT_OF_TIME if polished.out_of_time else Status.OUT_OF_STEPS
                status = Status.INTERRUPTED if polished.interrupted else status
            one = [t[i : i + 1] for t in polished.theta]
            self.minima.append((cost, one, descent.record + polished.record, status))
            row = first + int(starts[polished.index[i]])
            if self.table[row].objective <= cost:
                continue
            error_J, error_F = self.errors(one)
            self.table[row] = dataclasses.replace(
                self.table[row],
                objective=cost,
                error_jacobian=error_J,
                error_values=error_F,
                iterations=descent.steps + polished.steps,
                status=status,
                seconds=time.perf_counter() - self.began,
            )

    def draw(self, size: int, first: int) -> Parameters:
        """Start values for one batch; the very first ones may be better than random."""
        start = self.options.start
        random_start = Orthonormal() if isinstance(start, Decoupling) else start
        coefficients = Normal() if isinstance(random_start, Orthonormal) else random_start
        L = len(self.problem.layers)
        theta = [np.zeros((size, *p.shape[1:])) for p in self.template]
        for i, p in enumerate(theta[: 2 * L + 1]):  # a linear part begins at 0
            source = random_start if i % 2 == 0 else coefficients
            own = p[..., :-1] if i % 2 == 0 and i < 2 * L else p
            own[:] = np.stack([source.draw(self.rng, own.shape[1:]) for _ in range(size)])
            if i % 2 == 1:  # coefficients past the basis of a function do not exist
                own *= exists(self.problem.layers[i // 2], p.shape[-1])
        if self.fixed is None:
            theta[: 2 * L] = on_window(self.rows.X, self.problem.layers, theta[: 2 * L], exactly=True)
        if first == 0 and isinstance(start, Decoupling):
            for p, given in zip(theta, parameters_of(self.problem, start), strict=True):
                p[0] = given
        elif first == 0 and len(self.problem.layers) == 1 and isinstance(self.problem.J, ndarray):
            directions = cpd_directions(self.problem.J, theta[0].shape[1], self.rng)
            if directions is not None and self.fixed is None:
                alone = [np.concatenate([directions, np.zeros((len(directions), 1))], axis=1)[None]]
                theta[0][0] = on_window(self.rows.X, self.problem.layers, alone, exactly=True)[0][0]
        if self.problem.F is None:
            theta[2 * L - 1][..., 0] = 0.0  # nothing determines the constants
        if self.fixed is not None:
            self.fixed.put(theta)
        return theta

    def with_last_layer(self, inner: Parameters) -> Parameters:
        """Append c_L and W_L: the nearest product of rank one to the free coefficients of each function."""
        chain = run_chain(self.problem.layers, inner, self.rows.X)
        A, *_ = self.eliminated.last_layer(chain)
        coefficients = self.eliminated.coefficients(chain, A)
        B, r, d, _ = coefficients.shape
        o = int(self.rows.values)
        U, sizes, Vt = np.linalg.svd(coefficients)
        c = U[..., 0] * np.sqrt(sizes[..., :1])  # (B, r, d)
        W_L = (Vt[:, :, 0] * np.sqrt(sizes[..., :1])).mT  # (B, n, r)
        constants = np.zeros((B, r, 1))
        if self.rows.values:
            constants = np.linalg.pinv(W_L) @ A[:, 0, :, None]
        linear = [A[:, o + r * d :].mT] if self.problem.linear else []
        return [*inner, np.concatenate([constants, c], axis=-1), W_L, *linear]

    # What was found

    def errors(self, theta: Parameters) -> tuple[float, float]:
        """Error(J) and Error(F) of one model, from the residual rows."""
        chain = run_chain(self.problem.layers, theta[: 2 * len(self.problem.layers) - 1], self.rows.X)
        residual = (
            self.complete.residual(theta, chain)[0] / np.where(self.rows.weights > 0, self.rows.weights, 1)[..., None]
        )
        weights = self.problem.weights
        w = np.ones(len(residual)) if weights is None or by_output(weights) else weights
        o = int(self.rows.values)
        of_F = float(w @ np.sum(residual[:, :o] ** 2, axis=(1, 2))) / (self.problem.size_F or 1.0)
        of_J = float(w @ np.sum(residual[:, o:] ** 2, axis=(1, 2))) / (self.problem.size_J or 1.0)
        return (of_J if self.rows.jacobians else float("nan")), (of_F if self.rows.values else float("nan"))

    def solution(self) -> Solution:
        if not self.minima:
            raise SolverError(
                f"All {len(self.table)} starts became NaN or infinite. Scale the inputs to about [-1, 1], lower the "
                "degrees, or try other starts: another `rng`, more `n_starts`, or `start=dc.Normal()`."
            )
        cost, theta, record, status = min(self.minima, key=lambda item: item[0])
        objective = np.array(record)
        unknown = np.full(len(objective), np.nan)
        history = History(np.full(len(objective), self.options.lam), objective, unknown, unknown)
        return Solution(
            self.model(theta),
            status,
            self.options.lam,
            history,
            tuple(self.table),
            notes=self._notes(cost),
            as_is=bool(self.options.fixed),
        )

    def model(self, theta: Parameters) -> Decoupling:
        """A batch of one as a model of the given data, its domains at the range that the samples visit."""
        layers, L = self.problem.layers, len(self.problem.layers)
        if self.fixed is None:
            theta = [*on_window(self.rows.X, layers, theta[: 2 * L], exactly=True), *theta[2 * L :]]
        W, g = [], []
        for l, layer in enumerate(layers):
            weights, c = theta[2 * l][0], theta[2 * l + 1][0]
            C = c if l == L - 1 else np.concatenate([np.zeros((len(c), 1)), c], axis=1)
            if self.problem.F is None and self.fixed is None:
                C = np.insert(C[:, 1:], 0, 0.0, axis=1)  # Jacobians leave them open
            W.append(weights[:, :-1])
            g.append(Functions(layer.bases, C, np.array([-1.0, 1.0]) - weights[:, -1:]))
        linear = theta[2 * L + 1][0] if self.problem.linear else None
        model = self.problem.model([*W, theta[2 * L][0]], g, linear)
        return model if self.fixed is None else self.fixed.restored(model)

    def _notes(self, cost: float) -> tuple[str, ...]:
        reached, n = self.agreeing(cost), len(self.table)
        if cost <= self.floor:
            return ()
        if reached >= _AGREEING:
            return (f"{reached} of {n} starts agree on this minimum.",)
        return (
            f"{reached} of {n} starts reached this minimum: too few to rule out a lower one. Raise `n_starts` or "
            "`max_seconds` to look for it.",
        )

    def _tabulate(self, first: int, size: int, descent: Descent) -> None:
        survivors = {int(i): position for position, i in enumerate(descent.index)}
        for b in range(size):
            position = survivors.get(b)
            broken = position is not None and not np.isfinite(descent.cost[position])
            status = Status.NONFINITE if broken else Status.DROPPED
            self.table.append(
                StartRow(
                    start=first + b,
                    lam=self.options.lam,
                    objective=float("nan"),  # known once a start has a last layer of its own, that is, when polished
                    error_jacobian=float("nan"),
                    error_values=float("nan"),
                    iterations=descent.steps,
                    status=status,
                    seconds=time.perf_counter() - self.began,
                )
            )

    def _report(self, first: int, size: int) -> Callable[[float], None]:
        def report(cost: float) -> None:
            stage = f"starts {first + 1} to {first + size}"
            self.progress(stage=stage, done=first, total=self.n_starts, objective=cost)

        return report
