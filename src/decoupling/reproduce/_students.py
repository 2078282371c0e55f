"""A decoupling among others of its size: students, pruning, low rank and rounding, on networks trained to the end.

One part of a network is replaced by functions of equal size that are trained on the same inputs, without labels, with
the same number of steps. Ours starts from a decoupling of values and Jacobians at 20 inputs per class (200 for a
regression), or from random directions, without Jacobians. The rates of the others are the best of three, judged on a
tenth of the inputs that is kept aside. Rounding changes the original alone. Rows "with labels" train five epochs more,
ours and the original alike.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from numpy import ndarray
from torch import Tensor, nn

from .. import __version__
from ..bases import AbstractBasis, Monomial, Spline
from ..data import fashion_mnist, mnist
from ..fit._decouple import decouple
from ..nn import DecoupledLayer, Distil, freeze, pack, refine, sample, unpack
from ..nn._baselines import chain_of, low_rank, narrow, pruned, quantized, quantized_bytes, trained
from ..nn._layer import layer_on
from ..nn._packing import n_bytes, stored_bytes
from ..nn._random_start import random_layer
from ..nn._refine import divergence, recombine
from ..nn._score import relative_error
from ..report._style import COLOURS, house_style, new_figure
from ..solvers import Proj
from ._runs import run_all
from ._writing import write_experiment

DEGREE = 4
STEPS = 6000
RATES = (2e-3, 5e-3, 1.5e-2)
OURS = ("ours", "ours, random start", "ours, splines", "ours, two layers")
STUDENTS = ("ReLU, one hidden layer", "ReLU, two", "GELU, one hidden layer", "GELU, two")
OTHERS = ("pruned", "low rank")
ROUNDED = ("original, 8 bits", "original, 4 bits", "ours, 8 bits")
LABELLED = ("ours, with labels", "original, with labels")
METHODS = (*OURS, *STUDENTS, *OTHERS, *ROUNDED, *LABELLED)
UNTRAINED = ("original, 8 bits", "original, 4 bits", "original, with labels")  # the same for all inputs
_FEW, _POOL = 2000, 60_000
_EPOCHS_WITH_LABELS = 5


@dataclass(frozen=True)
class Case:
    """A network, where it is cut, and how large what replaces the rest may be."""

    network: Callable[[], nn.Sequential]
    cut: int
    data: Callable[[], tuple[Tensor, Tensor, Tensor, Tensor]]
    epochs: int
    rank: int
    two: tuple[int, int]
    inputs: tuple[int, ...]
    in_classes: bool = True


def _images(load: Callable[[], Any]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    found: list[Tensor] = []
    data = load()
    for part in (data.train, data.test):
        pixels = torch.tensor(np.array(part.images).reshape(len(part.images), -1), dtype=torch.float32) / 255.0
        found += [pixels, torch.tensor(np.array(part.labels))]
    return found[0], found[1], found[2], found[3]


def _friedman() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Friedman's function of ten variables, five of which count, with noise; standardised."""
    from .._support._extras import needed

    needed("sklearn", "sklearn", "decouple reproduce tabular")
    from sklearn.datasets import make_friedman1

    X, y = make_friedman1(30_000, n_features=10, noise=0.5, random_state=0)
    inputs, values = torch.tensor(X, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)[:, None]
    inputs, values = (inputs - 0.5) * 12.0**0.5, (values - values.mean()) / values.std()
    return inputs[:20_000], values[:20_000], inputs[20_000:], values[20_000:]


def _dense(*dims: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for a, b in pairwise(dims):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def _convolutional() -> nn.Sequential:
    return nn.Sequential(
        nn.Unflatten(1, (1, 28, 28)),
        nn.Conv2d(1, 8, 5, stride=2),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2),
        nn.ReLU(),
        nn.Flatten(),
        *_dense(400, 64, 10),
    )


CASES = {
    "mnist": Case(partial(_dense, 784, 80, 60, 40, 10), 2, partial(_images, mnist), 15, 10, (9, 8), (200, 20_000)),
    "fashion": Case(
        partial(_dense, 784, 512, 256, 128, 64, 10), 2, partial(_images, fashion_mnist), 15, 12, (11, 14), (200, 20_000)
    ),
    "cnn": Case(_convolutional, 6, partial(_images, fashion_mnist), 15, 5, (5, 6), (200, 20_000)),
    "tabular": Case(partial(_dense, 10, 64, 64, 1), 0, _friedman, 60, 14, (7, 8), (200, 20_000), in_classes=False),
}


