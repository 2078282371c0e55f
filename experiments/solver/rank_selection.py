"""How often `select` finds the ranks of the system behind the data, without noise and with noise.

Every run of f1, f2 and f3 has new points, 30 as in the paper; every random run has a new system and 60 points. Random
systems have one layer and two in turn, 2 to 4 inputs and outputs, so that ranks may be above their number; one that
is not locally unique at its points is drawn again. With noise, the same data have normal noise added, relative
to the root mean square of the values and of the Jacobians. The scan is told nothing but its default limits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from decouply import __version__, systems
from decouply._support._errors import InputError
from decouply.bases import Monomial
from decouply.fit._decouple import decouple
from decouply.fit._relative_errors import Measure
from decouply.fit._settings import layer_bases
from decouply.fit.select._candidates import criterion
from decouply.fit.select._select import Selection, select
from decouply.model._decoupling import Decoupling
from decouply.report._style import COLOURS, house_style, new_figure
from decouply.samples._samples import Samples
from decouply.solvers import VarPro
from decouply.solvers.inference._identifiability import identifiability, linearise
from decouply.solvers.problem._model_shape import ModelShape
from decouply.solvers.problem._rounding import exact_below
from experiments.harness import run_all, write_experiment

GROUPS = ("f1", "f2", "f3", "random")
PAPER = ("f1", "f2", "f3")
NOISE = (0.0, 1e-3)
TARGETS = {0.0: 27, 1e-3: 24}  # of 30
N_SAMPLES = {"f1": 30, "f2": 30, "f3": 30, "random": 60}
OTHERS = ("lowest left-out error", "fewest parameters within one standard error", "twice the penalty")
_SECONDS = 600.0  # per scan: none should be cut short, whatever the machine


@dataclass(frozen=True)
class SelectionTask:
    """One data set."""

    group: str
    run: int
    noise: float
    seed: int
    version: str = __version__


@dataclass(frozen=True)
class SelectionRun:
    """What was there and what was found."""

    group: str
    run: int
    noise: float
    n_inputs: int
    n_outputs: int
    true_ranks: tuple[int, ...]
    true_degrees: tuple[int, ...]
    true_parameters: int
    ranks: tuple[int, ...]
    degrees: tuple[int, ...]
    n_parameters: int
    training_error: float  # percent
    true_training_error: float  # of a fit that starts at the truth
    error: float  # on left-out samples
    score: float
    true_score: float
    n_shapes: int
    seconds: float
    others: dict[str, tuple[int, ...]]  # ranks that other rules would have chosen from the same fits

    @property
    def right(self) -> bool:
        return self.ranks == self.true_ranks

    @property
    def preferred(self) -> bool:
        """Whether the choice is better than the truth by the criterion: no search could then have found it."""
        return self.score <= self.true_score

    @property
    def all_right(self) -> bool:
        return self.right and self.degrees == self.true_degrees


@dataclass(frozen=True)
class SelectionTable:
    """All runs."""

    runs: tuple[SelectionRun, ...]
    seed: int

    def content(self) -> dict[str, Any]:
        """Everything, as plain data."""
        return {"seed": self.seed, "runs": [asdict(run) | {"ranks_found": run.right} for run in self.runs]}

    def of(self, groups: tuple[str, ...], noise: float) -> list[SelectionRun]:
        return [run for run in self.runs if run.group in groups and run.noise == noise]


def run_selection(
    *,
    n_runs: int,
    seed: int,
    n_jobs: int,
    store: Path | None = None,
    progress: Callable[..., None] = lambda **_: None,
) -> SelectionTable:
    """`n_runs` random systems and a third as many data sets of each of f1, f2 and f3, without and with noise."""
    counts = dict.fromkeys(PAPER, -(-n_runs // 3)) | {"random": n_runs}
    tasks = [
        SelectionTask(group, run, noise, seed) for noise in NOISE for group in GROUPS for run in range(counts[group])
    ]
    found = run_all(tasks, work, store=store, n_jobs=n_jobs, progress=progress)
    return SelectionTable(tuple(_run(task, found[task]) for task in tasks), seed)


def work(task: SelectionTask) -> dict[str, Any]:
    """Select ranks and degrees for one data set."""
    system, samples = data_set(task)
    choice = select(samples, rng=task.run, progress=False, max_seconds=_SECONDS)
    at_truth = decouple(
        samples, system.ranks, system.degrees, solver=VarPro(start=system), n_starts=1, progress=False
    ).decoupling
    measure = Measure.of(samples)
    squares = measure.squares(at_truth, samples)
    return {
        "n_inputs": system.n_inputs,
        "n_outputs": system.n_outputs,
        "true_ranks": system.ranks,
        "true_degrees": system.degrees,
        "true_parameters": system.n_parameters,
        "ranks": choice.ranks,
        "degrees": choice.degrees,
        "n_parameters": choice.chosen.n_parameters,
        "training_error": choice.chosen.training_error,
        "true_training_error": 100.0 * float(np.sqrt(np.mean(squares))),
        "error": choice.chosen.error,
        "score": choice.chosen.score,
        "true_score": criterion(
            squares, measure.counts, _n_free(samples, system.ranks, system.degrees), exact_below(samples)
        ),
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


def data_set(task: SelectionTask) -> tuple[Decoupling, Samples]:
    """The system and its samples; noise comes last, so that data sets with and without it are otherwise the same."""
    rng = np.random.default_rng([task.seed, GROUPS.index(task.group), task.run])
    S = N_SAMPLES[task.group]
    if task.group == "random":
        system, samples = _random_system(rng, n_layers=1 + task.run % 2, n_samples=S)
    else:
        system = getattr(systems, task.group)()
        samples = _sampled(system, rng, S)
    F, J = np.asarray(samples.F), np.asarray(samples.J)
    F, J = (a + task.noise * np.sqrt(np.mean(a**2)) * rng.normal(size=a.shape) for a in (F, J))
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
        samples = _sampled(system, rng, n_samples)
        if identifiability(linearise(system, samples)).locally_unique:
            return system, samples


def _sampled(system: Decoupling, rng: np.random.Generator, n_samples: int) -> Samples:
    X = rng.uniform(-1.0, 1.0, (n_samples, system.n_inputs))
    return Samples(X, F=system(X), J=system.jacobian(X))


def _run(task: SelectionTask, outcome: dict[str, Any]) -> SelectionRun:
    known: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in outcome.items()
    }
    known["others"] = {rule: tuple(ranks) for rule, ranks in outcome["others"].items()}
    return SelectionRun(task.group, task.run, task.noise, **known)


# What a person sees


def selection_markdown(table: SelectionTable) -> str:
    """How often ranks were found, by group and noise, and every miss."""
    lines = [
        f"Seed {table.seed}. *Ranks found*: number of layers and all ranks as in the system behind the data.",
        "",
        "| systems | noise | ranks found | target | degrees too | median shapes tried | median time | longest |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for noise in NOISE:
        for name, groups in (("f1, f2, f3", PAPER), *((group, (group,)) for group in GROUPS)):
            runs = table.of(groups, noise)
            if not runs:
                continue
            share = "" if name in PAPER else f"≥ {TARGETS[noise]} of 30"
            seconds = [run.seconds for run in runs]
            lines.append(
                f"| {name} | {noise:g} | **{sum(run.right for run in runs)} of {len(runs)}** | {share} | "
                f"{sum(run.all_right for run in runs)} of {len(runs)} | "
                f"{np.median([run.n_shapes for run in runs]):.0f} | {np.median(seconds):.1f} s | {max(seconds):.0f} s |"
            )
    lines += [
        "",
        "What other rules would have chosen from the same fits: ranks found.",
        "",
        f"| systems | noise | ours | {' | '.join(OTHERS)} |",
        "|---|---|---|---|---|---|",
    ]
    for noise in NOISE:
        for name, groups in (("f1, f2, f3", PAPER), ("random", ("random",))):
            runs = table.of(groups, noise)
            if runs:
                found = [sum(run.right for run in runs)]
                found += [sum(run.others[rule] == run.true_ranks for run in runs) for rule in OTHERS]
                cells = " | ".join(f"{count} of {len(runs)}" for count in found)
                lines.append(f"| {name} | {noise:g} | {cells} |")
    missed = [run for run in table.runs if not run.right]
    if missed:
        lines += [
            "",
            "The misses. *Off by*: error on the fitted samples, of the choice and of a fit that starts at the "
            "system itself. *Better*: the choice has the lower criterion of the two, so that these samples do not "
            "tell the system from something smaller; otherwise the search has missed it.",
            "",
            "| system | run | noise | its shape | parameters | off by | chosen | parameters | off by | better |",
            "|---|---|---|---|---|---|---|---|---|---|",
        ]
        for run in missed:
            lines.append(
                f"| {run.group}, {run.n_inputs} to {run.n_outputs} | {run.run} | {run.noise:g} | {run.true_ranks}, "
                f"degrees {run.true_degrees} | {run.true_parameters} | {run.true_training_error:.2g} % | {run.ranks}, "
                f"degrees {run.degrees} | {run.n_parameters} | {run.training_error:.2g} % | "
                f"{'yes' if run.preferred else 'no'} |"
            )
    return "\n".join(lines)


def selection_figure(table: SelectionTable) -> Figure:
    """Time per scan, one point per data set; crosses are misses."""
    with house_style():
        figure = new_figure(8.0, 3.0)
        ax = figure.subplots()
        labels = []
        for position, (noise, group) in enumerate((noise, group) for noise in NOISE for group in GROUPS):
            runs = table.of((group,), noise)
            labels.append(f"{group}, noise {noise:g}: {sum(run.right for run in runs)} of {len(runs)}")
            offsets = np.linspace(-0.3, 0.3, max(len(runs), 1))
            for run, offset in zip(runs, offsets, strict=False):
                marker, colour = (".", COLOURS[0]) if run.right else ("x", COLOURS[1])
                ax.plot(run.seconds, position + offset, marker, color=colour, markersize=5)
        ax.set_yticks(range(len(labels)), labels, fontsize=8)
        ax.invert_yaxis()
        ax.set_xscale("log")
        ax.set_xlabel("seconds per scan; a cross: other ranks than those of the system")
    return figure


def write_selection(table: SelectionTable, directory: Path) -> None:
    """selection.json, selection.md and selection.png."""
    write_experiment(directory, "selection", table.content(), selection_markdown(table), selection_figure(table))
