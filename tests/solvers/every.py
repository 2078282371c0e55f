"""All solvers of the package: tests that every one of them must pass take them from here."""

import decouply as dc
from decouply.solvers import OWN_SOLVERS
from decouply.solvers.alternating._loop import AbstractAlternatingSolver


def is_alternating(kind):
    return issubclass(kind, AbstractAlternatingSolver)


def quick(kind, max_steps, **options):
    """A solver that makes few steps: promises do not depend on how far it gets."""
    limit = {"stopping": dc.solvers.Stopping(max_steps=max_steps)} if is_alternating(kind) else {"max_steps": max_steps}
    return kind(**limit, **options)


def quick_solvers(max_steps, *features, kinds=OWN_SOLVERS):
    """One of each kind that supports these features, the plain projection, and two stages."""
    found = [quick(kind, max_steps) for kind in kinds]
    found.append(quick(dc.Proj, max_steps, weighted_projection=False))
    found.append(dc.TwoStage(quick(dc.Constr, max_steps), max_runs=2))
    return [solver for solver in found if solver.supports >= set(features)]


ALTERNATING = tuple(kind for kind in OWN_SOLVERS if is_alternating(kind))
SINGLE_LAYER = tuple(kind for kind in OWN_SOLVERS if "layers" not in kind().supports)
