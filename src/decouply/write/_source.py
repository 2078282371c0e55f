"""A decoupling and its Jacobian as source code: plain arithmetic, in Python for numbers and arrays alike, C99, MATLAB.

Functions are computed by the recurrence of their basis at t = (u - middle) / half, which costs no digits on the domain
whatever the degree. Source is written from expression trees, and names what these use twice.
"""

from __future__ import annotations

import abc
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from ..model._decoupling import Decoupling
from ..model._names import Name, as_c_comment, label
from ._equations import Equation, Linear, Shown, Univariate, equations, free_letter, function, jacobian_equations
from ._trees import (
    TREES,
    Call,
    Clip,
    Node,
    Number,
    Pieces,
    Product,
    Sum,
    TreeAlgebra,
    Variable,
    Within,
    in_order,
    slope,
)

_DEEPEST = 40  # brackets within brackets, before a part gets a name
_IDENTIFIER = re.compile(r"\w+")
_SUM, _PRODUCT, _ATOM = range(3)  # how firmly a text holds together
_CLIPPED = (  # in MATLAB, whose max and min hide what is not a number
    "",
    "function t = clipped(t, low, high)",
    "if t < low",
    "    t = low;",
    "elseif t > high",
    "    t = high;",
    "end",
    "end",
)


def compiled(source: str) -> Callable[..., Any]:
    """The function f of a Python source of ours."""
    # What is compiled here is made of numbers and of identifiers alone (see model/_names.py): whatever names of users
    # and files hold, none of it is code.
    space: dict[str, Any] = {}
    exec(compile(source, "<formula>", "exec"), space)
    function: Callable[..., Any] = space["f"]
    return function


def python_source(
    model: Decoupling,
    x: tuple[Name, ...],
    y: tuple[Name, ...],
    shown: Shown,
    *,
    rounded: bool,
    jacobian: bool,
    called: Sequence[str],
) -> str:
    """Functions f and f_jacobian of the inputs; `called` holds what inputs and outputs are called elsewhere, or ""."""
    if {name.python for name in x} & {name.python for name in y}:  # inputs are needed until all outputs are known
        own = free_letter("yoq", x)
        y = tuple(Name(own, (i + 1,)) for i in range(len(y)))
    bodies = [("f", equations(model, x, y, shifted=False, rounded=rounded), y, _tuple([name.python for name in y]))]
    if jacobian:
        slopes, entries = jacobian_equations(model, x, (*x, *y), rounded=rounded)
        rows = [f"({_tuple([name.python for name in row])})" for row in entries]
        bodies.append(("f_jacobian", slopes, tuple(name for row in entries for name in row), _tuple(rows)))
    pairs = zip((*x, *y), called, strict=True)
    head = [f"# {new.python}: {label(old)}" for new, old in pairs if old not in ("", new.python)]
    # Python looks for the coding of a file in its first comments, where a name could pretend to be one.
    lines = ["# coding: utf-8", *head] if head else []
    imported: set[str] = set()
    functions = []
    for name, body, results, returned in bodies:
        source = _Python(shown, (*x, *y))
        source.write(body)
        kept = source.lines([one.python for one in results])
        imported |= source.called
        functions += [f"def {name}({', '.join(one.python for one in x)}):", *kept, f"    return {returned}", "", ""]
    imported -= {"abs"}  # Python's own
    lines += [f"from numpy import {', '.join(sorted(imported))}", ""] if imported else []
    return "\n".join([*lines, *functions[:-2]]) + "\n"


def _tuple(items: Sequence[str]) -> str:
    return f"{', '.join(items)}{',' if len(items) == 1 else ''}"


