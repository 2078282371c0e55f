"""Model files whose texts or arrays say something else, one at a time: refused in words, or models that run."""

from __future__ import annotations

import json
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import decouply as dc
from tests.robustness.doors import FREE_RUN, NARX, RECORD, RESULT, STATES
from tests.robustness.outcome import FINE, Outcome

_LEFT_OUT = object()
_VALUES = (-1, float("nan"), float("inf"), float("-inf"), None, "x", [], {}, 1.5, 10**30, True, 0, _LEFT_OUT)
_TEXTS = ("[" * 100_000 + "]" * 100_000, "{", "", "\0")
_ARRAYS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "whole numbers": lambda a: np.nan_to_num(a, posinf=0.0).astype(int),
    "empty": lambda a: a[:0],
    "NaN": lambda a: np.full_like(a, np.nan),
    "float32": lambda a: a.astype(np.float32),
    "twice": lambda a: np.concatenate([a, a]),
    "flat": np.ravel,
    "one number": lambda a: np.ones(1),
    "huge": lambda a: np.full_like(a, 1e300),
    "zeros": np.zeros_like,
    "booleans": lambda a: a > 0.0,
}


def _use_result(result: dc.Result) -> None:
    str(result), result.verdict, result.quality


def _use_linear(model: dc.sysid.LinearStateSpace) -> None:
    repr(model), model.frequency_response([0.1])


def _use_dynamic(model: Any) -> None:
    repr(model)
    model.simulate(RECORD[0], RECORD[1][:3])
    model.predict_one_step(*RECORD)


KINDS = {
    "polynomial NARX": (NARX, dc.sysid.PolynomialNARX.load, _use_dynamic),
    "decoupled NARX": (FREE_RUN, dc.sysid.DecoupledNARX.load, _use_dynamic),
    "state space": (STATES, dc.sysid.DecoupledStateSpace.load, _use_dynamic),
    "linear state space": (STATES.linear(), dc.sysid.LinearStateSpace.load, _use_linear),
    "result": (RESULT, dc.Result.load, _use_result),
}


def damaged_models(count: int, seed: int) -> Iterator[Outcome]:
    """So many files of all kinds, with one thing in each that is not as it was written."""
    from safetensors import safe_open

    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "m.safetensors")
        every = []
        for kind, (model, *_) in KINDS.items():
            model.save(path)
            with safe_open(path, framework="numpy") as content:
                arrays = {name: content.get_tensor(name) for name in content.keys()}  # noqa: SIM118
                every.append((kind, arrays, content.metadata()))
        for _ in range(count):
            kind, arrays, texts = every[rng.integers(len(every))]
            said, damaged = _damaged_part(arrays, texts, rng)
            yield _loaded(path, kind, *damaged, f"{kind}: {said}")


def _damaged_part(arrays: dict[str, Any], texts: dict[str, str], rng: np.random.Generator) -> tuple[str, tuple]:
    names = [name for name in texts if name not in ("format", "version")]
    if not names or rng.random() < 0.3:
        name = str(rng.choice(sorted(arrays)))
        change = str(rng.choice([*_ARRAYS, "left out"]))
        if change == "left out":
            return f"{name} left out", ({key: array for key, array in arrays.items() if key != name}, texts)
        return f"{name} {change}", (arrays | {name: _ARRAYS[change](arrays[name])}, texts)
    name = str(rng.choice(sorted(names)))
    if rng.random() < 0.1:
        text = _TEXTS[rng.integers(len(_TEXTS))]
        return f"{name} is {text[:5]!r}", (arrays, texts | {name: text})
    places = list(_places(json.loads(texts[name])))
    place, value = places[rng.integers(len(places))], _VALUES[rng.integers(len(_VALUES))]
    if not place and value is _LEFT_OUT:
        return f"{name} left out", (arrays, {key: text for key, text in texts.items() if key != name})
    changed = json.dumps(_with(json.loads(texts[name]), place, value))
    return f"{name}{list(place)} is {value!r}", (arrays, texts | {name: changed})


def _places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where a value out of JSON has values."""
    yield at
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield from _places(value[key], (*at, key))


def _with(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    if not place:
        return new
    inside = value
    for key in place[:-1]:
        inside = inside[key]
    if new is _LEFT_OUT:
        del inside[place[-1]]
    else:
        inside[place[-1]] = new
    return value


def _loaded(path: Path, kind: str, arrays: dict[str, Any], texts: dict[str, str], said: str) -> Outcome:
    from safetensors.numpy import save_file

    save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, path, metadata=texts)
    _, load, use = KINDS[kind]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            use(load(path))
    except dc.DecouplingError as error:
        return Outcome(FINE if len(str(error)) < 5000 else "long message", said, str(error)[:200])
    except Exception as error:
        return Outcome("raw", said, repr(error)[:200])
    return Outcome(FINE, said)