@dataclass(frozen=True, eq=False)
class Original:
    """The part of a trained network, what it is given, and what it should say in the end."""

    part: nn.Module
    features: Tensor
    labels: Tensor
    test_features: Tensor
    test_labels: Tensor
    in_classes: bool

    @property
    def n_outputs(self) -> int:
        return int(self.part(self.test_features[:1]).shape[1])

    def score(self, part: nn.Module) -> float:
        """Percentage of test inputs in the right class, or 100 R^2."""
        with torch.no_grad():
            values = torch.cat([part(x) for x in torch.split(self.test_features, 5000)])
        if self.in_classes:
            return 100.0 * float((values.argmax(1) == self.test_labels).double().mean())
        return 100.0 * (1.0 - relative_error(values, self.test_labels) ** 2)

    def distance(self, part: nn.Module, X: Tensor, wanted: Tensor) -> float:
        """Divergence of the classes, or squared relative error, from the original's."""
        with torch.no_grad():
            values = torch.cat([part(x) for x in torch.split(X, 5000)])
        if self.in_classes:
            return float(divergence(values, wanted.log_softmax(1)))
        return relative_error(values, wanted) ** 2


@dataclass(frozen=True)
class StudentTask:
    """One replacement of the part."""

    case: str
    method: str
    n_inputs: int
    run: int
    seed: int
    steps: int = STEPS
    epochs: int | None = None
    version: str = __version__


@dataclass(frozen=True)
class StudentTable:
    """Scores and distances of every run, by method and number of inputs."""

    case: str
    n_runs: int
    seed: int
    steps: int
    score: float
    part_parameters: int
    part_bytes: int
    latency: tuple[float, float]
    rows: dict[tuple[str, int], list[dict[str, Any]]]

    def drops(self, method: str, n_inputs: int) -> Float[ndarray, " runs"]:
        return self.score - np.array([row["score"] for row in self.rows[method, n_inputs]], dtype=float)

    def median(self, method: str, n_inputs: int, what: str) -> float:
        return float(np.median([row[what] for row in self.rows[method, n_inputs]]))

    def content(self) -> dict[str, Any]:
        """Everything, as plain data."""
        cells = [
            {
                "method": method,
                "n_inputs": n_inputs,
                "median_drop": float(np.median(self.drops(method, n_inputs))),
                "runs": rows,
            }
            for (method, n_inputs), rows in self.rows.items()
        ]
        return {
            "case": self.case,
            "n_runs": self.n_runs,
            "seed": self.seed,
            "steps": self.steps,
            "score": self.score,
            "parameters": self.part_parameters,
            "bytes": self.part_bytes,
            "latency": self.latency,
            "cells": cells,
        }


def run_students(
    case: str,
    *,
    n_runs: int,
    seed: int,
    n_jobs: int,
    store: Path,
    steps: int = STEPS,
    epochs: int | None = None,
    inputs: tuple[int, ...] | None = None,
    methods: tuple[str, ...] = METHODS,
    progress: Callable[..., None] = lambda **_: None,
) -> StudentTable:
    """Train the network of a case if it does not lie beside `store`, and run everything that `store` does not have."""
    progress(stage="training the network", done=0, total=None)
    folder = str(store.parent)
    at = original(case, folder, seed, epochs)
    sizes = CASES[case].inputs if inputs is None else inputs
    tasks = {
        (method, size): [
            StudentTask(case, method, max(sizes) if method in UNTRAINED else size, run, seed, steps, epochs)
            for run in range(1 if method in UNTRAINED else n_runs)
        ]
        for method in methods
        for size in sizes
    }
    every = list(dict.fromkeys(task for some in tasks.values() for task in some))
    found = run_all(every, partial(work, folder=folder), store=store, n_jobs=n_jobs, progress=progress)
    rows = {key: [found[task] for task in some] for key, some in tasks.items()}
    return StudentTable(
        case,
        n_runs,
        seed,
        steps,
        at.score(at.part),
        sum(p.numel() for p in at.part.parameters()),
        stored_bytes(at.part),
        _latency(at.part, at.test_features),
        rows,
    )


def work(task: StudentTask, folder: str) -> dict[str, Any]:
    """Score, distance, size and time of one replacement."""
    at = original(task.case, folder, task.seed, task.epochs)
    rng = np.random.default_rng([task.seed, 17, task.run])
    rows = rng.permutation(len(at.features))[: task.n_inputs]
    part, stored = replacement(task, at, at.features[rows], rng)
    with torch.no_grad():
        wanted = at.part(at.test_features)
    return {
        "score": at.score(part),
        "distance": at.distance(part, at.test_features, wanted),
        "parameters": sum(p.numel() for p in part.parameters()),
        "bytes": stored_bytes(part) if stored is None else stored,
        "latency": _latency(part, at.test_features),
    }


