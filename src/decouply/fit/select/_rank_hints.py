r"""What samples tell of ranks and degrees before anything is fitted.

J_s = W_L D_L^(s) ... D_1^(s) W_0, so all rows of all Jacobians lie in the row space of W_0, and all columns in the
column space of W_L. No single Jacobian has a rank above the narrowest layer. With one layer all of them are
combinations of r_1 matrices. Every number is a lower bound; if a rank is below the number of inputs or outputs, it is
usually the rank of the layer.

Layers of polynomials may meet samples to machine precision. A decoupling with degrees d_1, ..., d_L is a polynomial of
total degree D = d_1 ... d_L in its inputs. A linear least squares problem finds D, as long as there are more numbers
than such polynomials have coefficients. That leaves few degrees to try, and the derivatives of the polynomial are exact
Jacobians: their singular values bound the ranks from below, and algebra reads the layers from them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ...bases import Monomial
from ...model._decoupling import Decoupling
from ...samples._duplicates import without_copies
from ...samples._samples import Samples
from ...solvers.initial._multivariate_polynomials import Polynomials, box_of, n_products
from ...solvers.problem._problem import ModelShape
from .._settings import layer_bases
from ._candidates import Shape

_SINGULAR_VALUE_OF_ROUNDING = 1e-12  # of the largest
_CLEAR = 1.5  # a singular value counts if it is so many times what noise could be
_MAX_DEGREE = 12  # of the polynomial in all inputs: smooth functions are close to one of a higher degree
_MAX_COEFFICIENTS = 1500  # of that polynomial: the least squares problem takes a second
_NUMBERS_PER_COEFFICIENT = 1.3  # at least: with fewer, anything is a polynomial
_OF_ROUNDING = 1e3  # times the rounding of the data: the least squares problem has lost some digits
_MORE_FUNCTIONS = {1: 3, 2: 1}  # than the singular values ask for are tried in every layer, by the number of layers
_UNKNOWN_DEGREE = 5  # of every layer, if the samples are too few to find D
_MOST_SHAPES = 16
_NO_TERM = 1e-8  # of the largest coefficient of its function: a term that is not there


# Singular values of unfoldings


@dataclass(frozen=True)
class Unfolding:
    """Singular values of one unfolding of the Jacobian tensor, relative to the largest, and how many of them count."""

    name: str
    meaning: str
    singular_values: Float[ndarray, " k"]
    rank: int

    def __str__(self) -> str:
        shown = ", ".join(f"{value:.1g}" for value in self.singular_values[:6])
        more = ", ..." if len(self.singular_values) > 6 else ""
        return (
            f"{self.name}: {self.rank} of {len(self.singular_values)} ({shown}{more}), so {self.meaning} ≥ {self.rank}"
        )


@dataclass(frozen=True)
class Hints:
    """Lower bounds of ranks from the singular values of unfoldings; empty if there are no Jacobians."""

    unfoldings: tuple[Unfolding, ...]

    def least_ranks(self, n_layers: int) -> tuple[int, ...] | None:
        """The smallest ranks of a model with this many layers that these singular values allow."""
        if not self.unfoldings:
            return None
        rows, columns, slices, single = (unfolding.rank for unfolding in self.unfoldings)
        if n_layers == 1:
            return (max(rows, columns, slices),)
        return (rows, *[single] * (n_layers - 2), columns)

    def __str__(self) -> str:
        if not self.unfoldings:
            return "Without Jacobians there are no singular values to look at."
        return "\n".join(str(unfolding) for unfolding in self.unfoldings)


def hints_of(samples: Samples) -> Hints:
    """Singular values of the three unfoldings, and of the single Jacobians."""
    J = samples.J
    if J is None:
        return Hints(())
    assert isinstance(J, ndarray)
    S, n, m = J.shape
    tables = (
        ("rows of the Jacobians", "r_1", J.reshape(S * n, m)),
        ("columns of the Jacobians", "r_L", J.transpose(0, 2, 1).reshape(S * m, n)),
        ("whole Jacobians", "r_1 of a single layer", J.reshape(S, n * m)),
    )
    values = [_singular_values(table) for _, _, table in tables]
    # Noise of standard deviation sigma alone has singular values between sigma (sqrt(a) - sqrt(b)) and
    # sigma (sqrt(a) + sqrt(b)), so that the smallest one bounds sigma from above.
    edges = [np.sqrt(np.array([max(table.shape), min(table.shape)])) for _, _, table in tables]
    bounds = [v[-1] / (high - low) for v, (high, low) in zip(values, edges, strict=True) if high >= 1.2 * low]
    sigma = min(bounds, default=0.0)
    unfoldings = [
        _unfolding(name, meaning, v, sigma * (high + low))
        for (name, meaning, _), v, (high, low) in zip(tables, values, edges, strict=True)
    ]
    single = np.sqrt(np.mean(np.linalg.svd(J, compute_uv=False) ** 2, axis=0))
    unfoldings.append(_unfolding("each Jacobian by itself", "every r_l", single, sigma * (np.sqrt(n) + np.sqrt(m))))
    return Hints(tuple(unfoldings))


def _singular_values(table: Float[ndarray, "_ _"]) -> Float[ndarray, " k"]:
    small = np.linalg.qr(table).R if table.shape[0] > table.shape[1] else table
    return np.linalg.svd(small, compute_uv=False)


def _unfolding(name: str, meaning: str, values: Float[ndarray, " k"], noise: float) -> Unfolding:
    largest = values[0] or 1.0
    rank = int(np.count_nonzero(values > max(_CLEAR * noise, _SINGULAR_VALUE_OF_ROUNDING * largest)))
    return Unfolding(name, meaning, values / largest, max(rank, 1))


# Polynomials that meet the samples


def as_polynomial(samples: Samples, rounding: float) -> tuple[int, Samples] | None:
    """The total degree of the polynomial that the samples are of, and the samples with its Jacobians."""
    if samples.F is None or samples.weights is not None:
        return None
    given_samples, samples = samples, samples.take(without_copies(samples))  # a copy is no evidence
    assert samples.F is not None
    F, J, X = np.asarray(samples.F), samples.J, samples.X
    m, scale = X.shape[1], F.std(axis=0)
    if m > 12 or not np.all(scale > 0.0):
        return None
    z = X.T[None]
    middle, half = box_of(z)
    given = [(F - F.mean(axis=0)) / scale]
    if J is not None:
        given.append((np.asarray(J) * half[0] / scale[:, None]).transpose(0, 2, 1).reshape(-1, F.shape[1]))
    target = np.concatenate(given)
    for degree in range(1, _MAX_DEGREE + 1):
        count = n_products(m, degree)
        if count > _MAX_COEFFICIENTS or _NUMBERS_PER_COEFFICIENT * count > len(target):
            return None
        basis = Polynomials(m, degree)
        tables = basis.tables(z, (middle, half))
        values, slopes = basis.values(tables)[0].T, basis.slopes(tables)[0]  # (S, p) and (p, m, S)
        rows = [values] if J is None else [values, (slopes * half[0][:, None]).transpose(2, 1, 0).reshape(-1, count)]
        A = np.concatenate(rows)
        coefficients = np.linalg.lstsq(A, target, rcond=None)[0]
        left = np.sum((target - A @ coefficients) ** 2) / np.sum(target**2)
        if left <= _OF_ROUNDING * rounding:
            if J is None:
                exact = np.einsum("pms,pn->snm", slopes, coefficients, optimize=True) * scale[:, None]
                samples = Samples(X, F=F, J=exact, inputs=samples.inputs, outputs=samples.outputs)
            return degree, samples if J is None else given_samples
    return None


def exact_shapes(samples: Samples, degree: int | None, ranks: tuple[int, ...] | None) -> list[Shape]:
    """Ranks and degrees of one and two layers, or of given ranks, that may meet the samples, smallest first."""
    if ranks is not None:
        return [(ranks, degrees) for degrees in _factors(degree, len(ranks))]
    hints, shapes = hints_of(samples), []
    for L, more in _MORE_FUNCTIONS.items():
        least = hints.least_ranks(L)
        assert least is not None  # there are Jacobians
        for degrees in _factors(degree, L):
            extra = product(range(more + 1), repeat=L) if degree is not None else [(0,) * L]
            shapes += [(tuple(r + k for r, k in zip(least, ks, strict=True)), degrees) for ks in extra]
    sizes = {
        shape: ModelShape.of(samples, layer_bases(*shape, Monomial), linear=False).n_free(values=True)
        for shape in shapes
    }
    return sorted((s for s in shapes if sizes[s] < samples.n_numbers), key=sizes.__getitem__)[:_MOST_SHAPES]


def _factors(degree: int | None, L: int) -> Iterator[tuple[int, ...]]:
    """Degrees of L layers whose product is the total degree."""
    if degree is None:
        yield (_UNKNOWN_DEGREE,) * L
    elif L == 1:
        yield (degree,)
    else:
        for d in (d for d in range(2, degree // 2 + 1) if degree % d == 0):
            yield from ((d, *rest) for rest in _factors(degree // d, L - 1))


def true_degrees(model: Decoupling) -> tuple[int, ...]:
    """The degrees of a model of polynomials, without terms that rounding explains."""
    out = []
    for g in model.g:
        there = np.abs(g.C) > _NO_TERM * np.max(np.abs(g.C), axis=1, keepdims=True)
        out.append(max(int(np.max(np.nonzero(there.any(axis=0))[0], initial=1)), 1))
    return tuple(out)
