r"""A decoupling written out: as text, as HTML, as LaTeX, as Python source, as SymPy expressions.

All of them come from one list of equations, each a linear combination or a univariate function:

    u_l = W_(l-1) z_(l-1),   z_l = g_l(u_l),   y = W_L z_L.

The Python source is plain arithmetic on its arguments, so it takes floats and arrays alike.
"""

from __future__ import annotations

import dataclasses
import unicodedata
from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import count
from typing import Any, Literal

import numpy as np

from .._support._checks import as_count
from .._support._errors import InputError
from ..bases import AbstractBasis, AbstractPolynomialBasis, Trigonometric
from ..model._decoupling import Decoupling
from ..model._names import Name, is_python_name, label, names

Kind = Literal["text", "html", "latex", "python", "sympy"]
KINDS = ("text", "html", "latex", "python", "sympy")
_NOISE = 1e-15  # coefficients that are so much smaller than others of their sum are left out of rounded formulas


@dataclass(frozen=True)
class Linear:
    """target = sum of coefficient times variable."""

    target: Name
    terms: tuple[tuple[float, Name], ...]


@dataclass(frozen=True)
class Univariate:
    """target = g(argument), with coefficients c, constant first, in a known basis."""

    target: Name
    argument: Name
    wave: bool
    c: tuple[float, ...]


Equation = Linear | Univariate
Shown = Callable[[float], str]


def formula(
    model: Decoupling,
    kind: Kind = "text",
    *,
    inputs: Collection[str] | None = None,
    outputs: Collection[str] | None = None,
    digits: int | None = None,
) -> Any:
    """Write `model` out; see `Decoupling.formula`."""
    if kind not in KINDS:
        raise InputError(f"`kind` must be one of {', '.join(KINDS)}. Got {kind!r}.")
    x = names("inputs", inputs, "x", model.n_inputs)
    y = names("outputs", outputs, "y", model.n_outputs)
    if kind in ("python", "sympy"):
        for name in (*x, *y):
            if not is_python_name(name.python):
                raise InputError(
                    "`inputs` and `outputs` must be Python names for this, other than f, cos and sin. Got "
                    f"{label(name.given)!r}: give others with `inputs=` and `outputs=`."
                )
    exact = digits is None and kind in ("python", "sympy")
    shown = repr if exact else _rounding(digits)
    equations = _equations(model, x, y)
    if not exact:
        equations = [_without_noise(e) for e in equations]
    if kind == "text":
        return "\n".join(_text(e, shown) for e in equations)
    if kind == "html":
        return "\n".join(f"<div>{_html(e, shown)}</div>" for e in equations)
    if kind == "latex":
        rows = " \\\\\n".join(_latex(e, shown) for e in equations)
        return f"\\begin{{aligned}}\n{rows}\n\\end{{aligned}}"
    if kind == "python":
        return _python(equations, x, y, shown)
    return _sympy(formula(model, "python", digits=digits), x)


def compiled(source: str) -> Callable[..., Any]:
    """The function f of a Python source of ours."""
    # What we compile, here and in `_sympy`, is made of numbers and of our own identifiers x1, u1, ... alone: names of
    # users and files have no place in it.
    space: dict[str, Any] = {}
    exec(compile(source, "<formula>", "exec"), space)
    function: Callable[..., Any] = space["f"]
    return function


def has_formula(model: Decoupling) -> bool:
    """Whether all bases are ones that can be written out."""
    known = AbstractPolynomialBasis | Trigonometric
    return all(isinstance(basis, known) for g in model.g for basis in g.layer.bases)


# Equations


def _equations(model: Decoupling, x: tuple[Name, ...], y: tuple[Name, ...]) -> list[Equation]:
    found: list[Equation] = []
    taken = [unicodedata.normalize("NFKC", text) for name in (*x, *y) for text in (name.text, name.python)]
    of_u, of_z = _free_letter("uvs", taken), _free_letter("zwh", taken)
    entering = x
    for l, (W, g) in enumerate(zip(model.W[:-1], model.g, strict=True), start=1):
        prefix = (l,) if model.n_layers > 1 else ()
        u = tuple(Name(of_u, (*prefix, j + 1)) for j in range(g.rank))
        z = tuple(Name(of_z, (*prefix, j + 1)) for j in range(g.rank))
        found += [_combination(name, row, entering) for name, row in zip(u, W, strict=True)]
        for j, basis in enumerate(g.layer.bases):
            c, wave = written_out(basis, g.C[j, : 1 + basis.size])
            found.append(Univariate(z[j], u[j], wave, c))
        entering = z
    return found + [_combination(name, row, entering) for name, row in zip(y, model.W[-1], strict=True)]


def _free_letter(letters: str, taken: list[str]) -> str:
    """A beginning for our own variables that no name of the user has."""
    candidates = (letter * k for k in count(1) for letter in letters)
    return next(c for c in candidates if not any(name.startswith(c) for name in taken))


def _combination(target: Name, row: np.ndarray, names: tuple[Name, ...]) -> Linear:
    return Linear(target, tuple((float(w), name) for w, name in zip(row, names, strict=True)))


def written_out(basis: AbstractBasis, c: np.ndarray) -> tuple[tuple[float, ...], bool]:
    """Coefficients over 1, u, u^2, ..., or over 1, cos u, sin u, cos 2u, ..."""
    if isinstance(basis, AbstractPolynomialBasis):
        return tuple(float(v) for v in (c[0], *(c[1:] @ basis.to_monomials()))), False
    if isinstance(basis, Trigonometric):
        return tuple(float(v) for v in c), True
    raise InputError(
        f"The model must use polynomial or trigonometric bases to be written as a formula. Got {type(basis).__name__}."
    )


