"""A strategy for every public name: doors made from its signature, or the reason why it has none.

A new name is covered if its class and its arguments are known here; if they are not, `strategies` says what is missing.
"""

from __future__ import annotations

import copy
import inspect
import re
import tempfile
from collections.abc import Callable, Iterator
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import decouply as dc
from tests.robustness.doors import (
    DEEP,
    DOORS,
    FREE_RUN,
    MODEL,
    NARX,
    RECORD,
    RESULT,
    SAMPLES,
    STATES,
    Door,
    S,
    X,
    knock,
)
from tests.robustness.hostile import HOSTILE
from tests.robustness.outcome import Outcome
from tests.signatures import MODULES, recorded

# Names that nobody gives arguments to by hand, and why. The first pattern that fits a name counts.
_BASIS = "derivative|evaluate|second_derivative|expression|recurrence|coarser|least_value|roughness|shape_rows"
_BASIS += "|with_pieces|with_fewer_pieces|to_monomials|comparison|line|moved|moved_curves_of|shaped|orders|knots"
_SOLVER = "check|solve|solve_from|with_lam|with_start|with_time_limit|with_loss|without_ridge|draw|draw_pilot"
_SOLVER += "|improve_on_subsample|pilot_size|refine_on_all|solve_pilot"
_ON_BASES = "the package calls it on bases, with arrays that were checked"
REASONS: dict[str, str] = {
    rf"\w+\.({_BASIS})|(LayerBasis|AbstractAlgebra|ArrayAlgebra)(\.\w+)?": _ON_BASES,
    rf"\w+\.({_SOLVER})": "the package calls it on solvers, with problems that were checked",
    r"(Problem|Solution|Iterate|History|StartRow|LamRow|Identifiability)(\.\w+)?": "solvers get or give it",
    r"(ParaTuckFit|Units)(\.\w+)?": "solvers get or give it",
    r"(Has\w+|ChecksProblem|StartsAt|OutOfCore|Abstract\w+)(\.\w+)?": "abstract: tested where it is implemented",
    r"\w+Error|DecouplingWarning|Grade|Status": "an error, a warning or a list of words",
    r"(Result|Simplified|Change|Alternative|AblationRow|Verdict|Quality|ClassQuality|Importances)": "handed out",
    r"(Recognition|RecognisedFunction|Selection|NamedCurve|FactorComparison)(\.\w+)?": "handed out",
    r"(Compression|CompressionReport|PartReport|Training|Budget)(\.\w+)?": "see nn.compress, which gets or gives it",
    r"Samples\.stored|Functions\.unchecked": "the package calls it",
    r"(Distil|Evaluation|FineTune|Fitting)": "see nn.compress, which gets it",
    r"(ResidualTests|StateSpaceFit|StateSpaceStart|StateFunction)(\.\w+)?": "handed out",
    r"(Identification|TriedModel)(\.\w+)?": "handed out; it passes arguments on to its model",
    r"(Benchmark|ImageData|Images|Silverbox)": "handed out",
    r"(cascaded_tanks|emps|fashion_mnist|mnist|silverbox|wiener_hammerstein|f1|f2|f3)": "takes nothing",
    r"\w+\.(file_record|of_record|page_content|dynamics|linear_twin|training_records)": "the package calls it",
    r"\w+\.(from_json|to_json|recorded|n_free|of_model)": "the package calls it",
    r"(DecoupledNARX|LinearStateSpace\.of|DecoupledStateSpace\.of)": "the package calls it",
    r"DecoupledLayer\.(\w*range\w*|slopes|functions|form|domain|end_slopes|after_first)": "training calls it",
    r"DecoupledLayer\.(domain_follows|activation)": "training calls it",
    r"Activation\.curves_of": _ON_BASES,
    r"DecoupledLayer\.(forward|jacobian)": "tensors that do not fit raise PyTorch's own errors, as in all its modules",
}


class _Record:
    """What `nonlinear_benchmarks` gives."""

    name, u, y, sampling_time, state_initialization_window_length = "n", *RECORD, 1.0, 3


