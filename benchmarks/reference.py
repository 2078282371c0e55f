"""The method of the paper, to be read: PROJ-CMPT-L and CONSTR-CMPT-L with every matrix M built and `lstsq` called.

This file is part of the documentation (docs/understand/tensor-view.md) and the oracle of the tests: the fast solvers
must give the same factors. It is slow on purpose. One start, the paper's scale, no compression; samples first, as
everywhere in the package. `vec` is column-major, as in the paper. Arrays may hold numbers of many digits, if `lstsq`
takes them.

Lists count from 0: `W[l]` is W_l, while `G[l]`, `C[l]` and the argument `l` belong to layer l + 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy import ndarray


@dataclass
class State:
    """W_0, ..., W_L; G^(1), ..., G^(L); R; coefficients c_1, ..., c_L with the constant first."""

    W: list[ndarray]
    G: list[ndarray]
    R: ndarray
    C: list[ndarray]


def iteration(J: ndarray, F: ndarray, X: ndarray, state: State, degrees: list[int], lam: float, method: str) -> State:
    """One iteration of Algorithm 1: W_0, (c_1, W_1), ..., (c_L, W_L) with `method` "proj" or "constr"."""
    W, G, C = list(state.W), list(state.G), list(state.C)
    S, n, m = J.shape
    L = len(G)

    # Line 3: W_0 = argmin ||unfold_2(J)^T - M_W^(0) W_0||^2.
    M = np.concatenate([left(W, G, 0, s) * G[0][s] for s in range(S)])  # M_W^(0): (n S, r_1)
    W[0] = np.linalg.lstsq(M, J.reshape(S * n, m), rcond=None)[0]

    u = X @ W[0].T
    for l in range(L):
        last = l == L - 1
        # Lines 5 and 8: Update_c, then G = X_l c_l, and R = Y_L c_L in the last layer.
        if method == "proj":
            C[l] = proj_coefficients(J, F, W, G, u, l, degrees[l], lam)
        else:
            C[l] = constr_coefficients(J, F, W, G, u, l, degrees[l], lam)
        G[l] = np.stack([derivatives(u[:, j], degrees[l]) @ C[l][j] for j in range(len(C[l]))], axis=1)
        value = np.stack([values(u[:, j], degrees[l]) @ C[l][j] for j in range(len(C[l]))], axis=1)
        if not last:
            # Line 6: W_l = argmin ||vec(J) - M_W^(l) vec(W_l)||^2.
            M = np.concatenate(  # M_W^(l+1): (n m S, r_(l+1) r_(l+2))
                [
                    np.kron((G[l][s][:, None] * right(W, G, l, s)).T, left(W, G, l + 1, s) * G[l + 1][s])
                    for s in range(S)
                ]
            )
            w = np.linalg.lstsq(M, vec_slices(J), rcond=None)[0]
            W[l + 1] = w.reshape(W[l + 1].shape, order="F")
            u = value @ W[l + 1].T
    # Line 9: W_L = argmin ||unfold_1(J) - W_L M_W^(L)||^2 + lam ||F - W_L R^T||^2.
    R = value
    M = np.concatenate([G[L - 1][s][:, None] * right(W, G, L - 1, s) for s in range(S)], axis=1)  # M_W^(L): (r_L, m S)
    stacked = np.concatenate([M.T, np.sqrt(lam) * R])
    target = np.concatenate([np.concatenate(list(J), axis=1).T, np.sqrt(lam) * F])
    W[L] = np.linalg.lstsq(stacked, target, rcond=None)[0].T
    return State(W, G, R, C)


def proj_coefficients(
    J: ndarray, F: ndarray, W: list[ndarray], G: list[ndarray], u: ndarray, l: int, degree: int, lam: float
) -> ndarray:
    """Algorithms 2 and 3: least squares for G^(l+1) (and R), then projection onto the basis."""
    S = len(J)
    free = np.empty_like(G[l])
    for s in range(S):
        M = khatri_rao(right(W, G, l, s).T, left(W, G, l, s))  # M_G^(l,s): (n m, r_l)
        free[s] = np.linalg.lstsq(M, J[s].reshape(-1, order="F"), rcond=None)[0]
    last = l == len(G) - 1
    R = np.linalg.lstsq(W[-1], F.T, rcond=None)[0].T if last else None
    C = np.zeros((free.shape[1], 1 + degree), dtype=u.dtype)
    for j in range(free.shape[1]):
        design, target = derivatives(u[:, j], degree), free[:, j]
        if R is not None:
            design = np.concatenate([design, np.sqrt(lam) * values(u[:, j], degree)])
            target = np.concatenate([target, np.sqrt(lam) * R[:, j]])
            C[j] = np.linalg.lstsq(design, target, rcond=None)[0]
        else:
            C[j, 1:] = np.linalg.lstsq(design[:, 1:], target, rcond=None)[0]
    return C


def constr_coefficients(
    J: ndarray, F: ndarray, W: list[ndarray], G: list[ndarray], u: ndarray, l: int, degree: int, lam: float
) -> ndarray:
    """Algorithms 4 and 5: all coefficients of a layer at once from (M_C)_0 c = vec(J), in the last one with values."""
    S = len(J)
    r = G[l].shape[1]
    tables = [derivatives(u[:, j], degree) for j in range(r)]
    blocks = []
    for s in range(S):
        columns = khatri_rao(right(W, G, l, s).T, left(W, G, l, s))  # (n m, r)
        blocks.append(np.concatenate([np.outer(columns[:, j], tables[j][s]) for j in range(r)], axis=1))
    design, target = np.concatenate(blocks), vec_slices(J)
    if l == len(G) - 1:
        Y = [values(u[:, j], degree) for j in range(r)]
        of_values = np.concatenate([np.kron(W[-1][:, j : j + 1], Y[j]) for j in range(r)], axis=1)  # (W_L x I) Y
        design = np.concatenate([design, np.sqrt(lam) * of_values])
        target = np.concatenate([target, np.sqrt(lam) * F.T.reshape(-1)])
        return np.linalg.lstsq(design, target, rcond=None)[0].reshape(r, 1 + degree)
    used = np.tile(np.arange(1 + degree) > 0, r)  # inner constants do not enter the Jacobian
    C = np.zeros(r * (1 + degree), dtype=u.dtype)
    C[used] = np.linalg.lstsq(design[:, used], target, rcond=None)[0]
    return C.reshape(r, 1 + degree)


def objective(J: ndarray, F: ndarray, state: State, lam: float) -> float:
    """||J - PT_L||^2 + lam ||F - R W_L^T||^2."""
    total = lam * np.sum((F - state.R @ state.W[-1].T) ** 2)
    for s in range(len(J)):
        total += np.sum((J[s] - (left(state.W, state.G, 0, s) * state.G[0][s]) @ state.W[0]) ** 2)
    return float(total)


def left(W: list[ndarray], G: list[ndarray], l: int, s: int) -> ndarray:
    """Everything left of D_(l+1) in slice s: W_L D_L ... W_(l+1)."""
    product = W[-1]
    for k in range(len(G) - 1, l, -1):
        product = product @ np.diag(G[k][s]) @ W[k]
    return product


def right(W: list[ndarray], G: list[ndarray], l: int, s: int) -> ndarray:
    """Everything right of D_(l+1) in slice s: W_l D_l ... W_0."""
    product = W[0]
    for k in range(l):
        product = W[k + 1] @ np.diag(G[k][s]) @ product
    return product


def values(u: ndarray, degree: int) -> ndarray:
    """Rows (1, u, ..., u^d)."""
    return np.vander(u, degree + 1, increasing=True)


def derivatives(u: ndarray, degree: int) -> ndarray:
    """Rows (0, 1, 2 u, ..., d u^(d-1))."""
    table = np.zeros((len(u), degree + 1), dtype=u.dtype)
    for k in range(1, degree + 1):
        table[:, k] = k * u ** (k - 1)
    return table


def khatri_rao(A: ndarray, B: ndarray) -> ndarray:
    """Column-wise Kronecker product."""
    return np.einsum("ir,jr->ijr", A, B).reshape(-1, A.shape[1])


def vec_slices(J: ndarray) -> ndarray:
    """vec(J): the column-major slices one after another."""
    return np.concatenate([slice_.reshape(-1, order="F") for slice_ in J])
