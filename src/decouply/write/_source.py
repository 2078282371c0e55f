"""A decoupling as source code: plain arithmetic, in Python for numbers and arrays alike, in C99, or in MATLAB.

Functions are computed by the recurrence of their basis at t = (u - middle) / half, which costs no digits on the domain
whatever the degree. Source is written from expression trees, parts of which may be shared: Clenshaw's recurrence uses
each of its steps twice, and the source names what it uses twice.
"""

from __future__ import annotations

import abc
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from ..bases import AbstractAlgebra
from ..model._decoupling import Decoupling
from ..model._names import Name, as_c_comment, label
from ._equations import Equation, Linear, Shown, equations, finite, free_letter, function

_DEEPEST = 40  # brackets within brackets, before a part gets a name
_SUM, _PRODUCT, _ATOM = range(3)  # how firmly a text holds together


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
    said: Sequence[tuple[str, str]],
) -> str:
    """A function f of the inputs; `said` holds identifiers and the names that they stand for."""
    if {name.python for name in x} & {name.python for name in y}:  # inputs are needed until all outputs are known
        own = free_letter("yoq", x)
        y = tuple(Name(own, (i + 1,)) for i in range(len(y)))
    body = _Python(shown, (*x, *y))
    for e in equations(model, x, y, shifted=False, rounded=rounded):
        body.write(e)
    head = [f"# {new}: {label(old)}" for new, old in said]
    # Python looks for the coding of a file in its first comments, where a name could pretend to be one.
    lines = ["# coding: utf-8", *head] if head else []
    imported = [name for name in ("cos", "exp", "log", "sin", "tanh") if name in body.called]
    lines += [f"from numpy import {', '.join(imported)}", ""] if imported else []
    lines += [f"def f({', '.join(name.python for name in x)}):", *body.lines]
    lines.append(f"    return {', '.join(name.python for name in y)}{',' if len(y) == 1 else ''}")
    return "\n".join(lines) + "\n"


def c_source(model: Decoupling, x: tuple[Name, ...], y: tuple[Name, ...], shown: Shown, *, rounded: bool) -> str:
    """A function void f(const double *x, double *y); names are in comments alone."""
    entries = tuple(Name(f"x[{i}]") for i in range(len(x)))
    values = tuple(Name("out", (i + 1,)) for i in range(len(y)))  # y1 is a function of math.h
    body = _C(shown, (*entries, *values))
    for e in equations(model, entries, values, shifted=False, rounded=rounded):
        body.write(e)
    lines = [f"/* {model!r}", ""]
    lines += [f"   {entry.text}: {as_c_comment(name.text)}" for entry, name in zip(entries, x, strict=True)]
    lines += [f"   y[{i}]: {as_c_comment(name.text)}" for i, name in enumerate(y)]
    lines += ["*/", *(["#include <math.h>"] if body.called else []), ""]
    lines += ["void f(const double *x, double *y)", "{", *body.lines]
    # Stored last, so that x and y may be the same memory.
    lines += [f"    y[{i}] = {name.text};" for i, name in enumerate(values)]
    return "\n".join([*lines, "}"]) + "\n"


def matlab_source(model: Decoupling, x: tuple[Name, ...], y: tuple[Name, ...], shown: Shown, *, rounded: bool) -> str:
    """A function y = f(x) of a vector, for MATLAB and Octave; names are in comments alone."""
    entries = tuple(Name(f"x({i + 1})") for i in range(len(x)))
    values = tuple(Name("out", (i + 1,)) for i in range(len(y)))
    body = _Matlab(shown, (*entries, *values))
    for e in equations(model, entries, values, shifted=False, rounded=rounded):
        body.write(e)
    lines = ["function y = f(x)", f"% {model!r}"]
    lines += [f"%   {entry.text}: {label(name.text)}" for entry, name in zip(entries, x, strict=True)]
    lines += [f"%   y({i + 1}): {label(name.text)}" for i, name in enumerate(y)]
    lines += [*body.lines, f"y = [{'; '.join(name.text for name in values)}];", "end"]
    return "\n".join(lines) + "\n"


# Expression trees


@dataclass(frozen=True, eq=False)
class Number:
    value: float
    parts: ClassVar[tuple[Node, ...]] = ()


@dataclass(frozen=True, eq=False)
class Variable:
    text: str
    parts: ClassVar[tuple[Node, ...]] = ()


@dataclass(frozen=True, eq=False)
class Sum:
    parts: tuple[Node, ...]


@dataclass(frozen=True, eq=False)
class Product:
    parts: tuple[Node, ...]


@dataclass(frozen=True, eq=False)
class Call:
    """A function of `bases._algebra.FUNCTIONS`."""

    function: str
    parts: tuple[Node]


@dataclass(frozen=True, eq=False)
class Clip:
    """One of `low` and `high` may be infinite."""

    parts: tuple[Node]
    low: float
    high: float


Node = Number | Variable | Sum | Product | Call | Clip


