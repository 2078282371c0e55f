"""The paper's Silverbox figure: decouplings of one polynomial NARX model, ranks 2 to 6, 30 runs each.

Every run draws 200 new training regressors; all algorithms and ranks of a run get the same ones. Two errors are
taken on the multisine test: how far the decoupling is from the NARX model at the regressors of the test record (model
approximation), and how far its free run is from the measured outputs (simulation), both in percent of the spread.
The five algorithms of the paper run as it says: one start, data as given, in volts. VarPro runs as
`PolynomialNARX.decouple` has it by default; the first of its models of rank 3 are then refined on the simulation error
of the training record.
"""

from __future__ import annotations

import math
import warnings
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from numpy import ndarray

from decouply._support._errors import DecouplingWarning, SolverError
from decouply.data import Silverbox, silverbox
from decouply.report._style import COLOURS, new_figure
from decouply.samples._model_errors import relative_rmse
from decouply.solvers import AbstractSolver, Constr, Hollander, Proj, TwoStage, Zniyed
from decouply.sysid import PolynomialNARX
from experiments.harness import Content, Experiment, Option, Outcome, Task, grid, markdown, matching

RANKS = (2, 3, 4, 5, 6)
DEGREE = 3
N_SAMPLES = 200
LEFT = ("Zniyed", "TS-Zniyed", "TS-PROJ-CMPT-1", "VarPro")
RIGHT = ("Hollander", "TS-CONSTR-CMPT-1", "VarPro")
ALGORITHMS = tuple(dict.fromkeys((*LEFT, *RIGHT)))
QUANTITIES = ("model approximation error", "simulation error")
REFINED = "VarPro, refined"


def tasks(
    *, seed: int, n_runs: int, ranks: tuple[int, ...] = RANKS, n_refined: int = 5, refine_steps: int = 60
) -> list[Task]:
    decouplings = grid(run=range(n_runs), algorithm=ALGORITHMS, rank=ranks, seed=seed)
    return decouplings + grid(
        algorithm=REFINED, rank=3, run=range(min(n_refined, n_runs)), seed=seed, max_steps=refine_steps
    )


@cache
def reference() -> tuple[Silverbox, PolynomialNARX]:
    """The data and the model that is decoupled, once per process."""
    data = silverbox()
    return data, PolynomialNARX(n_u=1, n_y=3, degree=DEGREE).fit(*data.train)


def work(algorithm: str, rank: int, run: int, seed: int, max_steps: int = 0) -> Outcome:
    """One decoupling; a failure of a solver or a simulation that escapes gives infinite errors (None in JSON)."""
    data, narx = reference()
    rng = np.random.default_rng([seed, run])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DecouplingWarning)  # escapes are counted below
        if algorithm == REFINED:
            decoupled = narx.decouple(rank, DEGREE, rng=rng, progress=False)
            before = [1e3 * test.rmse(decoupled.simulate(test.u, test.y_init)) for test in data.tests]
            try:
                refined = decoupled.refine(*data.train, max_steps=max_steps, progress=False)
                after = [1e3 * test.rmse(refined.simulate(test.u, test.y_init)) for test in data.tests]
            except SolverError:
                after = [math.inf] * len(data.tests)
            return {"n_parameters": decoupled.n_parameters, "before_mv": before, "after_mv": after}
        test = data.multisine
        X = narx.regressors(*test)
        try:
            decoupled = narx.decouple(
                rank,
                DEGREE,
                solver=solver_of(algorithm),
                n_samples=N_SAMPLES,
                as_given=algorithm != "VarPro",
                n_starts=None if algorithm == "VarPro" else 1,
                rng=rng,
                progress=False,
            )
            simulated = decoupled.simulate(test.u, test.y_init)
        except SolverError:
            return {"errors": [None, None]}
    return {"errors": [float(relative_rmse(narx(X), decoupled(X))[0]), test.relative_rmse(simulated)]}


def solver_of(algorithm: str) -> AbstractSolver | None:
    """The solver behind a name of the figure; None is the default of `PolynomialNARX.decouple`."""
    return {
        "Zniyed": Zniyed(lam=1e-4),
        "TS-Zniyed": TwoStage(Zniyed()),
        "TS-PROJ-CMPT-1": TwoStage(Proj(weighted_projection=False)),
        "Hollander": Hollander(),
        "TS-CONSTR-CMPT-1": TwoStage(Constr()),
        "VarPro": None,
    }[algorithm]


def content(runs: list[Task], *, n_runs: int, seed: int, **_: Any) -> Content:
    """Medians and means by algorithm, rank and quantity; the reference; refined models with their errors in mV."""
    data, narx = reference()
    simulated = [narx.simulate(test.u, test.y_init) for test in data.tests]
    cells = []
    for algorithm in ALGORITHMS:
        for rank in sorted({run["rank"] for run in matching(runs, algorithm=algorithm)}):
            some = matching(runs, algorithm=algorithm, rank=rank)
            for i, quantity in enumerate(QUANTITIES):
                values = np.array([run["errors"][i] for run in some], dtype=float)
                median, mean, diverged = statistics(values)
                cell = {"algorithm": algorithm, "rank": rank, "quantity": quantity}
                cells.append(cell | {"median": median, "mean": mean, "diverged": diverged, "runs": values})
    kept = ("rank", "run", "n_parameters", "before_mv", "after_mv")
    return {
        "n_runs": n_runs,
        "seed": seed,
        "reference": {
            "relative_rmse_percent": data.multisine.relative_rmse(simulated[0]),
            "rmse_mv": [1e3 * test.rmse(y) for test, y in zip(data.tests, simulated, strict=True)],
            "n_parameters": narx.n_parameters,
        },
        "cells": cells,
        "refined": [{name: run[name] for name in kept} for run in matching(runs, algorithm=REFINED)],
    }


