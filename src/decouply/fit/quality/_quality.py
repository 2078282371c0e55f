"""How good a model is, seen beside the noise in its samples: one verdict, in one word and one sentence.

Output by output: what inputs, or the arguments of the model's own functions, still predict of the residuals is misfit.
Residuals against the degrees of freedom that parameters left are the size of the noise. Errors on samples that are left
out tell whether the noise itself was fitted, and whether a straight line would do as well. Noise is claimed only with
evidence: repeated inputs, or a model with few parameters behind which nothing can be predicted.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from ...model._decoupling import Decoupling
from ...samples._duplicates import without_copies
from ...samples._samples import Samples
from ...solvers.inference._linearisation import Linearisation
from ...solvers.inference._uncertainty import leave_one_out
from ...solvers.problem._prepared_samples import ROUNDING, ROUNDINGS
from ._noise_tests import (
    agreeing_shares,
    local_shares,
    noise_of_repeated,
    predictable_shares,
    repeated_places,
    share_beyond_noise,
    telling_pairs,
)

MUCH = 0.1  # of the squares of the residuals: a model that leaves so much could be better
_SMALL, _CLOSE = 0.01, 0.05  # errors on left-out samples over the spread: what is left does not matter, or hardly
_POOR = 0.1  # R² on left-out samples: less is hardly more than the mean
_AS_WELL = 1.02  # times the error of the model on left-out samples: a straight line with no more does as well
_RISE, _USED = 1.5, 0.3  # of the error on left-out samples, and of the numbers: where both are more, noise was fitted
_HALF = 0.5  # R² on left-out samples of a model that is not poor
# Evidence for noise: few inputs and samples that lie densely, or many samples and a model with few parameters behind
# which little is left; a function in a direction that nobody found looks like noise.
_FEW_INPUTS, _PER_INPUT, _DENSE = 3, 50, 100  # inputs, and samples for each
_FEW_USED, _NEARLY_ALL = 0.25, 0.9  # parameters per sample, and R² on left-out samples
_MANY_USED, _ALL_BUT = 0.125, 0.99  # the same: functions with more parameters bend to misfit, unless hardly any is left
# Pairs of neighbours that carry what is left: of fewer, chance may deal the signs of misfit too. Even noise is carried
# by 0.4 of its samples; if what is left lies in fewer places, more pairs are needed.
_FEWEST_PAIRS, _OF_UNEVEN, _EVEN = 25, 40, 0.25


class Grade(Enum):
    """What the samples say about a model; the value is how a person reads it.

    Examples
    --------
    >>> import decouply as dc
    >>> [grade.value for grade in dc.fit.Grade][:2]
    ['exact', 'as good as the data allow']
    """

    EXACT = "exact"
    NOISE = "as good as the data allow"
    CLOSE = "close"
    LINE = "a straight line does as well"
    BETTER = "the data would allow better"
    UNTESTED = "too few samples to tell"
    POOR = "poor"


@dataclass(frozen=True)
class Verdict:
    """How good a model is: a grade, and the sentence that goes with it. `str` joins them.

    Examples
    --------
    >>> import decouply as dc
    >>> verdict = dc.fit.Verdict(dc.fit.Grade.EXACT, "The model meets every value.")
    >>> print(verdict)
    Exact. The model meets every value.
    >>> verdict.word, verdict.is_good
    ('exact', True)
    """

    grade: Grade
    sentence: str

    @property
    def word(self) -> str:
        """The grade as a person reads it."""
        return self.grade.value

    @property
    def is_good(self) -> bool:
        """Whether the model can be used: how the search went matters to nobody then."""
        return self.grade in (Grade.EXACT, Grade.NOISE, Grade.CLOSE, Grade.LINE)

    def __str__(self) -> str:
        return f"{self.word.capitalize()}. {self.sentence}"


@dataclass(frozen=True, eq=False)
class Quality:
    """The residual of the samples, and what that is: noise, or something that a better model would explain.

    All are arrays with one entry per output; NaN if something is not known.

    Attributes
    ----------
    r_squared : array (n,)
        1 less the squared error over the variance: 1 is perfect, 0 as good as the mean.
    left_out_r_squared : array (n,)
        The same on validation samples, each predicted by a fit to all others (copies left out with it), to first order.
    noise : array (n,)
        The standard deviation of the noise, in the units of the output: from repeated samples where inputs repeat,
        otherwise from residuals and degrees of freedom, without what inputs predict.
    predictable : array (n,)
        The share of the squares of the residuals that inputs predict; 0 if chance would do as well.
    verdicts : tuple of Verdict
        One `Verdict` per output.
    repeated : bool
        Whether inputs repeat with other outputs, so that noise is known without a model.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> X = np.random.default_rng(0).uniform(-1, 1, (60, 2))
    >>> samples = dc.Samples(X, F=(X @ [[1.0], [2.0]]) ** 3)
    >>> result = dc.decouple(samples, ranks=1, degrees=3)
    >>> result.quality.r_squared.round(6)
    array([1.])
    >>> result.quality.verdicts[0].word
    'exact'
    """

    r_squared: Float[ndarray, " n"]
    left_out_r_squared: Float[ndarray, " n"]
    noise: Float[ndarray, " n"]
    predictable: Float[ndarray, " n"]
    verdicts: tuple[Verdict, ...]
    repeated: bool

    @property
    def verdict(self) -> Verdict:
        """That of the worst output: the worst grade, and of these the largest error."""
        order, left = list(Grade), np.nan_to_num(self.left_out_r_squared)
        worst = max(range(len(left)), key=lambda i: (order.index(self.verdicts[i].grade), -left[i]))
        return self.verdicts[worst]

    def __str__(self) -> str:
        rows = zip(self.verdicts, self.r_squared, self.left_out_r_squared, self.noise, strict=True)
        return "\n".join(
            f"{verdict.word}: R² {r:.4g}, {left:.4g} in cross-validation, noise {noise:.3g}"
            for verdict, r, left, noise in rows
        )


def quality(model: Decoupling, samples: Samples, at: Linearisation | None) -> Quality:
    """Judge a model by samples in memory; `at` is what is known of its parameters there, if that is known."""
    n, X = model.n_outputs, samples.X
    unknown = np.full(n, np.nan)
    by_values = samples.F is not None
    if samples.F is not None:
        data, R = samples.F[:, :, None], (samples.F - model.values(X))[:, :, None]
        exact, total = _is_rounding(R, data - data.mean(axis=0), np.max(np.abs(data), axis=(0, 2)))
        if samples.J is not None and exact.all():  # then the slopes decide
            slopes = samples.J - model.jacobians(X)
            if not _is_rounding(slopes, samples.J)[0].all():
                by_values, data, R = False, samples.J, slopes
                exact, total = _is_rounding(R, data)
    else:
        assert samples.J is not None
        data, R = samples.J, samples.J - model.jacobians(X)
        exact, total = _is_rounding(R, data)
    squares = np.sum(R**2, axis=(0, 2))
    r_squared = _r_squared(squares, total)
    used = None if at is None else leave_one_out(at)
    rise = np.ones(n) if used is None or (samples.F is not None and not by_values) else used.rise
    left = unknown if used is None else _r_squared(squares * rise**2, total)
    once = without_copies(samples)
    X, R, data = X[once], R[once], data[once]
    squares = np.sum(R**2, axis=(0, 2))
    freedom = R[:, 0].size * np.ones(n) - (0.0 if used is None else used.used)
    noise = np.sqrt(squares / freedom) if used is not None and np.all(freedom >= 1.0) else unknown
    place, pairs = repeated_places(X) if by_values else None, np.full(n, np.inf)
    if place is not None:
        around, n_noise = noise_of_repeated(data[:, :, 0], place)
        noise, share = np.sqrt(around / n_noise), share_beyond_noise(squares, freedom, around, n_noise)
    else:
        share = predictable_shares(X, R, data)
        if by_values and samples.J is not None:
            agreeing = agreeing_shares(X, R[:, :, 0], samples.J[once] - model.jacobians(X))
            share = np.where(agreeing > 0.0, np.fmax(share, agreeing), share)
        if by_values:
            u, open_question = np.hstack(model.arguments(X)), ~exact & ~(share >= MUCH)
            pairs, local = telling_pairs(R[:, :, 0], u), np.zeros(n)
            local[open_question] = local_shares(X, R[:, open_question, 0], u)
            share = np.where(local >= MUCH, np.fmax(share, local), share)
        noise = noise * np.sqrt(1.0 - np.where(np.isnan(share), 0.0, share))  # what inputs predict is none
    n_used = 0.0 if used is None else used.share * samples.n_samples / len(once)
    line = _line_errors(X, data[:, :, 0]) if by_values else unknown
    names = samples.outputs or tuple(f"y{i + 1}" for i in range(n))
    facts = [
        _Facts(
            name=names[i] if n > 1 else "",
            slopes=not by_values,
            exact=bool(exact[i]),
            left=float(left[i] if used is not None else r_squared[i]),
            line=float(1.0 - len(once) * line[i] ** 2 / total[i]) if total[i] > 0.0 else np.nan,
            used=n_used,
            rise=float(rise[i]),
            share=float(share[i]),
            noise=float(noise[i]),
            spread=float(np.sqrt(total[i] / data[:, 0].size)),
            few_inputs=X.shape[1] <= _FEW_INPUTS,
            few_pairs=bool(pairs[i] < np.clip(_EVEN * len(X), _FEWEST_PAIRS, _OF_UNEVEN)),
            many_samples=len(X) >= _PER_INPUT * X.shape[1],
            dense=X.shape[1] == 1 or len(X) >= _DENSE * X.shape[1],
            repeated=place is not None,
        )
        for i in range(n)
    ]
    return Quality(r_squared, left, noise, share, tuple(one.verdict() for one in facts), repeated=place is not None)


def _is_rounding(
    R: Float[ndarray, "S n k"], data: Float[ndarray, "S n k"], largest: Float[ndarray, " n"] | float = 0.0
) -> tuple[Bool[ndarray, " n"], Float[ndarray, " n"]]:
    """Whether residuals of an output are rounding, and the squares of what varies in its data.

    Data that are as large as `largest` are not known better than to machine precision of that, however little they
    vary.
    """
    total = np.sum(data**2, axis=(0, 2))
    of_numbers = len(R) * (ROUNDINGS * np.finfo(float).eps * largest) ** 2
    limit = np.maximum(ROUNDING**2 * np.maximum(total, np.finfo(float).tiny), of_numbers)
    return np.sum(R**2, axis=(0, 2)) <= limit, total


def _r_squared(squares: Float[ndarray, " n"], total: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
    return 1.0 - np.divide(squares, total, out=np.where(squares > 0.0, np.inf, 0.0), where=total > 0.0)


def _line_errors(X: Float[ndarray, "S m"], F: Float[ndarray, "S n"]) -> Float[ndarray, " n"]:
    """Root mean square errors of a linear model on validation samples; NaN if the samples are too few."""
    spread = X.std(axis=0)
    Q = np.linalg.qr(np.insert((X - X.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0), 0, 1.0, axis=1)).Q
    own = np.sum(Q**2, axis=1)
    if len(X) <= X.shape[1] + 2 or own.max() > 1.0 - ROUNDING:
        return np.full(F.shape[1], np.nan)
    return np.sqrt(np.mean(((F - Q @ (Q.T @ F)) / (1.0 - own)[:, None]) ** 2, axis=0))


@dataclass(frozen=True)
class _Facts:
    """What is known of one output; `left` and `line` are R² on validation samples, of the model and of a linear one."""

    name: str
    slopes: bool
    exact: bool
    left: float
    line: float
    used: float
    rise: float
    share: float
    noise: float
    spread: float
    few_inputs: bool
    few_pairs: bool
    many_samples: bool
    dense: bool
    repeated: bool

    def verdict(self) -> Verdict:
        return Verdict(*self._words())

    def _words(self) -> tuple[Grade, str]:
        of = f" of {self.name}" if self.name else ""
        if np.isnan(self.rise) or np.isnan(self.left):
            return (
                Grade.UNTESTED,
                "Parameters are about as many as samples: more samples or fewer functions would help.",
            )
        if self.exact:
            return Grade.EXACT, f"The model meets the {'slopes' if self.slopes else 'values'}{of} to machine precision."
        error, line = (float(np.sqrt(max(1.0 - r, 0.0))) for r in (self.left, self.line))
        what = f"the slopes{of}" if self.slopes else self.name or "the output"
        unit = "their size" if self.slopes else "its standard deviation"
        off = f"The error of {what} in cross-validation is {percent(error)} of {unit}"
        if self.line >= _POOR and line <= _AS_WELL * error and not self.share >= MUCH:
            return Grade.LINE, f"{off}, that of a linear model {percent(line)}."
        if self.left < _POOR:
            more = f"; the inputs predict {percent(self.share)} of it: try more functions" * bool(self.share >= MUCH)
            return Grade.POOR, f"{off}, hardly less than with the mean alone{more}."
        if (self.rise > _RISE and self.used > _USED) or np.isnan(self.share):
            if error < _CLOSE:
                return Grade.CLOSE, f"{off}; there are too few samples to test the residuals."
            return Grade.UNTESTED, f"{off}: more samples or fewer functions would help."
        if self.share >= MUCH:
            if error < _SMALL:
                return Grade.CLOSE, f"{off}; the inputs still predict a part of it."
            return Grade.BETTER, f"{off}; the inputs predict {percent(self.share)} of it: try more functions."
        seen = self.few_inputs and (self.dense or self.left >= _NEARLY_ALL)
        explains = self.many_samples and self.left >= _NEARLY_ALL and self.used <= _FEW_USED
        bends = self.used > _MANY_USED and self.left < _ALL_BUT
        if self.repeated or ((seen or explains) and not self.few_pairs and not bends):
            size = f" with a standard deviation of {self.noise:.2g}" if np.isfinite(self.noise) else ""
            if size and self.spread:
                share = percent(self.noise / self.spread)
                size += f" ({share} of {'their size' if self.slopes else f'that of {what}'})"
            return Grade.NOISE, f"The residuals{of} look like noise{size}."
        if error < _CLOSE:
            return Grade.CLOSE, f"{off}, too small to test the residuals."
        grade = Grade.POOR if self.left < _HALF else Grade.UNTESTED
        return grade, f"{off}; there are too few samples to distinguish noise from misfit."


def percent(share: float) -> str:
    """A share in percent, with two digits or to one percent."""
    return f"{100.0 * share:.0f} %" if share >= 0.095 else f"{100.0 * share:.2g} %"
