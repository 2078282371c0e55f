"""A small vision transformer whose MLP blocks are all replaced at once, without labels.

Images are cut into 16 patches of 7 by 7 pixels; a patch is a token of 32 numbers. Every block has attention and an MLP
32-128-32 on each token; the MLPs are what is replaced, by `dc.nn.compress`, at an eighth of their parameters. Beside
ours stand narrow GELU networks and the pruned MLPs of the same size, trained in the same way: each on the tokens that
its part is given, then all together, until the network returns what it returned.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from decouply._support._errors import DecouplingWarning
from decouply.data import mnist
from decouply.nn import Distil, Evaluation, Fitting, Training, compress
from decouply.nn.layer._quantisation import count_parameters, stored_bytes
from decouply.nn.training._joint import distil_jointly
from decouply.report._style import COLOURS, new_figure
from decouply.solvers import Proj
from experiments.harness import Content, Experiment, Option, Outcome, Task, column, markdown, names_beginning
from experiments.networks.baselines import dense, prune, quantize, train_with_best_rate, widths
from experiments.networks.other_methods import STOPPING
from experiments.networks.students import ROWS
from experiments.networks.students import STEPS as STEPS_OPTION
from experiments.networks.trained_networks import images

RANK = 15
N_INPUTS, STEPS = 5000, 1200  # two thirds as many then train all parts together
RATES = (3e-3, 1e-2, 3e-2)  # of the others, of which the best is taken on inputs kept aside
JOINT_RATE = 3e-3  # of all: the one that `compress` has
OURS = ("ours", "ours, random start")
OTHERS = ("narrow GELU", "pruned")
UNTRAINED = ("original, 8 bits", "original, 4 bits")
METHODS = (OURS[0], *OTHERS, *UNTRAINED, OURS[1])
TRAININGS = ("none", "local", "joint")
EPOCHS = 5
_KEPT = 500
_TOKENS = 40_000
_WIDTH, _HEADS, _DEPTH, _PATCH = 32, 4, 2, 7


class Block(nn.Module):
    """Attention and an MLP, each added to what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(_WIDTH), nn.LayerNorm(_WIDTH)
        self.queries = nn.Linear(_WIDTH, 3 * _WIDTH)
        self.out = nn.Linear(_WIDTH, _WIDTH)
        self.mlp = nn.Sequential(nn.Linear(_WIDTH, 4 * _WIDTH), nn.GELU(), nn.Linear(4 * _WIDTH, _WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        B, T, _ = x.shape
        q, k, v = self.queries(self.first(x)).reshape(B, T, 3, _HEADS, _WIDTH // _HEADS).permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(B, T, _WIDTH)
        x = x + self.out(seen)
        return x + self.mlp(self.second(x))


class VisionTransformer(nn.Module):
    """From pixels (B, 784) to ten scores."""

    def __init__(self) -> None:
        super().__init__()
        side = 28 // _PATCH
        self.embedding = nn.Linear(_PATCH**2, _WIDTH)
        self.places = nn.Parameter(0.02 * torch.randn(side**2, _WIDTH))
        self.blocks = nn.ModuleList([Block() for _ in range(_DEPTH)])
        self.last = nn.LayerNorm(_WIDTH)
        self.head = nn.Linear(_WIDTH, 10)

    def forward(self, x: Tensor) -> Tensor:
        side = 28 // _PATCH
        patches = x.reshape(-1, side, _PATCH, side, _PATCH).transpose(2, 3).reshape(-1, side**2, _PATCH**2)
        z = self.embedding(patches) + self.places
        for block in self.blocks:
            z = block(z)
        return self.head(self.last(z).mean(1))


def mlps(network: Any) -> list[nn.Module]:
    """The parts that are replaced, or what is in their place."""
    return [block.mlp for block in network.blocks]


@dataclass(frozen=True, eq=False)
class TrainedTransformer:
    """A transformer trained to the end, and images."""

    network: VisionTransformer
    X: Tensor
    X_test: Tensor
    y_test: Tensor

    @cached_property
    def wanted(self) -> Tensor:
        """Log-probabilities that the original gives the test images."""
        return log_probabilities(self.network, self.X_test)

    @property
    def score(self) -> float:
        """Percentage of the test images in the right class."""
        return self.judged(self.network)[0]

    def judged(self, network: nn.Module) -> tuple[float, float]:
        """Percentage of the test images in the right class, and KL divergence from the original."""
        got = log_probabilities(network, self.X_test)
        right = 100.0 * float((got.argmax(1) == self.y_test).double().mean())
        return right, float((self.wanted.exp() * (self.wanted - got)).sum(1).mean())


@torch.no_grad()
def log_probabilities(network: nn.Module, X: Tensor) -> Tensor:
    """Of the classes."""
    return torch.cat([network(x).log_softmax(1) for x in torch.split(X, 1000)])


def tasks(
    *,
    seed: int,
    n_runs: int,
    steps: int | None,
    only: Sequence[str],
    joint_steps: int | None = None,
    epochs: int = EPOCHS,
) -> list[Task]:
    """One task for each way to replace all MLPs and each draw of inputs."""
    count, together = _steps(steps, joint_steps)
    return [
        {"method": method, "run": run, "seed": seed, "steps": count, "joint_steps": together, "epochs": epochs}
        for method in names_beginning(METHODS, only, "row")
        for run in range(1 if method in UNTRAINED else n_runs)
    ]


def _steps(steps: int | None, joint_steps: int | None) -> tuple[int, int]:
    """Of each part, and of all together."""
    count = steps or STEPS
    return count, round(2 * count / 3) if joint_steps is None else joint_steps


def begin(*, folder: str, seed: int, epochs: int = EPOCHS, **_: Any) -> dict[str, Any]:
    """Train the transformer if it does not lie in the folder."""
    at = transformer(folder, seed, epochs)
    return {"score": at.score, "part_parameters": sum(count_parameters(part) for part in mlps(at.network))}


def work(method: str, run: int, seed: int, steps: int, joint_steps: int, epochs: int, folder: str) -> Outcome:
    """Score, divergence and size after training each part by itself, and after training all together."""
    at = transformer(folder, seed, epochs)
    if method in UNTRAINED:
        own = copy.deepcopy(at.network)
        for block in own.blocks:
            block.mlp = quantize(block.mlp, 8 if "8" in method else 4)  # type: ignore[arg-type]
        return {"none": measure(at, own)}
    rng = np.random.default_rng([seed, 18, run])
    X = at.X[rng.permutation(len(at.X))[:N_INPUTS]]
    if method in OTHERS:
        local = replace_mlps(method, run, steps, at, X)
        return {
            "local": measure(at, local),
            "joint": measure(at, train_jointly(copy.deepcopy(local), at, X, joint_steps, run)),
        }

    at_random = method == "ours, random start"

    def ours(joint: bool | Distil) -> nn.Module:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DecouplingWarning)
            out = compress(
                at.network,
                parts=["blocks.*.mlp"],
                data=X[_KEPT:],
                ranks=RANK,
                fitting=Fitting("random") if at_random else Fitting(solver=Proj(lam=1e-2, stopping=STOPPING)),
                training=Training(Distil(steps), joint),
                evaluation=Evaluation(validation=X[:_KEPT]),
                rng=run,
                progress=False,
            )
        return out.model.eval()

    together = Distil(joint_steps, JOINT_RATE, batch_size=128)
    return {"local": measure(at, ours(False)), "joint": measure(at, ours(together))}


def measure(at: TrainedTransformer, network: Any) -> dict[str, Any]:
    """What is told of one network."""
    parts = mlps(network)
    score, distance = at.judged(network)
    return {
        "score": score,
        "distance": distance,
        "parameters": sum(count_parameters(part) for part in parts),
        "bytes": sum(stored_bytes(part) for part in parts),
    }


def replace_mlps(method: str, run: int, steps: int, at: TrainedTransformer, X: Tensor) -> VisionTransformer:
    """Others in the place of the MLPs, each trained on tokens of a network in which those before it are replaced."""
    own = copy.deepcopy(at.network).eval()
    size = RANK * (2 * _WIDTH + 5)
    generator = torch.Generator().manual_seed(run)
    for block in own.blocks:
        part: nn.Sequential = block.mlp  # type: ignore[assignment]
        tokens = _tokens(own, part, X)
        tokens = tokens[torch.randperm(len(tokens), generator=generator)[:_TOKENS]]
        with torch.no_grad():
            values = part(tokens)

        def begin(part: nn.Sequential = part, tokens: Tensor = tokens) -> nn.Module:
            torch.manual_seed(run)
            if method == "narrow GELU":
                return dense(widths((_WIDTH, _WIDTH), size), nn.GELU)
            return prune(part, tokens, size)

        options = Distil(steps, loss="squared")
        block.mlp = train_with_best_rate(begin, part, tokens, values, options, run, rates=RATES)
    return own


@torch.no_grad()
def _tokens(network: nn.Module, part: nn.Module, X: Tensor) -> Tensor:
    """What a part is given."""
    seen: list[Tensor] = []
    hook = part.register_forward_pre_hook(lambda _, given: seen.append(given[0].reshape(-1, _WIDTH)))
    for x in torch.split(X, 1000):
        network(x)
    hook.remove()
    return torch.cat(seen)


def train_jointly(network: Any, at: TrainedTransformer, X: Tensor, joint_steps: int, run: int) -> nn.Module:
    """All parts trained together, until the network returns what the original returned."""
    data = X[_KEPT:]
    with torch.no_grad():
        wanted = torch.cat([at.network(x) for x in torch.split(data, 1000)])
    layers = mlps(network)
    options = Distil(joint_steps, JOINT_RATE, loss="kl", batch_size=128)
    distil_jointly(network, layers, data, wanted, options, np.random.default_rng(run), False)
    return network


@cache
def transformer(folder: str, seed: int, epochs: int) -> TrainedTransformer:
    """Train the transformer on MNIST, its rate falling to 0, or read it from `folder`."""
    torch.set_num_threads(1)
    X, y, X_test, y_test = images(mnist)
    torch.manual_seed(seed)
    network = VisionTransformer()
    path = Path(folder) / f"vit-original-{seed}-{epochs}-epochs.pt"
    if path.is_file():
        network.load_state_dict(torch.load(path, weights_only=True))
    else:
        _train(network, X, y, epochs, seed)
        torch.save(network.state_dict(), path)
    return TrainedTransformer(network.eval(), X, X_test, y_test)


def _train(network: nn.Module, X: Tensor, y: Tensor, epochs: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.AdamW(network.parameters(), lr=3e-3, weight_decay=0.01, fused=True)
    steps = epochs * -(-len(X) // 128)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 3e-3, total_steps=steps, pct_start=0.1)
    for _ in range(epochs):
        for rows in torch.split(torch.randperm(len(X), generator=generator), 128):
            optimiser.zero_grad()
            nn.functional.cross_entropy(network(X[rows]), y[rows]).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            schedule.step()


def content(
    runs: list[Task],
    *,
    n_runs: int,
    seed: int,
    steps: int | None,
    score: float,
    part_parameters: int,
    joint_steps: int | None = None,
    **_: Any,
) -> Content:
    cells = []
    for method in dict.fromkeys(run["method"] for run in runs):
        some = [run for run in runs if run["method"] == method]
        for training in (name for name in TRAININGS if name in some[0]):
            rows = [run[training] for run in some]
            drops = score - column(rows, "score")
            cell = {"method": method, "training": training, "median_drop": np.median(drops)}
            cell |= {"worst_drop": np.max(drops), "median_distance": np.median(column(rows, "distance"))}
            cells.append(cell | {"runs": rows})
    count, together = _steps(steps, joint_steps)
    facts = {"n_runs": n_runs, "seed": seed, "steps": count, "joint_steps": together}
    return facts | {"score": score, "part_parameters": part_parameters, "cells": cells}


def table(content: Content) -> str:
    """Drops by method, trained part by part and together."""
    rows = []
    for cell in content["cells"]:
        drops, parameters = content["score"] - column(cell["runs"], "score"), cell["runs"][0]["parameters"]
        spread = f" ({np.min(drops):.2f} to {np.max(drops):.2f})" if len(drops) > 1 else ""
        rows.append(
            [
                cell["method"],
                cell["training"],
                f"**{np.median(drops):.2f}**{spread}",
                f"{np.median(column(cell['runs'], 'distance')):.2g}",
                str(parameters),
                f"{100.0 * (1.0 - parameters / content['part_parameters']):.1f} %",
            ]
        )
    lines = [
        f"The original classifies {content['score']:.2f} % of the test images correctly; its MLPs have "
        f"{content['part_parameters']} parameters. Drop in points and KL divergence from the original on the test "
        f"images: median (best to worst) of {content['n_runs']} draws of {N_INPUTS} images without labels, "
        f"{content['steps']} steps for each part, then {content['joint_steps']} together; seed {content['seed']}.",
        "",
        *markdown(["method", "training", "drop", "KL divergence", "parameters", "saved"], rows),
    ]
    return "\n".join(lines)


def figure(content: Content) -> Figure:
    """Drops of every draw."""
    cells = content["cells"]
    canvas = new_figure(6.4, 3.8)
    ax = canvas.subplots()
    for k, cell in enumerate(cells):
        drops = content["score"] - column(cell["runs"], "score")
        ax.plot(drops, [k] * len(drops), "o", color=COLOURS[0 if cell["method"] in OURS else 1], alpha=0.6)
        ax.plot(np.median(drops), k, "|", color="black", markersize=12)
    ax.set_yticks(range(len(cells)), [f"{cell['method']}, {cell['training']}" for cell in cells], fontsize=7)
    ax.invert_yaxis()
    ax.axvline(0.0, color="#C00000", linestyle=(0, (2, 2)), linewidth=1.1)
    ax.set_xlabel("drop in points")
    return canvas


VISION_TRANSFORMER = Experiment(
    "vision-transformer",
    "All MLP blocks of a small vision transformer, replaced at an eighth of their parameters.",
    tasks,
    work,
    table,
    figure,
    options=(Option("n_runs", 5, "Draws of inputs."), STEPS_OPTION, ROWS),
    quick={"n_runs": 1, "steps": 100, "joint_steps": 20, "epochs": 1},
    begin=begin,
    content=content,
)