def statistics(values: Float[ndarray, " runs"]) -> tuple[float, float, int]:
    """Median over all runs (a diverged one counts as the worst), mean over the others, number of diverged runs."""
    finite = np.isfinite(values)
    median = float(np.median(np.where(finite, values, np.inf)))
    mean = float(values[finite].mean()) if finite.any() else math.inf
    return median, mean, int(np.sum(~finite))


def table(content: Content) -> str:
    """Median and mean by algorithm and rank, and the refined models."""
    reference, cells = content["reference"], content["cells"]
    ranks = sorted({cell["rank"] for cell in cells})
    errors = reference["rmse_mv"]
    blocks = [
        f"Reference: polynomial NARX, {reference['n_parameters']} coefficients, "
        f"{reference['relative_rmse_percent']:.3f} % ({errors[0]:.3f} mV) in simulation of the multisine test, "
        f"{errors[1]:.3f} mV on the arrow, {errors[2]:.3f} mV on the arrow without extrapolation.",
    ]
    for quantity in QUANTITIES:
        rows = [
            [algorithm, *(_cell(*matching(cells, algorithm=algorithm, rank=r, quantity=quantity)) for r in ranks)]
            for algorithm in ALGORITHMS
        ]
        blocks += [
            f"{quantity.capitalize()} in percent, median (mean) over {content['n_runs']} runs, seed "
            f"{content['seed']}; *k×* marks k diverged runs, left out of the mean.",
            markdown(["algorithm", *(f"r = {rank}" for rank in ranks)], rows),
        ]
    medians = [_number(c["median"]) for c in matching(cells, algorithm="VarPro", quantity=QUANTITIES[0])]
    rises = any(after > before for before, after in pairwise(medians))
    blocks += [f"The model approximation error of VarPro {'rises' if rises else 'never rises'} with the rank."]
    if content["refined"]:
        rows = [["reference NARX", str(reference["n_parameters"]), "", *_mv(errors)]]
        for run in content["refined"]:
            rows.append([str(run["run"]), str(run["n_parameters"]), "before", *_mv(run["before_mv"])])
            rows.append(["", "", "after", *_mv(run["after_mv"])])
        after = np.array([[_number(error) for error in run["after_mv"]] for run in content["refined"]])
        rows.append(["median", "", "after", *_mv(np.median(after, axis=0))])
        blocks += [
            'Rank 3 by VarPro, then `refine(on="simulation")` on the training record: RMSE in mV on the three tests.',
            markdown(["run", "parameters", "", "multisine", "arrow", "arrow, no extrapolation"], rows),
        ]
    return "\n\n".join(blocks)


def _number(value: float | None) -> float:
    return math.inf if value is None else value


def _cell(cell: dict[str, Any]) -> str:
    text = f"**{_number(cell['median']):.3g}** ({_number(cell['mean']):.3g})"
    return text + (f" *{cell['diverged']}×*" if cell["diverged"] else "")


def _mv(values: Any) -> list[str]:
    return ["diverged" if v is None or not math.isfinite(v) else f"{v:.3f}" for v in values]


def figure(content: Content) -> Figure:
    """The paper's four panels: medians solid, means dotted; red lines at 1 % and at the error of the NARX model."""
    colours = dict(zip(ALGORITHMS, COLOURS, strict=False))
    markers = dict(zip(ALGORITHMS, "osD^vX", strict=True))
    ranks = sorted({cell["rank"] for cell in content["cells"]})
    canvas = new_figure(9.0, 6.4)
    axes = canvas.subplots(2, 2, sharex=True, sharey="row")
    for column, algorithms in enumerate((LEFT, RIGHT)):
        for row, quantity in enumerate(QUANTITIES):
            ax = axes[row, column]
            for algorithm in algorithms:
                cells = matching(content["cells"], algorithm=algorithm, quantity=quantity)
                style: dict[str, Any] = {"color": colours[algorithm], "linewidth": 1.4}
                medians, means = ([_number(cell[key]) for cell in cells] for key in ("median", "mean"))
                ax.plot(ranks, medians, "-", marker=markers[algorithm], markersize=4, label=algorithm, **style)
                ax.plot(ranks, means, ":", **style)
            level = 1.0 if row == 0 else content["reference"]["relative_rmse_percent"]
            ax.axhline(level, color="#C00000", linestyle=(0, (2, 2)), linewidth=1.1)
            ax.annotate(
                "1 %" if row == 0 else f"NARX model, {level:.2f} %",
                (1.0, level),
                xycoords=("axes fraction", "data"),
                ha="right",
                va="bottom" if row == 0 else "top",
                color="#C00000",
                fontsize=7,
            )
            ax.set_yscale("log")
            ax.yaxis.set_major_formatter("{x:g}")
            ax.yaxis.set_minor_formatter("{x:g}" if row == 1 else "")
            ax.set_xticks(ranks)
            if row == 1:
                ax.set_xlabel("rank r")
            else:
                ax.legend(frameon=False, fontsize=7)
        axes[0, column].set_title("projection and VarPro" if column == 0 else "constraint and VarPro", fontsize=9)
    for row, quantity in enumerate(QUANTITIES):
        axes[row, 0].set_ylabel(f"{quantity} (%)")
    canvas.suptitle(f"Silverbox, {content['n_runs']} runs: medians solid, means dotted", fontsize=10)
    return canvas


SILVERBOX = Experiment.of(
    globals(),
    "silverbox",
    "The Silverbox figure of the paper: decouplings of a polynomial NARX model.",
    options=(Option("n_runs", 30, "Draws of training regressors."),),
    quick={"n_runs": 2, "ranks": (3, 4), "n_refined": 1, "refine_steps": 10},
)