def c_source(
    model: Decoupling, x: tuple[Name, ...], y: tuple[Name, ...], shown: Shown, *, rounded: bool, jacobian: bool
) -> str:
    """Functions void f(const double *x, double *y) and f_jacobian(x, J); names are in comments alone."""
    m = len(x)
    given = tuple(Name(f"x[{i}]") for i in range(m))
    values = tuple(Name("out", (i + 1,)) for i in range(len(y)))  # y1 is a function of math.h
    lines = [f"/* {model!r}", ""]
    lines += [f"   {entry.text}: {as_c_comment(name.text)}" for entry, name in zip(given, x, strict=True)]
    lines += [f"   y[{i}]: {as_c_comment(name.text)}" for i, name in enumerate(y)]
    lines += [f"   J[{m}*i + j]: derivative of y[i] by x[j]"] if jacobian else []
    bodies = [("f", "y", equations(model, given, values, shifted=False, rounded=rounded), values)]
    if jacobian:
        slopes, entries = jacobian_equations(model, given, (*given, *values), rounded=rounded)
        bodies.append(("f_jacobian", "J", slopes, tuple(name for row in entries for name in row)))
    functions, called = [], False
    for name, out, body, results in bodies:
        source = _C(shown, (*given, *values))
        source.write(body)
        kept = source.lines([one.text for one in results])
        called = called or bool(source.called)
        functions += ["", f"void {name}(const double *x, double *{out})", "{", *kept]
        functions += [] if any("x[" in line for line in kept) else ["    (void)x;"]
        # Stored last, so that what goes in and what comes out may be the same memory.
        functions += [f"    {out}[{i}] = {one.text};" for i, one in enumerate(results)]
        functions.append("}")
    return "\n".join([*lines, "*/", *(["#include <math.h>"] if called else []), *functions]) + "\n"


def matlab_source(
    model: Decoupling, x: tuple[Name, ...], y: tuple[Name, ...], shown: Shown, *, rounded: bool, jacobian: bool
) -> str:
    """A function [y, J] = f(x) of a vector, for MATLAB and Octave; names are in comments alone."""
    given = tuple(Name(f"x({i + 1})") for i in range(len(x)))
    values = tuple(Name("out", (i + 1,)) for i in range(len(y)))
    source = _Matlab(shown, (*given, *values))
    source.write(equations(model, given, values, shifted=False, rounded=rounded))
    of_values = source.lines([name.text for name in values])
    called = source.called
    lines = [f"function {'[y, J]' if jacobian else 'y'} = f(x)", f"% {model!r}"]
    lines += [f"%   {entry.text}: {label(name.text)}" for entry, name in zip(given, x, strict=True)]
    lines += [f"%   y({i + 1}): {label(name.text)}" for i, name in enumerate(y)]
    lines += ["%   J(i, j): derivative of y(i) by x(j)"] if jacobian else []
    lines += [*of_values, f"y = [{'; '.join(name.text for name in values)}];"]
    if jacobian:
        slopes, entries = jacobian_equations(model, given, (*given, *values), rounded=rounded)
        source.write(slopes)
        of_slopes = source.lines([one.text for row in entries for one in row])
        called |= source.called
        lines += ["if nargout > 1", *(f"    {line}" for line in of_slopes if line not in of_values)]
        lines += [f"    J = [{'; '.join(', '.join(one.text for one in row) for row in entries)}];", "end"]
    own = _CLIPPED if "clipped" in called else ()
    return "\n".join([*lines, "end", *own]) + "\n"


# Languages


@dataclass(frozen=True)
class _Written:
    """A part, how firmly it holds together, and how deep its brackets are."""

    text: str
    firm: int = _ATOM
    depth: int = 0

    def bracketed(self, least: int) -> str:
        return self.text if self.firm >= least else f"({self.text})"


