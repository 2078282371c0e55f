"""Where samples come from, and searches in a part of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import decouply as dc

from .given import points, sampled, solver, system, told
from .golden import Made, case, floored
from .solvers import decoupled

_S = 400


def _whole(noise: float = 0.03) -> dc.Samples:
    return sampled(system(1), _S, noise=noise, inputs=["a", "b", "c"], outputs=["p", "q"])


def _read(samples: dc.Samples) -> Made:
    some = samples.take(np.array([3, 390, 7]))
    pilot = samples.pilot(5, rng=2)
    return {
        "shape": [len(samples), samples.n_inputs, samples.n_outputs, samples.in_memory],
        "names": [samples.inputs, samples.outputs],
        "some": [some.X, some.F, None if some.J is None else some.J],
        "pilot": [pilot.X, pilot.F],
    }


def _of_pilot(result: dc.Result) -> Made:
    said = told(result)
    return {k: v for k, v in said.items() if k not in ("objective", "history")}


def _searched(samples: dc.Samples, by: Any = None, **options: Any) -> Made:
    by = solver(pilot=60, max_steps=10, polish_steps=10) if by is None else by
    return _of_pilot(decoupled(samples, 2, 2, by=by, n_starts=2, **options))


def _npy(samples: dc.Samples, folder: Path) -> dc.Samples:
    for name in "XFJ":
        np.save(folder / f"{name}.npy", getattr(samples, name))
    return dc.Samples.from_npy(folder / "X.npy", F=folder / "F.npy", J=folder / "J.npy")


@case()
def npy(folder: Path) -> Made:
    stored = _npy(_whole(), folder)
    return {"read": _read(stored), "fit": _searched(stored)}


@case("both", "values", "weights")
def npy_fits(folder: Path, word: str) -> Made:
    samples = _whole()
    _npy(samples, folder)
    np.save(folder / "w.npy", np.random.default_rng(3).uniform(0.5, 2.0, _S))
    given: dict[str, Any] = {"F": folder / "F.npy"}
    if word != "values":
        given["J"] = folder / "J.npy"
    if word == "weights":
        given["weights"] = folder / "w.npy"
    return _searched(dc.Samples.from_npy(folder / "X.npy", **given), linear=word == "both")


@case("Constr", "Proj", "Hollander", "Zniyed", "Dreesen", "TwoStage")
def stored_alternating(folder: Path, word: str) -> Made:
    few: dict[str, Any] = {"stopping": dc.solvers.Stopping(max_steps=6, min_steps=2)}
    by = dc.TwoStage(dc.Constr(**few), max_runs=2) if word == "TwoStage" else getattr(dc, word)(**few)
    return _searched(_npy(_whole(), folder), by)


@case()
def stored_two_layers(folder: Path) -> Made:
    stored = _npy(sampled(system(2), _S, noise=0.03), folder)
    by = solver(pilot=60, max_steps=10, polish_steps=10)
    return _of_pilot(decoupled(stored, (2, 2), (2, 2), by=by, n_starts=2))


@case()
def stored_spline(folder: Path) -> Made:
    stored = _npy(_whole(), folder)
    by = solver(pilot=60, max_steps=10, polish_steps=5)
    return _of_pilot(decoupled(stored, 2, None, basis=dc.Spline(3), by=by, n_starts=1))


@case()
def stored_select(folder: Path) -> Made:
    found = dc.select(
        _npy(_whole(), folder), (2,), 2, n_folds=2, progress=False, max_seconds=3600, solver=solver(max_steps=5)
    )
    rows = [[*row.ranks, *row.degrees, row.error, row.training_error] for row in found.table]
    return {"ranks": found.ranks, "degrees": found.degrees, "rows": floored(rows), "n_notes": len(found.notes)}


@case()
def pilot_in_memory(folder: Path) -> Made:
    return _searched(_whole())


@case()
def stored_inference(folder: Path) -> Made:
    stored = _npy(_whole(), folder)
    result = decoupled(stored, 2, 2, by=solver(pilot=60, max_steps=10, polish_steps=10), n_starts=2)
    return {
        "unique": [result.identifiability.rank, result.identifiability.n_ambiguities],
        "smallest": result.identifiability.smallest_singular_value,
        "errors": result.uncertainty([-0.5, 0.0, 0.5]),
        "verdict": result.verdict.grade.name,
        "slopes": result.relative_slopes,
        "rmse": result.relative_rmse(),
    }


@case(needs=("zarr",))
def zarr(folder: Path) -> Made:
    stored = _whole().to_zarr(folder / "data.zarr", progress=False)
    again = dc.Samples.from_zarr(folder / "data.zarr")
    return {"read": _read(stored), "fit": _searched(again)}


@case(needs=("zarr",))
def batches(folder: Path) -> Made:
    samples = _whole()
    parts = [slice(i, i + 70) for i in range(0, _S, 70)]
    given = ((samples.X[rows], samples.F[rows], samples.J[rows]) for rows in parts)
    stored = dc.Samples.from_batches(given, store=folder / "batches.zarr", progress=False)
    return {"read": _read(stored), "fit": _searched(stored)}


@case(needs=("pyarrow",))
def parquet(folder: Path) -> Made:
    import pyarrow as pa
    from pyarrow import parquet

    samples = _whole()
    x, y = ("a", "b", "c"), ("p", "q")
    columns = dict(zip(x, samples.X.T, strict=True)) | dict(zip(y, samples.F.T, strict=True))
    columns |= {f"d{o}/d{i}": samples.J[:, k, j] for k, o in enumerate(y) for j, i in enumerate(x)}
    parquet.write_table(pa.table(columns), folder / "data.parquet", row_group_size=90)
    loaded = dc.Samples.load(folder / "data.parquet", inputs=list(x), outputs=list(y))
    return {"loaded": _read(loaded)}


@case(needs=("dask",))
def dask(folder: Path) -> Made:
    import dask.array as da

    samples = _whole()
    given = [da.from_array(getattr(samples, k), chunks=(90, -1, -1)[: 2 + (k == "J")]) for k in "XFJ"]
    stored = dc.Samples.from_dask(*given)
    return {"read": _read(stored), "fit": _searched(stored)}


@case("npz", "csv", "npy", "mat")
def files(folder: Path, word: str) -> Made:
    samples = _whole()
    path = folder / f"samples.{word}"
    if word == "npz":
        samples.save(path)
        return _read(dc.Samples.load(path))
    if word == "mat":
        import scipy.io

        scipy.io.savemat(path, {"x": samples.X.T, "F": samples.F.T, "T": np.moveaxis(samples.J, 0, -1)})
        return _read(dc.Samples.load(path, order="matlab", arrays={"X": "x", "J": "T"}))
    table = np.hstack([samples.X, samples.F])
    if word == "npy":
        np.save(path, table)
        return _read(dc.Samples.load(path, inputs=[1, 2, 3], outputs=[4, 5]))
    lines = ["a;b;c;p;q", *(";".join(repr(float(v)) for v in row) for row in table)]
    path.write_text("\n".join(lines))
    return _read(dc.Samples.load(path, inputs=["a", "b", "c"], outputs=["p", "q"]))


@case()
def volterra(folder: Path) -> Made:
    rng = np.random.default_rng(2)
    h = np.array([1.0, 0.5, 0.2])
    kernels = [0.3, rng.normal(size=3), np.outer(h, h), 0.1 * rng.normal(size=(3, 3, 3))]
    samples = dc.Samples.from_volterra(kernels, points(3))
    result = decoupled(samples, 2, 3, by=solver(max_steps=10, polish_steps=10))
    return {"F": samples.F[:5], "J": samples.J[:3]} | {f"fit.{k}": v for k, v in told(result).items()}


@case()
def functions(folder: Path) -> Made:
    X = points(2, 4)
    one = dc.Samples.from_function(lambda x: np.stack([np.sin(x[:, 0]) * x[:, 1], x[:, 0] ** 2], axis=1), X)
    exact = dc.Samples.from_function(
        lambda x: (x[:, 0] * x[:, 1])[:, None], X, jac=lambda x: np.stack([x[:, 1], x[:, 0]], axis=1)[:, None, :]
    )
    return {"F": one.F, "J": None if one.J is None else one.J, "exact.F": exact.F, "exact.J": exact.J}


@case(needs=("sympy",))
def expressions(folder: Path) -> Made:
    import sympy

    a, b = sympy.symbols("a b")
    samples = dc.Samples.from_sympy([a * sympy.sin(b), sympy.exp(a) / (1 + b**2)], [a, b], points(2, 4))
    return {"F": samples.F, "J": samples.J}


@case(needs=("jax",))
def jax(folder: Path) -> Made:
    import jax.numpy as jnp

    samples = dc.Samples.from_jax(lambda x: jnp.stack([x[0] * x[1] ** 2, jnp.tanh(x[0])]), points(2, 4))
    return {"F": samples.F, "J": samples.J}
