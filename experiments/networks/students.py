"""A decoupling among others of its size: students, pruning, low rank and rounding, on networks trained to the end.

One part of a network is replaced by functions of equal size that are trained on the same inputs, without labels, with
the same number of steps. Ours starts from a decoupling of values and Jacobians at 200 of the inputs, or from random
directions, without Jacobians. The others have the best of three rates. The original is rounded, and so is ours. Rows
"with labels" train five epochs more, ours and the original alike.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter
from torch import Tensor, nn

from decouply._support._errors import DecouplingWarning
from decouply.bases import AbstractBasis, Monomial, Spline
from decouply.fit._decouple import decouple
from decouply.nn import (
    Budget,
    DecoupledLayer,
    Distil,
    Evaluation,
    Training,
    compress,
    freeze,
    pack,
    refine,
    sample,
)
from decouply.nn.layer._decoupled_layer import layer_on
from decouply.nn.layer._quantisation import n_bytes, stored_bytes
from decouply.nn.layer._random_layer import fit_basis, random_layer
from decouply.nn.training._distillation import FEW_INPUTS, Loss, mixup_inputs
from decouply.report._style import COLOURS, new_figure
from decouply.solvers import Proj
from experiments.harness import (
    Content,
    Experiment,
    Option,
    Outcome,
    Task,
    column,
    markdown,
    plot_rows,
)
from experiments.networks.baselines import quantize, quantized_bytes
from experiments.networks.other_methods import (
    OTHERS,
    PAPER,
    STUDENTS,
    STUDENTS_IN_BITS,
    layer_as_printed,
    parameters_of,
    train_students,
    width_in_bits,
)
from experiments.networks.trained_networks import (
    CASES,
    DEGREE,
    Original,
    Size,
    TrainingRates,
    original,
    train_with_labels,
)
from experiments.paper.network_compression import STOPPING

COMPRESS = "ours, chosen by compress"
OURS = (COMPRESS, "ours", "ours, random start", "ours, splines", "ours, two layers")
ROUNDED = ("ours, 8 bits", "ours, fewer bits", "original, 8 bits", "original, 4 bits")
LABELLED = ("ours, with labels", "original, with labels")
METHODS = (*PAPER, *OURS, *STUDENTS, *OTHERS, *ROUNDED, *STUDENTS_IN_BITS, *LABELLED)
UNTRAINED = ("original, 8 bits", "original, 4 bits")
ANY_INPUTS = (*UNTRAINED, "original, with labels")
SMALL = (
    COMPRESS,
    "ours",
    "ours, random start",
    "ours, two layers",
    *STUDENTS,
    "pruned",
)  # of the sizes after the first
QUICK = ("ours, random start", "GELU, one hidden layer", "pruned", "original, 8 bits", "ours, fewer bits")
IN_FEW_BITS = ("ours, fewer bits", *STUDENTS_IN_BITS)
_SAMPLES = 200
_PASSES = 100  # of a timing


def tasks(
    *,
    case: str,
    seed: int,
    n_runs: int,
    steps: int | None = None,
    inputs: Sequence[int] = (),
    methods: Sequence[str] = METHODS,
    epochs: int | None = None,
) -> list[Task]:
    """One task for each way to replace the part, for all draws of inputs."""
    found = []
    for k, size in enumerate(CASES[case].sizes[:1] if inputs else CASES[case].sizes):
        numbers = inputs or size.inputs
        for n_inputs in numbers:
            for method in methods:
                once = method in ANY_INPUTS or method in LABELLED or method in IN_FEW_BITS
                left_out = (
                    (k > 0 and method not in SMALL)
                    or (method in PAPER and n_inputs != min(numbers))
                    or (once and n_inputs != max(numbers))
                    or (method in IN_FEW_BITS and size.packed is None)
                )
                if not left_out:
                    some = 1 if method in UNTRAINED else n_runs
                    task = {"case": case, "method": method, "size": k, "n_inputs": n_inputs, "n_runs": some}
                    found.append(task | {"seed": seed, "steps": steps or CASES[case].steps, "epochs": epochs})
    return found


def begin(*, case: str, folder: str, seed: int, epochs: int | None = None, **_: Any) -> dict[str, Any]:
    """Train the network of a case if it does not lie in the folder."""
    at = original(case, folder, seed, epochs)
    return {
        "score": at.score(at.part),
        "part_parameters": sum(p.numel() for p in at.part.parameters()),
        "part_bytes": stored_bytes(at.part),
        "latency": latency(at.part, at.test_features),
    }


def work(
    case: str,
    method: str,
    size: int,
    n_inputs: int,
    n_runs: int,
    seed: int,
    steps: int,
    epochs: int | None,
    folder: str,
) -> Outcome:
    """Score, distance, size and time of one kind of replacement, for every draw."""
    at = original(case, folder, seed, epochs)
    shape, how = CASES[case].sizes[size], CASES[case].training
    drawn = [draw(seed, run, at, n_inputs) for run in range(n_runs)]
    if method in (*STUDENTS, *OTHERS):
        found = train_students(method, at, [X for X, _ in drawn], shape, how, steps, seed)
        return {"runs": [measure(at, part, rate=rate) for part, rate in found]}
    if method in STUDENTS_IN_BITS:
        assert shape.packed is not None
        told = {"rank": width_in_bits(shape, at.ends), "n_bits": shape.packed[1]}
        found = train_students(method, at, [X for X, _ in drawn], shape, how, steps, seed)
        return {"runs": [measure(at, p, stored=quantized_bytes(p, told["n_bits"]), rate=r) | told for p, r in found]}
    return {"runs": [_one_draw(method, at, shape, how, steps, X, run, rng) for run, (X, rng) in enumerate(drawn)]}


def draw(seed: int, run: int, at: Original, n_inputs: int) -> tuple[Tensor, np.random.Generator]:
    """Inputs of one run, the same for all methods, and a generator that goes on from them."""
    rng = np.random.default_rng([seed, 17, run])
    return at.features[rng.permutation(len(at.features))[:n_inputs]], rng


def _one_draw(
    method: str,
    at: Original,
    size: Size,
    how: TrainingRates,
    steps: int,
    X: Tensor,
    run: int,
    rng: np.random.Generator,
) -> dict[str, Any]:
    if method in PAPER:
        layer = layer_as_printed(method, at, X[:_SAMPLES], size.rank, rng)
        if layer is None:
            return {"score": None, "distance": None, "parameters": 0, "bytes": 0, "latency": (0.0, 0.0)}
        return measure(at, layer)
    if method in UNTRAINED:
        n_bits = 8 if "8" in method else 4
        return measure(at, quantize(at.part, n_bits), stored=quantized_bytes(at.part, n_bits))
    if method == "original, with labels":
        return measure(at, train_with_labels(at.part, at, run))
    if method == COMPRESS:
        return measure(at, _chosen_layer(at, size, how, steps, X, rng))
    ranks: tuple[int, ...] = size.two if method == "ours, two layers" else (size.rank,)
    basis = {"ours, two layers": Monomial(3), "ours, splines": Spline(2)}.get(method)
    stored_bits = 8 if method == "ours, 8 bits" else None
    if method == "ours, fewer bits":
        assert size.packed is not None
        ranks, stored_bits = size.packed[:1], size.packed[1]
    random = method in ("ours, random start", "ours, two layers")
    layer = untrained_layer(at, X, ranks, basis, rng, random=random)
    layer = refine_layer(at, layer, X, how, steps, rng, stored_bits)
    if stored_bits is not None:
        return measure(at, layer, stored=n_bytes(pack(layer, stored_bits))) | {"rank": ranks[0], "n_bits": stored_bits}
    return measure(at, train_with_labels(layer, at, run) if method == "ours, with labels" else layer)


def _chosen_layer(
    at: Original, size: Size, how: TrainingRates, steps: int, X: Tensor, rng: np.random.Generator
) -> DecoupledLayer:
    """What `dc.nn.compress` takes with the parameters of our one layer, if nothing else is asked for."""
    with warnings.catch_warnings():  # about the error, which is measured here
        warnings.simplefilter("ignore", DecouplingWarning)
        out = compress(
            at.part,
            None,
            X,
            budget=Budget(parameters=parameters_of(size, at.ends)),
            task="classification" if at.in_classes else "regression",
            training=Training(refine=Distil(steps, how.rate, batch_size=how.batch_size)),
            evaluation=Evaluation(validation=X),
            rng=rng,
            progress=False,
        )
    return out.layer


def untrained_layer(
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
        if len(X) < FEW_INPUTS:  # least squares on so few would mean little between them
            X = torch.cat([X, mixup_inputs(X, FEW_INPUTS, torch.Generator().manual_seed(int(rng.integers(2**31))))])
        F = at.values(X)
        own = Monomial(DEGREE) if basis is None else basis
        return random_layer((X.shape[1], *ranks, F.shape[1]), [own] * len(ranks), X, F, "linear", rng, torch.float32)
    with warnings.catch_warnings():  # about functions that are not unique, which does not matter here
        warnings.simplefilter("ignore", DecouplingWarning)
        found = decouple(
            sample(at.part, X[:_SAMPLES], progress=False),
            ranks,
            (DEGREE,) * len(ranks),
            solver=Proj(lam=1e-2, stopping=STOPPING),
            as_given=True,
            n_starts=8,
            rng=rng,
            progress=False,
        )
    layer = layer_on(found.decoupling, X.double().numpy(), "linear")
    return layer if basis is None else fit_basis(layer, basis, torch.float32)


def refine_layer(
    at: Original,
    layer: DecoupledLayer,
    X: Tensor,
    how: TrainingRates,
    steps: int,
    rng: np.random.Generator,
    n_bits: int | None = None,
) -> DecoupledLayer:
    """Our layer after training without labels; as it was, where that makes it worse."""
    loss: Loss = "kl" if at.in_classes else "squared"
    with warnings.catch_warnings():  # that it went astray, which its distance tells as well
        warnings.simplefilter("ignore", DecouplingWarning)
        options = Distil(steps, how.rate, loss, how.batch_size)
        return refine(layer, at.part, X, options, n_bits=n_bits, rng=rng, progress=False)


def measure(at: Original, part: nn.Module, *, stored: int | None = None, rate: float | None = None) -> dict[str, Any]:
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


def content(runs: list[Task], *, case: str, n_runs: int, seed: int, steps: int | None = None, **facts: Any) -> Content:
    cells = []
    for run in runs:
        n_inputs = 0 if run["method"] in ANY_INPUTS else run["n_inputs"]  # 0: the same for all
        cell = {"rank": CASES[case].sizes[run["size"]].rank, "method": run["method"], "n_inputs": n_inputs}
        cells.append(cell | {"runs": run["runs"]})
    shown = {name: facts[name] for name in ("score", "part_parameters", "part_bytes", "latency")}
    asked = {"case": case, "n_runs": n_runs, "seed": seed, "steps": steps or CASES[case].steps}
    return asked | shown | {"cells": cells}


def _groups(content: Content) -> list[tuple[int, int]]:
    """Ranks, in the order of the sizes, and numbers of inputs."""
    ranks = [size.rank for size in CASES[content["case"]].sizes]
    pairs = {(cell["rank"], cell["n_inputs"]) for cell in content["cells"] if cell["n_inputs"]}
    return sorted(pairs, key=lambda pair: (ranks.index(pair[0]), pair[1]))


def table(content: Content) -> str:
    """Drops by method, with size, bytes and time; one table for each size and number of inputs."""
    in_classes = CASES[content["case"]].in_classes
    unit = "points of accuracy" if in_classes else "points of 100 R²"
    kind = "KL divergence" if in_classes else "squared error"
    few, many = (1e6 * seconds for seconds in content["latency"])
    blocks = [
        f"The original scores {content['score']:.2f} on the test inputs; its part has {content['part_parameters']} "
        f"parameters in {content['part_bytes']} bytes and takes {few:.0f} and {many:.0f} µs for 64 and 1024 inputs. "
        f"Drops in {unit} and {kind} from the original on the test inputs: median (best to worst) of "
        f"{content['n_runs']} draws of inputs, {content['steps']} steps each; seed {content['seed']}.",
    ]
    groups = _groups(content)
    for rank, n_inputs in groups:
        shown = (n_inputs, 0) if rank == groups[0][0] else (n_inputs,)
        some = [cell for cell in content["cells"] if cell["rank"] == rank and cell["n_inputs"] in shown]
        some.sort(key=lambda cell: not cell["n_inputs"])
        head = ["method", "drop", kind, "parameters", "bytes", "µs for 64", "µs for 1024"]
        rows = [_row(content, cell) for cell in some]
        blocks += [f"**r = {rank}, {n_inputs} inputs**", markdown(head, rows)]
    return "\n\n".join(blocks)


def _row(content: Content, cell: dict[str, Any]) -> list[str]:
    runs, first = cell["runs"], cell["runs"][0]
    drops, distances = content["score"] - column(runs, "score", failed=-np.inf), column(runs, "distance")
    times = 1e6 * np.median([run["latency"] for run in runs], axis=0)
    name = cell["method"]
    if "n_bits" in first:
        name = f"{name.split(',')[0]}, r = {first['rank']} in {first['n_bits']} bits"
    spread = f" ({np.min(drops):.2f} to {np.max(drops):.2f})" if len(drops) > 1 else ""
    far = f" (to {np.max(distances):.2g})" if len(distances) > 1 else ""
    return [
        name,
        f"**{np.median(drops):.2f}**{spread}",
        f"{np.median(distances):.2g}{far}",
        str(first["parameters"]),
        str(first["bytes"]),
        *(f"{t:.0f}" for t in times),
    ]


def figure(content: Content) -> Figure:
    """Distances of every run from the original, one panel per size and number of inputs."""
    groups = _groups(content)
    canvas = new_figure(4.6 * len(groups), 4.6)
    axes = canvas.subplots(1, len(groups), squeeze=False)[0]
    for ax, group in zip(axes, groups, strict=True):
        some = [c for c in content["cells"] if (c["rank"], c["n_inputs"]) == group and "labels" not in c["method"]]
        distances = [column(cell["runs"], "distance") for cell in some]
        names = [cell["method"] for cell in some]
        colours = [COLOURS[0 if name.startswith("ours") else 1] for name in names]
        label = "KL divergence" if CASES[content["case"]].in_classes else "squared relative error"
        every = np.concatenate(distances)
        log = bool(np.max(every) > 10.0 * np.min(every))
        plot_rows(ax, list(zip(names, distances, colours, strict=True)), label, log=log, medians=True)
        if log:
            ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
            ax.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
            ax.xaxis.set_minor_formatter(NullFormatter())
        ax.set_title(f"r = {group[0]}, {group[1]} inputs", fontsize=9)
    return canvas


_SIZES: dict[str, Any] = {
    "options": (Option("n_runs", 5, "Draws of inputs."),),
    "quick": {"n_runs": 1, "steps": 200, "epochs": 1, "inputs": (2000,), "methods": QUICK},
}
MNIST = Experiment.of(
    globals(),
    "mnist-students",
    "The MNIST network, trained to the end, compressed by ours and by others of the same size.",
    fixed={"case": "mnist"},
    **_SIZES,
)
FASHION = Experiment.of(
    globals(),
    "fashion-students",
    "The FashionMNIST network, trained to the end, compressed by ours and by others of the same size.",
    fixed={"case": "fashion"},
    **_SIZES,
)
CNN = Experiment.of(
    globals(),
    "cnn",
    "The head of LeNet-5 on FashionMNIST, 400 to 10, at 8 % of its parameters.",
    fixed={"case": "cnn"},
    **_SIZES,
)
TABULAR = Experiment.of(
    globals(),
    "tabular",
    "A regression network, from ten inputs to one output, at 5 % of its parameters.",
    fixed={"case": "tabular"},
    **_SIZES,
)
