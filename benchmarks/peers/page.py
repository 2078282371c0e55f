"""docs/peers/peers.md, a part of docs/benchmarks/dynamic-systems.md: a table per data set and how to read it."""

from __future__ import annotations

import math
import platform

import numpy as np

import decouply as dc

from ..problems import table
from .exchange import CONTESTS, Contest, Row
from .ours import NOTE
from .roster import PEERS


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
            *tables,
            f"Measured with decouply {dc.__version__}, NumPy {np.__version__} and Python {platform.python_version()}.",
            "## How each was used",
            "\n".join(notes),
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
        names = ", ".join(f"{row.model} ({row.rmse[i]:.3f} {contest.unit})" for row in better)
        rank = f"Models with a lower error: {names}." if names else "No model tested has a lower error."
        sentences.append(f"Its error on *{test.replace('_', ' ')}* is {best.rmse[i]:.3f} {contest.unit}. {rank}")
    return " ".join(sentences)


def _counts(row: Row) -> str:
    return f"{row.n_parameters}" + (f" ({row.n_minimal})" if row.n_minimal else "")
