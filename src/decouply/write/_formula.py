r"""Formulas of a decoupling: the door to all kinds of them, and those for people, as text, HTML and LaTeX.

For people polynomials are sums of powers of u, with the half-width of the domain in their coefficients, whatever their
basis; other functions have it in their argument: cos(2 u1). What functions do beyond their domain is said beside them.
"""

from __future__ import annotations

import abc
from collections.abc import Collection, Sequence
from typing import Any, ClassVar, Literal, final

import numpy as np

from .._support._arguments import is_word
from .._support._errors import InputError, short_repr
from ..bases import AbstractAlgebra
from ..bases._algebra import Piece, at_origins
from ..model._decoupling import Decoupling
from ..model._names import RESERVED, Name, is_python_name, label, names, python_names
from ._equations import NOISE, Equation, Linear, Shown, Univariate, equations, rounding
from ._source import c_source, matlab_source, python_source
from ._sympy import sympy_expressions

Kind = Literal["text", "html", "latex", "python", "c", "matlab", "sympy"]
READ = ("text", "html", "latex")
KINDS = (*READ, "python", "c", "matlab", "sympy")
_DIGITS = 4  # for reading
Combination = tuple[tuple[float, str], ...]  # coefficients and what they multiply; the factor of a constant is empty
_BEYOND = {"linear": "its tangents beyond", "constant": "constant beyond"}


def formula(
    model: Decoupling,
    kind: Kind = "text",
    *,
    inputs: Collection[str] | None = None,
    outputs: Collection[str] | None = None,
    digits: int | None = None,
) -> Any:
    """Write `model` out; see `Decoupling.formula`."""
    if not is_word(kind, KINDS):
        raise InputError(f"`kind` must be one of {', '.join(KINDS)}. Got {short_repr(kind)}.")
    x = names("inputs", model.inputs if inputs is None else inputs, "x", model.n_inputs)
    y = names("outputs", model.outputs if outputs is None else outputs, "y", model.n_outputs)
    if kind in READ:
        markup, shown = _MARKUPS[kind], rounding(_DIGITS if digits is None else digits)
        lines = equations(model, x, y, shifted=True, rounded=True)
        return markup.page([_equation(e, markup, shown) for e in lines])
    written, rounded = rounding(digits), digits is not None
    if kind == "c":
        return c_source(model, x, y, written, rounded=rounded)
    if kind == "matlab":
        return matlab_source(model, x, y, written, rounded=rounded)
    x_names, y_names = _python_names(x, given=inputs is not None), _python_names(y, given=outputs is not None)
    if kind == "sympy":
        return sympy_expressions(model, x_names, y_names, written, rounded=rounded)
    pairs = zip((*x_names, *y_names), (*x, *y), strict=True)
    said = [(new.python, old.given) for new, old in pairs if new is not old and old.given != new.python]
    return python_source(model, x_names, y_names, written, rounded=rounded, said=said)


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


def _equation(e: Equation, markup: _AbstractMarkup, shown: Shown) -> str:
    if isinstance(e, Linear):
        algebra = ReadingAlgebra(markup, shown, e.extra)
        parts = [(w, markup.name(name)) for w, name in e.terms]
        return markup.equation(markup.name(e.target), algebra.written((*parts, (e.constant, ""))))
    algebra = ReadingAlgebra(markup, shown)
    t = ((1.0 / e.half, markup.name(e.argument)),)
    equation = markup.equation(markup.name(e.target), algebra.written(e.basis.expression(algebra, t, e.c)))
    return equation if e.outside == "extend" else equation + _remark(e, algebra)


def _remark(e: Univariate, algebra: ReadingAlgebra) -> str:
    """Where the equation holds, and what the function does beyond."""
    ends = [algebra.written(algebra.number(end)) for end in (-e.half, e.half)]
    return algebra.markup.remark(ends[0], algebra.markup.name(e.argument), ends[1], _BEYOND[e.outside])


@final
class ReadingAlgebra(AbstractAlgebra[Combination]):
    """Expressions are linear combinations of texts."""

    for_reading: ClassVar[bool] = True

    def __init__(self, markup: _AbstractMarkup, shown: Shown, extra: int = 0) -> None:
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
        return ((1.0, self.markup.call(function, [self.written(argument)])),)

    def clip(self, argument: Combination, low: float, high: float) -> Combination:
        text = self.written(argument)
        for function, end in (("max", low), ("min", high)):
            if np.isfinite(end):
                text = self.markup.call(function, [text, self.written(self.number(end))])
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
        return ((1.0, self.markup.cases(rows, name)),)

    def _end(self, end: float, argument: Combination) -> str | None:
        """An end of a piece, in terms of the variable where the argument is a multiple of one."""
        scale = argument[0][0] if len(argument) == 1 and argument[0][0] > 0.0 else 1.0
        return self.written(self.number(end / scale)) if np.isfinite(end) else None

    def polynomial(self, coefficients: Sequence[Any], argument: Combination) -> Combination:
        """Powers; coefficients that are nothing but rounding, where the argument is about 1, are left out."""
        scale, factor = argument[0] if len(argument) == 1 else (1.0, self._held(argument))
        least = NOISE * max(abs(float(a)) for a in coefficients)
        terms = []
        for k, a in enumerate(coefficients):
            value = float(a) if abs(float(a)) > least else 0.0
            for _ in range(k):  # rather than scale ** k, which may overflow where the product does not
                value *= scale
            base = factor if k == 1 else self.markup.power(self._base(factor), k)
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


