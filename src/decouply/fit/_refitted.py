"""A model of a given shape fitted to samples, from itself as the only start."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..model._decoupling import Decoupling
from ..samples._samples import Samples
from ..solvers import VarPro
from ._fit_one_shape import fit
from ._result import Result

SECONDS, _STEPS = 60.0, 200  # as for a search


def refitted(
    samples: Samples,
    model: Decoupling,
    *,
    progress: Callable[..., None],
    max_seconds: float = SECONDS,
    max_steps: int = _STEPS,
    fixed: Mapping[str, object] | None = None,
) -> Result:
    """Keep the shape, the bases and the `fixed` parts of a model, and fit everything else."""
    return fit(
        samples,
        model.ranks,
        None,
        basis=[g.layer.bases for g in model.g],
        linear=model.linear is not None,
        solver=VarPro(start=model, max_seconds=max_seconds, polish_steps=max_steps, fixed=fixed or {}),
        as_given=False,
        n_starts=1,
        validation=None,
        rng=0,
        progress=progress,
    )