_TWO = 0.3  # share of calls with two hostile arguments
_WEIGHTS = np.ones(S)
_LABELS = np.arange(S) % 2
# Good arguments by name, and by class or function where they differ there.
GOOD: dict[str, dict[str, Any]] = {
    "": {
        "X": X,
        "samples": SAMPLES,
        "u": RECORD[0],
        "y": RECORD[1],
        "y_hat": RECORD[1],
        "rng": 0,
        "path": None,
        "inputs": None,
        "outputs": None,
        "dark": False,
        "progress": False,
        "max_seconds": 0.2,
        "digits": 4,
        "curves": ["tanh"],
        "tolerance": 0.1,
        "prune": True,
        "kind": "text",
        "title": "t",
        "bands": False,
        "exact": False,
        "bases": (),
        "outside": "linear",
        "model": None,
        "weights": None,
        "arrays": None,
        "sample_weight": _WEIGHTS,
        "dtype": np.float64,
        "n_init": 3,
        "command": None,
        "language": "c",
        "name": "f",
        "validation": 0.25,
        "max_steps": 1,
        "on": "simulation",
        "ranks": 1,
        "degrees": 2,
        "n_starts": 1,
        "basis": dc.Monomial,
        "linear": False,
        "solver": None,
        "as_given": False,
        "n_samples": 30,
        "y_init": RECORD[1][:3],
        "sampling_time": 1.0,
        "frequencies": [0.1, 0.2],
        "dt": True,
        "n_states": 1,
        "chunk_size": None,
        "jacobian": None,
    },
    "Decoupling": {"inputs": ["a", "b"], "outputs": ["c", "d"]},
    "with_parts": {"offset": np.ones(2), "linear": np.eye(2)},
    "plot_fit": {"outputs": ["c", "d"]},
    "DecouplingRegressor": {"y": X[:, 0], "jacobian": MODEL.jacobian(X)[:, :1], "return_std": False, "n_jobs": None},
    "DecouplingClassifier": {"y": _LABELS},
    "Activation": {"name": "gelu", "hinges": 1},
    "identifiable": {"m": 2, "n": 2, "ranks": 2, "degrees": 3},
    "other_solutions": {"n": 1},
    "uncertainty_at": {"noise": True, "level": 0.9},
    "uncertainty_of_weights": {"level": 0.9},
    "Estimator": {
        "ranks": 1,
        "degrees": 2,
        "basis": dc.Monomial,
        "outside": "bounded",
        "ridge": 0.1,
        "random_state": 0,
        "n_jobs": None,
        "verbose": False,
    },
    "Functions": {"u": X},
    "slicewise_scaled": {"layer": 1, "other": 2, "factors": np.ones(S)},
    "from_cp": {"cp": (np.ones(2), [np.ones((2, 2)), np.ones((2, 2)), np.ones((S, 2))])},
    "from_jax": {"f": lambda x: x**2},
    "Record": {"name": "n", "sampling_time": 1.0, "n_init": 0, "data": _Record()},
    "Settings": {"validation": None, "shapes": None},
    "SearchOptions": {"start": None, "window": 20, "max_steps": 1},
    "PolynomialStateSpace": {"n_states": 1, "degree": 2, "feedthrough": True},
    "identify": {"n_states": (1,), "functions": (dc.Monomial(2),), "stable": False, "max_seconds": 0.5},
    "check_basis": {"basis": dc.Monomial(2)},
    "is_scale_invariant": {"basis": dc.Monomial(2)},
    "check_solver": {"solver": dc.VarPro(max_steps=2), "dims": (2, 1, 2), "degrees": (2,)},
    "DecoupledNARX": {"X": NARX.regressors(*RECORD)[:3]},
    "PolynomialNARX": {"X": NARX.regressors(*RECORD)[:3]},
    "step_source": {"name": "one_step"},
}
_CODE_OF_THE_CALLER = ("f", "progress", "score", "loss", "expressions")
_ENDINGS = {"save_onnx": "m.onnx", "report": "r.html", "to_zarr": "s.zarr", "load": "missing.safetensors"}


@cache
def _torch_layer() -> Any:
    return dc.nn.DecoupledLayer(MODEL)


@cache
def _regressor() -> Any:
    return dc.DecouplingRegressor(ranks=1, degrees=2, n_starts=1).fit(X, X[:, 0])


