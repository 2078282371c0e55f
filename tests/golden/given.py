"""Small seeded data, and what is told of results: nothing that depends on the order or scale of functions."""

from __future__ import annotations

from typing import Any

import numpy as np

import decouply as dc

from .golden import floored

LONG = 3600.0  # seconds: no limit is ever met


def points(m: int, S: int = 30, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1.0, 1.0, (S, m))


def fixed(m: int) -> np.ndarray:
    """Where models are compared: some points inside the data, one outside."""
    return np.vstack([points(m, 4, seed=77), np.full((1, m), 1.2)])


def sampled(f: Any, S: int = 30, *, kinds: str = "FJ", noise: float = 0.0, seed: int = 0, **more: Any) -> dc.Samples:
    """Values, Jacobians or both, with noise of this share of their spread."""
    X, rng = points(f.n_inputs, S, seed), np.random.default_rng(seed + 1)
    parts = {"F": f(X), "J": f.jacobian(X)}
    noisy = {k: part + noise * np.std(part) * rng.normal(size=part.shape) for k, part in parts.items()}
    return dc.Samples(X, **{k: noisy[k] for k in kinds}, **more)


def system(n_layers: int) -> dc.Decoupling:
    dims = {1: (3, 2, 2), 2: (3, 2, 2, 2), 3: (2, 2, 2, 2, 2)}[n_layers]
    return dc.systems.random_system(dims, (2,) * n_layers, rng=n_layers)


def solver(**options: Any) -> dc.VarPro:
    return dc.VarPro(**({"max_seconds": LONG, "max_steps": 30, "polish_steps": 30} | options))


def told_model(model: Any) -> dict[str, Any]:
    P = fixed(model.n_inputs)
    return {"values": model(P), "jacobian": model.jacobian(P[:1])}


def told(result: dc.Result) -> dict[str, Any]:
    """A result, without its gauge and its times."""
    errors = [result.error_jacobian, result.error_values]
    rows = result.starts
    return told_model(result.decoupling) | {
        "errors": floored(errors),
        "status": result.status.name,
        "found_by": result.found_by,
        "lam": result.lam,
        "ridge": result.ridge,
        "n_effective": result.n_effective,
        "n_notes": len(result.notes),
        "n_parameters": result.decoupling.n_parameters,
        "starts": [len(rows), *{row.status.name: 0 for row in rows}],
        "objective": floored(sorted(row.objective for row in rows)[:3]),
        "steps": sum(row.steps for row in rows),
        "path": [[row.lam, row.steps, row.chosen] for row in result.path],
        "history": len(result.history.objective),
    }
