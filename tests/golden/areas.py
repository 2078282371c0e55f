"""All areas, whose cases are registered when they are imported."""

from . import commands, dynamics, estimators, fits, networks, samples, solvers, writers

AREAS = tuple(
    module.__name__.rpartition(".")[2]
    for module in (commands, dynamics, estimators, fits, networks, samples, solvers, writers)
)