def replacement(task: StudentTask, at: Original, X: Tensor, rng: np.random.Generator) -> tuple[nn.Module, int | None]:
    """What a method puts into the place of the part, and how many bytes it is stored in, if not as floats."""
    method = task.method
    if method in ("original, 8 bits", "original, 4 bits"):
        n_bits = 8 if "8" in method else 4
        return quantized(at.part, n_bits), quantized_bytes(at.part, n_bits)
    if method == "original, with labels":
        return with_labels(copy.deepcopy(at.part), at, task.run), None
    if not method.startswith("ours"):
        return student(task, at, X), None
    layer = our_layer(task, at, X, rng)
    if method == "ours, 8 bits":
        packed = pack(layer, 8)
        unpack(layer, packed)
        return layer, n_bytes(packed)
    return (with_labels(layer, at, task.run), None) if method == "ours, with labels" else (layer, None)


def our_layer(task: StudentTask, at: Original, X: Tensor, rng: np.random.Generator) -> DecoupledLayer:
    """A decoupling, refined on the inputs."""
    case = CASES[task.case]
    with torch.no_grad():
        F = at.part(X)
    m, n = X.shape[1], F.shape[1]
    loss = "kl" if at.in_classes else "squared"
    if task.method in ("ours, random start", "ours, splines", "ours, two layers"):
        ranks = case.two if task.method == "ours, two layers" else (case.rank,)
        basis: AbstractBasis = (
            Spline(2) if task.method == "ours, splines" else Monomial(3 if len(ranks) > 1 else DEGREE)
        )
        layer = random_layer((m, *ranks, n), [basis] * len(ranks), X, F, "linear", rng, torch.float32)
    else:
        some = X[:200]
        solver = Proj(lam=1e-2, min_steps=15, max_steps=50, patience=20)
        found = decouple(
            sample(at.part, some, progress=False),
            (case.rank,),
            (DEGREE,),
            solver=solver,
            as_given=True,
            n_starts=8,
            rng=rng,
            progress=False,
        )
        layer = layer_on(found.decoupling, X.double().numpy(), "linear")
    return refine(layer, at.part, X, loss=loss, max_steps=task.steps, rng=rng, progress=False)


