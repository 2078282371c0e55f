"""Whole networks that others trained, at a share of their parameters: airfoils, and turbulence in fusion plasmas.

NeuralFoil (package neuralfoil) is a family of networks from 25 numbers of an airfoil and its flow to 198 of its
aerodynamics. The largest is replaced at the numbers of parameters of smaller ones, which its authors trained on data.
Inputs are normal, with the package's mean and covariance; those at which the network is not sure are left out. Values
are the mean over both mirror images of an airfoil, as in the package. QLKNN (package fusion-surrogates) is an ONNX file
from ten numbers of a plasma to eight fluxes; inputs are uniform over its range.

Ours is `dc.nn.compress` with a budget; the row "plain" is what it makes of GELU networks alone. Students are plain
networks with two or three hidden layers, with the activation of the network or GELU. Each is trained by Adam with three
rates: the best of twelve trainings in full, on the same inputs, is shown.
Errors are the root of the mean, over outputs, of squared errors over the variance of each, at fresh inputs.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from decouply._support._errors import DecouplingWarning, MissingExtraError
from decouply.bases import Activation
from decouply.nn import Budget, Distil, Evaluation, Fitting, Training, compress
from decouply.nn.carving._onnx_network import OnnxNetwork
from decouply.report._style import COLOURS, new_figure
from experiments.harness import Content, Experiment, Option, Outcome, Task, column, grid, markdown, matching
from experiments.networks.baselines import dense, widths
from experiments.networks.other_methods import squared_errors, train_together

SHIPPED = {"xxsmall": 13_302, "xsmall": 15_654, "small": 22_854, "medium": 27_014, "large": 78_406, "xlarge": 94_918}
SIZES = {"NeuralFoil": tuple(SHIPPED.values()), "QLKNN": (3_693, 7_386, 14_772)}  # those of QLKNN are 5, 10 and 20 %
STUDENT, OURS, PLAIN, THEIRS = "best student", "ours", "ours, plain", "shipped"
_N_TEST, _BATCH = 5000, 512
_RATES = (1e-2, 3e-2, 8e-2)
_NUMBERS_OF_LAYER = 32  # places along the airfoil for each of six quantities


def tasks(
    *, seed: int, n_runs: int, n_sizes: int, steps: int, inputs: int, cases: tuple[str, ...] = tuple(SIZES)
) -> list[Task]:
    found = []
    for case in cases:
        shared = {"run": range(n_runs), "seed": seed, "steps": steps, "inputs": inputs}
        if case == "NeuralFoil":
            found += grid(case=case, size=tuple(SHIPPED.values()), method=THEIRS, **shared)
        found += grid(case=case, size=SIZES[case][:n_sizes], method=(STUDENT, PLAIN, OURS), **shared)
    return found


def work(case: str, size: int, method: str, run: int, seed: int, steps: int, inputs: int, folder: str) -> Outcome:
    """Error at fresh inputs, parameters, processor time, and what was taken."""
    torch.set_num_threads(1)
    at = network(case)
    X, Y, T, G = drawn(case, inputs, seed + run, folder)
    began = time.process_time()
    part: torch.nn.Module
    if method == THEIRS:
        name = next(name for name, count in SHIPPED.items() if count == size)
        part, words = Mirrored(_airfoil_network(name)), name
    elif method in (OURS, PLAIN):
        part, words = _compressed(at, X, size, steps, seed + run, plain=method == PLAIN)
    else:
        part, words = _student(case, X, Y, size, steps, seed + run)
    own = part if case == "QLKNN" or method == THEIRS else Mirrored(part)
    squares = (_values(own, T) - G).pow(2).mean(0) / G.var(0)
    n_parameters = sum(p.numel() for p in part.parameters())
    seconds = time.process_time() - began
    return {"error": 100.0 * float(squares.mean().sqrt()), "n": n_parameters, "seconds": seconds, "taken": words}


def _compressed(at: nn.Module, X: Tensor, size: int, steps: int, seed: int, *, plain: bool) -> tuple[nn.Module, str]:
    with warnings.catch_warnings():  # that the error is large, which is what is measured
        warnings.simplefilter("ignore", DecouplingWarning)
        out = compress(
            at,
            None,
            X,
            budget=Budget(parameters=size),
            task="regression",
            fitting=Fitting(basis=Activation("gelu", hinges=0)) if plain else None,
            training=Training(refine=Distil(steps, batch_size=_BATCH, mixup=0.0)),
            evaluation=Evaluation(validation=X[:500]),
            rng=seed,
            progress=False,
        )
    return out.layer, out.report.parts[0].tried[0].functions


def _student(case: str, X: Tensor, Y: Tensor, size: int, steps: int, seed: int) -> tuple[nn.Module, str]:
    """The plain network that is nearest at a tenth of the inputs, which is kept aside."""
    middle, spread, mean, far = X.mean(0), X.std(0), Y.mean(0), Y.std(0)
    inputs, known = (X - middle) / spread, (Y - mean) / far
    kept = len(X) // 10
    best: tuple[float, nn.Module, str] | None = None
    own = nn.SiLU if case == "NeuralFoil" else nn.Tanh
    kinds: tuple[Callable[[], nn.Module], ...] = (own, nn.GELU)
    for kind in kinds:
        for depth in (2, 3):
            dims = widths((X.shape[1], Y.shape[1]), size, depth)
            torch.manual_seed(seed)
            one = dense(dims, kind)
            copies = [[one, *(dense(dims, kind) for _ in _RATES[1:])]]
            for other in copies[0][1:]:
                other.load_state_dict(one.state_dict())
            (trained,) = train_together(
                copies,
                [_RATES],
                inputs[None, kept:],
                known[None, kept:],
                squared_errors,
                n_real=len(X) - kept,
                share=0.0,
                steps=steps,
                batch_size=_BATCH,
                generator=torch.Generator().manual_seed(seed),
            )
            for rate, student in zip(_RATES, trained, strict=True):
                reached = float((_values(student, inputs[:kept]) - known[:kept]).pow(2).mean())
                if np.isfinite(reached) and (best is None or reached < best[0]):
                    best = reached, student, f"{'-'.join(map(str, dims[1:-1]))} {kind.__name__}, rate {rate:g}"
    assert best is not None
    return InUnits(best[1], middle, spread, mean, far), best[2]


class InUnits(nn.Module):
    """A network of standardised inputs and outputs, in the units of both."""

    def __init__(self, network: nn.Module, middle: Tensor, spread: Tensor, mean: Tensor, far: Tensor) -> None:
        super().__init__()
        self.network, self.units = network, (middle, spread, mean, far)

    def forward(self, x: Tensor) -> Tensor:
        middle, spread, mean, far = self.units
        values: Tensor = self.network((x - middle) / spread) * far + mean
        return values


# Their networks


@cache
def network(case: str) -> nn.Module:
    return Mirrored(_airfoil_network("xxxlarge")) if case == "NeuralFoil" else OnnxNetwork.read(_plasma_file())


def _package(name: str, on_index: str) -> Path:
    found = find_spec(name)
    if found is None or not found.submodule_search_locations:
        raise MissingExtraError(f"`networks` needs the package {on_index}: pip install --no-deps {on_index}.")
    return Path(next(iter(found.submodule_search_locations)))


def _plasma_file() -> Path:
    return _package("fusion_surrogates", "fusion-surrogates") / "qlknn" / "models" / "qlknn_7_11.onnx"


def _airfoil_file(name: str) -> Any:
    return np.load(_package("neuralfoil", "neuralfoil") / "nn_weights_and_biases" / f"{name}.npz")


def _airfoil_network(size: str) -> nn.Sequential:
    held = _airfoil_file(f"nn-{size}")
    layers: list[nn.Module] = []
    for k in sorted({int(name.split(".")[1]) for name in held}):
        weight, bias = (torch.tensor(held[f"net.{k}.{word}"]).float() for word in ("weight", "bias"))
        one = nn.Linear(weight.shape[1], weight.shape[0])
        one.load_state_dict({"weight": weight, "bias": bias})
        layers += [one, nn.SiLU()]
    return nn.Sequential(*layers[:-1]).requires_grad_(False).eval()


class Mirrored(nn.Module):
    """The mean over an airfoil and its mirror image, turned back."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        inputs, self.in_signs = np.arange(25), torch.ones(25)
        inputs[:8], inputs[8:16] = np.arange(8, 16), np.arange(8)  # the lower surface and the upper one
        inputs[[23, 24]] = 24, 23
        self.in_signs[[*range(17), 18]] = -1.0
        n = _NUMBERS_OF_LAYER
        outputs, self.out_signs = np.arange(6 + 6 * n), torch.ones(6 + 6 * n)
        outputs[[4, 5]] = 5, 4
        upper, lower = np.arange(6, 6 + 3 * n), np.arange(6 + 3 * n, 6 + 6 * n)
        outputs[upper], outputs[lower] = lower, upper
        self.out_signs[[1, 3, *upper[2 * n :], *lower[2 * n :]]] = -1.0
        self.inputs, self.outputs = torch.tensor(inputs), torch.tensor(outputs)

    def flip(self, x: Tensor) -> Tensor:
        """The inputs of the mirror image."""
        return x[..., self.inputs] * self.in_signs.to(x)

    def forward(self, x: Tensor) -> Tensor:
        turned = self.network(self.flip(x))[..., self.outputs]
        values: Tensor = 0.5 * (self.network(x) + turned * self.out_signs.to(x))
        return values


