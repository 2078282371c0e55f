r"""Values, Jacobians and their derivatives with respect to all parameters, for a batch of models, in closed form.

Parameters are kept as a list of arrays with the batch axis first: W_0, c_1, W_1, ..., c_(L-1), W_(L-1), all that come
before the functions of the last layer; c_l without the constant. What the last layer does to its inputs u_L is left
open: it enters through its slopes and curvatures

    D_ij = d f_i / d u_j   and   E_ij = d^2 f_i / d u_j^2          (n x r_L each, at every sample).

Going back from there, with a = g', b = g'' and V = d u / d x of a layer, Q = D W and H = T W belong to the values z of
the layer before, whose own carriers are D <- Q o a and T <- (Q o b) x V + H o a. Then (see `theory` in the docs)

    d f_i  / d W[r, q] = D_ir z_q              d J_ij / d W[r, q] = T_ijr z_q + D_ir P_qj
    d f_i  / d c[r, k] = Q_ir phi_k            d J_ij / d c[r, k] = Q_ir phi'_k V_rj + H_ijr phi_k

with z and P = d z / d x what enters W. Rows are ordered by sample, and within a sample value first, then inputs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..bases import LayerBasis
from ._updates import combine

Parameters = list[ndarray]


@dataclass(frozen=True)
class Chain:
    """All layers evaluated at a set of points: inputs u, V = du/dx, and tables of basis functions, first layer first.

    `z[l]` and `P[l]` are what enters W_l: z[0] = x, and P[0] is None for the identity.
    """

    u: list[Float[ndarray, "B S _"]]
    V: list[Float[ndarray, "B S _ m"]]
    z: list[Float[ndarray, "#B S _"]]
    P: list[Float[ndarray, "B S _ m"] | None]
    Phi: list[Float[ndarray, "B S _ _"]]
    dPhi: list[Float[ndarray, "B S _ _"]]
    ddPhi: list[Float[ndarray, "B S _ _"]]
    a: list[Float[ndarray, "B S _"]]
    b: list[Float[ndarray, "B S _"]]


def run_chain(layers: tuple[LayerBasis, ...], theta: Parameters, X: Float[ndarray, "S m"]) -> Chain:
    """Evaluate everything up to the inputs of the last layer, and the basis functions there."""
    W, C = theta[0::2], theta[1::2]
    B, S = W[0].shape[0], X.shape[0]
    chain = Chain([], [], [X[None]], [None], [], [], [], [], [])
    for l, layer in enumerate(layers):
        P = chain.P[l]
        u = chain.z[l] @ W[l].mT
        V = np.broadcast_to(W[l][:, None], (B, S, *W[l].shape[1:])) if P is None else W[l][:, None] @ P
        chain.u.append(u)
        chain.V.append(V)
        chain.Phi.append(layer.evaluate(u))
        chain.dPhi.append(layer.derivative(u))
        chain.ddPhi.append(layer.second_derivative(u))
        if l < len(layers) - 1:
            chain.z.append(combine(chain.Phi[l], C[l]))
            chain.a.append(combine(chain.dPhi[l], C[l]))
            chain.b.append(combine(chain.ddPhi[l], C[l]))
            chain.P.append(chain.a[l][..., None] * V)
    return chain


def dense_derivatives(
    chain: Chain,
    theta: Parameters,
    slopes: Float[ndarray, "B S n r"],
    curvatures: Float[ndarray, "B S n r"],
    *,
    values: bool,
    jacobians: bool,
) -> Float[ndarray, "B S q n N"]:
    """Derivatives of the rows (values, then Jacobians, as asked for) with respect to all parameters, as one array."""
    L = len(chain.u)
    W = theta[0::2]
    B, S, n, _ = slopes.shape
    m = chain.V[0].shape[-1]
    q = values + jacobians * m
    D = slopes
    T = curvatures[:, :, None] * chain.V[-1].mT[:, :, :, None, :] if jacobians else None  # (B, S, m, n, r)
    blocks: list[ndarray] = []
    for l in range(L - 1, -1, -1):
        z, P = chain.z[l], chain.P[l]
        block = np.empty((B, S, q, n, W[l].shape[1], W[l].shape[2]))
        if values:
            block[:, :, 0] = D[..., None] * z[:, :, None, None, :]
        if T is not None:
            rows = block[:, :, int(values) :]
            np.multiply(T[..., None], z[:, :, None, None, None, :], out=rows)
            if P is None:
                for j in range(m):
                    rows[:, :, j, :, :, j] += D
            else:
                rows += D[:, :, None, :, :, None] * P.mT[:, :, :, None, None, :]
        blocks.insert(0, block.reshape(B, S, q, n, -1))
        if l == 0:
            break
        Q = D @ W[l][:, None]  # (B, S, n, r_l)
        Phi, dPhi, V = chain.Phi[l - 1], chain.dPhi[l - 1], chain.V[l - 1]
        block = np.empty((B, S, q, n, *Phi.shape[2:]))
        if values:
            block[:, :, 0] = Q[..., None] * Phi[:, :, None]
        if T is not None:
            H = T @ W[l][:, None, None]  # (B, S, m, n, r_l)
            rows = block[:, :, int(values) :]
            np.multiply(Q[:, :, None, :, :, None], (dPhi[:, :, None] * V.mT[..., None])[:, :, :, None], out=rows)
            rows += H[..., None] * Phi[:, :, None, None]
            T = (Q * chain.b[l - 1][:, :, None])[:, :, None] * V.mT[:, :, :, None, :] + H * chain.a[l - 1][
                :, :, None, None
            ]
        blocks.insert(0, block.reshape(B, S, q, n, -1))
        D = Q * chain.a[l - 1][:, :, None]
    return np.concatenate(blocks, axis=-1)


def directional(
    chain: Chain, theta: Parameters, direction: Parameters
) -> tuple[Float[ndarray, "B S r"], Float[ndarray, "B S r m"]]:
    """Change of u_L and V_L when the parameters move along `direction`."""
    W, dW, dC = theta[0::2], direction[0::2], direction[1::2]
    du = chain.z[0] @ dW[0].mT
    dV = np.broadcast_to(dW[0][:, None], chain.V[0].shape)
    for l in range(len(chain.u) - 1):
        dz = chain.a[l] * du + combine(chain.Phi[l], dC[l])
        dP = (chain.b[l] * du + combine(chain.dPhi[l], dC[l]))[..., None] * chain.V[l] + chain.a[l][..., None] * dV
        P = chain.P[l + 1]
        assert P is not None
        du = dz @ W[l + 1].mT + chain.z[l + 1] @ dW[l + 1].mT
        dV = W[l + 1][:, None] @ dP + dW[l + 1][:, None] @ P
    return du, dV


def adjoint(
    chain: Chain, theta: Parameters, u_bar: Float[ndarray, "B S r"], V_bar: Float[ndarray, "B S r m"]
) -> Parameters:
    """The transpose of `directional`: gradient of <u_bar, u_L> + <V_bar, V_L> with respect to all parameters."""
    W = theta[0::2]
    gradient: Parameters = []
    for l in range(len(chain.u) - 1, -1, -1):
        P = chain.P[l]
        of_V = V_bar.sum(axis=1) if P is None else np.sum(V_bar @ P.mT, axis=1)
        gradient.insert(0, u_bar.mT @ chain.z[l] + of_V)
        if l == 0:
            break
        z_bar, P_bar = u_bar @ W[l], W[l].mT[:, None] @ V_bar
        inner = np.sum(P_bar * chain.V[l - 1], axis=-1)
        gradient.insert(
            0,
            np.einsum("bsr,bsrd->brd", z_bar, chain.Phi[l - 1]) + np.einsum("bsr,bsrd->brd", inner, chain.dPhi[l - 1]),
        )
        u_bar = chain.a[l - 1] * z_bar + chain.b[l - 1] * inner
        V_bar = chain.a[l - 1][..., None] * P_bar
    return gradient


def flatten(theta: Parameters) -> Float[ndarray, "B N"]:
    """All parameters of a start in one row."""
    return np.concatenate([p.reshape(p.shape[0], -1) for p in theta], axis=1)


def unflatten(flat: Float[ndarray, "B N"], like: Parameters) -> Parameters:
    """The inverse of `flatten`."""
    sizes = np.cumsum([p[0].size for p in like])[:-1]
    parts = np.split(flat, sizes, axis=1)
    return [part.reshape(flat.shape[0], *p.shape[1:]) for part, p in zip(parts, like, strict=True)]
