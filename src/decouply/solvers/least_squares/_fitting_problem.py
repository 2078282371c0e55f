"""Everything about a problem that VarPro prepares once: its rows, its core, and both kinds of equations."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ...model._decoupling import Decoupling
from ...model._functions import Functions
from ..problem._model_shape import max_derivatives_within
from ..problem._problem import Problem
from ..problem._rounding import parameter_rounding
from ..problem._sample_weights import by_output
from ._core_compression import Core
from ._derivatives import Parameters, Unknowns, run_chain
from ._levenberg_marquardt import Dense
from ._parameters import Fixed, blank_parameters, position
from ._rank_one_last_layer import fit_shared, shared_functions
from ._rescaling import on_window
from ._roughness_penalty import Penalty
from ._variable_projection import Complete, Eliminated


class Equations:
    """The problem without its last layer in core coordinates (`eliminated`), and with all its parameters (`complete`).

    Elimination needs one design matrix for all outputs. Where weights differ between outputs, the search is made with
    one factor per sample, the mean of the diagonal of M_s, and the polish with the weights themselves.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        lam: float,
        ridge: float,
        fixed: Mapping[str, object],
        penalty: Penalty | None = None,
        memory: float = np.inf,
    ) -> None:
        self.problem = problem.as_given() if fixed else problem  # given parts are in the units of the user
        self.fixed = Fixed.of(fixed, self.problem) if fixed else None
        problem, L = self.problem, len(problem.layers)
        max_derivatives = max_derivatives_within(memory)
        self.rows = problem.rows(lam, max_derivatives)
        self.floor = problem.prepared.rounding_floor
        self.template = blank_parameters(problem)
        self.unknowns = Unknowns.of(problem.layers)
        self.small = self.rows.forms_normal_matrix(self.unknowns.count(self.template))
        self.penalty = penalty if self.small else None  # many unknowns are solved for without a matrix to add it to
        held = {position(name, L) for name in fixed}
        free = self.unknowns.mask(self.template, held) if held else None
        inner = self.unknowns.mask(self.template[: 2 * L - 1], held) if held else None
        searched = self.rows
        if self.rows.mixing is not None:
            by_sample = problem.prepared.with_sample_weights()
            searched = by_sample.rows(by_sample.row_scaling(lam), max_derivatives)
        ranks = problem.dims[1:-1]
        # A linear part has every rank, and given parts are in the coordinates of the user.
        whole = problem.linear or fixed
        self.core = Core(None, None) if whole else Core.of(searched, ranks[0], ranks[-1])
        self.eliminated = Eliminated(
            self.core.rows(searched), problem.layers, problem.linear, ridge, inner, self.penalty
        )
        self._of_all_data = Eliminated(searched, problem.layers, problem.linear, ridge, inner, self.penalty)
        self.complete = Complete(self.rows, problem.layers, problem.linear, ridge, free, self.penalty)

    def with_last_layer(self, core_inner: Parameters) -> Parameters:
        """Append c_L and W_L: one function per argument where elimination had one for every output."""
        inner = self.core.leave(core_inner)
        chain = run_chain(self.problem.layers, inner, self.rows.X)
        A, *_ = self._of_all_data.last_layer(chain)
        free = self._of_all_data.coefficients(chain, A)
        B, r, d, _ = free.shape
        o = int(self.rows.values)
        c, W_L, shared = shared_functions(free)
        if not shared and np.all(np.isfinite(A)):
            design = self._of_all_data.design(chain)
            c, W_L, A = fit_shared(c, W_L, design @ design.mT, A, o)
        constants = np.zeros((B, r, 1))
        if self.rows.values:
            constants = np.linalg.pinv(W_L) @ A[:, 0, :, None]
        linear = [A[:, o + r * d :].mT] if self.problem.linear else []
        return [*inner, np.concatenate([constants, c], axis=-1), W_L, *linear]

    def is_exact(self, cost: float, theta: Parameters) -> bool:
        """Whether one model meets the data to rounding: of the data, or of its own parameters."""
        if cost <= self.floor:
            return True
        if not self.small or not np.isfinite(cost):
            return False
        _, at = self.complete.linearise(theta)
        assert isinstance(at, Dense)
        return cost <= parameter_rounding(np.diagonal(at.M[0]), self.unknowns.flatten(theta)[0])

    def errors(self, theta: Parameters) -> tuple[float, float]:
        """Error(J) and Error(F) of one model, from the residual rows."""
        rows, problem = self.rows, self.problem
        chain = run_chain(problem.layers, theta[: 2 * len(problem.layers) - 1], rows.X)
        residual = self.complete.residual(theta, chain)[0] / np.where(rows.weights > 0, rows.weights, 1)[..., None]
        weights = problem.weights
        w = np.ones(len(residual)) if weights is None or by_output(weights) else weights
        o = int(rows.values)
        of_F = float(w @ np.sum(residual[:, :o] ** 2, axis=(1, 2))) / (problem.size_F or 1.0)
        of_J = float(w @ np.sum(residual[:, o:] ** 2, axis=(1, 2))) / (problem.size_J or 1.0)
        return (of_J if rows.jacobians else float("nan")), (of_F if rows.values else float("nan"))

    def model(self, theta: Parameters, *, on_range: bool = True) -> Decoupling:
        """A batch of one as a model of the given data, its domains at the range that the samples visit if wanted."""
        return model_of(self.problem, theta, self.rows.X if on_range else None, self.fixed)


def model_of(problem: Problem, theta: Parameters, X: Float[ndarray, "S k"] | None, fixed: Fixed | None) -> Decoupling:
    """Parameters (a batch of one) as a model of the given data, its domains at the range of the points X, if given."""
    layers, L = problem.layers, len(problem.layers)
    if fixed is None and X is not None:
        theta = [*on_window(X, layers, theta[: 2 * L], exactly=True), *theta[2 * L :]]
    W, g = [], []
    for l, layer in enumerate(layers):
        weights, c = theta[2 * l][0], theta[2 * l + 1][0]
        C = c if l == L - 1 else np.concatenate([np.zeros((len(c), 1)), c], axis=1)
        if problem.F is None and fixed is None:
            C = np.insert(C[:, 1:], 0, 0.0, axis=1)  # Jacobians leave them open
        W.append(weights[:, :-1])
        g.append(Functions(layer.bases, C, np.array([-1.0, 1.0]) - weights[:, -1:]))
    linear: ndarray | None = theta[2 * L + 1][0] if problem.linear else None
    model = problem.model([*W, theta[2 * L][0]], g, linear)
    return model if fixed is None else fixed.restored(model)
