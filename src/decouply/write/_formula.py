"""The door to all kinds of formulas: names are checked here, and each kind is written in a file of its own."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal

from .._support._arguments import is_word
from .._support._errors import InputError, short_repr
from ..model._decoupling import Decoupling
from ..model._names import RESERVED, Name, is_python_name, label, names, python_names
from ._equations import rounding
from ._readable_formula import READ, reading
from ._source import c_source, matlab_source, python_source
from ._sympy import sympy_expressions

Kind = Literal["text", "html", "latex", "python", "c", "matlab", "sympy"]
KINDS = (*READ, "python", "c", "matlab", "sympy")
_DIGITS = 4  # for reading


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
        return reading(model, x, y, kind, rounding(_DIGITS if digits is None else digits))
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