@cache
def _classifier() -> Any:
    return dc.DecouplingClassifier(ranks=1, degrees=1, n_starts=1).fit(X, _LABELS)


@cache
def _polynomial_states() -> Any:
    return dc.sysid.PolynomialStateSpace(n_states=1, degree=2).fit(*RECORD, max_steps=1, progress=False)


# What methods are called on.
OBJECTS: dict[str, Callable[[], Any]] = {
    "Decoupling": lambda: MODEL,
    "Functions": lambda: MODEL.g[0],
    "ParaTuck": lambda: DEEP.factors(X),
    "Result": lambda: RESULT,
    "Samples": lambda: SAMPLES,
    "PolynomialNARX": lambda: NARX,
    "DecoupledNARX": lambda: FREE_RUN,
    "DecoupledStateSpace": lambda: STATES,
    "LinearStateSpace": lambda: STATES.linear(),
    "PolynomialStateSpace": _polynomial_states,
    "DecouplingRegressor": lambda: copy.deepcopy(_regressor()),
    "DecouplingClassifier": lambda: copy.deepcopy(_classifier()),
    "DecoupledLayer": lambda: copy.deepcopy(_torch_layer()),
    "Record": lambda: dc.data.Record("n", *RECORD, 1.0),
    "Settings": lambda: dc.fit.Settings(1, 2),
}


@cache
def _network() -> Any:
    import torch

    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh(), torch.nn.Linear(3, 2)).double()


def _few() -> Any:
    return dc.nn.Distil(max_steps=2, batch_size=4)


def _compress(**arguments: Any) -> Any:
    import torch

    nn = dc.nn
    few = nn.Training(refine=_few())
    fitting = nn.Fitting(solver=dc.VarPro(max_steps=2, polish_steps=2), n_samples=16)
    given = {"model": _network(), "data": torch.as_tensor(np.tile(X, (4, 1))), "training": few, "fitting": fitting}
    return dc.nn.compress(**(given | arguments), progress=False)


def _from_sympy() -> Door:
    import sympy

    a, b = sympy.symbols("a b")
    return Door("Samples.from_sympy", dc.Samples.from_sympy, {"expressions": [a * b], "symbols": [a, b], "X": X})


def _from_dask() -> Door:
    import dask.array as da

    good = {"X": da.from_array(X), "F": da.from_array(X), "J": None, "weights": None, "inputs": None, "outputs": None}
    return Door("Samples.from_dask", dc.Samples.from_dask, good)


def _layers() -> tuple[Any, Any]:
    import torch

    return (
        {"model": MODEL, "dtype": torch.float64},
        {"sizes": (2, 2, 2), "degrees": 2, "basis": None, "offset": False, "rng": 0, "dtype": torch.float64},
    )


def _of_network(name: str) -> Callable[..., Any]:
    """`nn.refine`, `nn.sample` and `nn.freeze`, on a network of their own."""

    def call(**arguments: Any) -> Any:
        return getattr(dc.nn, name)(copy.deepcopy(_network()), **arguments)

    return call


# Doors that need more than good arguments by name.
_OWN: dict[str, Callable[[], Door]] = {
    "compress": lambda: Door("compress", _compress, {"parts": "0", "ranks": 1, "degrees": 2, "rng": 0, "budget": None}),
    "sample": lambda: Door("sample", _of_network("sample"), {"X": X, "chunk_size": None, "progress": False}),
    "freeze": lambda: Door("freeze", dc.nn.freeze, {"model": _torch_layer()}),
    "refine": lambda: Door(
        "refine",
        partial(dc.nn.refine, progress=False),
        {"model": MODEL, "part": _network(), "X": X, "how": _few(), "n_bits": None, "rng": 0},
    ),
    "Samples.from_dask": _from_dask,
    "Samples.from_sympy": _from_sympy,
    "DecoupledLayer": lambda: Door("DecoupledLayer", dc.nn.DecoupledLayer, _layers()[0]),
    "DecoupledLayer.of_sizes": lambda: Door("DecoupledLayer.of_sizes", dc.nn.DecoupledLayer.of_sizes, _layers()[1]),
    "pack": lambda: Door("pack", dc.nn.pack, {"layer": _torch_layer(), "n_bits": 8}),
    "unpack": lambda: Door(
        "unpack", dc.nn.unpack, {"layer": copy.deepcopy(_torch_layer()), "packed": dc.nn.pack(_torch_layer())}
    ),
}


