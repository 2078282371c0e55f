"""A decoupling among others of its size: students, pruning, low rank and rounding, on networks trained to the end.

One part of a network is replaced by functions of equal size that are trained on the same inputs, without labels, with
the same number of steps. Ours starts from a decoupling of values and Jacobians at 200 of the inputs, or from random
directions, without Jacobians. The others have the best of three rates. The original is rounded, and so is ours. Rows
"with labels" train five epochs more, ours and the original alike.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter
from torch import Tensor, nn

from decouply import __version__
from decouply._support._errors import DecouplingWarning
from decouply.bases import AbstractBasis, Monomial, Spline
from decouply.fit._decouple import decouple
from decouply.nn import DecoupledLayer, freeze, pack, refine, sample
from decouply.nn.layer._decoupled_layer import layer_on
from decouply.nn.layer._quantisation import n_bytes, stored_bytes
from decouply.nn.layer._random_layer import in_basis, random_layer
from decouply.nn.training._training_inputs import FEW, recombine
from decouply.report._style import COLOURS, house_style, new_figure
from decouply.solvers import Proj
from experiments.harness import run_all, write_experiment
from experiments.networks.baselines import quantized, quantized_bytes
from experiments.networks.other_methods import (
    OTHERS,
    PAPER,
    STOPPING,
    STUDENTS,
    STUDENTS_IN_BITS,
    as_printed,
    rivals,
    width_in_bits,
)
from experiments.networks.trained_networks import CASES, DEGREE, Original, Size, Training, original, with_labels

OURS = ("ours", "ours, random start", "ours, splines", "ours, two layers")
ROUNDED = ("ours, 8 bits", "ours, fewer bits", "original, 8 bits", "original, 4 bits")
LABELLED = ("ours, with labels", "original, with labels")
METHODS = (*PAPER, *OURS, *STUDENTS, *OTHERS, *ROUNDED, *STUDENTS_IN_BITS, *LABELLED)
ANY_INPUTS = ("original, 8 bits", "original, 4 bits", "original, with labels")
SMALL = ("ours", "ours, random start", "ours, two layers", *STUDENTS, "pruned")  # of the sizes after the first
QUICK = ("ours, random start", "GELU, one hidden layer", "pruned", "original, 8 bits", "ours, fewer bits")
IN_FEW_BITS = ("ours, fewer bits", *STUDENTS_IN_BITS)
_SAMPLES = 200
_PASSES = 100  # of a timing


@dataclass(frozen=True)
class StudentTask:
    """One way to replace the part, for all draws of inputs."""

    case: str
    method: str
    size: int
    n_inputs: int
    n_runs: int
    seed: int
    steps: int
    epochs: int | None = None
    version: str = __version__


@dataclass(frozen=True)
class Cell:
    """All draws of one method: scores, distances from the original, rates; size, bytes and times."""

    size: int
    method: str
    n_inputs: int  # 0: the same for all
    runs: list[dict[str, Any]]

    def values(self, what: str) -> np.ndarray:
        """One number per draw; what is not finite is infinitely far."""
        return np.array([np.inf if run[what] is None else run[what] for run in self.runs], dtype=float)


@dataclass(frozen=True)
class StudentTable:
    """What came of every method."""

    case: str
    n_runs: int
    seed: int
    steps: int
    score: float
    part_parameters: int
    part_bytes: int
    latency: tuple[float, float]
    cells: list[Cell]

    def drops(self, cell: Cell) -> np.ndarray:
        """Points that are lost."""
        scores = np.array([-np.inf if run["score"] is None else run["score"] for run in cell.runs], dtype=float)
        return self.score - scores

    def content(self) -> dict[str, Any]:
        """Everything, as plain data."""
        cells = []
        for cell in self.cells:
            drops = self.drops(cell)
            told = {"rank": CASES[self.case].sizes[cell.size].rank, "method": cell.method, "n_inputs": cell.n_inputs}
            told |= {"median_drop": float(np.median(drops)), "worst_drop": float(np.max(drops))}
            cells.append(told | {"median_distance": float(np.median(cell.values("distance"))), "runs": cell.runs})
        names = ("case", "n_runs", "seed", "steps", "score", "part_parameters", "part_bytes", "latency")
        return {name: getattr(self, name) for name in names} | {"cells": cells}


def run_students(
    case: str,
    *,
    n_runs: int,
    seed: int,
    n_jobs: int,
    store: Path,
    steps: int | None = None,
    epochs: int | None = None,
    inputs: tuple[int, ...] | None = None,
    methods: tuple[str, ...] = METHODS,
    progress: Callable[..., None] = lambda **_: None,
) -> StudentTable:
    """Train the network of a case if it does not lie beside `store`, and run everything that `store` does not have."""
    progress(stage="training the network", done=0, total=None)
    folder, told = str(store.parent), CASES[case]
    at = original(case, folder, seed, epochs)
    count = told.steps if steps is None else steps
    tasks = []
    for k, size in enumerate(told.sizes if inputs is None else told.sizes[:1]):
        numbers = size.inputs if inputs is None else inputs
        for n_inputs in numbers:
            for method in methods if k == 0 else (m for m in methods if m in SMALL):
                if method in PAPER and n_inputs != min(size.inputs if inputs is None else inputs):
                    continue
                if (method in ANY_INPUTS or method in LABELLED) and n_inputs != max(numbers):
                    continue
                if method in IN_FEW_BITS and (size.packed is None or n_inputs != max(numbers)):
                    continue
                some = 1 if method in ("original, 8 bits", "original, 4 bits") else n_runs
                tasks.append(StudentTask(case, method, k, n_inputs, some, seed, count, epochs))
    found = run_all(tasks, partial(work, folder=folder), store=store, n_jobs=n_jobs, progress=progress)
    cells = [Cell(t.size, t.method, 0 if t.method in ANY_INPUTS else t.n_inputs, found[t]["runs"]) for t in tasks]
    own = sum(p.numel() for p in at.part.parameters())
    spent = latency(at.part, at.test_features)
    return StudentTable(case, n_runs, seed, count, at.score(at.part), own, stored_bytes(at.part), spent, cells)


def work(task: StudentTask, folder: str) -> dict[str, Any]:
    """Score, distance, size and time of one kind of replacement, for every draw."""
    at = original(task.case, folder, task.seed, task.epochs)
    size, how = CASES[task.case].sizes[task.size], CASES[task.case].training
    drawn = [draw(task.seed, run, at, task.n_inputs) for run in range(task.n_runs)]
    if task.method in (*STUDENTS, *OTHERS):
        found = rivals(task.method, at, [X for X, _ in drawn], size, how, task.steps, task.seed)
        return {"runs": [row(at, part, rate=rate) for part, rate in found]}
    if task.method in STUDENTS_IN_BITS:
        assert size.packed is not None
        told = {"rank": width_in_bits(size, at.ends), "n_bits": size.packed[1]}
        found = rivals(task.method, at, [X for X, _ in drawn], size, how, task.steps, task.seed)
        return {"runs": [row(at, p, stored=quantized_bytes(p, told["n_bits"]), rate=r) | told for p, r in found]}
    return {"runs": [_one(task, at, size, X, run, rng) for run, (X, rng) in enumerate(drawn)]}


def draw(seed: int, run: int, at: Original, n_inputs: int) -> tuple[Tensor, np.random.Generator]:
    """Inputs of one run, the same for all methods, and a generator that goes on from them."""
    rng = np.random.default_rng([seed, 17, run])
    return at.features[rng.permutation(len(at.features))[:n_inputs]], rng


def _one(task: StudentTask, at: Original, size: Size, X: Tensor, run: int, rng: np.random.Generator) -> dict[str, Any]:
    method = task.method
    if method in PAPER:
        layer = as_printed(method, at, X[:_SAMPLES], size.rank, rng)
        if layer is None:
            return {"score": None, "distance": None, "parameters": 0, "bytes": 0, "latency": (0.0, 0.0)}
        return row(at, layer)
    if method in ("original, 8 bits", "original, 4 bits"):
        n_bits = 8 if "8" in method else 4
        return row(at, quantized(at.part, n_bits), stored=quantized_bytes(at.part, n_bits))
    if method == "original, with labels":
        return row(at, with_labels(at.part, at, run))
    ranks: tuple[int, ...] = size.two if method == "ours, two layers" else (size.rank,)
    basis = {"ours, two layers": Monomial(3), "ours, splines": Spline(2)}.get(method)
    stored_bits = 8 if method == "ours, 8 bits" else None
    if method == "ours, fewer bits":
        assert size.packed is not None
        ranks, stored_bits = size.packed[:1], size.packed[1]
    random = method in ("ours, random start", "ours, two layers")
    layer = begun(at, X, ranks, basis, rng, random=random)
    layer = refined(at, layer, X, CASES[task.case].training, task.steps, rng, stored_bits)
    if stored_bits is not None:
        return row(at, layer, stored=n_bytes(pack(layer, stored_bits))) | {"rank": ranks[0], "n_bits": stored_bits}
    return row(at, with_labels(layer, at, run) if method == "ours, with labels" else layer)


def begun(
    at: Original,
    X: Tensor,
    ranks: tuple[int, ...],
    basis: AbstractBasis | None,
    rng: np.random.Generator,
    *,
    random: bool,
) -> DecoupledLayer:
    """Our layer before it is trained: from a decoupling of values and Jacobians at 200 inputs, or from none."""
    if random:
        if len(X) < FEW:  # least squares on so few would mean little between them
            X = torch.cat([X, recombine(X, FEW, torch.Generator().manual_seed(int(rng.integers(2**31))))])
        F = at.values(X)
        own = Monomial(DEGREE) if basis is None else basis
        return random_layer((X.shape[1], *ranks, F.shape[1]), [own] * len(ranks), X, F, "linear", rng, torch.float32)
    with warnings.catch_warnings():  # about functions that are not unique, which does not matter here
        warnings.simplefilter("ignore", DecouplingWarning)
        found = decouple(
            sample(at.part, X[:_SAMPLES], progress=False),
            ranks,
            (DEGREE,) * len(ranks),
            solver=Proj(lam=1e-2, **STOPPING),
            as_given=True,
            n_starts=8,
            rng=rng,
            progress=False,
        )
    layer = layer_on(found.decoupling, X.double().numpy(), "linear")
    return layer if basis is None else in_basis(layer, basis, torch.float32)


def refined(
    at: Original,
    layer: DecoupledLayer,
    X: Tensor,
    how: Training,
    steps: int,
    rng: np.random.Generator,
    n_bits: int | None = None,
) -> DecoupledLayer:
    """Our layer after training without labels; as it was, where that makes it worse."""
    loss = "kl" if at.in_classes else "squared"
    with warnings.catch_warnings():  # that it went astray, which its distance tells as well
        warnings.simplefilter("ignore", DecouplingWarning)
        return refine(
            layer,
            at.part,
            X,
            loss=loss,
            max_steps=steps,
            batch_size=how.batch_size,
            rate=how.rate,
            n_bits=n_bits,
            rng=rng,
            progress=False,
        )


def row(at: Original, part: nn.Module, *, stored: int | None = None, rate: float | None = None) -> dict[str, Any]:
    """What is told of one replacement."""
    told: dict[str, Any] = {
        "score": at.score(part),
        "distance": at.distance(part),
        "parameters": sum(p.numel() for p in part.parameters()),
        "bytes": stored_bytes(part) if stored is None else stored,
        "latency": latency(part, at.test_features),
    }
    return told if rate is None else told | {"rate": rate}


def latency(part: nn.Module, X: Tensor) -> tuple[float, float]:
    """Best time of one pass over 64 and 1024 inputs, in seconds."""
    fast, found = freeze(part), []
    with torch.no_grad():
        for batch in (X[:64], X[:1024]):
            best = float("inf")
            for _ in range(_PASSES):
                began = time.perf_counter()
                fast(batch)
                best = min(best, time.perf_counter() - began)
            found.append(best)
    return found[0], found[1]


# What a person sees


def students_markdown(table: StudentTable) -> str:
    """Drops by method, with size, bytes and time; one table for each size and number of inputs."""
    case = CASES[table.case]
    unit = "points of accuracy" if case.in_classes else "points of 100 R²"
    kind = "KL divergence" if case.in_classes else "squared error"
    few, many = (1e6 * seconds for seconds in table.latency)
    lines = [
        f"The original scores {table.score:.2f} on the test inputs; its part has {table.part_parameters} parameters in "
        f"{table.part_bytes} bytes and takes {few:.0f} and {many:.0f} µs for 64 and 1024 inputs. Drops in {unit} and "
        f"{kind} from the original on the test inputs: median (best to worst) of {table.n_runs} draws of inputs, "
        f"{table.steps} steps each; seed {table.seed}.",
    ]
    groups = sorted({(c.size, c.n_inputs) for c in table.cells if c.n_inputs})
    fixed = [c for c in table.cells if not c.n_inputs]
    for size, n_inputs in groups:
        lines += [
            "",
            f"**r = {case.sizes[size].rank}, {n_inputs} inputs**",
            "",
            f"| method | drop | {kind} | parameters | bytes | µs for 64 | µs for 1024 |",
            "|---|---|---|---|---|---|---|",
        ]
        some = [c for c in table.cells if (c.size, c.n_inputs) == (size, n_inputs)]
        lines += [_line(table, c) for c in [*some, *(fixed if size == 0 else [])]]
    return "\n".join(lines)


def _line(table: StudentTable, cell: Cell) -> str:
    drops, distances, first = table.drops(cell), cell.values("distance"), cell.runs[0]
    times = 1e6 * np.median([run["latency"] for run in cell.runs], axis=0)
    name = cell.method
    if "n_bits" in first:
        name = f"{cell.method.split(',')[0]}, r = {first['rank']} in {first['n_bits']} bits"
    spread = f" ({np.min(drops):.2f} to {np.max(drops):.2f})" if len(drops) > 1 else ""
    far = f" (to {np.max(distances):.2g})" if len(distances) > 1 else ""
    return (
        f"| {name} | **{np.median(drops):.2f}**{spread} | {np.median(distances):.2g}{far} | {first['parameters']} | "
        f"{first['bytes']} | {times[0]:.0f} | {times[1]:.0f} |"
    )


def students_figure(table: StudentTable) -> Figure:
    """Distances of every run from the original, one panel per size and number of inputs."""
    groups = sorted({(c.size, c.n_inputs) for c in table.cells if c.n_inputs})
    with house_style():
        figure = new_figure(4.6 * len(groups), 4.6)
        axes = figure.subplots(1, len(groups), squeeze=False)[0]
        for ax, (size, n_inputs) in zip(axes, groups, strict=True):
            some = [c for c in table.cells if (c.size, c.n_inputs) == (size, n_inputs) and "labels" not in c.method]
            for k, cell in enumerate(some):
                values = cell.values("distance")
                colour = COLOURS[0 if cell.method.startswith("ours") else 1]
                ax.plot(values, [k] * len(values), "o", color=colour, alpha=0.6)
                ax.plot(np.median(values), k, "|", color="black", markersize=12)
            ax.set_yticks(range(len(some)), [cell.method for cell in some], fontsize=7)
            ax.invert_yaxis()
            every = np.concatenate([cell.values("distance") for cell in some])
            if np.max(every) > 10.0 * np.min(every):
                ax.set_xscale("log")
                ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
                ax.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
                ax.xaxis.set_minor_formatter(NullFormatter())
            ax.set_title(f"r = {CASES[table.case].sizes[size].rank}, {n_inputs} inputs", fontsize=9)
            ax.set_xlabel("KL divergence" if CASES[table.case].in_classes else "squared relative error")
    return figure


def write_students(table: StudentTable, directory: Path) -> None:
    """NAME.json, NAME.md and NAME.png."""
    name = f"{table.case}-students" if table.case in ("mnist", "fashion") else table.case
    write_experiment(directory, name, table.content(), students_markdown(table), students_figure(table))