def student(task: StudentTask, at: Original, X: Tensor) -> nn.Module:
    """A student of our size; its rate is the best of three on inputs that are kept aside."""
    case, m = CASES[task.case], X.shape[1]
    n = at.n_outputs
    size = case.rank * (m + n + DEGREE + 1)
    kept = max(1, len(X) // 10)
    inputs = X[kept:]
    if len(X) < _FEW:
        inputs = torch.cat([inputs, recombine(inputs, _POOL, torch.Generator().manual_seed(task.run))])
    with torch.no_grad():
        values, judged = at.part(inputs), at.part(X[:kept])
    options = Distil(task.steps, loss="kl" if at.in_classes else "squared")
    tried = []
    for rate in RATES:
        torch.manual_seed(task.run)
        begun = _begun(task.method, at, inputs, size, (m, n))
        found = trained(begun, inputs, values, options, task.run, rate=rate)
        tried.append((at.distance(found, X[:kept], judged), found))
    return min(tried, key=lambda one: one[0] if np.isfinite(one[0]) else np.inf)[1]


def _begun(method: str, at: Original, inputs: Tensor, size: int, ends: tuple[int, int]) -> nn.Module:
    if method in STUDENTS:
        kind = nn.ReLU if method.startswith("ReLU") else nn.GELU
        return narrow(ends, size, kind, 2 if method.endswith("two") else 1)
    chain = chain_of(at.part)
    assert chain is not None
    return pruned(chain, inputs, size) if method == "pruned" else low_rank(chain, size)


def with_labels(part: nn.Module, at: Original, seed: int) -> nn.Module:
    """Five epochs more, of the part alone, with labels."""
    epochs = _EPOCHS_WITH_LABELS
    _train(part, at.features, at.labels, epochs, seed, in_classes=at.in_classes)
    return part


@cache
def original(case: str, folder: str, seed: int, epochs: int | None = None) -> Original:
    """Train the network of a case to the end, its rate falling to 0, or read it from `folder`."""
    torch.set_num_threads(1)
    told = CASES[case]
    X, y, X_test, y_test = told.data()
    count = told.epochs if epochs is None else epochs
    torch.manual_seed(seed)
    network = told.network()
    path = Path(folder) / f"{case}-original-{seed}-{count}-epochs.pt"
    if path.is_file():
        network.load_state_dict(torch.load(path, weights_only=True))
    else:
        _train(network, X, y, count, seed, in_classes=told.in_classes)
        torch.save(network.state_dict(), path)
    network.eval()
    with torch.no_grad():
        head = network[: told.cut]
        features, test_features = (torch.cat([head(x) for x in torch.split(some, 5000)]) for some in (X, X_test))
    return Original(network[told.cut :], features, y, test_features, y_test, told.in_classes)


def _train(network: nn.Module, X: Tensor, y: Tensor, epochs: int, seed: int, *, in_classes: bool) -> None:
    generator = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.Adam(network.parameters(), lr=2e-3, fused=True)
    steps = epochs * -(-len(X) // 128)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    loss = nn.functional.cross_entropy if in_classes else nn.functional.mse_loss
    network.train()
    for _ in range(epochs):
        for rows in torch.split(torch.randperm(len(X), generator=generator), 128):
            optimiser.zero_grad()
            loss(network(X[rows]), y[rows]).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            schedule.step()
    network.eval()


def _latency(part: nn.Module, X: Tensor) -> tuple[float, float]:
    """Best time of one pass over 64 and 1024 inputs, in seconds."""
    fast, found = freeze(part), []
    with torch.no_grad():
        for batch in (X[:64], X[:1024]):
            best = float("inf")
            for _ in range(200):
                began = time.perf_counter()
                fast(batch)
                best = min(best, time.perf_counter() - began)
            found.append(best)
    return found[0], found[1]


# What a person sees


def students_markdown(table: StudentTable) -> str:
    """Drops by method, with size, bytes and time."""
    case = CASES[table.case]
    unit = "accuracy in points" if case.in_classes else "100 R²"
    kind = "KL divergence from the original" if case.in_classes else "squared relative error"
    few, many = (1e6 * seconds for seconds in table.latency)
    lines = [
        f"The original scores {table.score:.2f} on the test inputs; its part has {table.part_parameters} parameters in "
        f"{table.part_bytes} bytes and takes {few:.0f} and {many:.0f} µs for 64 and 1024 inputs. Drop of {unit}: "
        f"median (worst) of {table.n_runs} runs of {table.steps} steps, and "
        f"median {kind}.",
        "",
        "| method | inputs | drop | distance | parameters | bytes | µs for 64 | µs for 1024 |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for (method, n_inputs), _ in sorted(table.rows.items(), key=lambda one: one[0][1]):
        drops = table.drops(method, n_inputs)
        row = table.rows[method, n_inputs][0]
        times = np.median([r["latency"] for r in table.rows[method, n_inputs]], axis=0)
        shown = "" if method in UNTRAINED else n_inputs
        lines.append(
            f"| {method} | {shown} | **{np.median(drops):.2f}** ({np.max(drops):.2f}) | "
            f"{table.median(method, n_inputs, 'distance'):.2g} | {row['parameters']} | {row['bytes']} | "
            f"{1e6 * times[0]:.0f} | {1e6 * times[1]:.0f} |"
        )
    return "\n".join(lines)


def students_figure(table: StudentTable) -> Figure:
    """Drops of every run, one panel per number of inputs."""
    sizes = sorted({n_inputs for _, n_inputs in table.rows})
    with house_style():
        figure = new_figure(4.6 * len(sizes), 4.6)
        axes = figure.subplots(1, len(sizes), sharex=True, squeeze=False)[0]
        for ax, size in zip(axes, sizes, strict=True):
            methods = [method for method, n_inputs in table.rows if n_inputs == size]
            for k, method in enumerate(methods):
                drops = table.drops(method, size)
                ax.plot(drops, [k] * len(drops), "o", color=COLOURS[0 if method.startswith("ours") else 1], alpha=0.6)
                ax.plot(np.median(drops), k, "|", color="black", markersize=12)
            ax.set_yticks(range(len(methods)), methods, fontsize=7)
            ax.invert_yaxis()
            ax.axvline(0.0, color="#C00000", linestyle=(0, (2, 2)), linewidth=1.1)
            ax.set_title(f"{size} inputs", fontsize=9)
            ax.set_xlabel("drop in points")
    return figure


def write_students(table: StudentTable, directory: Path) -> None:
    """NAME.json, NAME.md and NAME.png."""
    name = f"{table.case}-students" if table.case in ("mnist", "fashion") else table.case
    write_experiment(directory, name, table.content(), students_markdown(table), students_figure(table))
