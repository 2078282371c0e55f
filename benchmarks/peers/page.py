"""docs/peers.md: a table per data set and how to read it."""

from __future__ import annotations

import math
import platform

import numpy as np

import decouply as dc

from ..machine import table
from .exchange import CONTESTS, Contest, Row
from .ours import NOTE
from .roster import PEERS

INTRODUCTION = """# Dynamic systems: other packages

Written by `make peers` (`python -m benchmarks.peers --output docs`): do not edit. `--only` and `--on` run a part and
keep the other rows.

Our models and those of other packages on [nonlinear benchmarks](https://www.nonlinearbenchmark.org) with their official
splits. Scored is the root mean square error of the free-run simulation. The first 50 outputs of a test may be used to
find an initial state and are not scored; a package is not even given the others. *Parameters* are the numbers that
training sets, redundant ones included, initial states not; in brackets, for our state-space models, those of the
canonical form. Seconds are processor time of fitting with one thread, compilation included. On the Silverbox the arrow
grows beyond the amplitude of the training data; without extrapolation it is cut where it does."""


def page(rows: dict[str, list[Row]]) -> str:
    notes = [f"- **decouply.** {NOTE}"]
    for peer in PEERS:
        pinned = ", ".join(requirement.replace("==", " ") for requirement in peer.requirements)
        models = dict.fromkeys(model for some in peer.models.values() for model, _ in some)
        notes.append(f"- **{' / '.join(models)}** ({pinned}). {peer.note}")
    tables: list[str] = []
    for name, contest in CONTESTS.items():
        if found := rows.get(name):
            tables += [f"## {contest.title}", results(contest, found) + _footnote(found), reading(contest, found)]
    return "\n\n".join(
        [
            INTRODUCTION,
            *tables,
            f"decouply {dc.__version__} with NumPy {np.__version__}, Python {platform.python_version()}; "
            "the others below.",
            "## How each was used",
            "\n".join(notes),
            "## What is compared",
            EXPLANATION,
        ]
    )


def results(contest: Contest, rows: list[Row]) -> str:
    """The table, best on the first test first; rows without a score last, with the reason."""
    titles = [f"{test.replace('_', ' ')} ({contest.unit})" for test in contest.tests]
    header = ["model", "parameters", *titles, "fitting (s)"]
    return table(header, [_cells(row, len(header)) for row in sorted(rows, key=_rank)])


def _footnote(rows: list[Row]) -> str:
    if not any(row.earlier for row in rows):
        return ""
    return (
        "\n\n† kept from an earlier run of the same scripts and versions of other packages, with our code of that "
        "time; seconds by the clock."
    )


def _rank(row: Row) -> float:
    return row.rmse[0] if row.rmse and math.isfinite(row.rmse[0]) else math.inf


def _cells(row: Row, width: int) -> list[str]:
    name = f"**{row.model}**" if row.ours else row.model
    if row.failure:
        return [name, row.failure.replace("|", "/"), *[""] * (width - 2)]
    errors = [f"{error:.3f}" if math.isfinite(error) else "diverged" for error in row.rmse]
    return [name, _counts(row), *errors, f"{row.seconds:.1f}" + "†" * row.earlier]


def reading(contest: Contest, rows: list[Row]) -> str:
    """Which peers are better than our best model on which test; made from the rows."""
    valid = [row for row in rows if math.isfinite(_rank(row))]
    mine = [row for row in valid if row.ours]
    if not mine or len(mine) == len(valid):
        return "There is nothing to compare yet."
    best = min(mine, key=_rank)
    sentences = [f"Our best model is *{best.model.removeprefix('decoupling: ')}* ({_counts(best)} parameters)."]
    for i, test in enumerate(contest.tests):
        better = [row for row in valid if not row.ours and row.rmse[i] < best.rmse[i]]
        names = "; ".join(f"{row.model} ({row.rmse[i]:.3f} {contest.unit})" for row in better)
        title, error = test.replace("_", " "), f"{best.rmse[i]:.3f} {contest.unit}"
        sentences.append(f"On the test *{title}* it has {error}; better: {names or 'none'}.")
    return " ".join(sentences)


def _counts(row: Row) -> str:
    return f"{row.n_parameters}" + (f" ({row.n_minimal})" if row.n_minimal else "")


EXPLANATION = (
    "Sizes of our state-space models were chosen by held-back training data; "
    "those of others in part with test errors in view and in part not at all. So small differences mean little. "
    "Polynomials fitted one step ahead, by us or with terms chosen by FROLS, end at nearly the same error; models "
    "fitted to the free run are about twice as good. The packages have other aims beside the error of a free run: "
    "SysIdentPy finds terms that can be read, jax-sysid has observers and constraints, freq-statespace works from "
    "periodic data in the frequency domain."
)
