"""Systems whose decoupling is known: the paper's f1, f2, f3, and random ones by the same recipe."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ._support._arguments import as_counts, as_generator, is_word
from ._support._errors import InputError, short_repr
from .bases import Monomial
from .model._decoupling import Decoupling
from .model._functions import Functions

__all__ = ["f1", "f2", "f3", "random_system"]

Angles = Literal["absolute", "signed"]
_COLLINEARITY = 0.5
# How many lines, or directions, with angles above 60 degrees there are in 1, 2 and 3 dimensions.
_ROOM: dict[Angles, dict[int, int]] = {"absolute": {1: 1, 2: 2, 3: 6}, "signed": {1: 2, 2: 5, 3: 11}}
_MOST, _WIDEST = 1000, 10_000  # degrees and widths: more take for ever to draw
_TRIES = 1000
_RESTARTS = 30


def f1() -> Decoupling:
    """The paper's system f1: two inputs, two outputs, ranks (2, 2), degrees (5, 2).

    Returns
    -------
    Decoupling
        The system itself, with its weights and functions.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> dc.systems.f1()
    Decoupling(2 inputs → 2 polynomials of degree 5 → 2 polynomials of degree 2 → 2 outputs, 28 parameters)
    >>> dc.systems.f1()(np.array([[0.5, -0.5]])).shape
    (1, 2)
    """
    return _system(
        [[[1.72, -0.73], [-1.26, -1.18]], [[0.87, -0.99], [-1.42, 0.9]], [[1.61, -1.9], [-0.03, 0.11]]],
        [
            [[0, 0.58, -2.69, 2.37, 1.37, 1.91], [0, 0, 1.86, -2.42, -1.69, -1.45]],
            [[-0.19, -0.24, 1.26], [-1.93, 0.19, -1.99]],
        ],
    )


def f2() -> Decoupling:
    """The paper's system f2: three inputs, three outputs, ranks (2, 2), degrees (3, 3).

    Returns
    -------
    Decoupling
        The system itself, with its weights and functions.

    Examples
    --------
    >>> import decouply as dc
    >>> dc.systems.f2()
    Decoupling(3 inputs → 2 polynomials of degree 3 → 2 polynomials of degree 3 → 3 outputs, 30 parameters)
    """
    return _system(
        [
            [[1.08, 1.71, 0.44], [-1.4, -0.04, -0.49]],
            [[0.21, -0.94], [-1.12, 0.56]],
            [[-0.59, 0.86], [0.02, -1.1], [-1.02, 1.17]],
        ],
        [[[0, -0.03, 2.49, 2.67], [0, 0.2, -1.49, 1.33]], [[-0.8, -0.01, -1.64, -0.88], [0.91, -1.12, -1.61, 1.69]]],
    )


def f3() -> Decoupling:
    """The paper's system f3: four inputs, three outputs, ranks (3, 2), degrees (3, 4).

    Returns
    -------
    Decoupling
        The system itself, with its weights and functions.

    Examples
    --------
    >>> import decouply as dc
    >>> dc.systems.f3()
    Decoupling(4 inputs → 3 polynomials of degree 3 → 2 polynomials of degree 4 → 3 outputs, 43 parameters)
    """
    return _system(
        [
            [[-1.43, 0.06, 0.76, 1.43], [0.59, 0.33, 0.84, -0.99], [1.6, -0.23, -1.92, 1.84]],
            [[1.49, -1.05, -1], [0.78, -1.29, 0.62]],
            [[1.05, -1.11], [-0.95, -0.17], [-1, 0.27]],
        ],
        [
            [[0, 2.08, -0.73, -0.41], [0, 2, -0.77, -2.76], [0, 0.33, -0.29, 1.35]],
            [[-0.73, 2.04, -0.18, 0.38, 0.97], [-0.23, 0.74, -1.67, 1.4, -0.71]],
        ],
    )


def random_system(
    dims: tuple[int, ...],
    degrees: tuple[int, ...],
    *,
    angles: Angles = "absolute",
    rng: int | np.random.Generator = 0,
) -> Decoupling:
    """A random polynomial system by the recipe of the paper's appendix, for any number of layers.

    Entries of the first and last linear layer are uniform in [-2, 2], of the others in [-1.5, 1.5]; coefficients are
    uniform in [-3, 3]; inner constants are 0. The cosine between any two columns of a linear layer stays below 0.5.
    If this many columns do not fit into so few dimensions, the bound is put on the rows instead.

    Parameters
    ----------
    dims : tuple of int
        Widths (m, r_1, ..., r_L, n) from input to output.
    degrees : tuple of int
        (d_1, ..., d_L).
    angles : "absolute" or "signed"
        "signed" bounds the cosine itself, as the paper's formula is printed. Columns that point in opposite directions
        pass, and W_1 of f1 has a cosine of -0.96. With "absolute" the bound is on the absolute value, so that no two
        functions see nearly the same line. Three lines in a plane already do not fit.
    rng : int or numpy Generator
        Seed or generator.

    Returns
    -------
    Decoupling
        A system with known weights and functions.

    Examples
    --------
    >>> import decouply as dc
    >>> dc.systems.random_system((4, 3, 3, 4), (3, 3), rng=1)
    Decoupling(4 inputs → 3 polynomials of degree 3 → 3 polynomials of degree 3 → 4 outputs, 54 parameters)
    """
    widths, powers = as_counts("dims", dims, most=_WIDEST), as_counts("degrees", degrees, most=_MOST)
    if len(widths) != len(powers) + 2:
        raise InputError(
            f"`dims` must hold the input width, one rank per layer and the output width: {len(powers) + 2} numbers for "
            f"{len(powers)} degrees. Got {len(widths)}."
        )
    if not is_word(angles, ("absolute", "signed")):
        raise InputError(f'`angles` must be "absolute" or "signed". Got {short_repr(angles)}.')
    generator = as_generator(rng)
    n_linear = len(widths) - 1
    W = []
    for l, (columns, rows) in enumerate(pairwise(widths)):
        bound = 2.0 if l in (0, n_linear - 1) else 1.5
        W.append(_spread_matrix(generator, rows, columns, bound, angles))
    C = []
    for l, (rank, degree) in enumerate(zip(widths[1:-1], powers, strict=True)):
        c = generator.uniform(-3.0, 3.0, (rank, 1 + degree))
        if l < len(powers) - 1:
            c[:, 0] = 0.0
        C.append(c)
    return _system(W, C)


def _system(W: Sequence[Any], C: Sequence[Any]) -> Decoupling:
    coefficients = [np.asarray(c, dtype=float) for c in C]
    return Decoupling(W, [Functions(Monomial(c.shape[1] - 1), c) for c in coefficients])


def _spread_matrix(
    rng: np.random.Generator, rows: int, columns: int, bound: float, angles: Angles
) -> Float[ndarray, "rows columns"]:
    if columns <= _ROOM[angles].get(rows, columns):
        W = _spread_columns(rng, rows, columns, bound, angles)
        if W is not None:
            return W
    W = _spread_columns(rng, columns, rows, bound, angles)
    if W is None:
        raise InputError(
            f"`dims` must leave room for a {rows} x {columns} layer with cosines below {_COLLINEARITY} between its "
            "columns, or its rows. None was found: use layers of more equal width."
        )
    return W.T


def _spread_columns(rng: np.random.Generator, rows: int, columns: int, bound: float, angles: Angles) -> ndarray | None:
    """Draw column after column, each until it fits the ones before it; start again when one does not find a place."""
    for _ in range(_RESTARTS):
        W = np.empty((rows, 0))
        for _ in range(_TRIES):
            candidate = np.column_stack([W, rng.uniform(-bound, bound, rows)])
            if _collinearity(candidate, angles) < _COLLINEARITY:
                W = candidate
                if W.shape[1] == columns:
                    return W
    return None


def _collinearity(W: ndarray, angles: Angles) -> float:
    """The largest (absolute) cosine between two columns; -1 if there is one column."""
    directions = W / np.linalg.norm(W, axis=0)
    cosines = directions.T @ directions
    if angles == "absolute":
        cosines = np.abs(cosines)
    return float(np.max(cosines, where=~np.eye(len(cosines), dtype=bool), initial=-1.0))
