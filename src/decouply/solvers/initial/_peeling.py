r"""Peeling: the first layer of a deep model, with everything after it relaxed to one polynomial, which is eliminated.

    f(x) = h(g_1(W_0 x)),      h_i(z) = sum_p A_pi Phi_p(z)

with all products Phi_p of Chebyshev polynomials up to a total degree, over the box that the samples visit. The unknowns
are W_0 and c_1: far fewer than the whole model has, with far fewer poor minima. Afterwards h is known explicitly, with
its slopes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ...bases import LayerBasis
from ..least_squares._derivatives import carry_back, derivatives_of_coefficients, derivatives_of_weights, samples_last
from ..least_squares._levenberg_marquardt import Dense, DescentOptions, Tall, descend
from ..least_squares._parameters import Parameters, existing_coefficients, rescale_to_window
from ..least_squares._variable_projection import AbstractResiduals, eliminate
from ..problem._start_distributions import Orthonormal
from ..problem._weighted_rows import Rows
from ._multivariate_polynomials import Polynomials, box_of
from ._start_data import Budget

MAX_ROUNDS = 400  # of batches of starts, unless time ends before
_BATCH_SIZE = 16  # starts of a relaxed search that run side by side
_RELAXED_STEPS, _HALVINGS = 60, (10, 20, 40)
_COST_NEARLY_MET = 1e-8  # relaxed costs that are worth more steps
COST_MET = 1e-23  # relative: below it a model is believed
_ELITE_SIZE = 6  # minima of a relaxed search that children are drawn from
_SAME_COST = 1e-2  # costs within this relative distance are the same minimum
_AGREEING_STARTS, _MIN_ROUNDS = 3, 40
_COST_OF_NOISE, _MIN_ROUNDS_OF_NOISE = 1e-6, 15  # poor minima of exact data are rarely so high
_RANK_RIDGE = 1e-12  # of a design with unit columns: polynomials over places that fill no box are nearly dependent


@dataclass(frozen=True)
class RelaxedTail(AbstractResiduals):
    """Unknowns W_0 and c_1; what follows is a polynomial of the given total degree."""

    rows: Rows
    layer: LayerBasis
    degree: int

    @cached_property
    def polynomials(self) -> Polynomials:
        return Polynomials(len(self.layer.bases), self.degree)

    def linearise(self, theta: Parameters) -> tuple[Float[ndarray, " B"], Dense]:
        Z, basis, residual, cost = self._derivatives_and_residuals(theta)
        B, N, n = Z.shape[:3]
        flat = Z.reshape(B, N, -1)
        inside = (Z.reshape(B, N * n, -1) @ basis).reshape(B, N, -1)
        g = (flat @ residual.mT.reshape(B, -1, 1))[..., 0]
        return cost, Dense(flat @ flat.mT - inside @ inside.mT, g)

    def linearise_precisely(self, theta: Parameters) -> tuple[Float[ndarray, " B"], Tall]:
        """`linearise` for one start, to more digits."""
        Z, basis, residual, cost = self._derivatives_and_residuals(theta)
        tall = Z.reshape(1, -1, basis.shape[1])
        tall = tall - (tall @ basis) @ basis.mT
        return cost, Tall(tall.reshape(1, Z.shape[1], -1), residual.mT.reshape(1, -1))

    def _derivatives_and_residuals(self, theta: Parameters) -> tuple[ndarray, ndarray, ndarray, ndarray]:
        """Weighted derivatives (B, N, n, q, S), a basis of the design (B, R, p), residuals (B, R, n) and cost."""
        rows, W, polynomials = self.rows, theta.W[0], self.polynomials
        S, q, n = rows.Y.shape
        (B, r, m), d = W.shape, theta.c[0].shape[-1]
        Phi, dPhi, _, z, a, b = self._first_layer(theta)
        P = a[:, :, None] * W[..., None]  # (B, r, m, S)
        tables = polynomials.tables(z, box_of(z))
        G = polynomials.slopes(tables)
        A, basis, residual, cost = eliminate(self._design(tables, G, P), rows, 0.0, rank_ridge=_RANK_RIDGE)
        h = (A.mT @ G.reshape(B, -1, r * S)).reshape(B, n, r, S).swapaxes(1, 2)
        V = np.broadcast_to(W[..., None], P.shape)
        H = None
        if rows.jacobians:
            bends = polynomials.bends(tables, A)  # (B, r, r, n, S)
            H = np.zeros((B, r, n, m, S))
            for l in range(r):
                H += bends[:, :, l, :, None] * P[:, None, l, None]
        D, T = carry_back(h, H, a, b, V)
        Z = np.empty((B, r * m + r * d, n, q, S))
        derivatives_of_weights(Z[:, : r * m].reshape(B, r, m, n, q, S), D, T, rows.X.T[None], None)
        derivatives_of_coefficients(Z[:, r * m :].reshape(B, r, d, n, q, S), h, H, Phi, dPhi, V)
        Z *= rows.weights.T
        return Z, basis, residual, cost

    def _first_layer(self, theta: Parameters) -> Sequence[ndarray]:
        """Phi, Phi', Phi'' (B, r, d, S), then z and its first two derivatives (B, r, S)."""
        t = (theta.W[0] @ self.rows.X.T + theta.b[0][..., None]).mT
        layer = self.layer
        tables = [samples_last(f(t)) for f in (layer.evaluate, layer.derivative, layer.second_derivative)]
        return *tables, *((theta.c[0][:, :, None] @ table)[:, :, 0] for table in tables)

    def _design(self, tables: list[list[ndarray]], G: ndarray, P: ndarray) -> Float[ndarray, "B p R"]:
        rows = self.rows
        B, p, r, S = G.shape
        o = int(rows.values)
        design = np.zeros((B, p, rows.Y.shape[1], S))
        if rows.values:
            design[:, :, 0] = self.polynomials.values(tables)
        if rows.jacobians:
            for k in range(r):
                design[:, :, o:] += G[:, :, k, None] * P[:, None, k]
        design *= rows.weights.T
        return design.reshape(B, p, -1)

    def after_step(self, theta: Parameters, step: Float[ndarray, "B N"]) -> Parameters:
        W, c, end = theta.W[0], theta.c[0], theta.W[0][0].size
        new = Parameters((W + step[:, :end].reshape(W.shape),), theta.b, (c + step[:, end:].reshape(c.shape),))
        return self.rescale_to_window(new)

    def rescale_to_window(self, theta: Parameters, *, exactly: bool = False) -> Parameters:
        """The same first layers with arguments over the window and values of size 1."""
        B, r = theta.b[0].shape
        nothing = Parameters((*theta.W, np.zeros((B, r, r))), (*theta.b, np.zeros((B, r))), theta.c)  # what comes next
        new = rescale_to_window(self.rows.X, (self.layer, self.layer), nothing, exactly=exactly)
        return Parameters(new.W[:1], new.b[:1], new.c)

    def tail(self, theta: Parameters, more: Float[ndarray, "k r"]) -> tuple[ndarray, ndarray, ndarray]:
        """z (S, r), h(z) (S, n) and its slopes (S, n, r) of one start, at the samples and at `more` places."""
        *_, z, a, _ = self._first_layer(theta)
        polynomials, box = self.polynomials, box_of(z)
        tables = polynomials.tables(z, box)
        P = a[:, :, None] * theta.W[0][..., None]
        A, *_ = eliminate(self._design(tables, polynomials.slopes(tables), P), self.rows, 0.0, rank_ridge=_RANK_RIDGE)
        places = np.concatenate([z, more.T[None]], axis=-1)
        tables = polynomials.tables(places, box)
        h = (A.mT @ polynomials.values(tables))[0].T
        slopes = np.einsum("pn,prs->snr", A[0], polynomials.slopes(tables)[0])
        return places[0].T, h, slopes


