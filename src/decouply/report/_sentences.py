"""What was asked, what was found and how good it is, as a sentence for someone who has not met the method before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from .. import __version__
from ..fit._result import Result
from ..fit.quality._quality import Verdict
from ..model._decoupling import Decoupling
from ..samples._samples import Samples
from ..solvers.problem._solver import uses_validation
from ..write._curves import Curve
from ._svg_frame import written_number

_LEAST_PERCENT = 1e-6  # percent
_NO_SPREAD = 1e-10  # standard deviation over size, below which an output counts as constant


@dataclass(frozen=True)
class OutputRow:
    """How well one output is met. Errors are in percent, None if they are not known.

    Attributes
    ----------
    fitted, unseen
        Of the values, on the fitted samples and on those kept for validation, relative to the standard deviation of the
        output.
    slopes
        Of the Jacobians, relative to their size.
    typical
        The root mean square of the error of the values, in the units of the output.
    low, high
        The range of the output in the samples.
    r_squared, left_out, noise, verdict
        As in `dc.fit.Quality`; `left_out` is the error on validation samples in percent.
    """

    name: str
    fitted: float | None
    unseen: float | None
    slopes: float | None
    typical: float | None
    low: float
    high: float
    constant: bool
    r_squared: float | None
    left_out: float | None
    noise: float | None
    verdict: Verdict

    @property
    def worst(self) -> float:
        """What the output is judged by: values before slopes, and the worse of seen and unseen."""
        known = [e for e in (self.fitted, self.unseen) if e is not None]
        return max(known) if known else self.slopes or 0.0

    @property
    def words(self) -> str:
        return f"{self.verdict.word}; it does not vary in the samples" if self.constant else self.verdict.word


def output_rows(result: Result, names: Sequence[str]) -> list[OutputRow]:
    """One row per output."""
    model, samples, validation = result.decoupling, result.samples.shown, result.settings.validation
    F_hat = model(samples.X)
    n = samples.n_outputs
    constant = np.zeros(n, dtype=bool)
    fitted = typical = unseen = slopes = None
    low, high = F_hat.min(axis=0), F_hat.max(axis=0)
    if samples.F is not None:
        unit, constant = _unit(samples.F)
        typical = np.sqrt(np.mean((samples.F - F_hat) ** 2, axis=0))
        fitted = 100.0 * typical / unit
        low, high = samples.F.min(axis=0), samples.F.max(axis=0)
    if samples.F is not None and validation is not None and validation.F is not None:
        unseen = 100.0 * np.sqrt(np.mean((validation.F - model(validation.X)) ** 2, axis=0)) / _unit(validation.F)[0]
    if samples.J is not None:
        slopes = result.relative_slopes
    q = result.quality
    left_out = 100.0 * np.sqrt(np.maximum(1.0 - q.left_out_r_squared, 0.0))
    beside = (q.r_squared, left_out, q.noise)
    known = samples.F is not None
    percents = [[None] * n if e is None else e.tolist() for e in (fitted, unseen, slopes, typical)]
    ranges = (low.tolist(), high.tolist(), constant.tolist())
    judged = [[v if known and np.isfinite(v) else None for v in column.tolist()] for column in beside]
    return [OutputRow(*row) for row in zip(names, *percents, *ranges, *judged, q.verdicts, strict=True)]


def _unit(F: Float[ndarray, "S n"]) -> tuple[Float[ndarray, " n"], ndarray]:
    """What errors are relative to: the standard deviation of an output, its size if that is 0, or 1."""
    size, spread = np.sqrt(np.mean(F**2, axis=0)), np.std(F, axis=0)
    constant = spread <= _NO_SPREAD * size
    return np.where(~constant, spread, np.where(size > 0.0, size, 1.0)), constant


def facts(samples: Samples, model: str, seed: object) -> list[str]:
    """What a reader wants to know of a page before anything else."""
    return [
        f"{samples.n_samples} rows",
        model,
        *([f"seed {seed}"] if isinstance(seed, int) else []),
        f"decouply {__version__}, {date.today().isoformat()}",
    ]


def unseen_in_words(rows: Sequence[OutputRow]) -> str:
    """How far the worst output is off on samples that were kept for validation; nothing if there are none."""
    apart = [row for row in rows if row.unseen is not None]
    if not apart:
        return ""
    worst = max(apart, key=lambda row: row.unseen or 0.0)
    name = "" if len(rows) == 1 else f" of {worst.name}"
    return f"On the validation samples the error{name} is {percent(worst.unseen)} of its standard deviation."


def r_squared(value: float | None) -> str:
    """R² with as many digits as tell it from 1."""
    if value is None or not np.isfinite(value):
        return "–"
    digits = min(max(2, 1 - int(np.floor(np.log10(max(1.0 - value, 1e-12))))), 12)
    return f"{value:.{digits}f}".replace("-", "−")


def percent(value: float | None) -> str:
    """A number of percent, with rounding called by its name."""
    if value is None:
        return ""
    if value < _LEAST_PERCENT:
        return "0 % (rounding)"
    return f"{written_number(value, 3)} %" if np.isfinite(value) else "no finite number"


def distance(value: float) -> str:
    """How far a named curve is from a function, in percent of the standard deviation of that."""
    return "exactly" if value < _LEAST_PERCENT else f"to {percent(value)} of its standard deviation"


def tails_in_words(model: Decoupling, *, marked: bool) -> str:
    """What the functions do beyond their domains; `marked` says whether a drawing shows where these end."""
    kinds = dict.fromkeys(g.outside for g in model.g)
    if len(kinds) == 1 and "extend" in kinds:
        return (
            "Tall ticks mark the ends of the domain of a function. Few samples or none lie beyond, on the dashes."
        ) * marked
    beyond = " or ".join(_TAILS[kind] for kind in kinds)
    where = ", marked by tall ticks at its ends and dashes beyond" if marked else ""
    return f"Outside its domain{where}, a function {beyond}."


_TAILS = {
    "extend": "follows its formula",
    "linear": "continues linearly",
    "constant": "keeps the value at the end",
}


def data_in_words(samples: Samples) -> str:
    """What is known at each point."""
    values, slopes = "its values", "its slopes (the Jacobian: how every output changes with every input)"
    if samples.J is None:
        return values
    return slopes if samples.F is None else f"{values} and {slopes}"


def apart_in_words(result: Result) -> str:
    """What the samples that were kept for validation were used for, if there were any."""
    validation = result.settings.validation
    if validation is None:
        return ""
    use = ", but used to choose λ" if uses_validation(result.solver) else ""
    known = result.samples.has_values and validation.F is not None
    unused = "" if known else " Only one of the two sets has values, so these are not judged here."
    return f"{validation.n_samples} samples are for validation: they were not fitted{use}.{unused}"


def shape_in_words(curve: Curve) -> str:
    """What a curve does from left to right; moves of less than a twelfth of its height are small."""
    u, v = curve.u, curve.values
    height = float(np.ptp(v))
    if height <= 1e-9 * float(np.max(np.abs(v))):
        return "is constant"
    moves = _moves(v, height / 12.0)
    if np.max(np.abs(np.polynomial.Polynomial.fit(u, v, 1)(u) - v)) < 0.03 * height:
        return f"is nearly a straight line and {moves[0]}"
    if len(moves) == 1:
        if len(_moves(v, 0.005 * height)) == 1:
            return f"{moves[0]} throughout"
        return f"{moves[0]}, but for a small {'dip' if moves[0] == 'rises' else 'bump'}"
    return ", then ".join(moves) if len(moves) <= 4 else f"turns {len(moves) - 1} times"


def _moves(v: Float[ndarray, " k"], slack: float) -> list[str]:
    """Rises and falls in turn, each by more than `slack`."""
    found = [""]
    top = bottom = float(v[0])  # since the last turn
    for value in v.tolist():
        top, bottom = max(top, value), min(bottom, value)
        if found[-1] != "rises" and value > bottom + slack:
            found.append("rises")
            top = value
        elif found[-1] != "falls" and value < top - slack:
            found.append("falls")
            bottom = value
    return found[1:]
