"""The canonical form of a model at samples wherever they are."""

from __future__ import annotations

from numpy import ndarray

from ..model._canonical import Visits
from ..model._decoupling import Decoupling
from ._portions import Join, Portion
from ._samples import Samples

_AT_ONCE = 50_000  # samples


def canonical_at(model: Decoupling, samples: Samples) -> Decoupling:
    """`model.canonical` at the points of the samples."""
    if samples.in_memory and samples.n_samples <= _AT_ONCE:
        return model.canonical(samples.X)
    plain = model.without_inner_constants()
    if plain.linear is not None and plain.n_layers == 1:
        plain = plain.net_of_slopes(samples.data.reduce(slopes_task, plain)[0] / samples.n_samples)
    L = plain.n_layers
    joins: tuple[Join, ...] = ("min",) * L + ("max",) * L + ("sum",) * (2 * L)
    found = samples.data.reduce(visits_task, plain, join=joins)
    low, high, squares, shares = (found[k * L : (k + 1) * L] for k in range(4))
    return plain.canonical_for(Visits(samples.n_samples, low, high, squares, shares))


def slopes_task(portion: Portion, model: Decoupling) -> tuple[ndarray]:
    """Sums of the slopes of a single layer."""
    return (model.g[0].slopes(model.arguments(portion.X)[0]).sum(axis=0),)


def visits_task(portion: Portion, model: Decoupling) -> tuple[ndarray, ...]:
    """What a portion adds to the visits of a model, layer by layer."""
    visits = model.visits(portion.X)
    return (*visits.low, *visits.high, *visits.squares, *visits.shares)