class _AbstractMarkup(abc.ABC):
    times: ClassVar[str]
    minus: ClassVar[str] = "-"

    @abc.abstractmethod
    def name(self, name: Name) -> str: ...

    @abc.abstractmethod
    def number(self, size: str) -> str:
        """A number that is not negative, as `format` writes it."""

    @abc.abstractmethod
    def power(self, base: str, k: int) -> str: ...

    @abc.abstractmethod
    def call(self, function: str, arguments: list[str]) -> str: ...

    @abc.abstractmethod
    def equation(self, target: str, value: str) -> str: ...

    @abc.abstractmethod
    def remark(self, low: str, name: str, high: str, beyond: str) -> str:
        """What is said after an equation that holds from `low` to `high`."""

    @abc.abstractmethod
    def cases(self, rows: list[tuple[str, str | None, str | None]], name: str) -> str:
        """A function of `name` in pieces: value, low and high of each, the first without low, the last without high."""

    @abc.abstractmethod
    def page(self, equations: list[str]) -> str: ...


class _AbstractLine(_AbstractMarkup):
    """Text in lines, with or without tags."""

    times: ClassVar[str] = " "
    at_most: ClassVar[str]

    def call(self, function: str, arguments: list[str]) -> str:
        return f"1/({arguments[0]})" if function == "reciprocal" else f"{function}({', '.join(arguments)})"

    def equation(self, target: str, value: str) -> str:
        return f"{target} = {value}"

    def cases(self, rows: list[tuple[str, str | None, str | None]], name: str) -> str:
        return f"{{{'; '.join(f'{value} for {_range(low, name, high, self.at_most)}' for value, low, high in rows)}}}"


@final
class _Text(_AbstractLine):
    at_most: ClassVar[str] = "<="

    def name(self, name: Name) -> str:
        return name.text

    def number(self, size: str) -> str:
        return size

    def power(self, base: str, k: int) -> str:
        return f"{base}^{k}"

    def remark(self, low: str, name: str, high: str, beyond: str) -> str:
        return f"  for {low} <= {name} <= {high}, {beyond}"

    def page(self, equations: list[str]) -> str:
        return "\n".join(equations)


@final
class _Html(_AbstractLine):
    at_most: ClassVar[str] = "≤"
    minus: ClassVar[str] = "−"

    def name(self, name: Name) -> str:
        return name.html

    def number(self, size: str) -> str:
        mantissa, _, exponent = size.partition("e")
        return f"{mantissa}·10<sup>{str(int(exponent)).replace('-', '−')}</sup>" if exponent else mantissa

    def power(self, base: str, k: int) -> str:
        return f"{base}<sup>{k}</sup>"

    def remark(self, low: str, name: str, high: str, beyond: str) -> str:
        return f" <small>for {low} ≤ {name} ≤ {high}, {beyond}</small>"

    def page(self, equations: list[str]) -> str:
        return "\n".join(f"<div>{equation}</div>" for equation in equations)


@final
class _Latex(_AbstractMarkup):
    times: ClassVar[str] = "\\,"

    def name(self, name: Name) -> str:
        return name.latex

    def number(self, size: str) -> str:
        mantissa, _, exponent = size.partition("e")
        return f"{mantissa} \\cdot 10^{{{int(exponent)}}}" if exponent else mantissa

    def power(self, base: str, k: int) -> str:
        return f"{base}^{{{k}}}"

    def call(self, function: str, arguments: list[str]) -> str:
        inside = ", ".join(arguments)
        if function == "reciprocal":
            return f"\\frac{{1}}{{{inside}}}"
        return f"|{inside}|" if function == "abs" else f"\\{function}({inside})"

    def equation(self, target: str, value: str) -> str:
        return f"{target} &= {value}"

    def remark(self, low: str, name: str, high: str, beyond: str) -> str:
        return f" \\quad \\text{{for }} {low} \\le {name} \\le {high} \\text{{, {beyond}}}"

    def cases(self, rows: list[tuple[str, str | None, str | None]], name: str) -> str:
        at_most, end_of_line = r"\le", r" \\ "
        lines = end_of_line.join(f"{value} & {_range(low, name, high, at_most)}" for value, low, high in rows)
        return rf"\begin{{cases}} {lines} \end{{cases}}"

    def page(self, equations: list[str]) -> str:
        rows = " \\\\\n".join(equations)
        return f"\\begin{{aligned}}\n{rows}\n\\end{{aligned}}"


def _range(low: str | None, name: str, high: str | None, at_most: str) -> str:
    """low <= name <= high, with one end left out where there is none."""
    below = "" if low is None else f"{low} {at_most} "
    return f"{below}{name}" + ("" if high is None else f" {at_most} {high}")


_MARKUPS: dict[str, _AbstractMarkup] = {"text": _Text(), "html": _Html(), "latex": _Latex()}
