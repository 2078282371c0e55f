r"""Names for curves: for every function of a model the simplest curve that its samples cannot be distinguished from.

Every kind of curve is fitted to what the samples say of a function (see `_evidence`) and scored by

    misfit + parameters x log(number of readings),

the misfit being a sum of squares over the variance of the noise: the Bayesian information criterion. A smooth curve of
any shape is scored in the same way, and what is not better than that gets no name. A polynomial is called one unless
another curve is clearly better, or needs fewer parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..._support._arguments import as_number, as_some_points, is_word
from ..._support._errors import InputError, short_repr
from ..._support._progress import progress_callback
from ..._support._time_limit import deadline_after, now
from ...bases import AbstractBasis, Monomial
from ...model._decoupling import Decoupling
from ...samples._samples import Samples
from ._named_curves import KINDS, Fitted, Kind, fit_named_curve, smooth_reference
from ._partial_residuals import FunctionReadings, function_readings

# Of the spread of a function: what curves may be off by at single points whatever the samples say, and what they may be
# off by where there are no samples. Splines round off kinks by more than the first.
TOLERANCES = (2e-3, 2e-2)
LEAST_POINTS = 8
_CLEARLY = 6.0  # a difference of scores that is strong evidence
_AS_GOOD = 0.5  # a line and the smoothest of all curves are the same up to rounding
_SHOWN = 3  # names of a function in a table


@dataclass(frozen=True, eq=False)
class NamedCurve:
    """A curve of a known kind that is as near to a function as this kind can be.

    Attributes
    ----------
    name, words : str
        What it is, for programs and for people: "saturation" and "a saturation at u = ±0.7".
    off : float
        How far it is from the function: root mean square over the samples, as a share of the standard deviation of the
        function.
    n_parameters : int
        Coefficients, and the numbers that say where the curve is and how wide.
    score : float
        Misfit plus parameters times the logarithm of the number of readings, less the same for a smooth curve of any
        shape. Below 0 the name is worth having; the lower the better.
    basis, c, domain : basis, array, tuple
        The curve c_0 + sum_k c_k phi_k(t) of one of our bases, as `Functions` have them.
    turned : bool
        Whether it is a curve of -u rather than of u.
    slope : float
        Of a straight line besides, which the linear part of the model can take.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> X = np.random.default_rng(0).uniform(-1, 1, (60, 2))
    >>> samples = dc.Samples(X, F=(X @ [[1.0], [2.0]]) ** 3)
    >>> result = dc.decouple(samples, ranks=1, degrees=3)
    >>> curve = result.recognise().functions[0].best
    >>> curve.words
    'an odd cubic'
    """

    name: str
    words: str
    off: float
    n_parameters: int
    score: float
    basis: AbstractBasis
    c: Float[ndarray, " e"]
    domain: tuple[float, float]
    turned: bool
    slope: float

    def __call__(self, u: object) -> Float[ndarray, "*shape"]:
        """Values at the arguments u."""
        at = np.asarray(u, dtype=float)
        t = ((-at if self.turned else at) - sum(self.domain) / 2.0) / ((self.domain[1] - self.domain[0]) / 2.0)
        return self.c[0] + self.basis.evaluate(t) @ self.c[1:] + self.slope * at


@dataclass(frozen=True, eq=False)
class RecognisedFunction:
    """What one function g_lj may be called.

    Attributes
    ----------
    layer, index : int
        l and j, from 1.
    candidates : tuple of NamedCurve
        The best curve of every kind that was tried, by score; first of all the polynomial that no other kind clearly
        beats, if there is one.
    out_of_time : bool
        Whether `max_seconds` was reached before all kinds were tried.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> X = np.random.default_rng(0).uniform(-1, 1, (60, 2))
    >>> samples = dc.Samples(X, F=(X @ [[1.0], [2.0]]) ** 3)
    >>> result = dc.decouple(samples, ranks=1, degrees=3)
    >>> function = result.recognise().functions[0]
    >>> function.layer, function.index, function.best.name
    (1, 1, 'odd cubic')
    """

    layer: int
    index: int
    candidates: tuple[NamedCurve, ...]
    out_of_time: bool = False

    @property
    def best(self) -> NamedCurve | None:
        """The curve that earns its name; None if a smooth curve of any shape does better."""
        first = self.candidates[0] if self.candidates else None
        return first if first is not None and first.score <= _AS_GOOD else None

    @property
    def name(self) -> str:
        """The name of the best curve, empty if there is none."""
        return "" if self.best is None else self.best.name

    def __repr__(self) -> str:
        return f"layer {self.layer}, function {self.index}: {self.words}"

    @property
    def words(self) -> str:
        """What it is, such as "a saturation at u = ±0.7"."""
        if self.best is not None:
            return self.best.words
        return "not named in the time that was given" if self.out_of_time else "no curve that has a name here"


@dataclass(frozen=True, eq=False)
class Recognition:
    """The names of all functions of a model, in the order of the model. See `Decoupling.recognise`.

    Attributes
    ----------
    functions : tuple of RecognisedFunction
        One entry per function, layer by layer; `recognition[l, j]` is that of g_lj, counted from 1.
    n_layers : int
        The number of layers.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> X = np.random.default_rng(0).uniform(-1, 1, (60, 2))
    >>> samples = dc.Samples(X, F=(X @ [[1.0], [2.0]]) ** 3)
    >>> result = dc.decouple(samples, ranks=1, degrees=3)
    >>> result.recognise().names
    ('odd cubic',)
    """

    functions: tuple[RecognisedFunction, ...]
    n_layers: int

    @property
    def names(self) -> tuple[str, ...]:
        """The name of every function, empty if it has none."""
        return tuple(function.name for function in self.functions)

    def __iter__(self) -> Iterator[RecognisedFunction]:
        return iter(self.functions)

    def __len__(self) -> int:
        return len(self.functions)

    def __getitem__(self, at: tuple[int, int]) -> RecognisedFunction:
        for function in self.functions:
            if (function.layer, function.index) == at:
                return function
        raise InputError(
            f"`recognition[l, j]` must name a function, by layer and place from 1. Got {short_repr(at)}: there are "
            f"{', '.join(str((f.layer, f.index)) for f in self.functions)}."
        )

    def sentences(self) -> tuple[str, ...]:
        """One per function: "g_1,2 is a saturation at u = ±0.7"."""
        return tuple(f"{self.symbol(f)} is {f.words}" for f in self.functions)

    def symbol(self, function: RecognisedFunction) -> str:
        """g_2, or g_1,2 if there are several layers."""
        return symbol(function.layer, function.index, self.n_layers)

    def __repr__(self) -> str:
        head = ("function", "name", "off", "parameters", "score")
        rows = [head]
        for f in self.functions:
            rows += [(self.symbol(f) if i == 0 else "", *row) for i, row in enumerate(self.rows(f))]
        widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
        return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows)

    def rows(self, function: RecognisedFunction) -> list[tuple[str, str, str, str]]:
        """The first names of a function for a table: words, error, parameters, score."""
        shown = [
            (c.words, f"{100.0 * c.off:.2g} %", str(c.n_parameters), f"{c.score:.1f}")
            for c in function.candidates[:_SHOWN]
        ]
        if function.out_of_time:
            tried = "all kinds were tried" if function.candidates else "any kind was tried"
            late = (f"time ran out before {tried}", "", "", "")
            return [late, *shown] if function.best is None else [*shown, late]
        return shown if function.best is not None else [("no name", "", "", "0.0"), *shown]

    def _repr_html_(self) -> str:
        from ...write._notebook import recognition_html

        return recognition_html(self)


def symbol(layer: int, index: int, n_layers: int) -> str:
    """What a function is called: g_2, or g_1,2 if there are several layers."""
    return f"g_{layer},{index}" if n_layers > 1 else f"g_{index}"


def recognise(
    model: Decoupling,
    where: object,
    *,
    curves: Sequence[str] | None = None,
    tolerance: float | None = None,
    n_parameters: float | None = None,
    chosen: Mapping[tuple[int, int], str] | None = None,
    max_seconds: float | None = None,
    progress: bool | Callable[..., None] = True,
) -> Recognition:
    """Names of the functions of a model; see `Decoupling.recognise`.

    `n_parameters` is what noise is estimated with: the effective number if functions were smoothed. Curves that are
    `chosen` for functions, by layer and index from 1, are tried whatever the time.
    """
    kinds = _kinds(curves)
    deadline = deadline_after(max_seconds)
    if tolerance is not None:
        as_number("tolerance", tolerance, above=True)
    samples = where if isinstance(where, Samples) else None
    X = as_some_points("X", where if samples is None else samples.X, model.n_inputs)
    if samples is not None and samples.n_outputs != model.n_outputs:
        raise InputError(f"`samples` must have {model.n_outputs} outputs, like the model. Got {samples.n_outputs}.")
    if len(X) < LEAST_POINTS:
        raise InputError(f"`X` must hold at least {LEAST_POINTS} points to tell one curve from another. Got {len(X)}.")
    known = None if samples is None or (samples.F is None and samples.J is None) else samples
    used = model.n_parameters if n_parameters is None else n_parameters
    with_line = model.linear is not None and model.n_layers == 1
    least = TOLERANCES[known is None] if tolerance is None else tolerance
    found, functions = function_readings(model, X, known, used, least), []
    with progress_callback(progress, "Recognising") as report:
        for e in found:
            named = (chosen or {}).get((e.layer, e.index))
            functions.append(_recognise_function(e, kinds, named, deadline, with_line=with_line))
            report(done=len(functions), total=len(found))
    return Recognition(tuple(functions), model.n_layers)


def _kinds(curves: Sequence[str] | None) -> tuple[Kind, ...]:
    if curves is None:
        return KINDS
    known = {kind.name: kind for kind in KINDS}
    given = [curves] if isinstance(curves, str) else list(curves) if isinstance(curves, Sequence) else []
    wrong = [name for name in given if not is_word(name, known)]
    if wrong or not given:
        raise InputError(
            f"`curves` must be some of {', '.join(known)}. Got {short_repr(wrong[0] if wrong else curves)}."
        )
    return tuple(known[name] for name in given)


def _recognise_function(
    e: FunctionReadings, kinds: tuple[Kind, ...], named: str | None, deadline: float, *, with_line: bool
) -> RecognisedFunction:
    n = e.readings.count
    if named is None and now() > deadline:
        return RecognisedFunction(e.layer, e.index, (), out_of_time=True)
    misfit, used = smooth_reference(e.readings)
    reference = misfit + used * np.log(n)
    found: list[NamedCurve] = []
    late = False
    for kind in sorted(kinds, key=lambda kind: kind.name != named):  # the one that was chosen first
        if late := kind.name != named and now() > deadline:
            break
        if with_line and any(kind.beside_line == other.name for other in kinds):
            continue
        fitted = fit_named_curve(kind, e.readings, with_line=with_line)
        if fitted is not None:
            found.append(_named_curve(fitted, e, fitted.misfit + kind.n_parameters * np.log(n) - reference))
    return RecognisedFunction(e.layer, e.index, tuple(_in_order(found)), late)


def _in_order(found: list[NamedCurve]) -> list[NamedCurve]:
    """By score, but a polynomial comes before what is hardly better and has no fewer parameters."""
    by_score = sorted(found, key=lambda curve: curve.score)
    if not by_score:
        return by_score
    best = by_score[0]
    level = [
        curve
        for curve in by_score
        if isinstance(curve.basis, Monomial)
        and curve.score < best.score + _CLEARLY
        and curve.n_parameters <= best.n_parameters
    ]
    first = min(level, key=lambda curve: (curve.basis.size, curve.score), default=best)
    return [first, *(curve for curve in by_score if curve is not first)]


def _named_curve(fitted: Fitted, e: FunctionReadings, score: float) -> NamedCurve:
    apart = fitted.values(e.u) - e.values
    off = float(np.sqrt(np.mean(apart**2)) / max(e.spread, 1e-300))
    return NamedCurve(
        fitted.kind.name,
        fitted.words,
        off,
        fitted.kind.n_parameters,
        float(score),
        fitted.kind.basis,
        fitted.c,
        fitted.domain,
        fitted.turned,
        fitted.slope,
    )
