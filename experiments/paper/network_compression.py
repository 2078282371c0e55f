"""The paper's compression experiments: the part of a network behind its first hidden layer, replaced by decouplings.

Every run draws 20 training images per class; all methods and sizes of a run get the same. The algorithms of the paper
run as printed: the data as given, plain projection, one start, 15 to 50 iterations, patience 20, the iterate at which
that rule ends, polynomials that go on outside the range of the samples, lam by the accuracy on the rest of the training
set. Beside them the same with one thing changed: the best iterate, or the activation of the output inside the part.
Ours go on from PROJ without labels (`dc.nn.refine`), with the 200 inputs alone or with 20000 more, and with labels at
the end. Others of the same size are trained beside them: a small ReLU network distilled on the same 200 points, the
same with recombined inputs, truncated singular value decompositions of the weights, and Sobolev training (values and
Jacobians) by Adam from a random start.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from numpy import ndarray
from torch import Tensor, nn

from decouply import __version__
from decouply._support._errors import SolverError
from decouply._support._messages import pluralised
from decouply.bases import Monomial
from decouply.fit._decouple import decouple
from decouply.model._decoupling import Decoupling
from decouply.model._functions import Functions, Outside
from decouply.nn import DecoupledLayer, FineTune, refine, sample
from decouply.nn.layer._decoupled_layer import layer_on
from decouply.nn.training._distillation import divergence
from decouply.nn.training._fine_tune import train_with_labels
from decouply.nn.training._training_inputs import recombine
from decouply.report._style import COLOURS, house_style, new_figure
from decouply.samples._samples import Samples
from decouply.solvers import AbstractSolver, Constr, Proj, TwoStage, VarPro, Zniyed
from decouply.solvers.alternating._loop import WhichIterate
from experiments.harness import run_all, write_experiment, write_figure
from experiments.paper.networks_as_in_paper import ARCHITECTURES, Teacher, WithOutput, teacher

DEGREE = 4
PER_CLASS = 20
MANY = 20_000
STABLE = 0.3  # points that the worst run may lose
STEPS = 6000  # of the peers that are trained, as many as `refine` takes
BATCH = 512  # of recombined inputs, of which so many are made:
RECOMBINED = 60_000
_SHOWN = 5.0  # points below the network that the picture goes down to
STOPPING: dict[str, Any] = {"min_steps": 15, "max_steps": 50, "patience": 20}
AS_PRINTED = ("Zniyed", "TS-Zniyed", "TS-PROJ-1", "TS-PROJ-2")
INSIDE, BEST = "output inside", "best iterate"
CHANGED = (f"TS-PROJ-1, {INSIDE}", f"TS-PROJ-2, {INSIDE}", *(f"{method}, {BEST}" for method in AS_PRINTED))
PAPER_METHODS = (*AS_PRINTED, *CHANGED)
OWN_METHODS = ("TS-CONSTR-1", "TS-CONSTR-2", "VarPro", "refined, S = 200", "refined, 20 000 inputs", "fine-tuned")
PEERS = ("ReLU distilled", "ReLU distilled, recombined", "truncated SVD", "Sobolev-Adam")
METHODS = (*PAPER_METHODS, *OWN_METHODS, *PEERS)
GROUPS = (AS_PRINTED, CHANGED, OWN_METHODS, PEERS)  # by colour
FEW_REFINED, MANY_REFINED, TUNED = REFINED = ("refined, S = 200", "refined, 20 000 inputs", "fine-tuned")


@dataclass(frozen=True)
class Size:
    """One size of replacement: the rank of a single layer and the ranks, input first, of two layers."""

    one: int
    two: tuple[int, int]
    claim: str = ""  # the drop that the paper reports
    targets: tuple[float, ...] = ()  # for `REFINED`


SIZES = {
    "mnist": (
        Size(10, (8, 12), "about 1", (0.7, 0.2, 0.0)),
        Size(15, (13, 11), "< 0.6", (0.45, 0.1, 0.0)),
        Size(20, (18, 11), "< 0.6"),
    ),
    # The paper does not print the two-layer shapes of FashionMNIST. Its caption says that one of them saves about as
    # much as r = 10 and half a percent more than r = 12, its text that 3.8 % of the parameters are kept: r_1 = 10, 12.
    "fashion": (Size(10, (10, 12)), Size(12, (10, 15), "< 2.5", (1.5, 0.15, 0.0)), Size(14, (12, 12))),
}


@dataclass(frozen=True)
class NetworkTask:
    """One replacement of the part."""

    case: str
    method: str
    size: int
    run: int
    seed: int
    version: str = __version__
    epochs: int | None = None  # of a network that is trained less than the case says


@dataclass(frozen=True)
class NetworkTable:
    """Accuracy in percent of every run, by method and size."""

    case: str
    n_runs: int
    seed: int
    accuracy: float
    part_parameters: int
    parameters: dict[tuple[str, int], int]
    runs: dict[tuple[str, int], Float[ndarray, " runs"]]

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(sorted({size for _, size in self.runs}))

    def drops(self, method: str, size: int) -> Float[ndarray, " runs"]:
        return self.accuracy - self.runs[method, size]

    def savings(self, method: str, size: int) -> float:
        return 100.0 * (1.0 - self.parameters[method, size] / self.part_parameters)

    def content(self) -> dict[str, Any]:
        """Everything, as plain data."""
        cells = [
            {
                "method": method,
                "size": size,
                "parameters": self.parameters[method, size],
                "savings_percent": self.savings(method, size),
                "median_drop": float(np.median(self.drops(method, size))),
                "accuracies": accuracies.tolist(),
            }
            for (method, size), accuracies in self.runs.items()
        ]
        return {"case": self.case, "n_runs": self.n_runs, "seed": self.seed, "accuracy": self.accuracy, "cells": cells}


def run_networks(
    case: str,
    *,
    n_runs: int,
    seed: int,
    n_jobs: int,
    store: Path,
    sizes: tuple[int, ...] | None = None,
    epochs: int | None = None,
    progress: Callable[..., None] = lambda **_: None,
) -> NetworkTable:
    """Train the network of a case if it does not lie beside `store`, and run everything that `store` does not have."""
    progress(stage="training the network", done=0, total=None)
    folder = str(store.parent)
    at = teacher(case, folder, seed, epochs)
    chosen = tuple(range(len(SIZES[case]))) if sizes is None else sizes
    tasks = [
        NetworkTask(case, method, size, run, seed, epochs=epochs)
        for run in range(n_runs)
        for size in chosen
        for method in METHODS
        if method != TUNED  # a run of MANY_REFINED goes on to it
    ]
    found = run_all(tasks, partial(work, folder=folder), store=store, n_jobs=n_jobs, progress=progress)
    keys = [(method, size) for method in METHODS for size in chosen]

    def outcomes(key: tuple[str, int]) -> list[dict[str, Any]]:
        method, size = key
        if method == TUNED:
            return [outcome[TUNED] for outcome in outcomes((MANY_REFINED, size))]
        return [found[NetworkTask(case, method, size, run, seed, epochs=epochs)] for run in range(n_runs)]

    return NetworkTable(
        case,
        n_runs,
        seed,
        at.accuracy(at.part),
        sum(p.numel() for p in at.part.parameters()),
        {key: int(outcomes(key)[0]["parameters"]) for key in keys},
        {key: np.array([o["accuracy"] for o in outcomes(key)], dtype=float) for key in keys},
    )


def work(task: NetworkTask, folder: str) -> dict[str, Any]:
    """The accuracy on the test images of one replacement; a solver that fails counts as guessing."""
    at = teacher(task.case, folder, task.seed, task.epochs)
    rng = np.random.default_rng([task.seed, task.run])
    rows = np.concatenate([rng.permutation(np.flatnonzero(at.labels.numpy() == c))[:PER_CLASS] for c in range(10)])
    try:
        part = replacement(task, at, rows, rng)
    except SolverError:
        return {"accuracy": 10.0, "parameters": parameters_of(ranks_of(task), at.features.shape[1])}
    outcome: dict[str, Any] = {"accuracy": at.accuracy(part), "parameters": sum(p.numel() for p in part.parameters())}
    if isinstance(part, DecoupledLayer) and task.method == MANY_REFINED:
        labelled = FineTune(at.features, at.labels, max_steps=5 * -(-len(at.labels) // 256))
        train_with_labels(part, [part], labelled, rng, torch.float32, torch.device("cpu"), False)
        outcome[TUNED] = outcome | {"accuracy": at.accuracy(part)}
    return outcome


def replacement(task: NetworkTask, at: Teacher, rows: ndarray, rng: np.random.Generator) -> nn.Module:
    """What a method puts into the place of the part."""
    size = SIZES[task.case][task.size]
    X = at.features[rows]
    budget = parameters_of((size.one,), X.shape[1])
    if task.method == "truncated SVD":
        return truncated(at.part, budget)
    if task.method.startswith("ReLU"):
        return distilled(at, X, budget, task.run, mixed=task.method.endswith("recombined"))
    inside = task.method.endswith(INSIDE)
    samples = sample(WithOutput(at.part, at.output) if inside else at.part, X, progress=False)
    if task.method == "Sobolev-Adam":
        return sobolev(samples, size.one, task.run)
    ranks = ranks_of(task)
    rest = np.setdiff1d(np.arange(len(at.features)), rows)
    validation = dataclasses.replace(at, features=at.features[rest], labels=at.labels[rest])
    own = task.method in REFINED
    tails: Outside = "extend" if task.method in PAPER_METHODS else "linear"

    def worse(model: Decoupling) -> float:
        return -validation.accuracy(layer_of(model), test=False)

    def layer_of(model: Decoupling) -> DecoupledLayer:
        return layer_on(model, samples.X, tails)

    result = decouple(
        samples,
        ranks,
        (DEGREE,) * len(ranks),
        solver=solver_of(task.method, worse, samples, ranks, rng),
        as_given=True,
        n_starts=8 if own else 1,
        rng=rng,
        progress=False,
    )
    layer = layer_of(result.decoupling)
    if not own:
        return layer
    inputs = X
    if task.method == MANY_REFINED:
        inputs = at.features[rng.permutation(rest)[:MANY]]
        layer = layer_on(result.decoupling, inputs.double().numpy(), "linear")
    return refine(layer, at.part, inputs, rng=rng, progress=False)


def solver_of(
    method: str,
    worse: Callable[[Decoupling], float],
    samples: Samples,
    ranks: tuple[int, ...],
    rng: np.random.Generator,
) -> AbstractSolver:
    which: WhichIterate = "best" if method.endswith(BEST) else "last"
    if method.startswith("Zniyed"):
        return Zniyed(iterate=which, **STOPPING)
    if method.startswith("TS-Zniyed"):
        return TwoStage(Zniyed(iterate=which, **STOPPING), loss=worse)
    if method.startswith("TS-PROJ"):
        return TwoStage(Proj(weighted_projection=False, iterate=which, **STOPPING), loss=worse)
    if method.startswith("TS-CONSTR"):
        return TwoStage(Constr(**STOPPING), loss=worse)
    if method == "VarPro":  # too many unknowns for random starts: it goes on from an alternating solver
        degrees = (DEGREE,) * len(ranks)
        proj = Proj(lam=1e-2, **STOPPING)
        begun = decouple(samples, ranks, degrees, solver=proj, as_given=True, n_starts=8, rng=rng, progress=False)
        return VarPro(start=begun.decoupling, max_seconds=5.0)
    return Proj(lam=1e-2, **STOPPING)


# Others of the same size


def ranks_of(task: NetworkTask) -> tuple[int, ...]:
    size = SIZES[task.case][task.size]
    return size.two if task.method.split(",")[0].endswith("-2") else (size.one,)


def parameters_of(ranks: tuple[int, ...], n_inputs: int) -> int:
    """Parameters of a decoupling with ten outputs."""
    dims = (n_inputs, *ranks, 10)
    return sum(a * b for a, b in pairwise(dims)) + DEGREE * sum(ranks) + ranks[-1]


def distilled(at: Teacher, X: Tensor, budget: int, seed: int, *, mixed: bool) -> nn.Module:
    """A ReLU network with one hidden layer, trained to the softmax of the part on the given points."""
    m = X.shape[1]
    width = max(1, round((budget - 10) / (m + 11)))
    torch.manual_seed(seed)
    student = nn.Sequential(nn.Linear(m, width), nn.ReLU(), nn.Linear(width, 10))
    generator = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.Adam(student.parameters(), lr=5e-3, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 5e-3, total_steps=STEPS)
    inputs = recombine(X, RECOMBINED, generator) if mixed else X
    with torch.no_grad():
        wanted = at.part(inputs).log_softmax(1)
    everything = torch.arange(len(inputs))
    for _ in range(STEPS):
        rows = torch.randint(len(inputs), (BATCH,), generator=generator) if mixed else everything
        optimiser.zero_grad()
        logits = student(inputs.index_select(0, rows))
        divergence(logits, wanted.index_select(0, rows)).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        schedule.step()
    return student


def truncated(part: nn.Sequential, budget: int) -> nn.Module:
    """Every weight matrix as a product of rank k, with the largest share of the ranks that the budget allows."""
    linear = [layer for layer in part if isinstance(layer, nn.Linear)]

    def cut(share: float) -> nn.Sequential:
        layers: list[nn.Module] = []
        for layer in part:
            if not isinstance(layer, nn.Linear):
                layers.append(copy.deepcopy(layer))
                continue
            rank = max(1, round(share * min(layer.in_features, layer.out_features)))
            if rank * (layer.in_features + layer.out_features) >= layer.weight.numel():
                layers.append(copy.deepcopy(layer))
                continue
            U, s, Vt = torch.linalg.svd(layer.weight.detach(), full_matrices=False)
            first, second = nn.Linear(layer.in_features, rank, bias=False), nn.Linear(rank, layer.out_features)
            first.weight.data, second.weight.data = Vt[:rank], U[:, :rank] * s[:rank]
            second.bias.data = layer.bias.detach().clone()
            layers += [first, second]
        return nn.Sequential(*layers)

    assert linear
    low, high = 0.0, 1.0
    for _ in range(30):
        middle = (low + high) / 2.0
        fits = sum(p.numel() for p in cut(middle).parameters()) <= budget
        low, high = (middle, high) if fits else (low, middle)
    return cut(low)


def sobolev(samples: Samples, rank: int, seed: int) -> nn.Module:
    """A decoupling trained by Adam on values and Jacobians, from a random start."""
    rng = np.random.default_rng(seed)
    m = samples.n_inputs
    W0 = rng.normal(size=(rank, m))
    W0 /= np.abs(samples.X @ W0.T).max(axis=0)[:, None]
    C = rng.normal(size=(rank, 1 + DEGREE)) * [0.0, 1.0, *[0.3] * (DEGREE - 1)]
    model = Decoupling([W0, rng.normal(size=(10, rank))], [Functions(Monomial(DEGREE), C)])
    layer = DecoupledLayer(model.with_outside("linear"))
    X, F = (torch.tensor(a, dtype=torch.float32) for a in (samples.X, samples.F))
    J = torch.tensor(np.asarray(samples.J), dtype=torch.float32)
    spread, size = ((F - F.mean(0)) ** 2).sum(), (J**2).sum()
    rates = (0.05, 0.1 * float(np.sqrt(np.mean(W0**2))), 0.15)  # tried by hand
    groups: list[dict[str, Any]] = [
        {"params": tensors, "lr": rate}
        for tensors, rate in zip((list(layer.C), [layer.W[0]], [layer.W[1]]), rates, strict=True)
    ]
    optimiser = torch.optim.Adam(groups, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, list(rates), total_steps=STEPS)
    for t in range(STEPS):
        if t % 50 == 0:
            layer.set_range(X)
        optimiser.zero_grad()
        loss = jacobian_distance(layer, X, J) / size + 10.0 * ((layer(X) - F) ** 2).sum() / spread
        loss.backward()
        optimiser.step()
        schedule.step()
    layer.set_range(X)
    return layer


def jacobian_distance(layer: DecoupledLayer, X: Tensor, J: Tensor) -> Tensor:
    """||J - W_1 diag(g') W_0||^2 over the samples less ||J||^2, without an array of the size of J."""
    W0, W1 = layer.W[0], layer.W[1]
    G = layer.slopes(0, X @ W0.T)
    own = ((G @ ((W0 @ W0.T) * (W1.T @ W1))) * G).sum()
    return own - 2.0 * (G * ((J @ W0.T) * W1).sum(1)).sum()


# What a person sees


def networks_markdown(table: NetworkTable) -> str:
    """Accuracy drops in points by method and size, beside the paper's claims."""
    sizes = SIZES[table.case]
    head = [f"r = {sizes[i].one}, {sizes[i].two}" for i in table.sizes]
    lines = [
        f"The network classifies {table.accuracy:.2f} % of the test images correctly; the part that is replaced has "
        f"{table.part_parameters} parameters. Drop of accuracy in points on the test images: median (worst) of "
        f"{table.n_runs} runs, and share of parameters saved. The first four rows are the algorithms as printed; "
        f"*{INSIDE}* has the {ARCHITECTURES[table.case].output.name} inside the part, *{BEST}* keeps the iterate with "
        "the lowest objective instead of the last. ✓ marks a target that is met: by the median, with no run worse than "
        f"twice the median or {STABLE} points.",
        "",
        f"| method | {' | '.join(head)} |",
        f"|---|{'---|' * len(head)}",
        f"| *the paper's claim for TS-PROJ* | {' | '.join(sizes[i].claim or '–' for i in table.sizes)} |",
    ]
    for method in METHODS:
        cells = []
        for i in table.sizes:
            drops = table.drops(method, i)
            median, worst = float(np.median(drops)), float(np.max(drops))
            text = f"**{median:.2f}** ({worst:.2f}), {table.savings(method, i):.1f} %"
            if method in REFINED and sizes[i].targets:
                target = sizes[i].targets[REFINED.index(method)]
                met = median <= target and worst <= max(2.0 * median, STABLE)
                text += f" {'✓' if met else '✗'} ≤ {target:g}"
            cells.append(text)
        lines.append(f"| {method} | {' | '.join(cells)} |")
    return "\n".join(lines)


def write_networks(table: NetworkTable, directory: Path) -> None:
    """CASE.json, CASE.md, CASE.png and CASE-means.png."""
    write_experiment(directory, table.case, table.content(), networks_markdown(table), networks_figure(table))
    write_figure(directory / f"{table.case}-means.png", means_figure(table))


def networks_figure(table: NetworkTable) -> Figure:
    """Box plots of the accuracies, one panel per size; the red line is the network, arrows name medians far below."""
    with house_style():
        figure = new_figure(9.0, 2.6 * len(table.sizes) + 1.8)
        axes = figure.subplots(len(table.sizes), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
        low = table.accuracy - _SHOWN
        for ax, i in zip(axes, table.sizes, strict=True):
            for k, method in enumerate(METHODS):
                group = next(k for k, methods in enumerate(GROUPS) if method in methods)
                box = ax.boxplot(table.runs[method, i], positions=[k], widths=0.6, patch_artist=True)
                box["boxes"][0].set(facecolor=COLOURS[group], alpha=0.6)
                box["medians"][0].set(color="black")
                if (median := float(np.median(table.runs[method, i]))) < low:
                    ax.text(
                        k, low + 0.05 * _SHOWN, f"↓ {median:.1f}", rotation=90, ha="center", va="bottom", fontsize=7
                    )
            ax.axhline(table.accuracy, color="#C00000", linestyle=(0, (2, 2)), linewidth=1.1)
            ax.set_title(f"saves {table.savings('TS-PROJ-1', i):.1f} % of the parameters with one layer", fontsize=9)
            ax.grid(visible=False, axis="x")
            ax.set_ylabel("accuracy (%)")
        axes[-1].set_xticks(range(len(METHODS)), METHODS, rotation=90, fontsize=8)
        axes[0].set_ylim(low, table.accuracy + 1.5)
        figure.suptitle(
            f"Accuracy on the test images, {pluralised(table.n_runs, 'run')}: the paper's methods as printed (blue) "
            "and "
            "with one change (orange),\nours (green), others of the same size (pink); red line: the network",
            fontsize=10,
        )
    return figure


def means_figure(table: NetworkTable) -> Figure:
    """The paper's second figure: means of TS-PROJ with bars of one standard deviation, and what each shape saves."""
    shapes = [(method, i) for method in ("TS-PROJ-1", "TS-PROJ-2") for i in table.sizes]
    shapes.sort(key=lambda shape: -table.savings(*shape))
    sizes = SIZES[table.case]
    labels = [f"L = 1, r = {sizes[i].one}" if m.endswith("1") else f"L = 2, {sizes[i].two}" for m, i in shapes]
    colours = [COLOURS[0] if method.endswith("1") else COLOURS[1] for method, _ in shapes]
    with house_style():
        figure = new_figure(8.4, 3.8)
        left, right = figure.subplots(1, 2)
        for k, shape in enumerate(shapes):
            runs = table.runs[shape]
            deviation = float(np.std(runs, ddof=1)) if len(runs) > 1 else 0.0
            left.errorbar(k, float(np.mean(runs)), deviation, fmt="o", color=colours[k], capsize=4)
        left.axhline(table.accuracy, color="#C00000", linestyle=(0, (2, 2)), linewidth=1.1)
        left.set_ylabel("accuracy on the test images (%)")
        left.set_title(f"TS-PROJ as printed: mean ± one deviation, {table.n_runs} runs", fontsize=9)
        saved = [table.savings(*shape) for shape in shapes]
        right.bar(range(len(shapes)), saved, color=colours, alpha=0.7)
        right.set_ylim(min(saved) - 0.3 * (max(saved) - min(saved) + 1.0), max(saved) + 0.3)
        right.set_ylabel("savings (%)")
        right.set_title("parameters of the part that are saved", fontsize=9)
        for ax in (left, right):
            ax.set_xticks(range(len(shapes)), labels, rotation=45, ha="right", fontsize=7)
            ax.grid(visible=False, axis="x")
    return figure
