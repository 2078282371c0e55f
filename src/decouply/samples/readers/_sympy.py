"""SymPy expressions: values and symbolic derivatives, turned into NumPy functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..._support._errors import InputError
from ..._support._messages import short_repr
from ..._support._optional_packages import needed
from .._samples import Samples
from ._frames import usable_names
from ._function import as_filled_points, check_finite_at, first_of


def sample_sympy(expressions: Any, symbols: Any, X: object) -> Samples:
    """See `Samples.from_sympy`."""
    sympy = needed("sympy", "sympy", "`from_sympy`")
    names = _as_symbols(sympy, symbols)
    outputs = _as_expressions(sympy, expressions, names)
    points = as_filled_points(X)
    if points.shape[1] != len(names):
        raise InputError(f"`X` must have {len(names)} columns, one per symbol. Got shape {points.shape}.")
    # Real stand-ins: without them |x| would be differentiated as a function of a complex number.
    real = [sympy.Dummy(f"x{i}", real=True) for i in range(len(names))]
    outputs = [e.xreplace(dict(zip(names, real, strict=True))) for e in outputs]
    derivatives = [sympy.diff(e, x) for e in outputs for x in real]
    S, n = len(points), len(outputs)
    F = _evaluated(sympy, "values", outputs, real, points)
    J = _evaluated(sympy, "derivatives", derivatives, real, points).reshape(S, n, len(real))
    return Samples(points, F=F, J=J, inputs=usable_names([str(symbol) for symbol in names]))


def _as_symbols(sympy: Any, symbols: Any) -> tuple[Any, ...]:
    given = (symbols,) if isinstance(symbols, sympy.Symbol) else symbols
    if not isinstance(given, Sequence) or not given or not all(isinstance(s, sympy.Symbol) for s in given):
        raise InputError(
            f"`symbols` must be SymPy symbols, one per column of `X`, such as sympy.symbols('a b'). "
            f"Got {short_repr(symbols)}."
        )
    if len(set(given)) < len(given):
        raise InputError(f"`symbols` must be different ones. Got {short_repr(symbols)}.")
    return tuple(given)


def _as_expressions(sympy: Any, expressions: Any, symbols: tuple[Any, ...]) -> list[Any]:
    rule = "`expressions` must be SymPy expressions or numbers, one per output"
    if isinstance(expressions, sympy.MatrixBase):
        given = list(expressions)
    else:
        given = list(expressions) if isinstance(expressions, list | tuple) else [expressions]
    if not given:
        raise InputError(f"{rule}. Got none.")
    outputs = []
    for e in given:
        try:
            outputs.append(sympy.sympify(e, strict=True))
        except (sympy.SympifyError, AttributeError) as error:
            raise InputError(
                f"{rule}. Got {short_repr(e)}: texts are not read as formulas, use sympy.sympify."
            ) from error
        if not isinstance(outputs[-1], sympy.Expr):
            raise InputError(f"{rule}. Got {short_repr(e)}.")
    unknown = sorted(set().union(*(e.free_symbols for e in outputs)) - set(symbols), key=str)
    if unknown:
        same_name = {str(s) for s in unknown} & {str(s) for s in symbols}
        hint = f" ({', '.join(sorted(same_name))} is listed with other assumptions)" if same_name else ""
        raise InputError(
            f"`symbols` must list all free symbols of `expressions`. Missing: {', '.join(map(str, unknown))}{hint}."
        )
    return outputs


def _evaluated(
    sympy: Any, what: str, expressions: list[Any], symbols: list[Any], points: Float[ndarray, "S m"]
) -> Float[ndarray, "S k"]:
    """One column per expression; constants are repeated."""
    # SymPy prints numbers with 15 digits, two less than float64 needs.
    exact = [e.xreplace({c: sympy.Float(c, 17) for c in e.atoms(sympy.Float)}) for e in expressions]
    try:
        function = sympy.lambdify(symbols, exact, modules=["scipy", "numpy"], cse=True)
        with np.errstate(all="ignore"):
            columns = [np.broadcast_to(np.asarray(c), len(points)) for c in function(*points.T)]
        table = np.stack(columns, axis=1)
        complex_at = np.abs(table.imag).max(axis=1) > 0.0 if table.dtype.kind == "c" else np.zeros(len(points), bool)
        numbers = table.real.astype(np.float64)
    except (NameError, TypeError, ValueError, AttributeError, SyntaxError, NotImplementedError) as error:
        raise InputError(
            f"`expressions` must have {what} that NumPy or SciPy can compute. {type(error).__name__}: {error}."
        ) from error
    if complex_at.any():
        raise InputError(f"`expressions` must have real {what}. They are complex at {first_of(complex_at, points)}.")
    check_finite_at("expressions", what, numbers, points)
    return numbers
