r"""The arguments of a layer with fewer functions than inputs before it, by linear algebra.

Everything that the model computes is then a function of its r arguments u. So the kernel of the Jacobian of the model,
m - r directions at every sample, is also that of the Jacobian of u:

    grad u_j . n_s = 0,                    J_s n_s = 0.

u_j is a polynomial whose total degree is the product of the degrees of the layers before, and the equations are linear
in its coefficients. Their solutions are sums of the u_j, and of nothing else: r polynomials v with u = M v.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ._multivariate_polynomials import Polynomials, box_of, n_products
from ._parallel_gradients import null_vectors

_MAX_COEFFICIENTS = 1000  # of a polynomial
_SINGULAR_VALUE_OF_KERNEL = 1e-6  # of the largest of a Jacobian, in the median of samples
_SIZE_OF_SOLUTION = 1e-6  # of what unit vectors leave on average


def bottleneck_has_enough_equations(n_samples: int, n_inputs: int, n_functions: int, degree: int) -> bool:
    """Whether there are enough equations, and not too many unknowns."""
    p = n_products(n_inputs, degree) - 1
    return n_functions < n_inputs and p <= _MAX_COEFFICIENTS and n_samples * (n_inputs - n_functions) >= p


def functions_at_bottleneck(
    X: Float[ndarray, "S m"], J: Float[ndarray, "S n m"], r: int, degree: int, rng: np.random.Generator
) -> tuple[Float[ndarray, "S r"], Float[ndarray, "S r m"]] | None:
    """Values and slopes of r polynomials that all outputs are functions of; None if there are none."""
    _, sizes, right = np.linalg.svd(J)
    if not sizes[:, 0].all():
        return None
    if sizes.shape[1] > r and np.median(sizes[:, r] / sizes[:, 0]) > _SINGULAR_VALUE_OF_KERNEL:
        return None
    polynomials, z = Polynomials(X.shape[1], degree), X.T[None]
    tables = polynomials.tables(z, box_of(z))
    slopes, values = polynomials.slopes(tables)[0, 1:], polynomials.values(tables)[0, 1:]  # (p, m, S) and (p, S)
    R = np.asarray(np.linalg.qr(slopes.reshape(len(slopes), -1).T, mode="r"))
    try:
        slopes = np.linalg.solve(R.T, slopes.reshape(len(R), -1)).reshape(slopes.shape)
        values = np.linalg.solve(R.T, values)
        equations = np.einsum("skm,pms->skp", right[:, r:], slopes).reshape(-1, len(R))
        found = null_vectors(equations, r, rng)
    except np.linalg.LinAlgError:
        return None
    if np.linalg.norm(equations @ found) > _SIZE_OF_SOLUTION * np.linalg.norm(equations) * np.sqrt(r / len(R)):
        return None
    return values.T @ found, np.einsum("pms,pr->srm", slopes, found)
