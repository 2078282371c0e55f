"""How far beyond the samples a polynomial is believed.

Powers explode beyond the samples, so functions of a chosen model go on as straight lines there. If the formula is
right, that can cost more than all other errors. Few samples come near the corners of their box, and new ones go
farther. So the samples that reach farthest are predicted by a fit to all others, with the formula and with straight
lines. If the formula is better, it holds for a tenth of the range more.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..._support._errors import InputError
from ...model._decoupling import Decoupling
from ...samples._samples import Samples

_FARTHEST = 0.1  # of the samples, which are predicted from the others
_LEAST = 5  # of these samples
_FARTHER = 0.1  # of the range, on either side


def with_believed_tails(model: Decoupling, samples: Samples) -> Decoupling:
    """The model with a wider domain, if its formula predicts the samples that reach farthest; itself otherwise."""
    if samples.F is None or model.n_layers > 1 or not _formula_predicts(model, samples.X, np.asarray(samples.F)):
        return model
    g = model.g[0]
    room = _FARTHER * (g.domain[:, 1] - g.domain[:, 0])
    try:
        return model.with_parts(g=[g.on_domain(g.domain + np.stack([-room, room], axis=1))])
    except InputError:  # functions whose span depends on their domain
        return model


def _formula_predicts(model: Decoupling, X: Float[ndarray, "S m"], F: Float[ndarray, "S n"]) -> bool:
    """Whether formulas are nearer to the samples that reach farthest than straight lines are.

    Arguments are held, so that fits to the others are linear least squares, one for every output.
    """
    g, u = model.g[0], model.arguments(X)[0]
    reach = np.max(np.abs(u - g.middle) / g.half_width, axis=1)
    far = reach > np.quantile(reach, 1.0 - _FARTHEST)
    low, high = u[~far].min(axis=0), u[~far].max(axis=0)
    inside = np.clip(u, low, high)
    linear = [] if model.linear is None else [X]

    def columns(at: Float[ndarray, "S r"], beyond: Float[ndarray, "S r"]) -> Float[ndarray, "S k"]:
        t, off = (at - g.middle) / g.half_width, beyond / g.half_width
        tables = [
            basis.evaluate(t[:, j]) + off[:, j, None] * basis.derivative(t[:, j])
            for j, basis in enumerate(g.layer.bases)
        ]
        return np.column_stack([np.ones(len(X)), *tables, *linear])

    by_formula, by_lines = columns(u, np.zeros_like(u)), columns(inside, u - inside)
    if np.count_nonzero(far) < _LEAST or np.count_nonzero(~far) <= 2 * by_formula.shape[1]:
        return False
    spread = np.where(F.std(axis=0) > 0.0, F.std(axis=0), 1.0)
    c = np.linalg.lstsq(by_formula[~far], F[~far] / spread, rcond=None)[0]
    missed = [float(np.sum((F[far] / spread - table[far] @ c) ** 2)) for table in (by_formula, by_lines)]
    return missed[0] < missed[1]
