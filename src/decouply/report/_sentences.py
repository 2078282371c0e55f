"""What was asked, what was found and how good it is, in words for someone who has not met the method before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..fit._result import Result
from ..fit.quality._quality import Verdict
from ..model._decoupling import Decoupling
from ..model._functions import Functions
from ..samples._samples import Samples
from ..solvers.problem._solver import uses_validation
from ..write._curves import Curve
from ._svg_frame import written_number

_ROUNDING = 1e-6  # percent
_NO_SPREAD = 1e-10  # standard deviation over size, below which an output counts as constant


@dataclass(frozen=True)
class Grade:
    """A word for an error in percent, and the sentence that goes with it."""

    word: str
    sentence: str
    below: float


GRADES = (
    Grade("exact", "This is the same function, as far as these samples can tell.", _ROUNDING),
    Grade("very close", "This is a very close approximation.", 0.1),
    Grade("close", "This is a close approximation.", 1.0),
    Grade("rough", "This is a rough approximation.", 10.0),
    Grade("poor", "This is a poor approximation: do not rely on it.", np.inf),
)


# What is said instead where samples are noisy: an error is then no measure of a model. The word says it all.
_BESIDE_NOISE = {
    Verdict.NOISE: Grade(Verdict.NOISE.value, "", np.inf),
    Verdict.BETTER: Grade(Verdict.BETTER.value, "", np.inf),
    Verdict.OVERFITTED: Grade(Verdict.OVERFITTED.value, "", np.inf),
    Verdict.UNTESTED: Grade(Verdict.UNTESTED.value, "", np.inf),
}
_SMALL = 1.0  # percent: errors below are small, whatever a better model could do
_LITTLE = 0.5  # R² below which inputs tell little


def grade(percent: float) -> Grade:
    """The first grade that an error is small enough for; what is not a number is poor."""
    return next((g for g in GRADES if percent < g.below), GRADES[-1])


@dataclass(frozen=True)
class OutputRow:
    """How well one output is met. Errors are in percent, None where they are not known.

    Attributes
    ----------
    fitted, unseen
        Of the values, on the fitted samples and on those kept apart, relative to the spread of the output.
    slopes
        Of the Jacobians, relative to their size.
    typical
        The root mean square of the error of the values, in the units of the output.
    low, high
        The range of the output in the samples.
    r_squared, left_out, noise, predictable, found
        As in `dc.Quality`; `left_out` is the error on left-out samples in percent.
    """

    name: str
    fitted: float | None
    unseen: float | None
    slopes: float | None
    typical: float | None
    low: float
    high: float
    constant: bool
    r_squared: float | None = None
    left_out: float | None = None
    noise: float | None = None
    predictable: float | None = None
    found: Verdict = Verdict.UNKNOWN

    @property
    def worst(self) -> float:
        """What the output is judged by: values before slopes, and the worse of seen and unseen."""
        known = [e for e in (self.fitted, self.unseen) if e is not None]
        return max(known) if known else self.slopes or 0.0

    @property
    def grade(self) -> Grade:
        """A word for the output: beside noise where there is some, by its error otherwise."""
        plain = grade(self.worst)
        met = plain is GRADES[0] and self.found is not Verdict.UNTESTED
        if met or (self.found is Verdict.BETTER and self.worst < _SMALL):
            return plain
        return _BESIDE_NOISE.get(self.found, plain)

    @property
    def words(self) -> str:
        word = self.grade.word
        return f"{word}; it does not vary in the samples" if self.constant else word


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
    beside = (q.r_squared, left_out, q.noise, q.predictable)
    known = samples.F is not None
    percents = [[None] * n if e is None else e.tolist() for e in (fitted, unseen, slopes, typical)]
    ranges = (low.tolist(), high.tolist(), constant.tolist())
    judged = [[v if known and np.isfinite(v) else None for v in column.tolist()] for column in beside]
    return [OutputRow(*row) for row in zip(names, *percents, *ranges, *judged, q.verdicts, strict=True)]


def _unit(F: Float[ndarray, "S n"]) -> tuple[Float[ndarray, " n"], ndarray]:
    """What errors are compared with: the spread of an output, its size where it does not vary, 1 where it is 0."""
    size, spread = np.sqrt(np.mean(F**2, axis=0)), np.std(F, axis=0)
    constant = spread <= _NO_SPREAD * size
    return np.where(~constant, spread, np.where(size > 0.0, size, 1.0)), constant


def verdict(rows: Sequence[OutputRow]) -> tuple[Grade, str]:
    """How good the model is: a grade, and a few sentences."""
    worst = max(rows, key=lambda row: (_SEVERITY.get(row.grade.word, 0), row.worst))
    found = worst.grade
    if found is GRADES[0]:
        if worst.fitted is None:
            return found, "The slopes of the model are those of the samples, to rounding."
        steepest = max(rows, key=lambda row: row.slopes or 0.0)
        if (off := steepest.slopes or 0.0) >= _ROUNDING:
            of = "" if len(rows) == 1 else f" of {steepest.name}"
            but = f"The values are met to rounding, but the slopes{of} are off by {percent(off)} of their size."
            return grade(off), f"{grade(off).sentence} {but}"
        apart = "" if worst.unseen is None else ", and so do the samples that were kept apart"
        return found, f"{found.sentence} The fitted samples agree with the model to rounding{apart}."
    text = [found.sentence] if found.sentence else []
    name = "The output" if len(rows) == 1 else f"The worst output, {worst.name},"
    if worst.fitted is None:
        text.append(f"{name} has slopes that are off by {percent(worst.slopes)} of their size on the fitted samples.")
        return found, " ".join(text)
    if worst.fitted < _ROUNDING:
        text.append(f"{name} agrees with the model to rounding on the fitted samples")
    else:
        text.append(f"{name} is off by {percent(worst.fitted)} of its spread on the fitted samples")
        text[-1] += "" if worst.r_squared is None else f" (R² = {r_squared(worst.r_squared)})"
    text[-1] += "." if worst.unseen is None else f", and by {percent(worst.unseen)} on samples that were kept apart."
    text += _beside_noise(worst)
    if worst.unseen is not None and worst.unseen > 3.0 * max(worst.fitted, _ROUNDING):
        text.append("It fits what it has seen much better than the rest: more samples or fewer functions would help.")
    return found, " ".join(text)


_SEVERITY = {
    **{g.word: i for i, g in enumerate(GRADES)},
    Verdict.NOISE.value: 1,
    Verdict.BETTER.value: 3,
    Verdict.OVERFITTED.value: 5,
    Verdict.UNTESTED.value: 5,
}


def _beside_noise(row: OutputRow) -> list[str]:
    """What the errors of an output are: noise, or something that a better model would explain."""
    if row.found is Verdict.NOISE:
        size = "" if row.noise is None else f" with a standard deviation of about {written_number(row.noise, 2)}"
        text = [f"Nothing of what is left can be predicted from the inputs: it looks like noise{size}."]
        if row.r_squared is not None and row.r_squared < _LITTLE:
            text.append("So these inputs tell little about it, whatever the model.")
        return text
    if row.found is Verdict.BETTER and row.predictable is not None:
        share = written_number(100.0 * row.predictable, 2)
        more = "More functions, higher degrees or another basis may help."
        return [f"But {share} % of the variance of what is left can be predicted from the inputs. {more}"]
    if row.found is Verdict.OVERFITTED and row.left_out is not None:
        return [
            f"On samples that are left out it is off by about {percent(row.left_out)}: fewer functions, lower degrees "
            "or more samples would help."
        ]
    if row.found is Verdict.UNTESTED:
        return [
            "The model has about as many parameters as there are different samples, so it meets them whatever they "
            "are: nothing is known about other inputs. Fewer functions, lower degrees or more samples would help."
        ]
    return []


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
    if value < _ROUNDING:
        return "0 % (rounding)"
    return f"{written_number(value, 3)} %" if np.isfinite(value) else "no finite number"


def distance(value: float) -> str:
    """How far a named curve is from a function, in percent of the spread of that."""
    return "exactly" if value < _ROUNDING else f"off by {percent(value)} of its spread"


def kind_of_functions(functions: Functions) -> str:
    """What the functions of a layer are made of."""
    basis = functions.layer.shared
    return "functions of several kinds" if basis is None else basis.in_words


def tails_in_words(model: Decoupling, *, marked: bool) -> str:
    """What the functions do beyond their domains; `marked` says whether a drawing shows where these end."""
    kinds = dict.fromkeys(g.outside for g in model.g)
    if len(kinds) == 1 and "extend" in kinds:
        return "Tall ticks mark the ends of its domain, and dashes what lies beyond: nothing was fitted there." * marked
    beyond = " or ".join(_TAILS[kind] for kind in kinds)
    where = ", marked by tall ticks where it ends and dashes from there on" if marked else ""
    return f"Outside its domain{where}, a function {beyond}."


_TAILS = {
    "extend": "follows its formula",
    "linear": "goes on along its tangent",
    "constant": "keeps the value at the end",
}


def data_in_words(samples: Samples) -> str:
    """What is known at each point."""
    values, slopes = "its values", "its slopes (the Jacobian: how every output changes with every input)"
    if samples.J is None:
        return values
    return slopes if samples.F is None else f"{values} and {slopes}"


def apart_in_words(result: Result) -> str:
    """What the samples that were kept apart were used for, if there were any."""
    validation = result.settings.validation
    if validation is None:
        return ""
    use = ", but used to choose λ" if uses_validation(result.solver) else ""
    known = result.samples.has_values and validation.F is not None
    unused = (
        "" if known else " Values are compared where both kinds of samples have them, so these are not judged here."
    )
    return f"{validation.n_samples} samples were kept apart: they were not fitted{use}.{unused}"


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