def peel(
    relaxed: RelaxedTail,
    after: Callable[[Parameters], Parameters | None],
    rng: np.random.Generator,
    budget: Budget,
    rounds: int = MAX_ROUNDS,
) -> Parameters | None:
    """Rounds of relaxed searches: new starts and children of good minima, until a first layer leads on.

    `after` finds the layers that come after a first one, if that is possible.
    If the best minimum is found again and again but does not meet the data, these are noisy, and it is taken.
    """
    elite: list[_Minimum] = []
    for count in range(1, rounds + 1):
        if budget.is_over():
            return None
        end = descend(
            relaxed.linearise,
            relaxed.after_step,
            _draw_starts(relaxed, elite, rng),
            DescentOptions(max_steps=_RELAXED_STEPS, exact=COST_MET, halve_at=_HALVINGS),
            deadline=budget.deadline,
            progress=budget.progress,
        )
        if end.interrupted:
            return None
        for i in np.argsort(end.cost, kind="stable")[:4]:
            # A minimum that is known was found again.
            cost = float(end.cost[i])
            same = (known for known in elite if abs(np.log(max(cost, 1e-300) / max(known.cost, 1e-300))) <= _SAME_COST)
            known = next(same, None) if np.isfinite(cost) else None
            if known is not None:
                known.found += 1
            elif np.isfinite(cost):
                elite.append(_Minimum(cost, end.theta[i : i + 1]))
        elite.sort(key=lambda minimum: minimum.cost)
        del elite[_ELITE_SIZE:]
        for minimum in [minimum for minimum in elite if minimum.cost <= _COST_NEARLY_MET and not minimum.tried]:
            minimum.tried = True
            sharp = descend(
                relaxed.linearise_precisely,
                relaxed.after_step,
                minimum.theta,
                DescentOptions(max_steps=_RELAXED_STEPS, exact=COST_MET, to_rounding=True),
                deadline=budget.deadline,
                progress=budget.progress,
            )
            minimum.theta, minimum.cost = sharp.theta, float(sharp.cost[0])
            rest = after(minimum.theta) if minimum.cost <= COST_MET else None
            if rest is not None:
                return _join(minimum.theta, rest)
        enough = _MIN_ROUNDS_OF_NOISE if elite and elite[0].cost > _COST_OF_NOISE else _MIN_ROUNDS
        if count >= enough and elite and elite[0].found >= _AGREEING_STARTS:
            best = elite[0].theta
            rest = after(best)
            return None if rest is None else _join(best, rest)
    return None