class _AbstractSource(abc.ABC):
    """Lines that assign, in the order in which they are computed."""

    names: ClassVar[dict[str, str]]  # of the functions of an algebra
    trees: ClassVar[TreeAlgebra] = TREES

    def __init__(self, shown: Shown, taken: tuple[Name, ...]) -> None:
        self.called: set[str] = set()  # functions that the lines call
        self._assigned: dict[str, str] = {}
        self._shown = shown
        self._of_t, self._of_parts = free_letter("tkp", taken), free_letter("bcd", taken)
        self._n_parts = 0

    @abc.abstractmethod
    def assignment(self, target: str, value: str) -> str:
        """A line of the source."""

    @abc.abstractmethod
    def clip(self, argument: str, low: float, high: float) -> str:
        """The argument, a name, moved into [low, high]: in brackets."""

    @abc.abstractmethod
    def within(self, argument: str, low: float, high: float) -> str:
        """1 if low <= argument < high, else 0, for an argument that is a name: in brackets."""

    def branches(self, argument: str, node: Pieces) -> str:
        """The piece that an argument, a name, is in: in brackets. For languages whose trees are `in_branches`."""
        raise NotImplementedError

    def lines(self, results: Sequence[str]) -> list[str]:
        """The assignments that these variables need."""
        read = set(results)
        kept = []
        for target, value in reversed(self._assigned.items()):
            if target in read:
                read.update(_IDENTIFIER.findall(value))
                kept.append(self.assignment(target, value))
        self.called = read & {*self.names.values()}
        return kept[::-1]

    def write(self, body: Sequence[Equation]) -> None:
        """The assignments of equations; what is assigned already stays as it is."""
        for e in body:
            if e.target.python not in self._assigned:
                self._write_linear(e) if isinstance(e, Linear) else self._write_univariate(e)

    def _write_linear(self, e: Linear) -> None:
        terms = [TREES.product([TREES.number(w), Variable(name.python)]) for w, name in e.terms]
        value, read = TREES.sum([*terms, TREES.number(e.constant)]), [name for _, name in e.terms]
        if e.factor is not None:
            value, read = TREES.product([value, Variable(e.factor.python)]), [e.factor]
        self._assign(e.target.python, value, e.extra, like=read[0].python)

    def _write_univariate(self, e: Univariate) -> None:
        t = e.argument.python
        if (e.middle, e.half) != (0.0, 1.0):
            sign, size = "-" if e.middle > 0.0 else "+", self._number(abs(e.middle), e.extra)
            top = f"({t} {sign} {size})" if e.middle else t
            t = Name(self._of_t, e.argument.indices).text
            self._assigned[t] = f"{top}/{self._number(e.half, 0)}"
        at = Variable(t)
        if e.order == 0:
            value = function(self.trees, e.basis, at, e.c, e.outside)
        else:
            value = TREES.product([slope(e.basis, at, e.c, e.outside, self.trees), TREES.number(1.0 / e.half)])
        self._assign(e.target.python, value, 0, like=t)

    def _text(self, root: Node) -> str:
        """A tree that shares no parts."""
        written: dict[int, _Written] = {}
        for node in in_order(root):
            written[id(node)] = self._written(node, [written[id(part)] for part in node.parts], 0)
        return written[id(root)].text

    def _assign(self, target: str, root: Node, extra: int, *, like: str) -> None:
        nodes = in_order(root)
        used = Counter(id(part) for node in nodes for part in node.parts)
        # What is compared is written several times.
        compared = {id(node.parts[0]) for node in nodes if isinstance(node, Clip | Within | Pieces)}
        written: dict[int, _Written] = {}
        for node in nodes:
            new = self._written(node, [written[id(part)] for part in node.parts], extra)
            if node.parts and (used[id(node)] > 1 or id(node) in compared or new.depth > _DEEPEST):
                self._n_parts += 1
                name = f"{self._of_parts}{self._n_parts}"
                self._assigned[name] = new.text
                new = _Written(name)
            written[id(node)] = new
        text = written[id(root)].text
        # A constant is an array where the variable is one.
        varies = any(isinstance(node, Variable) for node in nodes)
        self._assigned[target] = text if varies else f"{text} + 0.0*{like}"

    def _written(self, node: Node, inside: list[_Written], extra: int) -> _Written:
        depth = 1 + max((part.depth for part in inside), default=-1)
        if isinstance(node, Variable):
            return _Written(node.text)
        if isinstance(node, Number):
            return _Written(self._number(node.value, extra), _ATOM if node.value >= 0.0 else _PRODUCT)
        if isinstance(node, Sum):
            return _Written(_joined_sum(inside), _SUM, depth)
        if isinstance(node, Product):
            return _Written(_joined_product(node, inside), _PRODUCT, depth)
        if isinstance(node, Call) and node.function == "reciprocal":
            return _Written(f"1.0/{inside[0].bracketed(_ATOM)}", _PRODUCT, depth)
        if isinstance(node, Call):
            return _Written(f"{self.names[node.function]}({inside[0].text})", _ATOM, depth)
        if isinstance(node, Pieces):
            return _Written(self.branches(inside[0].text, node), _ATOM, depth)
        compare = self.clip if isinstance(node, Clip) else self.within
        return _Written(compare(inside[0].text, node.low, node.high), _ATOM, depth)

    def _number(self, value: float, extra: int) -> str:
        return repr(float(self._shown(value, extra)))