@torch.no_grad()
def _values(function: nn.Module, X: Tensor) -> Tensor:
    return torch.cat([function(x) for x in torch.split(X, 2000)])


def drawn(case: str, count: int, seed: int, folder: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Inputs and values to train with, and others to test with; kept in a file, since the large network is slow."""
    path = Path(folder) / f"{case}-{count}-inputs-{seed}.pt"
    if path.is_file():
        held: tuple[Tensor, Tensor, Tensor, Tensor] = torch.load(path, weights_only=True)
        return held
    rng, at = np.random.default_rng([seed, 29]), network(case)
    draw = _airfoils if case == "NeuralFoil" else _plasmas
    X, T = draw(count, rng), draw(_N_TEST, rng)
    torch.save(found := (X, _values(at, X), T, _values(at, T)), path)
    return found


def _plasmas(count: int, rng: np.random.Generator) -> Tensor:
    low = np.array([0.0, 0.0, -5.0, -15.0, 0.66, -1.0, 0.1, 0.25, -5.0, 0.7])
    high = np.array([16.0, 16.0, 5.0, 15.0, 10.0, 4.0, 0.95, 2.5, 0.0, 1.0])
    return torch.tensor(rng.uniform(low, high, (count, 10))).float()


def _airfoils(count: int, rng: np.random.Generator) -> Tensor:
    """Half of them mirrored; an angle is one angle, whose sine and cosines belong together."""
    held, at = _airfoil_file("scaled_input_distribution"), network("NeuralFoil")
    assert isinstance(at, Mirrored)
    mean, inverse = (torch.tensor(held[f"{name}_inputs_scaled"]).float() for name in ("mean", "inv_cov"))
    found: list[Tensor] = []
    while sum(map(len, found)) < count:
        x = rng.multivariate_normal(held["mean_inputs_scaled"], held["cov_inputs_scaled"], 2000)
        angle = 0.5 * np.arcsin(np.clip(x[:, 18], -1.0, 1.0))
        x[:, 17], x[:, 19], x[:, 20] = np.abs(x[:, 17]), np.cos(angle), np.sin(angle) ** 2
        x[:, 23:] = np.clip(x[:, 23:], 0.0, 1.0)
        some = torch.tensor(x).float()
        away = some - mean
        sure = _values(at, some)[:, 0] - ((away @ inverse) * away).sum(1) / 50.0
        some = some[sure > 0.0]
        turned = torch.tensor(rng.random(len(some)) < 0.5)
        found.append(torch.where(turned[:, None], at.flip(some), some))
    return torch.cat(found)[:count]


# What is told


def table(content: Content) -> str:
    draws = "one draw" if content["n_runs"] == 1 else f"median of {content['n_runs']} draws"
    blocks = [
        f"Errors in percent at {_N_TEST} fresh inputs, {draws}; {content['inputs']} inputs "
        f"and {content['steps']} steps for everybody, seed {content['seed']}."
    ]
    for case in dict.fromkeys(run["case"] for run in content["runs"]):
        rows = []
        for run in matching(content["runs"], case=case, run=0):
            same = matching(content["runs"], case=case, size=run["size"], method=run["method"])
            rows.append(
                [
                    run["method"],
                    str(run["n"]),
                    f"**{np.median(column(same, 'error')):.1f}**",
                    run["taken"],
                    f"{np.median(column(same, 'seconds')):.0f}",
                ]
            )
        head = ["method", "parameters", "error, %", "what was taken", "processor time, s"]
        blocks += [f"**{case}**", markdown(head, rows)]
    return "\n\n".join(blocks)


def figure(content: Content) -> Figure:
    """Error against parameters on NeuralFoil, or on the first network there is."""
    case = content["runs"][0]["case"]
    canvas = new_figure(6.0, 3.8)
    ax = canvas.subplots()
    shown = matching(content["runs"], case=case)
    for k, method in enumerate((OURS, STUDENT, THEIRS, PLAIN)):
        if not (some := matching(shown, method=method)):
            continue
        sizes = sorted({run["size"] for run in some})
        medians = [np.median(column(matching(some, size=size), "error")) for size in sizes]
        ax.plot(sizes, medians, "osDv"[k], linestyle="-", color=COLOURS[k], label=method, alpha=0.7)
    ticks = sorted({run["size"] for run in shown})
    ax.set_xscale("log")
    ax.set_xticks(ticks, [f"{size / 1000:.3g} k" for size in ticks])
    ax.minorticks_off()
    ax.set_ylim(0.0, 1.1 * max(run["error"] for run in shown))
    ax.set_xlabel("parameters")
    ax.set_ylabel("error, %")
    ax.set_title(case, fontsize=9)
    ax.legend(frameon=False)
    return canvas


NETWORKS = Experiment.of(
    globals(),
    "networks",
    "Whole networks that others trained, at the sizes of their smaller relatives.",
    options=(
        Option("n_runs", 1, "Draws of inputs."),
        Option("n_sizes", 2, "Sizes of each network, the smallest first."),
        Option("steps", 1000, "Steps of every training."),
        Option("inputs", 12_000, "Inputs to train with.", least=1000),
    ),
    quick={"n_runs": 1, "n_sizes": 1, "steps": 100, "inputs": 3000, "cases": ("QLKNN",)},
)
