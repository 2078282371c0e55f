"""docs/peers.md: the table and how to read it."""

from __future__ import annotations

import math
import platform

import numpy as np

import decoupling as dc

from ..machine import table
from .exchange import Row
from .ours import NOTE
from .roster import PEERS

TITLES = ("multisine", "arrow", "arrow, no extrapolation")
HEADER = ["model", "parameters", *(f"{title} (mV)" for title in TITLES), "fitting (s)"]

INTRODUCTION = """# Silverbox: other packages

Written by `make peers` (`python -m benchmarks.peers --output docs`, about ten minutes): do not edit.

Our models and those of other packages on the [Silverbox benchmark](https://www.nonlinearbenchmark.org/benchmarks/silverbox)
with its official split. Scored is the root mean square error of the free-run simulation in mV, on the two multisine
realisations held out for testing, on the arrow, whose amplitude grows beyond that of the training data, and on the
part of the arrow that stays within it. The first 50 outputs of a test may be used to find an initial state and are not
scored; a package is not even given the others. Parameters are the numbers that training sets, redundant ones included,
initial states not. Seconds of fitting are measured in the same run with one thread per model, compilation included, on
a shared machine with two cores: they tell the order of magnitude."""


def page(rows: list[Row]) -> str:
    notes = [f"- **decoupling.** {NOTE}"]
    for peer in PEERS:
        pinned = ", ".join(requirement.replace("==", " ") for requirement in peer.requirements)
        notes.append(f"- **{' / '.join(model for model, _ in peer.models)}** ({pinned}). {peer.note}")
    return "\n\n".join(
        [
            INTRODUCTION,
            results(rows),
            f"decoupling {dc.__version__} with NumPy {np.__version__}, Python {platform.python_version()}; "
            "the others below.",
            "## How each was used",
            "\n".join(notes),
            "## How to read it",
            reading(rows),
        ]
    )


def results(rows: list[Row]) -> str:
    """The table, best on the multisine test first; rows without a score last, with the reason."""
    return table(HEADER, [_cells(row) for row in sorted(rows, key=_rank)])


def _rank(row: Row) -> float:
    return row.rmse_mv[0] if row.rmse_mv and math.isfinite(row.rmse_mv[0]) else math.inf


def _cells(row: Row) -> list[str]:
    name = f"**{row.model}**" if row.ours else row.model
    if row.failure:
        return [name, row.failure.replace("|", "/"), *[""] * (len(HEADER) - 2)]
    errors = [f"{error:.3f}" if math.isfinite(error) else "diverged" for error in row.rmse_mv]
    return [name, str(row.n_parameters), *errors, f"{row.seconds:.1f}"]


def reading(rows: list[Row]) -> str:
    """Who is better than our best model on which test, and why; the comparison is made from the rows."""
    valid = [row for row in rows if math.isfinite(_rank(row))]
    mine = [row for row in valid if row.ours]
    if not mine or len(mine) == len(valid):
        return "There is nothing to compare."
    best = min(mine, key=_rank)
    sentences = []
    for i, title in enumerate(TITLES):
        better = [row for row in valid if not row.ours and row.rmse_mv[i] < best.rmse_mv[i]]
        names = "; ".join(f"{row.model} ({row.rmse_mv[i]:.3f} mV, {row.n_parameters} parameters)" for row in better)
        sentences.append(f"On {title} it has {best.rmse_mv[i]:.3f} mV; better: {names or 'none'}.")
    dominated = [
        f"{row.model} ({', '.join(smaller)})"
        for row in sorted(mine, key=_rank)
        if (smaller := [p.model for p in valid if not p.ours and _is_smaller_and_better(p, row)])
    ]
    return (
        f"Our best model on the multisine test is *{best.model}* with {best.n_parameters} parameters. "
        + " ".join(sentences)
        + f" A peer with no more parameters has a smaller error on the multisine test than: {'; '.join(dominated)}. "
        * bool(dominated)
        + EXPLANATION
    )


def _is_smaller_and_better(peer: Row, row: Row) -> bool:
    return peer.n_parameters <= row.n_parameters and peer.rmse_mv[0] < row.rmse_mv[0]


EXPLANATION = (
    "Polynomials fitted one step ahead, by us or with terms chosen by FROLS, end at nearly the same error. Models "
    "fitted to the free run are about twice as good, whatever their form: ours before and after refinement show the "
    "difference that this makes. Why the state-space models are ahead among them was not tested. What a decoupling "
    "offers is a short formula of past inputs and outputs and a few functions of one variable that can be plotted, "
    "from training data of any kind; where only the error counts, the rows above ours are the better choice here."
)