def short(path: str) -> str:
    """A public name without its module."""
    first, _, rest = path.partition(".")
    return rest if first in MODULES and first else path


def reason(name: str) -> str | None:
    """Why nobody gives hostile arguments to this name."""
    return next((why for pattern, why in REASONS.items() if re.fullmatch(pattern, name)), None)


def public_callables() -> Iterator[str]:
    """Every public name that takes arguments, without its module, once."""
    lines = (line for line in recorded() if "(" in line and not line.endswith(("(self)", "()")))
    yield from dict.fromkeys(short(line.split("(")[0]) for line in lines)


def strategies() -> tuple[tuple[Door, ...], list[str]]:
    """Doors for what no door of `doors` has, and what is missing for others."""
    known = {door.name.split(",")[0] for door in DOORS}
    found, missing = [], []
    for name in public_callables():
        if name in known or reason(name) is not None:
            continue
        try:
            door = _OWN[name]() if name in _OWN else _made(name)
        except KeyError as error:
            missing.append(f"{name}: {error}")
        else:
            found += [door] if door is not None else []
    return tuple(found), missing


def _made(name: str) -> Door | None:
    """A door for a method of one of our objects, or for a function, by the names of its arguments.

    None for what says of itself that it is unchecked.
    """
    owner, _, method = name.rpartition(".")
    kinds = [
        GOOD.get(kind, {}) for kind in ("", owner, method, *(["Estimator"] if name.startswith("Decoupling") else []))
    ]
    good = {key: value for kind in kinds for key, value in kind.items()}
    call = _bound(owner, method)
    if "unchecked" in (call.__doc__ or "") or "known to be fine" in (call.__doc__ or ""):
        return None
    wanted = [
        p.name for p in inspect.signature(call).parameters.values() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
    ]
    wanted = wanted or list(GOOD.get(method, {}))  # **changes
    path = _ENDINGS.get(method, "m.safetensors") if "path" in wanted else None
    return Door(name, call, {key: good[key] for key in wanted}, path, _CODE_OF_THE_CALLER)


def _bound(owner: str, method: str) -> Callable[..., Any]:
    """The function, or the method of a fresh object if it is no class method."""
    spaces = [import_module(f"decouply.{module}".rstrip(".")) for module in MODULES]
    space = next(space for space in spaces if hasattr(space, owner or method))
    if not owner:
        return getattr(space, method)
    kind = getattr(space, owner)
    if isinstance(inspect.getattr_static(kind, method), classmethod | staticmethod):
        return getattr(kind, method)

    def call(**arguments: Any) -> Any:
        return getattr(OBJECTS[owner](), method)(**arguments)

    OBJECTS[owner]  # says now what would be missing later
    signature = inspect.signature(getattr(kind, method))
    call.__doc__ = getattr(kind, method).__doc__
    call.__signature__ = signature.replace(parameters=list(signature.parameters.values())[1:])  # type: ignore[attr-defined]
    return call


# Half a second and more: drawn more seldom.
_SLOW = ("compress", "refine", "sample", "identify", "check_solver")
_SELDOM = 0.05


def hostile_calls(count: int, seed: int) -> Iterator[Outcome]:
    """So many calls of random doors, with one hostile argument or two."""
    made, missing = strategies()
    assert not missing, missing
    doors, values, rng = [*DOORS, *made], list(HOSTILE), np.random.default_rng(seed)
    slow = np.array([door.name in _SLOW or door.name.endswith((".report", ".plot")) for door in doors])
    weights = np.where(slow, _SELDOM, 1.0)
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(count):
            door = doors[rng.choice(len(doors), p=weights / weights.sum())]
            names = rng.permutation(list(door.good))[: 1 + int(rng.random() < _TWO)]
            yield knock(door, {str(name): values[rng.integers(len(values))] for name in names}, Path(folder))