def _join(first: Parameters, rest: Parameters) -> Parameters:
    return Parameters(first.W + rest.W, first.b + rest.b, first.c + rest.c)


@dataclass
class _Minimum:
    """The points where relaxed starts have ended, how often, and whether it was followed."""

    cost: float
    theta: Parameters
    found: int = 1
    tried: bool = False


def _draw_starts(relaxed: RelaxedTail, elite: list[_Minimum], rng: np.random.Generator) -> Parameters:
    """A batch of starts; once minima are known, three quarters are their children."""
    r, m, d = len(relaxed.layer.bases), relaxed.rows.X.shape[1], relaxed.layer.size
    W = np.stack([Orthonormal().draw(rng, (r, m)) for _ in range(_BATCH_SIZE)])
    C = rng.normal(size=(_BATCH_SIZE, r, d)) * existing_coefficients(relaxed.layer, d)
    starts = Parameters((W,), (np.zeros((_BATCH_SIZE, r)),), (C,))
    for i in range(_BATCH_SIZE * 3 // 4 if elite else 0):
        # Directions are often right where functions are not: a child takes new coefficients for all functions, or for
        # one; reflects one function; or takes one function with a new direction.
        child, new = elite[min(int(rng.exponential(1.5)), len(elite) - 1)].theta.copy(), starts[i : i + 1]
        move, j = rng.integers(4), rng.integers(r)
        if move == 0:
            child.c[0][:] = new.c[0]
        elif move == 2:
            child.c[0][:, j, ::2] *= -1.0
        else:
            child.c[0][:, j] = new.c[0][:, j]
        if move == 3:
            child.W[0][:, j], child.b[0][:, j] = new.W[0][:, j], 0.0
        starts[i : i + 1] = child
    return relaxed.rescale_to_window(starts, exactly=True)