@final
class _Python(_AbstractSource):
    names: ClassVar = {name: name for name in ("cos", "sin", "tanh", "exp", "log", "abs")}

    def assignment(self, target: str, value: str) -> str:
        return f"    {target} = {value}"

    def clip(self, argument: str, low: float, high: float) -> str:
        """By comparisons, which take numbers and arrays and are exact: min and max take numbers alone."""
        within, ends = [], []
        for end, inside, beyond in ((low, ">=", "<"), (high, "<=", ">")):
            if np.isfinite(end):
                within.append(f"({argument} {inside} {end!r})")
                ends += [f" + {end!r}*({argument} {beyond} {end!r})"] if end else []
        return f"({argument}*{'*'.join(within)}{''.join(ends)})"

    def within(self, argument: str, low: float, high: float) -> str:
        compared = [f"({argument} {sign} {end!r})" for sign, end in ((">=", low), ("<", high)) if np.isfinite(end)]
        return f"(1.0*{'*'.join(compared)})"


@final
class _C(_AbstractSource):
    names: ClassVar = {"cos": "cos", "sin": "sin", "tanh": "tanh", "exp": "exp", "log": "log", "abs": "fabs"}
    trees: ClassVar = TreeAlgebra(in_branches=True)

    def assignment(self, target: str, value: str) -> str:
        return f"    const double {target} = {value};"

    def clip(self, argument: str, low: float, high: float) -> str:
        """By comparisons: fmin and fmax would hide what is not a number."""
        text = argument
        for end, beyond in ((high, ">"), (low, "<")):
            text = f"({argument} {beyond} {end!r} ? {end!r} : {text})" if np.isfinite(end) else text
        return text

    def within(self, argument: str, low: float, high: float) -> str:
        compared = [f"{argument} {sign} {end!r}" for sign, end in (("<", low), (">=", high)) if np.isfinite(end)]
        return f"({' || '.join(compared)} ? 0.0 : 1.0)"

    def branches(self, argument: str, node: Pieces) -> str:
        """The first half of the pieces or the second, and so on: few comparisons, and one polynomial."""
        if not node.ends:
            origin, coefficients = node.polynomials[0]
            v = Variable(f"({argument} {'-' if origin > 0.0 else '+'} {abs(origin)!r})" if origin else argument)
            value = TREES.polynomial(list(coefficients), v)
            return f"({self._text(value)})"
        half = len(node.ends) // 2
        below = Pieces(node.parts, node.ends[:half], node.polynomials[: half + 1])
        above = Pieces(node.parts, node.ends[half + 1 :], node.polynomials[half + 1 :])
        return (
            f"({argument} < {node.ends[half]!r} ? {self.branches(argument, below)} : {self.branches(argument, above)})"
        )


@final
class _Matlab(_AbstractSource):
    names: ClassVar = {name: name for name in ("cos", "sin", "tanh", "exp", "log", "abs", "clipped")}

    def assignment(self, target: str, value: str) -> str:
        return f"{target} = {value};"

    def clip(self, argument: str, low: float, high: float) -> str:
        return f"clipped({argument}, {', '.join(repr(end).replace('inf', 'Inf') for end in (low, high))})"

    def within(self, argument: str, low: float, high: float) -> str:
        compared = [f"{argument} {sign} {end!r}" for sign, end in (("<", low), (">=", high)) if np.isfinite(end)]
        return f"double(~({' || '.join(compared)}))"


def _joined_sum(inside: list[_Written]) -> str:
    """a + b - c: a term that begins with a minus is taken away."""
    text = inside[0].text
    for part in inside[1:]:
        minus = part.text.startswith("-")
        text += f" - {part.text[1:]}" if minus else f" + {part.bracketed(_PRODUCT)}"
    return text


def _joined_product(node: Product, inside: list[_Written]) -> str:
    first = node.parts[0]
    minus = isinstance(first, Number) and first.value == -1.0
    factors = inside[1:] if minus else inside
    text = "*".join(factor.bracketed(_PRODUCT if i == 0 else _ATOM) for i, factor in enumerate(factors))
    return f"-{text}" if minus else text
