"""The command line: what it prints for machines, and what it writes."""

from __future__ import annotations

import contextlib
import io
import json
import signal
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import decouply as dc
from decouply.cli import main

from . import dynamics
from .given import fixed, sampled, system, told_model
from .golden import Made, case, floored
from .writers import drawn

_TIMES = ("seconds", "notes", "model", "report", "picture")  # and names of files


def decouple(line: str, folder: Path) -> str:
    """Run a command and return what it prints; files of this name with a slash before it are in the folder."""
    signals = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    argv, show, printed, said = sys.argv, warnings.showwarning, io.StringIO(), io.StringIO()
    words = [str(folder / word[1:]) if word.startswith("/") else word for word in line.split()]
    sys.argv = ["decouply", *words]
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(said):
            main()
    except SystemExit as ended:
        raise AssertionError(f"{line}: {said.getvalue()}") from ended
    finally:
        sys.argv, warnings.showwarning = argv, show
        for number, handler in signals.items():
            signal.signal(number, handler)
    return printed.getvalue()


def _content(printed: str) -> Made:
    """JSON without times, and with counts in place of notes."""
    return _timeless(json.loads(printed))


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: _timeless(part) for key, part in value.items() if key not in _TIMES}
        return kept | ({"n_notes": len(value["notes"])} if "notes" in value else {})
    if isinstance(value, list):
        return [_timeless(part) for part in value]
    return float(floored(value)) if isinstance(value, float) else value


def _table(folder: Path, name: str = "data.csv", *, jacobians: bool = False, noise: float = 0.05) -> None:
    samples = sampled(system(1), 40, noise=noise)
    header, columns = ["a", "b", "c", "p", "q"], [samples.X, samples.F]
    if jacobians:
        header += [f"d{o}/d{i}" for o in "pq" for i in "abc"]
        columns.append(samples.J.reshape(40, 6))
    rows = [",".join(repr(float(v)) for v in row) for row in np.hstack(columns)]
    (folder / name).write_text("\n".join([",".join(header), *rows]) + "\n")


_COLUMNS = "--inputs a,b,c --outputs p,q"
_FITS = {
    "values": "--ranks 2 --degrees 2 --n-starts 2",
    "jacobians": "--ranks 2 --degrees 2 --n-starts 2",
    "linear": "--ranks 2 --degrees 3 --n-starts 2 --linear --basis chebyshev",
    "tanh": "--ranks 2 --basis tanh --n-starts 2",
    "estimated": "--ranks 2 --degrees 2 --n-starts 2 --estimate-jacobians --solver constr --set max_steps=10",
    "proj": "--ranks 2 --degrees 2 --n-starts 2 --solver proj --set max_steps=10 --holdout 0.25",
    "as-given": "--ranks 2 --degrees 2 --n-starts 2 --solver hollander --as-given --set max_steps=10 "
    "--set iterate=last",
    "validation": "--ranks 2 --degrees 2 --n-starts 2 --two-stage --validation /other.csv",
    "auto": "--ranks auto --degrees 2",
}


@case(*_FITS)
def fit(folder: Path, word: str) -> Made:
    _table(folder, jacobians=word in ("jacobians", "proj", "as-given"))
    _table(folder, "other.csv", noise=0.1)
    line = f"fit /data.csv {_COLUMNS} {_FITS[word]} --seed 1 --model /m.safetensors --json --formula text"
    content = _content(decouple(line, folder))
    content.pop("starts"), content.pop("path")
    return content | told_model(dc.Decoupling.load(folder / "m.safetensors"))


@case()
def exports(folder: Path) -> Made:
    _table(folder)
    printed = decouple(
        f"fit /data.csv {_COLUMNS} --ranks 2 --degrees 2 --n-starts 2 --model /m.safetensors --formula latex", folder
    )
    said: dict[str, Any] = {"formula": printed[printed.index("\\begin") : printed.index("Model:")]}
    for kind, ending in (("c", "c"), ("python", "py"), ("matlab", "m"), ("latex", "tex")):
        decouple(f"export /m.safetensors --format {kind} --to /model.{ending}", folder)
        said[kind] = (folder / f"model.{ending}").read_text(encoding="utf-8")
    said["predicted"] = decouple("predict /m.safetensors /data.csv", folder)[:400]
    said["show"] = _timeless(json.loads(decouple("show /m.safetensors --json", folder)))
    said["shown"] = decouple("show /m.safetensors", folder)
    decouple("report /m.safetensors --to /page.html", folder)
    page = drawn(folder / "page.html")
    return said | {"page": page["drawings"], "flow": page["flow"]}


@case("values", "jacobians")
def select(folder: Path, word: str) -> Made:
    _table(folder, jacobians=word == "jacobians")
    line = f"select /data.csv {_COLUMNS} --max-ranks 2 --max-degrees 2 --n-folds 2 --max-seconds 3600 --json"
    return _content(decouple(f"{line} --model /m.safetensors", folder)) | told_model(
        dc.Decoupling.load(folder / "m.safetensors")
    )


def _record(folder: Path) -> None:
    u, y = dynamics.spring()
    rows = [f"{a!r},{b!r}" for a, b in zip(u.tolist(), y.tolist(), strict=True)]
    (folder / "record.csv").write_text("\n".join(["u,y", *rows]) + "\n")


@case("narx", "states", "chosen-functions")
def identify(folder: Path, word: str) -> Made:
    _record(folder)
    options = {
        "narx": "--narx --functions cubic",
        "states": "--states 1 --functions cubic --n-starts 1",
        "chosen-functions": "--states 1 --n-starts 1",
    }[word]
    files = "--model /m.safetensors --report /page.html"
    content = _timeless(
        json.loads(decouple(f"identify /record.csv --inputs u --outputs y {options} --json {files}", folder))
    )
    decouple("export /m.safetensors --format c --to /step.c", folder)
    simulated = decouple("simulate /m.safetensors /record.csv --inputs u --outputs y --to /run.csv", folder)
    page = drawn(folder / "page.html")
    return {
        "content": content,
        "c": (folder / "step.c").read_text(),
        "simulated": (folder / "run.csv").read_text().splitlines()[-8:],
        "printed": len(simulated) > 0,
        "page": page["drawings"],
        "values": dc.Decoupling.load(folder / "m.safetensors")(fixed(2)) if word != "narx" else None,
    }
