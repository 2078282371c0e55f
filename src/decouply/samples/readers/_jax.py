"""JAX functions: values by `vmap`, Jacobians by `jacrev` or `jacfwd`, whichever is cheaper, compiled, in float64."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from numpy import ndarray

from ..._support._errors import DecouplingWarning, InputError
from ..._support._optional_packages import needed
from .._samples import Samples
from ._function import as_filled_points, check_finite_at

_ENTRIES = 4_000_000  # of Jacobians at a time


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
        step = max(1, _ENTRIES // (n * m))
        parts = [_called(jax, both, points[first : first + step]) for first in range(0, len(points), step)]
    F, J = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    check_finite_at("f", "values", F, points)
    check_finite_at("f", "derivatives", J, points)
    return Samples(points, F=F, J=J)


def _per_point(jax: Any, f: Callable[..., Any], m: int) -> tuple[Callable[..., Any], int, np.dtype[Any]]:
    """The function as one from (m,) to (n,), whichever of the two kinds it is."""
    rule = f"`f` must map one point ({m},) to (n,), or points (S, {m}) to (S, n)"
    complaints = []
    for shape, of_one in (((m,), f), ((1, m), lambda x: f(x[None])[0])):
        try:
            found = jax.eval_shape(f, jax.ShapeDtypeStruct(shape, np.float64))
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


def _called(jax: Any, both: Callable[..., Any], points: ndarray) -> tuple[ndarray, ndarray]:
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