class TreeAlgebra(AbstractAlgebra[Node]):
    """Trees without terms that are 0 and factors that are 1."""

    def number(self, value: Any) -> Node:
        return Number(finite(value))

    def sum(self, terms: Sequence[Node]) -> Node:
        kept = tuple(term for term in terms if not _is(term, 0.0))
        return Sum(kept) if len(kept) > 1 else (kept or (Number(0.0),))[0]

    def product(self, factors: Sequence[Node]) -> Node:
        if any(_is(factor, 0.0) for factor in factors):
            return Number(0.0)
        kept = tuple(factor for factor in factors if not _is(factor, 1.0))
        return Product(kept) if len(kept) > 1 else (kept or (Number(1.0),))[0]

    def apply(self, function: str, argument: Node) -> Node:
        return Call(function, (argument,))

    def clip(self, argument: Node, low: float, high: float) -> Node:
        return Clip((argument,), float(low), float(high))


def in_order(root: Node) -> list[Node]:
    """All nodes, each once, parts before what they are parts of."""
    found: dict[int, Node] = {}
    waiting = [(root, False)]
    while waiting:  # no recursion: polynomials of high degree are deep
        node, ready = waiting.pop()
        if ready:
            found[id(node)] = node
        elif id(node) not in found:
            waiting.append((node, True))
            waiting += [(part, False) for part in reversed(node.parts)]
    return list(found.values())


def _is(node: Node, value: float) -> bool:
    return isinstance(node, Number) and node.value == value


_ALGEBRA = TreeAlgebra()


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

    def __init__(self, shown: Shown, taken: tuple[Name, ...]) -> None:
        self.lines: list[str] = []
        self.called: set[str] = set()
        self._shown = shown
        self._of_t, self._of_parts = free_letter("tkp", taken), free_letter("bcd", taken)
        self._n_parts = 0

    @abc.abstractmethod
    def assignment(self, target: str, value: str) -> str:
        """A line of the source."""

    @abc.abstractmethod
    def clip(self, argument: str, low: float, high: float) -> str:
        """The argument, a name, moved into [low, high]: in brackets."""

    def write(self, e: Equation) -> None:
        """The lines of an equation."""
        if isinstance(e, Linear):
            terms = [_ALGEBRA.product([_ALGEBRA.number(w), Variable(name.python)]) for w, name in e.terms]
            value = _ALGEBRA.sum([*terms, _ALGEBRA.number(e.constant)])
            self._assign(e.target.python, value, e.extra, like=e.terms[0][1].python)
            return
        t = e.argument.python
        if (e.middle, e.half) != (0.0, 1.0):
            sign, size = "-" if e.middle > 0.0 else "+", self._number(abs(e.middle), e.extra)
            top = f"({t} {sign} {size})" if e.middle else t
            t = Name(self._of_t, e.argument.indices).text
            self.lines.append(self.assignment(t, f"{top}/{self._number(e.half, 0)}"))
        value = function(_ALGEBRA, e.basis, Variable(t), e.c, e.outside)
        self._assign(e.target.python, value, 0, like=t)

    def _assign(self, target: str, root: Node, extra: int, *, like: str) -> None:
        nodes = in_order(root)
        used = Counter(id(part) for node in nodes for part in node.parts)
        clipped = {id(node.parts[0]) for node in nodes if isinstance(node, Clip)}  # these are written several times
        written: dict[int, _Written] = {}
        for node in nodes:
            new = self._written(node, [written[id(part)] for part in node.parts], extra)
            if node.parts and (used[id(node)] > 1 or id(node) in clipped or new.depth > _DEEPEST):
                self._n_parts += 1
                name = f"{self._of_parts}{self._n_parts}"
                self.lines.append(self.assignment(name, new.text))
                new = _Written(name)
            written[id(node)] = new
        text = written[id(root)].text
        # A constant is an array where the variable is one.
        varies = any(isinstance(node, Variable) for node in nodes)
        self.lines.append(self.assignment(target, text if varies else f"{text} + 0.0*{like}"))

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
            called = self.names[node.function]
            self.called.add(called)
            return _Written(f"{called}({inside[0].text})", _ATOM, depth)
        return _Written(self.clip(inside[0].text, node.low, node.high), _ATOM, depth)

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


@final
class _C(_AbstractSource):
    names: ClassVar = {"cos": "cos", "sin": "sin", "tanh": "tanh", "exp": "exp", "log": "log", "abs": "fabs"}

    def assignment(self, target: str, value: str) -> str:
        return f"    const double {target} = {value};"

    def clip(self, argument: str, low: float, high: float) -> str:
        """By comparisons: fmin and fmax would hide what is not a number."""
        text = argument
        for end, beyond in ((high, ">"), (low, "<")):
            text = f"({argument} {beyond} {end!r} ? {end!r} : {text})" if np.isfinite(end) else text
        return text


@final
class _Matlab(_AbstractSource):
    names: ClassVar = {name: name for name in ("cos", "sin", "tanh", "exp", "log", "abs")}

    def assignment(self, target: str, value: str) -> str:
        return f"{target} = {value};"

    def clip(self, argument: str, low: float, high: float) -> str:
        text = argument
        for end, called in ((low, "max"), (high, "min")):
            text = f"{called}({text}, {end!r})" if np.isfinite(end) else text
        return text


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
