r"""Formulas of a decoupling: the door to all kinds of them, and those for people, as text, HTML and LaTeX.

For people polynomials are sums of powers of u, with the half-width of the domain in their coefficients, whatever their
basis. Other functions have it in their argument: cos(2 u1). What functions do beyond their domain is said beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, final

import numpy as np

from .._support._arguments import as_count, as_flag, is_word
from .._support._errors import InputError, short_repr
from ..bases import AbstractAlgebra
from ..bases._algebra import Piece, at_origins
from ..fit._result import Result
from ..model._decoupling import Decoupling
from ..model._names import RESERVED, Name, is_python_name, label, names, python_names
from ..samples._samples import Samples
from ._equations import MOST_DIGITS, NOISE, Equation, Linear, Shown, equations, rounding
from ._readable import equations_for_data, readable_equations, readable_model
from ._source import c_source, matlab_source, python_source
from ._sympy import sympy_expressions

Kind = Literal["text", "html", "latex", "python", "c", "matlab", "sympy"]
READ = ("text", "html", "latex")
KINDS = (*READ, "python", "c", "matlab", "sympy")
_DIGITS = 4  # for reading
_MOST_POINTS = 2000  # at which formulas are tried
Combination = tuple[tuple[float, str], ...]  # coefficients and what they multiply; the factor of a constant is empty
_BEYOND = {"linear": "its tangents beyond", "constant": "constant beyond"}


def formula(
    model: Decoupling,
    kind: Kind = "text",
    *,
    inputs: Collection[str] | None = None,
    outputs: Collection[str] | None = None,
    digits: int | None = None,
    exact: bool = False,
    samples: Samples | None = None,
    jacobian: bool = True,
) -> Any:
    """Write `model` out; see `Decoupling.formula`. With samples, digits and terms are those that they can tell.

    Without `jacobian`, source code computes the values alone.
    """
    if not is_word(kind, KINDS):
        raise InputError(f"`kind` must be one of {', '.join(KINDS)}. Got {short_repr(kind)}.")
    x = names("inputs", model.inputs if inputs is None else inputs, "x", model.n_inputs)
    y = names("outputs", model.outputs if outputs is None else outputs, "y", model.n_outputs)
    if kind in READ:
        markup, places = _MARKUPS[kind], _DIGITS if digits is None else as_count("digits", digits, most=MOST_DIGITS)
        shown = rounding(None if as_flag("exact", exact) else places)
        if exact:
            found = equations(model, x, y, shifted=True, rounded=False)
        elif samples is None or samples.F is None:
            found = readable_equations(model, x, y, places)
        else:
            some = slice(0, _MOST_POINTS)
            places, found = equations_for_data(model, x, y, samples.X[some], np.asarray(samples.F)[some])
            shown = rounding(places)
        lines = [markup.line % _equation(e, markup, shown) for e in found]
        return markup.page % markup.between_lines.join(lines)
    written, rounded = rounding(digits), digits is not None
    if kind == "c":
        return c_source(model, x, y, written, rounded=rounded, jacobian=jacobian)
    if kind == "matlab":
        return matlab_source(model, x, y, written, rounded=rounded, jacobian=jacobian)
    x_names, y_names = _python_names(x, given=inputs is not None), _python_names(y, given=outputs is not None)
    if kind == "sympy":
        return sympy_expressions(model, x_names, y_names, written, rounded=rounded)
    called = [name.given for name in (*x, *y)]
    return python_source(model, x_names, y_names, written, rounded=rounded, jacobian=jacobian, called=called)


def result_formula(
    result: Result, kind: Kind, *, inputs: Collection[str] | None, outputs: Collection[str] | None, exact: bool
) -> Any:
    """The formula of a result: for reading that of a model that is as good, as short as the samples allow."""
    model = result.decoupling if as_flag("exact", exact) or not is_word(kind, READ) else readable_model(result)
    return formula(model, kind, inputs=inputs, outputs=outputs, exact=exact, samples=result.samples.shown)


def _python_names(called: tuple[Name, ...], *, given: bool) -> tuple[Name, ...]:
    """Names that the caller gave must be Python names; those that a model carries become such names."""
    if not given and all(name.given for name in called):
        return tuple(Name(near, given=near) for near in python_names([name.given for name in called]))
    for name in called:
        if not is_python_name(name.python):
            raise InputError(
                f"`inputs` and `outputs` must be Python names for this, other than {', '.join(RESERVED)}. Got "
                f"{label(name.given)!r}: give others with `inputs=` and `outputs=`."
            )
    return called


# For people


def _equation(e: Equation, markup: _Markup, shown: Shown) -> str:
    algebra = ReadingAlgebra(markup, shown, e.extra if isinstance(e, Linear) else 0)
    if isinstance(e, Linear):
        value: Combination = (*((w, markup.name(name)) for w, name in e.terms), (e.constant, ""))
        return markup.equation % (markup.name(e.target), algebra.written(value))
    argument = markup.name(e.argument)
    value = e.basis.expression(algebra, ((1.0 / e.half, argument),), e.c)
    equation = markup.equation % (markup.name(e.target), algebra.written(value))
    if e.outside == "extend":
        return equation
    # Where the equation holds, and what the function does beyond.
    low, high = (algebra.written(algebra.number(end)) for end in e.limits)
    return equation + markup.remark % (low, argument, high, _BEYOND[e.outside])


@final
class ReadingAlgebra(AbstractAlgebra[Combination]):
    """Expressions are linear combinations of texts."""

    for_reading: ClassVar[bool] = True

    def __init__(self, markup: _Markup, shown: Shown, extra: int = 0) -> None:
        self.markup, self._shown, self._extra = markup, shown, extra

    def number(self, value: Any) -> Combination:
        return ((float(value), ""),)

    def sum(self, terms: Sequence[Combination]) -> Combination:
        found: dict[str, float] = {}
        for value, factor in (term for combination in terms for term in combination):
            found[factor] = found.get(factor, 0.0) + value
        return tuple((value, factor) for factor, value in found.items())

    def product(self, factors: Sequence[Combination]) -> Combination:
        value = 1.0
        others: list[Combination] = []
        for combination in factors:
            if len(combination) == 1:
                value *= combination[0][0]
                others += [((1.0, combination[0][1]),)] if combination[0][1] else []
            else:
                others.append(combination)
        if len(others) == 1:
            return tuple((value * v, factor) for v, factor in others[0])
        return ((value, self.markup.times.join(self._held(combination) for combination in others)),)

    def apply(self, function: str, argument: Combination) -> Combination:
        return ((1.0, self.markup.call(function, self.written(argument))),)

    def clip(self, argument: Combination, low: float, high: float) -> Combination:
        text = self.written(argument)
        for function, end in (("max", low), ("min", high)):
            if np.isfinite(end):
                text = self.markup.call(function, f"{text}, {self.written(self.number(end))}")
        return ((1.0, text),)

    def pieces(self, start: Any, pieces: Sequence[Piece], argument: Combination) -> Combination:
        """One case per piece, with powers of the argument itself."""
        rows = []
        for value, piece in zip(at_origins(start, pieces), pieces, strict=True):
            around = np.polynomial.Polynomial([float(value), *(float(a) for a in piece.powers)])
            powers = around(np.polynomial.Polynomial([-piece.origin, 1.0])).coef
            value_here = self.written(self.polynomial(list(powers), argument))
            rows.append((value_here, self._end(piece.low, argument), self._end(piece.high, argument)))
        scale = argument[0][0] if len(argument) == 1 else 1.0
        name = argument[0][1] if len(argument) == 1 and scale > 0.0 else self.written(argument)
        return ((1.0, self.markup.piecewise(rows, name)),)

    def _end(self, end: float, argument: Combination) -> str | None:
        """An end of a piece, in terms of the variable if the argument is a multiple of one."""
        scale = argument[0][0] if len(argument) == 1 and argument[0][0] > 0.0 else 1.0
        return self.written(self.number(end / scale)) if np.isfinite(end) else None

    def polynomial(self, coefficients: Sequence[Any], argument: Combination) -> Combination:
        """Powers; coefficients that are nothing but rounding, if the argument is about 1, are left out."""
        scale, factor = argument[0] if len(argument) == 1 else (1.0, self._held(argument))
        least = NOISE * max(abs(float(a)) for a in coefficients)
        terms = []
        for k, a in enumerate(coefficients):
            value = float(a) if abs(float(a)) > least else 0.0
            for _ in range(k):  # rather than scale ** k, which may overflow where the product does not
                value *= scale
            base = factor if k == 1 else self.markup.power % (self._base(factor), k)
            terms.append(((value, base if k and factor else ""),))
        return self.sum(terms)

    def written(self, parts: Sequence[tuple[float, str]]) -> str:
        """c_1 a + c_2 b - ...: signs between the terms, terms whose coefficient is 0 left out."""
        text, minus = "", self.markup.minus
        for value, factor in parts:
            if value == 0.0:
                continue
            size = self._shown(abs(value), self._extra)
            number = self.markup.number(size)
            term = number if not factor else (factor if float(size) == 1.0 else f"{number}{self.markup.times}{factor}")
            text += f" {minus if value < 0.0 else '+'} {term}" if text else f"{minus if value < 0.0 else ''}{term}"
        return text or "0"

    def _held(self, combination: Combination) -> str:
        """As a factor of others."""
        if len(combination) == 1:
            return combination[0][1]
        return f"({self.written(combination)})"

    def _base(self, factor: str) -> str:
        """As what is raised to a power."""
        plain = factor.startswith("(") or self.markup.times not in factor
        return factor if plain else f"({factor})"


# Languages


@dataclass(frozen=True)
class _Markup:
    """How a formula is written: texts with a place (%s) for every part."""

    name: Callable[[Name], str]
    call: Callable[[str, str], str]  # of a function and its arguments
    power: str
    equation: str
    remark: str  # what is said after an equation: low, name, high, and what is beyond
    case: str  # value and range of a piece
    cases: str
    line: str
    page: str
    exponent: str = ""  # a number, and the power of ten that it is multiplied by; empty for 1e-05
    times: str = " "
    minus: str = "-"
    at_most: str = "<="
    between_cases: str = "; "
    between_lines: str = "\n"

    def number(self, size: str) -> str:
        """A number that is not negative, as `format` writes it."""
        mantissa, _, exponent = size.partition("e")
        if not exponent or not self.exponent:
            return size
        return self.exponent % (mantissa, str(int(exponent)).replace("-", self.minus))

    def piecewise(self, rows: list[tuple[str, str | None, str | None]], name: str) -> str:
        """A function of `name` in pieces: value, low and high of each, the first without low, the last without high."""
        written = []
        for value, low, high in rows:
            below = "" if low is None else f"{low} {self.at_most} "
            above = "" if high is None else f" {self.at_most} {high}"
            written.append(self.case % (value, f"{below}{name}{above}"))
        return self.cases % self.between_cases.join(written)


def _plain_call(function: str, arguments: str) -> str:
    return f"1/({arguments})" if function == "reciprocal" else f"{function}({arguments})"


def _latex_call(function: str, arguments: str) -> str:
    if function == "reciprocal":
        return f"\\frac{{1}}{{{arguments}}}"
    return f"|{arguments}|" if function == "abs" else f"\\{function}({arguments})"


_MARKUPS = {
    "text": _Markup(
        name=lambda name: name.text,
        call=_plain_call,
        power="%s^%s",
        equation="%s = %s",
        remark="  for %s <= %s <= %s, %s",
        case="%s for %s",
        cases="{%s}",
        line="%s",
        page="%s",
    ),
    "html": _Markup(
        name=lambda name: name.html,
        call=_plain_call,
        exponent="%s·10<sup>%s</sup>",
        power="%s<sup>%s</sup>",
        equation="%s = %s",
        remark=" <small>for %s ≤ %s ≤ %s, %s</small>",
        case="%s for %s",
        cases="{%s}",
        line="<div>%s</div>",
        page="%s",
        minus="−",
        at_most="≤",
    ),
    "latex": _Markup(
        name=lambda name: name.latex,
        call=_latex_call,
        exponent=r"%s \cdot 10^{%s}",
        power="%s^{%s}",
        equation="%s &= %s",
        remark=r" \quad \text{for } %s \le %s \le %s \text{, %s}",
        case="%s & %s",
        cases=r"\begin{cases} %s \end{cases}",
        line="%s",
        page="\\begin{aligned}\n%s\n\\end{aligned}",
        times=r"\,",
        at_most=r"\le",
        between_cases=r" \\ ",
        between_lines=" \\\\\n",
    ),
}
