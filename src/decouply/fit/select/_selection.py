"""What a choice of a shape tells: a row for every shape that was tried, the recommended one, and why."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from ...model._decoupling import Decoupling
from .._result import Alternative, Result
from ._candidates import Candidate, in_words, percent
from ._rank_hints import Hints

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WIDTH = 100  # of the sentences under a table


@dataclass(frozen=True, eq=False)
class SelectionRow:
    """One shape that was tried. Errors are in percent.

    Attributes
    ----------
    error, spread : float
        Error on validation samples, the root mean square over the folds, and the standard deviation between folds.
    training_error : float
        Error of the fit to all samples.
    score : float
        What the choice goes by, lower is better: training errors and number of parameters in one.
    pareto : bool
        Whether no other shape has both fewer parameters and a smaller error on validation samples.
    decoupling : Decoupling
        The fit to all samples.
    """

    ranks: tuple[int, ...]
    degrees: tuple[int, ...]
    n_parameters: int
    error: float
    spread: float
    training_error: float
    score: float
    seconds: float
    pareto: bool
    chosen: bool
    decoupling: Decoupling = field(repr=False)


@dataclass(frozen=True, eq=False)
class Selection:
    """What `select` returns: print it, plot it, or go on with `result`.

    Attributes
    ----------
    ranks, degrees : tuple of int
        The recommended shape.
    reason : str
        Why, as a sentence.
    table : tuple of SelectionRow
        One row per shape that was tried, smallest first.
    hints : Hints
        Singular values of the unfoldings of the Jacobians, with the ranks they suggest.
    result : Result
        The fit of the recommended shape to all samples, as `decouple` returns it. Its status is INTERRUPTED if the
        scan was stopped by Ctrl-C.
    notes : tuple of str
        What the user should know about the scan, in sentences.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> X = np.random.default_rng(0).uniform(-1, 1, (60, 2))
    >>> samples = dc.Samples(X, F=(X @ [[1.0], [2.0]]) ** 3)
    >>> selection = dc.select(samples, max_ranks=1, max_degrees=4)
    >>> selection.ranks, selection.degrees
    ((1,), (3,))
    >>> [row.n_parameters for row in selection.table]
    [6, 7, 8]
    """

    ranks: tuple[int, ...]
    degrees: tuple[int, ...]
    reason: str
    table: tuple[SelectionRow, ...]
    hints: Hints
    result: Result
    notes: tuple[str, ...]
    n_folds: int
    seconds: float

    @property
    def chosen(self) -> SelectionRow:
        """The row of the recommended shape."""
        return next(row for row in self.table if row.chosen)

    def plot(self, *, dark: bool = False) -> Figure:
        """Draw the validation error against the number of parameters, with the Pareto front and the choice."""
        from ...report import plot_selection

        return plot_selection(self, dark=dark)

    def __repr__(self) -> str:
        row = self.chosen
        return (
            f"Selection(ranks {self.ranks}, degrees {self.degrees}, {row.n_parameters} parameters, validation error "
            f"{percent(row.error / 100.0)}, {len(self.table)} shapes tried)"
        )

    def __str__(self) -> str:
        cells = [COLUMNS, *(row_cells(row) for row in self.table)]
        widths = [max(len(line[i]) for line in cells) for i in range(len(COLUMNS))]
        lines = ["  ".join(cell.rjust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in cells]
        words = [textwrap.fill(text, _WIDTH) for text in (self.reason, *self.notes)]
        hints = ["", "Singular values:", str(self.hints)] if self.hints.unfoldings else []
        return "\n".join([*lines, "", *words, *hints])

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{escape(name)}</th>" for name in COLUMNS)
        body = ""
        for row in self.table:
            tag = "th" if row.chosen else "td"
            body += "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in row_cells(row)) + "</tr>"
        words = "".join(f"<p>{escape(text)}</p>" for text in (self.reason, *self.notes))
        hints = f"<pre>{escape(str(self.hints))}</pre>" if self.hints.unfoldings else ""
        return f"<table><tr>{head}</tr>{body}</table>{words}{hints}"


COLUMNS = ("ranks", "degrees", "parameters", "validation error", "±", "fitted error", "score", "seconds", "")


def row_cells(row: SelectionRow) -> tuple[str, ...]:
    """A row as texts, one per column."""
    return (
        in_words(row.ranks),
        in_words(row.degrees),
        str(row.n_parameters),
        percent(row.error / 100.0),
        f"{row.spread:.0f}" if row.spread >= 10.0 else f"{row.spread:.1g}",
        percent(row.training_error / 100.0),
        f"{row.score:.0f}" if abs(row.score) >= 10.0 else f"{row.score:.2g}",
        f"{row.seconds:.1f}",
        "chosen" if row.chosen else "Pareto" if row.pareto else "",
    )


def pareto_alternatives(rows: tuple[SelectionRow, ...]) -> tuple[Alternative, ...]:
    """The chosen model and those of which no smaller one has a smaller error, smallest first."""
    found: list[Alternative] = []
    for row in sorted(rows, key=lambda row: (row.decoupling.n_parameters, row.error)):
        if row.chosen or not found or row.error < min(one.error for one in found):
            words = str(row.decoupling).rpartition(",")[0]
            found.append(Alternative(words, row.decoupling.n_parameters, row.error, row.chosen))
    return tuple(found)


def pareto_front(candidates: list[Candidate]) -> list[Candidate]:
    """Candidates, smallest first, with a smaller validation error than all smaller ones; rounding is equal."""
    front: list[Candidate] = []
    for c in sorted(candidates, key=lambda c: (c.n_parameters, c.error)):
        least = np.sqrt(c.rounding)
        if not front or max(c.error, least) < max(front[-1].error, least):
            front.append(c)
    return front


def reason_for(chosen: Candidate, candidates: list[Candidate], allowed: float) -> str:
    """Why this one: what it does, and what smaller and larger ones do."""
    smaller = [c for c in candidates if c.n_parameters < chosen.n_parameters]
    larger = [c for c in candidates if c.n_parameters > chosen.n_parameters]
    name, are_one = chosen.in_words, sum(chosen.ranks) == 1
    if chosen.exact:
        meet = "meets" if are_one else "meet"
        text = f"{name} {meet} the samples to machine precision with {chosen.n_parameters} parameters"
        if not smaller:
            return f"{text}; no smaller model was tried."
        best = min(smaller, key=lambda c: c.training_error)
        error = percent(best.training_error)
        return f"{text}; of the smaller models that were tried, the best ({best.in_words}) has an error of {error}."
    if not np.isfinite(chosen.error):
        return f"{name}: there are too few samples to choose by those that are left out."
    sentences = [
        f"{name}: {chosen.n_parameters} parameters, fitted error {percent(chosen.training_error)}, validation error "
        f"{percent(chosen.error)}."
    ]
    if smaller:
        best = min(smaller, key=lambda c: c.score)
        errors = f"{percent(best.training_error)} and {percent(best.error)}"
        sentences.append(f"Of the smaller models that were tried, the best is {best.in_words}: {errors}.")
    if larger:
        best = min(larger, key=lambda c: c.score)
        if best.error > allowed and best.score < chosen.score:
            sentences.append(
                f"{best.in_words} would fit better ({percent(best.training_error)}), but the "
                f"validation error is {percent(best.error)}: too many parameters for these samples."
            )
        else:
            sentences.append(
                f"Larger models do not predict new data better ({best.in_words}: "
                f"{percent(best.training_error)} and {percent(best.error)})."
            )
    return " ".join(sentences)
