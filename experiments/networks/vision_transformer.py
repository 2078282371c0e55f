"""A small vision transformer whose MLP blocks are all replaced at once, without labels.

Images are cut into 16 patches of 7 by 7 pixels; a patch is a token of 32 numbers. Every block has attention and an MLP
32-128-32 on each token; the MLPs are what is replaced, by `dc.nn.compress`, at an eighth of their parameters. Beside
ours stand narrow GELU networks and the pruned MLPs of the same size, trained in the same way: each on the tokens that
its part is given, then all together, until the network returns what it returned.
"""

from __future__ import annotations

import copy
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from decouply._support._errors import DecouplingWarning
from decouply.data import mnist
from decouply.nn import Distil, Evaluation, Fitting, Training, compress
from decouply.nn.layer._quantisation import count_parameters, stored_bytes
from decouply.nn.training._network_training import distil_jointly
from decouply.solvers import Proj
from experiments.harness import Content, Experiment, Option, Outcome, Task, column, grid, markdown, matching
from experiments.networks.baselines import quantize
from experiments.networks.other_methods import train_students
from experiments.networks.trained_networks import BATCH, Original, Size, TrainingRates, images, load_or_train, train
from experiments.paper.network_compression import STOPPING

RANK = 15
N_INPUTS = 5000
TRAINING = TrainingRates(512, 0.02, (3e-3, 1e-2, 3e-2))  # of the others: the best rate on inputs kept aside
JOINT_RATE = 3e-3  # of all: the one that `compress` has
OURS = ("ours", "ours, random start")
OTHERS = ("narrow GELU", "pruned")
UNTRAINED = ("original, 8 bits", "original, 4 bits")
METHODS = (OURS[0], *OTHERS, *UNTRAINED, OURS[1])
TRAININGS = ("none", "local", "joint")
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


def tasks(*, seed: int, n_runs: int, steps: int, joint_steps: int, epochs: int) -> list[Task]:
    """One task for each way to replace all MLPs and each draw of inputs."""
    shared = {"seed": seed, "steps": steps, "joint_steps": joint_steps, "epochs": epochs}
    return [
        task
        for method in METHODS
        for task in grid(method=method, run=range(1 if method in UNTRAINED else n_runs), **shared)
    ]


def begin(*, folder: str, seed: int, epochs: int, **_: Any) -> dict[str, Any]:
    """Train the transformer if it does not lie in the folder."""
    at = transformer(folder, seed, epochs)
    return {"score": at.score(at.part), "part_parameters": sum(count_parameters(part) for part in mlps(at.part))}


def work(method: str, run: int, seed: int, steps: int, joint_steps: int, epochs: int, folder: str) -> Outcome:
    """Score, divergence and size after training each part by itself, and after training all together."""
    at = transformer(folder, seed, epochs)
    if method in UNTRAINED:
        own = copy.deepcopy(at.part)
        for block in own.blocks:
            block.mlp = quantize(block.mlp, 8 if "8" in method else 4)
        return {"none": measure(at, own)}
    rng = np.random.default_rng([seed, 18, run])
    X = at.features[rng.permutation(len(at.features))[:N_INPUTS]]
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
                at.part,
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


def measure(at: Original, network: Any) -> dict[str, Any]:
    """What is told of one network."""
    parts = mlps(network)
    return {
        "score": at.score(network),
        "distance": at.distance(network),
        "parameters": sum(count_parameters(part) for part in parts),
        "bytes": sum(stored_bytes(part) for part in parts),
    }


def replace_mlps(method: str, run: int, steps: int, at: Original, X: Tensor) -> VisionTransformer:
    """Others in the place of the MLPs, each trained on tokens of a network in which those before it are replaced."""
    own = copy.deepcopy(at.part).eval()
    generator = torch.Generator().manual_seed(run)
    for block in own.blocks:
        part: nn.Sequential = block.mlp
        tokens = _tokens(own, part, X)
        tokens = tokens[torch.randperm(len(tokens), generator=generator)[:_TOKENS]]
        with torch.no_grad():
            values = part(tokens)
        as_part = Original(part, tokens, values, tokens, values, in_classes=False)
        kind = {"narrow GELU": "GELU, one hidden layer"}.get(method, method)
        ((block.mlp, _),) = train_students(kind, as_part, [tokens], Size(RANK), TRAINING, steps, run)
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


def train_jointly(network: Any, at: Original, X: Tensor, joint_steps: int, run: int) -> nn.Module:
    """All parts trained together, until the network returns what the original returned."""
    options = Distil(joint_steps, JOINT_RATE, loss="kl", batch_size=128)
    data = X[_KEPT:]
    distil_jointly(network, mlps(network), data, at.values(data), options, np.random.default_rng(run), False)
    return network


@cache
def transformer(folder: str, seed: int, epochs: int) -> Original:
    """Train the transformer on MNIST, its rate falling to 0, or read it from `folder`."""
    torch.set_num_threads(1)
    X, y, X_test, y_test = images(mnist)
    torch.manual_seed(seed)
    network = VisionTransformer()
    path = Path(folder) / f"vit-original-{seed}-{epochs}-epochs.pt"
    optimiser = torch.optim.AdamW(network.parameters(), lr=3e-3, weight_decay=0.01, fused=True)
    steps = epochs * -(-len(X) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 3e-3, total_steps=steps, pct_start=0.1)
    loss = nn.functional.cross_entropy
    load_or_train(network, path, lambda: train(network, X, y, epochs, seed, loss, optimiser, schedule))
    return Original(network, X, y, X_test, y_test)


def content(
    runs: list[Task], *, steps: int, joint_steps: int, score: float, part_parameters: int, **options: Any
) -> Content:
    cells = []
    for method in dict.fromkeys(run["method"] for run in runs):
        some = matching(runs, method=method)
        cells += [
            {"method": method, "training": training, "runs": [run[training] for run in some]}
            for training in TRAININGS
            if training in some[0]
        ]
    facts = {"n_runs": options["n_runs"], "seed": options["seed"], "steps": steps, "joint_steps": joint_steps}
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
    intro = (
        f"The original classifies {content['score']:.2f} % of the test images correctly; its MLPs have "
        f"{content['part_parameters']} parameters. Drop in points and KL divergence from the original on the test "
        f"images: median (best to worst) of {content['n_runs']} draws of {N_INPUTS} images without labels, "
        f"{content['steps']} steps for each part, then {content['joint_steps']} together; seed {content['seed']}."
    )
    head = ["method", "training", "drop", "KL divergence", "parameters", "saved"]
    return "\n\n".join([intro, markdown(head, rows)])


VISION_TRANSFORMER = Experiment.of(
    globals(),
    "vision-transformer",
    "All MLP blocks of a small vision transformer, replaced at an eighth of their parameters.",
    options=(Option("n_runs", 5, "Draws of inputs."),),
    fixed={"steps": 1200, "joint_steps": 800, "epochs": 5},  # steps of each part, then of all together
    quick={"n_runs": 1, "steps": 100, "joint_steps": 20, "epochs": 1},
)