# Rendering


def _without_noise(e: Equation) -> Equation:
    """Coefficients that are nothing but rounding, beside the largest of their sum, are 0."""
    if isinstance(e, Univariate):
        least = _NOISE * max(abs(c) for c in e.c)
        return dataclasses.replace(e, c=tuple(c if abs(c) > least else 0.0 for c in e.c))
    least = _NOISE * max(abs(w) for w, _ in e.terms)
    return dataclasses.replace(e, terms=tuple((w if abs(w) > least else 0.0, name) for w, name in e.terms))


def _rounding(digits: int | None) -> Shown:
    places = 4 if digits is None else as_count("digits", digits)
    return lambda value: f"{value:.{places}g}"


def _sum(
    parts: list[tuple[float, str]], shown: Shown, times: str, written: Callable[[str], str] = str, minus: str = "-"
) -> str:
    """c_1 a + c_2 b - ...: signs between the terms, terms whose coefficient rounds to 0 left out."""
    text = ""
    for value, factor in parts:
        size = shown(abs(value))
        if float(size) == 0.0:
            continue
        number = written(size)
        term = number if not factor else (factor if float(size) == 1.0 else f"{number}{times}{factor}")
        negative = value < 0.0
        text += f" {minus if negative else '+'} {term}" if text else f"{minus if negative else ''}{term}"
    return text or "0"


def _text(e: Equation, shown: Shown) -> str:
    if isinstance(e, Linear):
        parts = [(w, name.text) for w, name in e.terms]
    else:
        parts = list(zip(e.c, _factors(e, e.argument.text, "{u}^{k}", "{f}({k}{u})", " "), strict=True))
    return f"{e.target.text} = {_sum(parts, shown, ' ')}"


def _html(e: Equation, shown: Shown) -> str:
    def written(size: str) -> str:
        mantissa, _, exponent = size.partition("e")
        power = exponent and str(int(exponent)).replace("-", "−")
        return f"{mantissa}·10<sup>{power}</sup>" if exponent else mantissa

    if isinstance(e, Linear):
        parts = [(w, name.html) for w, name in e.terms]
    else:
        powers = _factors(e, e.argument.html, "{u}<sup>{k}</sup>", "{f}({k}{u})", " ")
        parts = list(zip(e.c, powers, strict=True))
    return f"{e.target.html} = {_sum(parts, shown, ' ', written, '−')}"


def _latex(e: Equation, shown: Shown) -> str:
    def written(size: str) -> str:
        mantissa, _, exponent = size.partition("e")
        return f"{mantissa} \\cdot 10^{{{int(exponent)}}}" if exponent else mantissa

    if isinstance(e, Linear):
        parts = [(w, name.latex) for w, name in e.terms]
    else:
        parts = list(zip(e.c, _factors(e, e.argument.latex, "{u}^{{{k}}}", "\\{f}({k}{u})", "\\,"), strict=True))
    value = _sum(parts, shown, "\\,", written)
    return f"{e.target.latex} &= {value}"


def _factors(e: Univariate, u: str, power: str, wave: str, times: str) -> list[str]:
    """What the coefficients of e multiply; the factor of the constant is empty."""
    if not e.wave:
        return ["", u] + [power.format(u=u, k=k) for k in range(2, len(e.c))]
    found = [""]
    for i in range(1, len(e.c)):
        k = (i + 1) // 2
        found.append(wave.format(f="cos" if i % 2 else "sin", k="" if k == 1 else f"{k}{times}", u=u))
    return found


def _python(equations: list[Equation], x: tuple[Name, ...], y: tuple[Name, ...], shown: Shown) -> str:
    waves = any(isinstance(e, Univariate) and e.wave for e in equations)
    lines = ["from numpy import cos, sin", ""] if waves else []
    lines.append(f"def f({', '.join(name.python for name in x)}):")
    for e in equations:
        if isinstance(e, Linear):
            value = _sum([(w, name.python) for w, name in e.terms], shown, "*")
            value = f"0.0*{e.terms[0][1].python}" if value == "0" else value  # an array, if the inputs are arrays
        elif e.wave:
            value = _sum(
                list(zip(e.c, _factors(e, e.argument.python, "", "{f}({k}{u})", "*"), strict=True)), shown, "*"
            )
            value = value if e.argument.python in value else f"{value} + 0.0*{e.argument.python}"
        else:
            value = _horner(e, shown)
        lines.append(f"    {e.target.python} = {value}")
    lines.append(f"    return {', '.join(name.python for name in y)}{',' if len(y) == 1 else ''}")
    return "\n".join(lines) + "\n"


def _horner(e: Univariate, shown: Shown) -> str:
    value = shown(e.c[-1])
    for c in reversed(e.c[:-1]):
        value = f"{shown(c)} + {e.argument.python}*({value})" if c else f"{e.argument.python}*({value})"
    return value


def _sympy(source: str, x: tuple[Name, ...]) -> Any:
    try:
        import sympy
    except ImportError as error:
        raise InputError("`kind` must not be 'sympy' unless SymPy is installed: pip install sympy.") from error
    space: dict[str, Any] = {"cos": sympy.cos, "sin": sympy.sin}
    exec(compile(source.removeprefix("from numpy import cos, sin"), "<formula>", "exec"), space)
    return space["f"](*(sympy.Symbol(name.text) for name in x))
