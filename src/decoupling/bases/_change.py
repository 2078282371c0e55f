r"""The same function in the same basis after its argument is scaled or shifted.

For polynomial bases both are exact (scaling and binomial formula on monomial coefficients). For any other basis the
new coefficients are fitted and the fit is checked: where the span does not contain the changed function we stop.
"""

from __future__ import annotations

from math import comb

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from .._support._errors import InputError
from ._abstract import AbstractBasis, AbstractPolynomialBasis

_FIT_TOLERANCE = 1e-9


def rescaled(basis: AbstractBasis, c: Float[ndarray, " _"], alpha: float) -> Float[ndarray, " _"]:
    """Coefficients, constant first, of u -> g(alpha u)."""
    if isinstance(basis, AbstractPolynomialBasis):
        monomial = _monomial_coefficients(basis, c)
        return _from_monomial(basis, monomial * alpha ** np.arange(len(monomial)))
    return _refitted(basis, c, factor=alpha, shift=0.0)


def shifted(basis: AbstractBasis, c: Float[ndarray, " _"], shift: float) -> Float[ndarray, " _"]:
    """Coefficients, constant first, of u -> g(u + shift)."""
    if isinstance(basis, AbstractPolynomialBasis):
        monomial = _monomial_coefficients(basis, c)
        moved = np.zeros_like(monomial)
        for p, value in enumerate(monomial):  # (u + b)^p = sum_q binom(p, q) b^(p - q) u^q
            for q in range(p + 1):
                moved[q] += value * comb(p, q) * shift ** (p - q)
        return _from_monomial(basis, moved)
    return _refitted(basis, c, factor=1.0, shift=shift)


def _monomial_coefficients(basis: AbstractPolynomialBasis, c: ndarray) -> ndarray:
    return np.concatenate([c[:1], c[1:] @ basis.to_monomials()])


def _from_monomial(basis: AbstractPolynomialBasis, monomial: ndarray) -> ndarray:
    return np.concatenate([monomial[:1], np.linalg.solve(basis.to_monomials().T, monomial[1:])])


def _refitted(basis: AbstractBasis, c: ndarray, *, factor: float, shift: float) -> ndarray:
    u = np.cos(np.pi * (np.arange(8 * basis.size + 8) + 0.5) / (8 * basis.size + 8))  # Chebyshev points in (-1, 1)
    with_constant = np.insert(basis.evaluate(u), 0, 1.0, axis=1)
    target = np.insert(basis.evaluate(factor * u + shift), 0, 1.0, axis=1) @ c
    fitted, *_ = np.linalg.lstsq(with_constant, target, rcond=None)
    if np.max(np.abs(with_constant @ fitted - target)) > _FIT_TOLERANCE * max(1.0, float(np.max(np.abs(target)))):
        raise InputError(
            f"`basis` must contain its own functions with {'scaled' if shift == 0.0 else 'shifted'} argument. "
            f"{basis!r} does not: use a polynomial basis such as dc.Monomial."
        )
    return np.asarray(fitted)
