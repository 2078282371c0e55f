r"""Samples of a function that is given as code: Python, SymPy, JAX, or the kernels of a Volterra series.

Points go in; real and finite numbers must come out. Jacobians come from a complex step or central differences (Python),
symbolic derivatives (SymPy), or `jacrev` and `jacfwd`, whichever is cheaper, compiled, in float64 (JAX). A Volterra
series with finite memory,

    f_i(x) = h_0 + \sum_d \sum_{k_1 \dots k_d} h_d[i, k_1, \dots, k_d]\, x_{k_1} \cdots x_{k_d},

is a polynomial of the last m inputs of a system, newest first, so its Jacobian is exact. A single-layer decoupling of
it is a parallel Wiener model: the rows of W_0 are filters, the functions static.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from ..._support._arguments import as_array, is_word, read_array
from ..._support._errors import DecouplingWarning, InputError, as_errors, short_repr, warn
from ..._support._optional_packages import needed
from ...model._names import usable_names
from .._samples import Differences, Samples, VectorFunction

_CHECKED_POINTS = 30
_SHAPES = "`f` must map an array of shape (S, m) to one of shape (S, n)"
_OF_ONE_POINT = "If it takes one point, give `lambda X: np.array([np.ravel(f(x)) for x in X])`."


def sample_function(f: VectorFunction, X: object, jac: VectorFunction | Differences | None) -> Samples:
    """See `Samples.from_function`."""
    if not callable(f):
        raise InputError(f"`f` must be a function that maps (S, m) to (S, n). Got {short_repr(f)}.")
    points = as_filled_points(X)
    try:
        F = _values(f, points)
    except (TypeError, ValueError, IndexError) as error:  # of a user's function, which is told what it was given
        if not isinstance(error, InputError):
            error.add_note(f"{_SHAPES}. {_OF_ONE_POINT}")
        raise
    if callable(jac):
        return Samples(points, F=F, J=jac(points))
    if is_word(jac, ("central",)):
        return Samples(points, F=F, J=_central(f, points))
    if is_word(jac, ("complex-step",)):
        return Samples(points, F=F, J=_complex_step(f, points))
    if jac is not None:
        raise InputError(f'`jac` must be a function, "complex-step" or "central". Got {short_repr(jac)}.')
    checked = points[:: -(-len(points) // _CHECKED_POINTS)]
    central = _central(f, checked)
    try:
        with as_errors(np.exceptions.ComplexWarning):
            tolerance = 1e-6 * float(np.max(np.abs(central), initial=0.0))
            agrees = np.allclose(_complex_step(f, checked), central, rtol=1e-6, atol=tolerance)
            reason = "its complex step disagrees with central differences"
    except Exception as error:  # whatever a user's function does when it meets complex numbers
        agrees, reason = False, f"it does not take complex numbers ({error})"
    if agrees:
        return Samples(points, F=F, J=_complex_step(f, points))
    warn(
        f'The Jacobian of `f` is taken by central differences: {reason}. Give `jac="central"` to accept this, or '
        "a function for exact Jacobians.",
        stacklevel=3,
    )
    return Samples(points, F=F, J=_central(f, points))


def _values(f: VectorFunction, X: ndarray) -> ndarray:
    values = np.array(read_array(_SHAPES, f(X)))  # f may use it again
    if values.dtype.kind in "biu":  # differences of these are none, or wrap around
        values = values.astype(np.float64)
    if values.ndim != 2 or values.shape[0] != X.shape[0]:
        raise InputError(f"{_SHAPES}. Got {values.shape} for {X.shape}. {_OF_ONE_POINT}")
    return values


def _complex_step(f: VectorFunction, X: ndarray, step: float = 1e-20) -> ndarray:
    columns = []
    for j in range(X.shape[1]):
        moved = X.astype(complex)
        moved[:, j] += 1j * step
        columns.append(np.imag(_values(f, moved)) / step)
    return np.stack(columns, axis=-1)


def _central(f: VectorFunction, X: ndarray) -> ndarray:
    """Fourth-order central differences; the step balances truncation against rounding."""
    columns = []
    for j in range(X.shape[1]):
        h = np.zeros_like(X)
        h[:, j] = np.finfo(float).eps ** 0.2 * np.maximum(1.0, np.abs(X[:, j]))
        at = [_values(f, X + k * h) for k in (1, -1, 2, -2)]
        with np.errstate(all="ignore"):  # what is not finite is told by `Samples`
            columns.append((8 * (at[0] - at[1]) - (at[2] - at[3])) / (12 * h[:, j : j + 1]))
    return np.stack(columns, axis=-1)


def as_filled_points(X: object) -> Float[ndarray, "S m"]:
    points = as_array("X", X, ("S", "m"))
    if points.size == 0:
        raise InputError(f"`X` must hold at least one point with at least one coordinate. Got shape {points.shape}.")
    return points


def check_finite_at(name: str, what: str, values: ndarray, points: Float[ndarray, "S m"]) -> None:
    """Name the first point where a value or derivative is NaN or infinite."""
    bad = ~np.isfinite(values.reshape(len(points), -1)).all(axis=1)
    if bad.any():
        raise InputError(
            f"`{name}` must have finite {what} at all points. NaN or infinity at {first_of(bad, points)}: leave such "
            "points out."
        )


def first_of(bad: Bool[ndarray, " S"], points: Float[ndarray, "S m"]) -> str:
    """How many points are bad, and which is the first."""
    s = int(np.argmax(bad))
    first = np.array2string(points[s], precision=6, threshold=8)
    return f"{int(np.count_nonzero(bad))} of {len(points)} points, the first is X[{s}] = {first}"


_LETTERS = "abcdefgh"


def samples_of_volterra(kernels: Sequence[object], X: object) -> Samples:
    """Values and Jacobians of the series with these kernels at the points X; see `Samples.from_volterra`."""
    points = as_array("X", X, ("S", "m"))
    if isinstance(kernels, ndarray | str) or not isinstance(kernels, Sequence) or len(kernels) < 2:
        raise InputError("`kernels` must be a list [h_0, h_1, ..., h_D] with at least two kernels.")
    if len(kernels) > len(_LETTERS) + 1:
        raise InputError(f"`kernels` must go up to order {len(_LETTERS)}. Got order {len(kernels) - 1}.")
    constants = as_array("kernels[0]", np.atleast_1d(np.asarray(kernels[0])), ("n",))
    n, m = len(constants), points.shape[1]
    F = np.tile(constants, (len(points), 1))
    J = np.zeros((len(points), n, m))
    for order, kernel in enumerate(kernels[1:], start=1):
        h = _kernel(order, kernel, n, m)
        axes = _LETTERS[:order]
        for k in range(order):  # the derivative by each factor in turn: kernels need not be symmetric
            others = ",".join(f"z{axis}" for axis in axes if axis != axes[k])
            J += np.einsum(
                f"y{axes},{others}->zy{axes[k]}" if others else f"y{axes}->y{axes}", h, *[points] * (order - 1)
            )
        F += np.einsum(f"y{axes},{','.join('z' + axis for axis in axes)}->zy", h, *[points] * order)
    return Samples(points, F=F, J=J)


def _kernel(order: int, kernel: object, n: int, m: int) -> ndarray:
    """A kernel with its axis of outputs, which may be left out where there is one output."""
    shape = (n, *[m] * order)
    given = read_array(f"`kernels[{order}]` must have shape {shape}: outputs, then {order} lags", kernel)
    if given.ndim == order and n == 1:
        given = given[None]
    h = as_array(f"kernels[{order}]", given, ("n", *["m"] * order))
    if h.shape != shape:
        raise InputError(f"`kernels[{order}]` must have shape {shape}: outputs, then {order} lags. Got {h.shape}.")
    return h


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
    F = _evaluate_expressions(sympy, "values", outputs, real, points)
    J = _evaluate_expressions(sympy, "derivatives", derivatives, real, points).reshape(S, n, len(real))
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
        except Exception as error:  # whatever a foreign object does when SymPy asks it for its parts
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


def _evaluate_expressions(
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
    except (
        ArithmeticError,
        NameError,
        TypeError,
        ValueError,
        AttributeError,
        SyntaxError,
        NotImplementedError,
    ) as error:
        raise InputError(
            f"`expressions` must have {what} that NumPy or SciPy can compute. {type(error).__name__}: {error}."
        ) from error
    if complex_at.any():
        raise InputError(f"`expressions` must have real {what}. They are complex at {first_of(complex_at, points)}.")
    check_finite_at("expressions", what, numbers, points)
    return numbers


_JACOBIAN_ENTRIES_AT_ONCE = 4_000_000  # of Jacobians at a time


def sample_jax(f: Callable[..., Any], X: object) -> Samples:
    """See `Samples.from_jax`."""
    jax = needed("jax", "jax", "`from_jax`")
    if not callable(f):
        raise InputError(f"`f` must be a function of JAX arrays. Got {type(f).__name__}.")
    points = as_filled_points(X)
    with _float64(jax):
        of_one, n, dtype = _per_point(jax, f, points.shape[1])
        if dtype != np.float64:
            warnings.warn(
                f"`f` returns {dtype}: its values and Jacobians have fewer digits than float64. Leave out casts in it.",
                DecouplingWarning,
                stacklevel=3,
            )
        m = points.shape[1]
        derivative = (jax.jacrev if n <= m else jax.jacfwd)(of_one)
        both = jax.jit(jax.vmap(lambda x: (of_one(x), derivative(x))))
        step = max(1, _JACOBIAN_ENTRIES_AT_ONCE // (n * m))
        parts = [
            _values_and_jacobians(jax, both, points[first : first + step]) for first in range(0, len(points), step)
        ]
    F, J = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    check_finite_at("f", "values", F, points)
    check_finite_at("f", "derivatives", J, points)
    return Samples(points, F=F, J=J)


def _per_point(jax: Any, f: Callable[..., Any], m: int) -> tuple[Callable[..., Any], int, np.dtype[Any]]:
    """The function as one from (m,) to (n,), whichever of the two kinds it is."""
    rule = f"`f` must map one point ({m},) to (n,), or points (S, {m}) to (S, n)"
    complaints = []
    for shape, of_one in (((m,), lambda x: f(x)), ((1, m), lambda x: f(x[None])[0])):
        try:  # `f` in a function of ours: JAX itself ends the interpreter if it is given a ufunc of NumPy
            found = jax.eval_shape(lambda x: f(x), jax.ShapeDtypeStruct(shape, np.float64))
        except Exception as error:  # whatever a user's function does when it meets an array of another shape
            complaints.append(f"for {shape}: {type(error).__name__}: {str(error).strip().splitlines()[0]}")
            continue
        if not hasattr(found, "shape"):
            complaints.append(f"for {shape}: a {type(found).__name__} instead of one array")
        elif found.ndim > len(shape) or (len(shape) == 2 and (found.ndim == 0 or found.shape[0] != 1)):
            complaints.append(f"for {shape}: an array of shape {found.shape}")
        elif not np.issubdtype(found.dtype, np.floating):
            complaints.append(f"for {shape}: entries of type {found.dtype}, which have no derivatives")
        elif (n := int(np.prod(found.shape))) == 0:
            complaints.append(f"for {shape}: no outputs")
        else:
            return (lambda x, g=of_one: jax.numpy.reshape(g(x), (n,))), n, np.dtype(found.dtype)
    raise InputError(f"{rule}. Got {'; '.join(complaints)}.")


def _values_and_jacobians(jax: Any, both: Callable[..., Any], points: ndarray) -> tuple[ndarray, ndarray]:
    try:
        values, jacobians = both(jax.numpy.asarray(points))
    except (TypeError, ValueError, NotImplementedError, jax.errors.JAXTypeError) as error:
        raise InputError(
            f"`f` must be differentiable by JAX, and work under jax.vmap. {type(error).__name__}: "
            f"{str(error).strip().splitlines()[0]}"
        ) from error
    return np.asarray(values, dtype=np.float64), np.asarray(jacobians, dtype=np.float64)


def _float64(jax: Any) -> AbstractContextManager[Any]:
    """A context in which JAX has double precision; afterwards its setting is what it was."""
    if not hasattr(jax, "enable_x64"):  # older versions of JAX
        jax = needed("jax.experimental", "jax", "`from_jax`")
    return jax.enable_x64(True)
