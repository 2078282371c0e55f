"""Which state-space model suits a record: sizes and lists of functions are fitted, and validation data choose.

Of two models the larger one must lower the error on validation data by a tenth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._support._arguments import as_counts, as_generator, as_number
from ..._support._errors import InputError, SolverError, pluralised, short_repr
from ..._support._progress import progress_callback
from ..._support._time_limit import now
from ...bases import Monomial
from ..signals._records import Signals
from ._decoupled import DecoupledStateSpace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_CLEARLY_BETTER = 0.9  # a model with more parameters must lower the validation error to this share
_SAMPLES = 4096  # of the longest record that sizes are tried on


@dataclass(frozen=True)
class SuggestedRow:
    """One size: simulation errors as a share of the standard deviation of y.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> u = np.random.default_rng(0).uniform(-1, 1, 200)
    >>> y = np.zeros(200)
    >>> for t in range(1, 200):
    ...     y[t] = 0.5 * y[t - 1] + np.tanh(3 * u[t - 1])
    >>> found = dc.sysid.suggest(u, y, n_states=(1,), functions=[dc.bases.Tanh()], n_starts=1)
    >>> row = found.rows[1]
    >>> row.n_states, row.n_functions
    (1, 1)
    """

    n_states: int
    n_functions: int
    n_parameters: int
    training: float
    validation: float
    chosen: bool = False


@dataclass(frozen=True)
class Suggestion:
    """Sizes that were tried, and which one to begin with.

    Attributes
    ----------
    rows : tuple of SuggestedRow
        One per size; no functions is the linear model.
    reason : str
        A sentence.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> u = np.random.default_rng(0).uniform(-1, 1, 200)
    >>> y = np.zeros(200)
    >>> for t in range(1, 200):
    ...     y[t] = 0.5 * y[t - 1] + np.tanh(3 * u[t - 1])
    >>> found = dc.sysid.suggest(u, y, n_states=(1,), functions=[dc.bases.Tanh()], n_starts=1)
    >>> [row.n_functions for row in found.rows]
    [0, 1]
    """

    rows: tuple[SuggestedRow, ...]
    reason: str

    @property
    def chosen(self) -> SuggestedRow:
        """The size that is suggested."""
        return next(row for row in self.rows if row.chosen)

    def plot(self, *, dark: bool = False) -> Figure:
        """Draw validation errors over the number of states, one line per number of functions."""
        from ...report._style import house_style, new_figure

        with house_style(dark=dark) as look:
            figure = new_figure(4.6, 3.0)
            ax = figure.subplots()
            for k, count in enumerate(sorted({row.n_functions for row in self.rows})):
                some = [row for row in self.rows if row.n_functions == count and math.isfinite(row.validation)]
                label = pluralised(count, "function") if count else "linear"
                n, errors = [row.n_states for row in some], [100.0 * row.validation for row in some]
                ax.plot(n, errors, "o-", color=look.colours[k % len(look.colours)], label=label)
            chosen = self.chosen
            x, y = [chosen.n_states], [100.0 * chosen.validation]
            ax.plot(x, y, "o", color=look.ink, markersize=12, fillstyle="none")
            ax.set_yscale("log")
            ax.set_xticks(sorted({row.n_states for row in self.rows}))
            ax.set_xlabel("states")
            ax.set_ylabel("validation error (% of the signal)")
            ax.legend(frameon=False)
        return figure

    def __str__(self) -> str:
        lines = ["states  functions  parameters  training %  validation %"]
        for row in self.rows:
            mark = "  <- chosen" if row.chosen else ""
            lines.append(
                f"{row.n_states:6d}  {row.n_functions:9d}  {row.n_parameters:10d}  {100 * row.training:10.3g}  "
                f"{100 * row.validation:12.3g}{mark}"
            )
        return "\n".join([*lines, self.reason])


def suggest(
    u: object,
    y: object,
    *,
    n_states: Any = (1, 2, 3, 4),
    functions: Sequence[Any] = (Monomial(3), Monomial(3)),
    n_starts: int = 2,
    max_seconds: float | None = None,
    rng: int | np.random.Generator = 0,
    progress: bool | Callable[..., None] = True,
) -> Suggestion:
    """Try state-space models of several sizes on the beginning of a record, and suggest the smallest good one.

    For every number of states: the linear model, and models with the first one, two, ... of `functions`. A larger model
    is suggested only if it lowers the error on validation data by a tenth or more. After `max_seconds` no further
    size is tried, and the reason says so; the first one is always finished.

    Parameters
    ----------
    u, y : array (T,) or (T, channels)
        Inputs and measured outputs, or lists of several records.
    n_states : sequence of int
        Numbers of states to try.
    functions : sequence of bases
        Internal functions, of which the first one, two, ... are taken.
    n_starts : int
        Starts per size.
    max_seconds : float, optional
        No further size is tried after this many seconds.
    rng : int or numpy Generator
        Seed or generator.
    progress : bool or callable
        Whether to show progress, or what receives it.

    Returns
    -------
    Suggestion
        The sizes that were tried, and the smallest good one.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> u = np.random.default_rng(0).uniform(-1, 1, 200)
    >>> y = np.zeros(200)
    >>> for t in range(1, 200):
    ...     y[t] = 0.5 * y[t - 1] + np.tanh(3 * u[t - 1])
    >>> found = dc.sysid.suggest(u, y, n_states=(1,), functions=[dc.bases.Tanh()], n_starts=1)
    >>> found.chosen.n_states
    1
    """
    signals = Signals.read(u, y)
    longest = int(np.argmax([len(record) for record in signals.u]))
    a, b = signals.u[longest][:_SAMPLES], signals.y[longest][:_SAMPLES]
    sizes = as_counts("n_states", n_states)
    if not isinstance(functions, Sequence) or not functions:
        raise InputError(f"`functions` must be a list with at least one basis. Got {short_repr(functions)}.")
    generator = as_generator(rng)
    until = math.inf if max_seconds is None else now() + as_number("max_seconds", max_seconds, above=True)
    rows: list[SuggestedRow] = []
    tries = [(n, k) for n in sizes for k in range(1, len(functions) + 1)]
    with progress_callback(progress, "Trying sizes") as report:
        for done, (n, k) in enumerate(tries):
            if rows and now() > until:
                return _chosen(rows, f" The time was up after {done} of {len(tries)} sizes.")
            best = min(rows, key=lambda row: row.validation, default=None)
            so_far = "" if best is None else f" (best so far: {100 * best.validation:.3g} % with {_size(best)})"
            stage = f"{pluralised(n, 'state')} and {pluralised(k, 'function')}{so_far}"
            report(done=done, total=len(tries), stage=stage)
            model = DecoupledStateSpace(n, list(functions[:k]))
            try:
                model = model.fit(a, b, n_starts=n_starts, rng=generator, progress=False)
            except SolverError:
                continue
            starts = model.starts
            if k == 1:
                m, p = a.shape[1], b.shape[1]
                count = n * (m + p) + m * p + p  # n^2 entries of A, B, C and D are a choice of coordinates
                rows.append(SuggestedRow(n, 0, count, starts[0].training, starts[0].validation))
            start = next(row for row in starts if row.chosen)
            rows.append(SuggestedRow(n, k, model.n_canonical, start.training, start.validation))
    if not rows:
        raise SolverError(
            "No size gave a model whose simulation stays finite: give other `functions`, or check the record."
        )
    return _chosen(rows)


def _chosen(rows: list[SuggestedRow], ended: str = "") -> Suggestion:
    """The smallest model that no larger one is clearly better than."""
    best = rows[_smallest_good([(row.n_parameters, row.validation) for row in rows])]
    linear = min((row.validation for row in rows if row.n_functions == 0), default=math.inf)
    reason = (
        f"{_size(best)}: {100 * best.validation:.3g} % of the signal on validation data, against {100 * linear:.3g} % "
        f"for the best linear model; no larger one that was tried lowers that by a tenth.{ended}"
    )
    return Suggestion(tuple(replace(row, chosen=row is best) for row in rows), reason)


def _smallest_good(models: list[tuple[int, float]]) -> int:
    """Of models (size, error), the place of the smallest one that no larger one is clearly better than."""
    by_size = sorted(range(len(models)), key=lambda i: models[i][0])
    best = by_size[0]
    for i in by_size[1:]:
        if models[i][1] < _CLEARLY_BETTER * models[best][1] or not math.isfinite(models[best][1]):
            best = i
    return best


def _size(row: SuggestedRow) -> str:
    return f"{pluralised(row.n_states, 'state')} and {pluralised(row.n_functions, 'function')}"


def fit_with_best_functions(
    u: object,
    y: object,
    n_states: int,
    lists: Mapping[str, Sequence[Any]],
    *,
    options: Mapping[str, Any],
    **fit: Any,
) -> tuple[DecoupledStateSpace, str]:
    """The model with the list whose start was best on validation data, and the reason in one sentence.

    `options` are those of `DecoupledStateSpace`, `fit` those of its `fit`.
    """
    models: dict[str, DecoupledStateSpace] = {}
    tried: list[tuple[str, int, float]] = []
    failed: SolverError | None = None
    for name, functions in lists.items():
        try:
            model = DecoupledStateSpace(n_states, list(functions), **options).fit(u, y, **fit)
        except SolverError as error:
            failed = error
            continue
        models[name] = model
        validation = next((row.validation for row in model.starts if row.chosen), math.inf)
        tried.append((name, model.n_canonical, validation))
    if failed is not None and not models:
        raise failed
    best = tried[_smallest_good([(size, validation) for _, size, validation in tried])][0]
    shares = {name: f"{100.0 * validation:.3g} %" for name, _, validation in tried}
    others = ", ".join(f"{share} with {name}" for name, share in shares.items() if name != best)
    reason = f"Functions: {best}; {shares[best]} of the signal on validation data" + (f", {others}." if others else ".")
    return models[best], reason
