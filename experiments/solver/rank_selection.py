"""How often `select` finds the ranks of the system behind the data, without noise and with noise.

Every run of f1, f2 and f3 has new points, 30 as in the paper; every random run has a new system and 60 points. Random
systems have one layer and two in turn, 2 to 4 inputs and outputs, so that ranks may be above their number; one that
is not locally unique at its points is drawn again. With noise, the same data have normal noise added, relative
to the root mean square of the values and of the Jacobians. The scan is told nothing but its default limits.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from decouply import systems
from decouply._support._errors import InputError
from decouply.bases import Monomial
from decouply.fit._decouple import decouple
from decouply.fit._relative_errors import Measure
from decouply.fit._settings import layer_bases
from decouply.fit.select._candidates import criterion
from decouply.fit.select._select import select
from decouply.fit.select._selection import Selection
from decouply.model._decoupling import Decoupling
from decouply.report._style import COLOURS, new_figure
from decouply.samples._samples import Samples
from decouply.solvers import VarPro
from decouply.solvers.inference._identifiability import identifiability
from decouply.solvers.inference._linearisation import linearise
from decouply.solvers.problem._prepared_samples import PreparedSamples
from decouply.solvers.problem._problem import ModelShape
from experiments.harness import Content, Experiment, Option, Outcome, Task, column, grid, markdown, matching

PAPER = ("f1", "f2", "f3")
GROUPS = (*PAPER, "random")
NOISE = (0.0, 1e-3)
N_SAMPLES = {"f1": 30, "f2": 30, "f3": 30, "random": 60}
OTHERS = ("lowest left-out error", "fewest parameters within one standard error", "twice the penalty")
_SECONDS = 600.0  # per scan: none should be cut short, whatever the machine


def tasks(*, seed: int, n_runs: int) -> list[Task]:
    """`n_runs` random systems and a third as many data sets of each of f1, f2 and f3, without and with noise."""
    counts = dict.fromkeys(PAPER, -(-n_runs // 3)) | {"random": n_runs}
    return [
        task
        for noise in NOISE
        for group in GROUPS
        for task in grid(group=group, run=range(counts[group]), noise=noise, seed=seed)
    ]


def work(group: str, run: int, noise: float, seed: int) -> Outcome:
    """Select ranks and degrees for one data set, and score a fit that starts at the truth."""
    system, samples = data_set(group, run, noise, seed)
    choice = select(samples, rng=run, progress=False, max_seconds=_SECONDS)
    at_truth = decouple(
        samples, system.ranks, system.degrees, solver=VarPro(start=system), n_starts=1, progress=False
    ).decoupling
    measure = Measure.of(samples)
    squares, n_free = measure.squares(at_truth, samples), _n_free(samples, system.ranks, system.degrees)
    return {
        "n_inputs": system.n_inputs,
        "n_outputs": system.n_outputs,
        "true_ranks": system.ranks,
        "true_degrees": system.degrees,
        "true_parameters": system.n_parameters,
        "ranks": choice.ranks,
        "degrees": choice.degrees,
        "ranks_found": choice.ranks == system.ranks,
        "n_parameters": choice.chosen.n_parameters,
        "training_error": choice.chosen.training_error,  # percent
        "true_training_error": 100.0 * float(np.sqrt(np.mean(squares))),
        "error": choice.chosen.error,  # on left-out samples
        "score": choice.chosen.score,
        "true_score": criterion(squares, measure.counts, n_free, PreparedSamples.of(samples).rounding_floor),
        "n_shapes": len(choice.table),
        "seconds": choice.seconds,
        "others": _other_rules(choice, samples),
    }


def _n_free(samples: Samples, ranks: tuple[int, ...], degrees: tuple[int, ...]) -> int:
    """Free parameters of polynomials of this shape."""
    layers = layer_bases(ranks, degrees, Monomial)
    return ModelShape.of(samples, layers, linear=False).n_free(values=True)


def _other_rules(choice: Selection, samples: Samples) -> dict[str, tuple[int, ...]]:
    """Ranks by rules that were not taken; errors at rounding count as equal."""
    rows = sorted(choice.table, key=lambda row: (max(row.error, 1e-8), row.n_parameters))
    best = rows[0]
    close = [row for row in rows if row.error <= max(best.error, 1e-8) + best.spread / np.sqrt(choice.n_folds)]
    log_N = np.log(sum(Measure.of(samples).counts))
    return {
        OTHERS[0]: best.ranks,
        OTHERS[1]: min(close, key=lambda row: row.n_parameters).ranks,
        OTHERS[2]: min(rows, key=lambda row: row.score + log_N * _n_free(samples, row.ranks, row.degrees)).ranks,
    }


def data_set(group: str, run: int, noise: float, seed: int) -> tuple[Decoupling, Samples]:
    """The system and its samples; noise comes last, so that data sets with and without it are otherwise the same."""
    rng = np.random.default_rng([seed, GROUPS.index(group), run])
    if group == "random":
        system, samples = _random_system(rng, n_layers=1 + run % 2, n_samples=N_SAMPLES[group])
    else:
        system = getattr(systems, group)()
        samples = _sample(system, rng, N_SAMPLES[group])
    F, J = np.asarray(samples.F), np.asarray(samples.J)
    F, J = (a + noise * np.sqrt(np.mean(a**2)) * rng.normal(size=a.shape) for a in (F, J))
    return system, Samples(samples.X, F=F, J=J)


def _random_system(rng: np.random.Generator, n_layers: int, n_samples: int) -> tuple[Decoupling, Samples]:
    """Ranks 1 to 4 and degree 2 to 5 in one layer; ranks 2 to 3 and degrees 2 to 4 in two."""
    while True:
        m, n = (int(k) for k in rng.integers(2, 5, 2))
        low, high, top = (1, 4, 5) if n_layers == 1 else (2, 3, 4)
        ranks = tuple(int(r) for r in rng.integers(low, high + 1, n_layers))
        degrees = tuple(int(d) for d in rng.integers(2, top + 1, n_layers))
        try:
            system = systems.random_system((m, *ranks, n), degrees, rng=rng)
        except InputError:  # no room for so many directions
            continue
        samples = _sample(system, rng, n_samples)
        if identifiability(linearise(system, samples)).locally_unique:
            return system, samples


def _sample(system: Decoupling, rng: np.random.Generator, n_samples: int) -> Samples:
    X = rng.uniform(-1.0, 1.0, (n_samples, system.n_inputs))
    return Samples(X, F=system(X), J=system.jacobian(X))


def table(content: Content) -> str:
    """How often ranks were found, by group and noise, what other rules would have chosen, and every miss."""

    def groups(*names: str) -> list[tuple[str, str, list[Task]]]:
        """A row for each level of noise and each of the names that has runs."""
        both = [(name, PAPER if name == "f1, f2, f3" else (name,), noise) for noise in NOISE for name in names]
        rows = [(name, f"{x:g}", [run for one in some for run in _runs(content, one, x)]) for name, some, x in both]
        return [row for row in rows if row[2]]

    found = [
        [
            name,
            noise,
            f"**{sum(run['ranks_found'] for run in runs)} of {len(runs)}**",
            f"{sum(run['ranks_found'] and run['degrees'] == run['true_degrees'] for run in runs)} of {len(runs)}",
            f"{np.median(column(runs, 'n_shapes')):.0f}",
            f"{np.median(column(runs, 'seconds')):.1f} s",
            f"{max(column(runs, 'seconds')):.0f} s",
        ]
        for name, noise, runs in groups("f1, f2, f3", *GROUPS)
    ]
    others = []
    for name, noise, runs in groups("f1, f2, f3", "random"):
        counts = [sum(run["ranks_found"] for run in runs)]
        counts += [sum(run["others"][rule] == run["true_ranks"] for run in runs) for rule in OTHERS]
        others.append([name, noise, *(f"{count} of {len(runs)}" for count in counts)])
    head = ["systems", "noise", "ranks found", "degrees too", "median shapes tried", "median time", "longest"]
    blocks = [
        f"Seed {content['seed']}. *Ranks found*: number of layers and all ranks as in the system behind the data.",
        markdown(head, found),
        "What other rules would have chosen from the same fits: ranks found.",
        markdown(["systems", "noise", "ours", *OTHERS], others),
    ]
    missed = [
        [
            f"{run['group']}, {run['n_inputs']} to {run['n_outputs']}",
            str(run["run"]),
            f"{run['noise']:g}",
            f"{tuple(run['true_ranks'])}, degrees {tuple(run['true_degrees'])}",
            str(run["true_parameters"]),
            f"{run['true_training_error']:.2g} %",
            f"{tuple(run['ranks'])}, degrees {tuple(run['degrees'])}",
            str(run["n_parameters"]),
            f"{run['training_error']:.2g} %",
            "yes" if run["score"] <= run["true_score"] else "no",
        ]
        for run in content["runs"]
        if not run["ranks_found"]
    ]
    if missed:
        shape = ["parameters", "off by"]
        blocks += [
            "The misses. *Off by*: error on the fitted samples, of the choice and of a fit that starts at the "
            "system itself. *Better*: the choice has the lower criterion of the two, so that these samples do not "
            "tell the system from something smaller; otherwise the search has missed it.",
            markdown(["system", "run", "noise", "its shape", *shape, "chosen", *shape, "better"], missed),
        ]
    return "\n\n".join(blocks)


def _runs(content: Content, group: str, noise: float) -> list[Task]:
    return matching(content["runs"], group=group, noise=noise)


def figure(content: Content) -> Figure:
    """Time per scan, one point per data set; crosses are misses."""
    canvas = new_figure(8.0, 3.0)
    ax = canvas.subplots()
    labels = []
    for position, (noise, group) in enumerate((noise, group) for noise in NOISE for group in GROUPS):
        runs = _runs(content, group, noise)
        labels.append(f"{group}, noise {noise:g}: {sum(run['ranks_found'] for run in runs)} of {len(runs)}")
        for run, offset in zip(runs, np.linspace(-0.3, 0.3, len(runs)), strict=True):
            marker, colour = (".", COLOURS[0]) if run["ranks_found"] else ("x", COLOURS[1])
            ax.plot(run["seconds"], position + offset, marker, color=colour, markersize=5)
    ax.set_yticks(range(len(labels)), labels, fontsize=8)
    ax.invert_yaxis()
    ax.set_xscale("log")
    ax.set_xlabel("seconds per scan; a cross: other ranks than those of the system")
    return canvas


RANK_SELECTION = Experiment.of(
    globals(),
    "rank-selection",
    "How often the right ranks are chosen.",
    options=(Option("n_runs", 30, "Random systems per noise level; a third as many data sets of f1, f2 and f3."),),
    quick={"n_runs": 3},
)
