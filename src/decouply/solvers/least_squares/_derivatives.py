r"""Values, Jacobians and their derivatives with respect to all parameters, for a batch of models, in closed form.

Functions are evaluated on the window of their basis, at t_l = W_l z_l + b_l. Parameters are kept as a list of arrays
with the batch axis first: W_0, c_1, W_1, ..., c_(L-1), W_(L-1), all that come before the functions of the last layer;
c_l without the constant, and b_l as the last column of W_l. Where a layer's domains follow the samples, b_l is a choice
of writing and no unknown (see `Unknowns`). What the last layer does to its inputs t_L is left open: it enters through
its slopes and curvatures

    D_ij = d f_i / d t_j   and   E_ij = d^2 f_i / d t_j^2          (n x r_L each, at every sample).

Going back from there, with a = g', b = g'' and V = d t / d x of a layer, Q = D W and H = T W belong to the values z of
the layer before, whose own carriers are D <- Q o a and T <- (Q o b) x V + H o a. Then (see `theory` in the docs)

    d f_i  / d W[r, q] = D_ir z_q              d J_ij / d W[r, q] = T_ijr z_q + D_ir P_qj
    d f_i  / d b[r]    = D_ir                  d J_ij / d b[r]    = T_ijr
    d f_i  / d c[r, k] = Q_ir phi_k            d J_ij / d c[r, k] = Q_ir phi'_k V_rj + H_ijr phi_k

with z and P = d z / d x what enters W. Rows are the value first, then the inputs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from ...bases import LayerBasis
from ..problem._batched_linalg import combine

Parameters = list[ndarray]


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
    W, C = theta[0::2], theta[1::2]
    B, S = W[0].shape[0], X.shape[0]
    chain = Chain([], [], [X[None]], [None], [], [], [], [], [])
    for l, layer in enumerate(layers):
        P, weights = chain.P[l], W[l][..., :-1]
        t = chain.z[l] @ weights.mT + W[l][:, None, :, -1]
        V = np.broadcast_to(weights[:, None], (B, S, *weights.shape[1:])) if P is None else weights[:, None] @ P
        chain.t.append(t)
        chain.V.append(V)
        chain.Phi.append(layer.evaluate(t))
        chain.dPhi.append(layer.derivative(t))
        chain.ddPhi.append(layer.second_derivative(t))
        if l < len(layers) - 1:
            chain.z.append(combine(chain.Phi[l], C[l]))
            chain.a.append(combine(chain.dPhi[l], C[l]))
            chain.b.append(combine(chain.ddPhi[l], C[l]))
            chain.P.append(chain.a[l][..., None] * V)
    return chain


@dataclass(frozen=True)
class Unknowns:
    """Which of the parameters are unknowns: all but the b_l of layers whose domains follow the samples.

    In a row of all unknowns, W_l comes without b_l, which follows it.
    """

    offsets: tuple[bool, ...]  # by layer: whether b_l is to be found

    @classmethod
    def of(cls, layers: tuple[LayerBasis, ...]) -> Unknowns:
        return cls(tuple(bool(layer.free_domain.any()) for layer in layers))

    def _parts(self, theta: Parameters) -> Iterator[tuple[int, ndarray]]:
        for i, p in enumerate(theta):
            if i % 2 == 0 and i < 2 * len(self.offsets):
                yield i, p[..., :-1]
                if self.offsets[i // 2]:
                    yield i, p[..., -1]
            else:
                yield i, p

    def first_positions(self, theta: Parameters) -> dict[int, int]:
        """Where each parameter begins in a row of all unknowns, by its position in `theta`."""
        found: dict[int, int] = {}
        at = 0
        for i, part in self._parts(theta):
            found.setdefault(i, at)
            at += part[0].size
        return found

    def flatten(self, theta: Parameters) -> Float[ndarray, "B N"]:
        """All unknowns of a start in one row."""
        return np.concatenate([p.reshape(p.shape[0], -1) for _, p in self._parts(theta)], axis=1)

    def split(self, flat: Float[ndarray, "B N"], like: Parameters) -> Parameters:
        """The inverse of `flatten`, with 0 in place of what is no unknown."""
        out = [np.zeros((flat.shape[0], *p.shape[1:])) for p in like]
        at = 0
        for _, part in self._parts(out):
            size = part[0].size
            part[...] = flat[:, at : at + size].reshape(part.shape)
            at += size
        return out

    def after_step(self, theta: Parameters, step: Float[ndarray, "B N"]) -> Parameters:
        """The parameters after a step of the unknowns."""
        return [p + d for p, d in zip(theta, self.split(step, theta), strict=True)]

    def count(self, theta: Parameters) -> int:
        return sum(int(p[0].size) for _, p in self._parts(theta))

    def mask(self, theta: Parameters, held: Collection[int]) -> Bool[ndarray, " N"]:
        """Which unknowns belong to other parameters than those at the positions `held`."""
        return np.concatenate([np.full(p[0].size, i not in held) for i, p in self._parts(theta)])


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
    """Derivatives of the rows (values, then Jacobians, as asked for) with respect to all parameters, as one array.

    Samples are the last axis here, and in the carriers D (B, r, n, S) and T (B, r, n, m, S): innermost loops over
    samples are long, those over functions or coefficients are not, which is two to three times faster. Room is left for
    `more` unknowns at the end.
    """
    L = len(chain.t)
    W = [w[..., :-1] for w in theta[0 : 2 * L : 2]]
    B, n, _, S = slopes.shape
    m = chain.V[0].shape[-1]
    end = unknowns.count(theta[: 2 * L - 1])
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
    L = len(chain.t)
    W = [w[..., :-1] for w in theta[0 : 2 * L : 2]]
    dW, db = [w[..., :-1] for w in direction[0 : 2 * L : 2]], [w[:, None, :, -1] for w in direction[0 : 2 * L : 2]]
    dC = direction[1::2]
    dt = chain.z[0] @ dW[0].mT + db[0]
    dV = np.broadcast_to(dW[0][:, None], (dt.shape[0], *chain.V[0].shape[1:]))
    for l in range(L - 1):
        dz = chain.a[l] * dt + combine(chain.Phi[l], dC[l])
        dP = (chain.b[l] * dt + combine(chain.dPhi[l], dC[l]))[..., None] * chain.V[l] + chain.a[l][..., None] * dV
        P = chain.P[l + 1]
        assert P is not None
        dt = dz @ W[l + 1].mT + chain.z[l + 1] @ dW[l + 1].mT + db[l + 1]
        dV = W[l + 1][:, None] @ dP + dW[l + 1][:, None] @ P
    return dt, dV


def adjoint(
    chain: Chain, theta: Parameters, t_bar: Float[ndarray, "B S r"], V_bar: Float[ndarray, "B S r m"]
) -> Parameters:
    """The transpose of `directional_derivative`: gradient of <t_bar, t_L> + <V_bar, V_L> by all parameters."""
    L = len(chain.t)
    W = [w[..., :-1] for w in theta[0 : 2 * L : 2]]
    gradient: Parameters = []
    for l in range(L - 1, -1, -1):
        P = chain.P[l]
        of_V = V_bar.sum(axis=1) if P is None else np.sum(V_bar @ P.mT, axis=1)
        of_b = t_bar.sum(axis=1)[..., None]
        gradient.insert(0, np.concatenate([t_bar.mT @ chain.z[l] + of_V, of_b], axis=-1))
        if l == 0:
            break
        z_bar, P_bar = t_bar @ W[l], W[l].mT[:, None] @ V_bar
        inner = np.sum(P_bar * chain.V[l - 1], axis=-1)
        gradient.insert(
            0,
            np.einsum("bsr,bsrd->brd", z_bar, chain.Phi[l - 1]) + np.einsum("bsr,bsrd->brd", inner, chain.dPhi[l - 1]),
        )
        t_bar = chain.a[l - 1] * z_bar + chain.b[l - 1] * inner
        V_bar = chain.a[l - 1][..., None] * P_bar
    return gradient
