r"""Values, Jacobians and their derivatives with respect to all parameters, for a batch of models, in closed form.

Functions are evaluated on the window of their basis, at t_l = W_l z_l + b_l (see `Parameters`). What the last layer
does to its inputs t_L is left open: it enters through its slopes and curvatures

    D_ij = d f_i / d t_j   and   E_ij = d^2 f_i / d t_j^2          (n x r_L each, at every sample).

Go back from there, with a = g', b = g'' and V = d t / d x of a layer. Then Q = D W and H = T W belong to the values z
of the layer before. Its carriers are D <- Q o a and T <- (Q o b) x V + H o a. Then (see `theory` in the docs)

    `d f_i  / d W[r, q] = D_ir z_q              d J_ij / d W[r, q] = T_ijr z_q + D_ir P_qj`
    `d f_i  / d b[r]    = D_ir                  d J_ij / d b[r]    = T_ijr`
    `d f_i  / d c[r, k] = Q_ir phi_k            d J_ij / d c[r, k] = Q_ir phi'_k V_rj + H_ijr phi_k`

with z and P = d z / d x what enters W. Rows are the value first, then the inputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ...bases import LayerBasis
from ..problem._batched_linalg import combine
from ._parameters import Parameters, Unknowns


@dataclass(frozen=True)
class Chain:
    """All layers evaluated at a set of points: inputs t, V = dt/dx, and tables of basis functions, first layer first.

    `z[l]` and `P[l]` are what enters W_l: z[0] = x, and P[0] is None for the identity.
    """

    t: list[Float[ndarray, "B S _"]]
    V: list[Float[ndarray, "B S _ m"]]
    z: list[Float[ndarray, "#B S _"]]
    P: list[Float[ndarray, "B S _ m"] | None]
    Phi: list[Float[ndarray, "B S _ _"]]
    dPhi: list[Float[ndarray, "B S _ _"]]
    ddPhi: list[Float[ndarray, "B S _ _"]]
    a: list[Float[ndarray, "B S _"]]
    b: list[Float[ndarray, "B S _"]]

    def of_samples(self, chunk: slice) -> Chain:
        """The same at some of the points."""
        tables: dict[str, Any] = {}
        for name, by_layer in vars(self).items():
            tables[name] = [None if table is None else table[:, chunk] for table in by_layer]
        return Chain(**tables)


def run_chain(layers: tuple[LayerBasis, ...], theta: Parameters, X: Float[ndarray, "S m"]) -> Chain:
    """Evaluate everything up to the inputs of the last layer, and the basis functions there."""
    B, S = len(theta), X.shape[0]
    chain = Chain([], [], [X[None]], [None], [], [], [], [], [])
    for l, layer in enumerate(layers):
        P, W = chain.P[l], theta.W[l]
        t = chain.z[l] @ W.mT + theta.b[l][:, None]
        V = np.broadcast_to(W[:, None], (B, S, *W.shape[1:])) if P is None else W[:, None] @ P
        chain.t.append(t)
        chain.V.append(V)
        chain.Phi.append(layer.evaluate(t))
        chain.dPhi.append(layer.derivative(t))
        chain.ddPhi.append(layer.second_derivative(t))
        if l < len(layers) - 1:
            chain.z.append(combine(chain.Phi[l], theta.c[l]))
            chain.a.append(combine(chain.dPhi[l], theta.c[l]))
            chain.b.append(combine(chain.ddPhi[l], theta.c[l]))
            chain.P.append(chain.a[l][..., None] * V)
    return chain


def dense_derivatives(
    chain: Chain,
    theta: Parameters,
    unknowns: Unknowns,
    slopes: Float[ndarray, "B n r S"],
    curvatures: Float[ndarray, "B n r S"],
    *,
    values: bool,
    jacobians: bool,
    more: int = 0,
) -> Float[ndarray, "B N n q S"]:
    """Derivatives of the rows (values, then Jacobians, as asked for) by all inner parameters, as one array.

    Samples are the last axis here, and in the carriers D (B, r, n, S) and T (B, r, n, m, S). Innermost loops over
    samples are long, which is two to three times faster. Room is left for
    `more` unknowns at the end.
    """
    L, W = len(chain.t), theta.W
    B, n, _, S = slopes.shape
    m = chain.V[0].shape[-1]
    end = unknowns.count(theta)
    Z = np.empty((B, end + more, n, values + jacobians * m, S))
    D = slopes.swapaxes(1, 2)
    V = samples_last(chain.V[-1])
    T = curvatures.swapaxes(1, 2)[:, :, :, None] * V[:, :, None] if jacobians else None
    for l in range(L - 1, -1, -1):
        r, k = W[l].shape[1:]
        if unknowns.offsets[l]:
            of_b, end = Z[:, end - r : end], end - r
            if values:
                of_b[..., 0, :] = D
            if T is not None:
                of_b[..., int(values) :, :] = T
        of_W, end = Z[:, end - r * k : end].reshape(B, r, k, n, -1, S), end - r * k
        P = chain.P[l]
        derivatives_of_weights(of_W, D, T, samples_last(chain.z[l]), None if P is None else samples_last(P))
        if l == 0:
            break
        Phi, dPhi, V = (samples_last(table[l - 1]) for table in (chain.Phi, chain.dPhi, chain.V))
        Q = (W[l].mT @ D.reshape(B, r, -1)).reshape(B, k, n, S)
        H = None if T is None else (W[l].mT @ T.reshape(B, r, -1)).reshape(B, k, n, m, S)
        d = Phi.shape[2]
        of_c, end = Z[:, end - k * d : end].reshape(B, k, d, n, -1, S), end - k * d
        derivatives_of_coefficients(of_c, Q, H, Phi, dPhi, V)
        D, T = carry_back(Q, H, samples_last(chain.a[l - 1]), samples_last(chain.b[l - 1]), V)
    return Z


def derivatives_of_weights(
    out: Float[ndarray, "B r k n q S"],
    D: Float[ndarray, "B r n S"],
    T: Float[ndarray, "B r n m S"] | None,
    z: Float[ndarray, "#B k S"],
    P: Float[ndarray, "B k m S"] | None,
) -> None:
    """Write the derivatives with respect to W; the rows of values come first if there is one more than inputs."""
    m = 0 if T is None else T.shape[3]
    o = out.shape[4] - m
    if o:
        np.multiply(D[:, :, None], z[:, None, :, None], out=out[..., 0, :])
    if T is None:
        return
    rows = out[..., o:, :]
    np.multiply(T[:, :, None], z[:, None, :, None, None], out=rows)
    if P is None:
        for j in range(m):
            rows[:, :, j, :, j] += D
    else:
        rows += D[:, :, None, :, None] * P[:, None, :, None]


def derivatives_of_coefficients(
    out: Float[ndarray, "B r d n q S"],
    Q: Float[ndarray, "B r n S"],
    H: Float[ndarray, "B r n m S"] | None,
    Phi: Float[ndarray, "B r d S"],
    dPhi: Float[ndarray, "B r d S"],
    V: Float[ndarray, "B r m S"],
) -> None:
    """Write the derivatives with respect to c, in the same order of rows."""
    o = out.shape[4] - (0 if H is None else H.shape[3])
    if o:
        np.multiply(Q[:, :, None], Phi[:, :, :, None], out=out[..., 0, :])
    if H is not None:
        rows = out[..., o:, :]
        np.multiply(H[:, :, None], Phi[:, :, :, None, None], out=rows)
        rows += Q[:, :, None, :, None] * (dPhi[:, :, :, None] * V[:, :, None])[:, :, :, None]


def carry_back(
    Q: Float[ndarray, "B r n S"],
    H: Float[ndarray, "B r n m S"] | None,
    a: Float[ndarray, "B r S"],
    b: Float[ndarray, "B r S"],
    V: Float[ndarray, "B r m S"],
) -> tuple[ndarray, ndarray | None]:
    """D and T of the arguments of functions, from Q and H of their values."""
    D = Q * a[:, :, None]
    if H is None:
        return D, None
    return D, (Q * b[:, :, None])[:, :, :, None] * V[:, :, None] + H * a[:, :, None, None]


def samples_last(table: Float[ndarray, "B S *rest"]) -> Float[ndarray, "B *rest S"]:
    """The same table with its samples as the last axis."""
    return np.ascontiguousarray(np.moveaxis(table, 1, -1))


def directional_derivative(
    chain: Chain, theta: Parameters, direction: Parameters
) -> tuple[Float[ndarray, "B S r"], Float[ndarray, "B S r m"]]:
    """Change of t_L and V_L when the parameters move along `direction`."""
    W, dW, db, dC = theta.W, direction.W, direction.b, direction.c
    dt = chain.z[0] @ dW[0].mT + db[0][:, None]
    dV = np.broadcast_to(dW[0][:, None], (dt.shape[0], *chain.V[0].shape[1:]))
    for l in range(len(chain.t) - 1):
        dz = chain.a[l] * dt + combine(chain.Phi[l], dC[l])
        dP = (chain.b[l] * dt + combine(chain.dPhi[l], dC[l]))[..., None] * chain.V[l] + chain.a[l][..., None] * dV
        P = chain.P[l + 1]
        assert P is not None
        dt = dz @ W[l + 1].mT + chain.z[l + 1] @ dW[l + 1].mT + db[l + 1][:, None]
        dV = W[l + 1][:, None] @ dP + dW[l + 1][:, None] @ P
    return dt, dV


def adjoint(
    chain: Chain, theta: Parameters, t_bar: Float[ndarray, "B S r"], V_bar: Float[ndarray, "B S r m"]
) -> Parameters:
    """The transpose of `directional_derivative`: gradient of <t_bar, t_L> + <V_bar, V_L> by all parameters."""
    W, of_W, of_b, of_c = theta.W, list[ndarray](), list[ndarray](), list[ndarray]()  # the last layer first
    for l in range(len(chain.t) - 1, -1, -1):
        P = chain.P[l]
        of_V = V_bar.sum(axis=1) if P is None else np.sum(V_bar @ P.mT, axis=1)
        of_W.append(t_bar.mT @ chain.z[l] + of_V)
        of_b.append(t_bar.sum(axis=1))
        if l == 0:
            break
        z_bar, P_bar = t_bar @ W[l], W[l].mT[:, None] @ V_bar
        inner = np.sum(P_bar * chain.V[l - 1], axis=-1)
        of_c.append(
            np.einsum("bsr,bsrd->brd", z_bar, chain.Phi[l - 1]) + np.einsum("bsr,bsrd->brd", inner, chain.dPhi[l - 1])
        )
        t_bar = chain.a[l - 1] * z_bar + chain.b[l - 1] * inner
        V_bar = chain.a[l - 1][..., None] * P_bar
    return Parameters(tuple(of_W[::-1]), tuple(of_b[::-1]), tuple(of_c[::-1]))
