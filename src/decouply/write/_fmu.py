"""Models as Functional Mock-up Units: FMI 2.0, for co-simulation and model exchange.

An FMU is a zip archive with a description in XML, the sources in C, and a binary for every platform that it is to run
on at once. A map is a model without states. A model with memory makes a step per sampling time, and holds its inputs in
between.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import uuid
import zipfile
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from .._support._arguments import as_number
from .._support._atomic_files import check_target, replace_file
from .._support._errors import InputError, short_repr, warn
from ..model._decoupling import Decoupling
from ..model._names import labels, name_and_unit, names
from ._formula import formula
from ._step_source import near_function_name

_COMPILERS = ("cc", "gcc", "clang")
_FLAGS = ("-std=c99", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-DFMI2_OVERRIDE_FUNCTION_PREFIX")
_SECONDS = 300.0  # for a compiler
# The folder of a platform in an FMU, without the bits of an address, and how its libraries end.
_PLATFORMS = {"darwin": ("darwin", ".dylib"), "win32": ("win", ".dll")}
Attributes = dict[str, Any]  # texts, of an element of XML
_DATE = (1980, 1, 1, 0, 0, 0)  # the same model gives the same file


def save_fmu(
    step: Decoupling,
    path: str | os.PathLike[str],
    *,
    states: Float[ndarray, " n"] | None = None,
    sampling_time: float = 1.0,
) -> None:
    """Write a map, or a step (x, u) -> (x+, y) of a model with memory that begins at `states`.

    See `Decoupling.save_fmu`.
    """
    target = check_target(path)
    if target.suffix != ".fmu":
        raise InputError(f"`path` must end in .fmu. Got {short_repr(os.fspath(path))}.")
    dt = as_number("sampling_time", sampling_time, above=True)
    start = np.zeros(0) if states is None else states
    name = near_function_name(target.stem, "c")
    code = _source(step, start, dt, name)
    guid = str(uuid.UUID(hashlib.sha256((code + repr((step.inputs, step.outputs))).encode()).hexdigest()[:32]))
    code = code.replace("MODEL_GUID_HERE", guid)
    members: dict[str, bytes] = {
        "modelDescription.xml": _description(step, start, dt, target.stem, name, guid),
        "sources/model.c": code.encode(),
    }
    if (binary := _binary(code)) is not None:
        folder, ending = _PLATFORMS.get(sys.platform, ("linux", ".so"))
        members[f"binaries/{folder}{8 * struct.calcsize('P')}/{name}{ending}"] = binary
    with replace_file(path) as stream, zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, content in members.items():
            entry = zipfile.ZipInfo(member, _DATE)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o755 if member.startswith("binaries/") else 0o644) << 16
            archive.writestr(entry, content)


# Sources and binary


def _source(step: Decoupling, states: Float[ndarray, " n"], dt: float, name: str) -> str:
    n = len(states)
    numbers = {
        "N_STATES": n,
        "N_INPUTS": step.n_inputs - n,
        "N_OUTPUTS": step.n_outputs - n,
        "SAMPLING_TIME": repr(dt),
        "INPUT_START": _c_list(input_starts(step)[n:]),
        "STATE_START": _c_list([*states, 0.0]),
        "MODEL_GUID": '"MODEL_GUID_HERE"',
        "FMI2_FUNCTION_PREFIX": f"{name}_",
    }
    maps = formula(step, "c").replace("\nvoid f", "\nstatic void f")
    defined = [f"#define {key} {value}" for key, value in numbers.items()]
    return "\n".join([maps, *defined, files("decouply.write").joinpath("fmi2.c").read_text(encoding="utf-8")])


def _c_list(values: Sequence[float] | ndarray) -> str:
    return "{" + ", ".join(repr(float(value)) for value in values) + "}"


def input_starts(step: Decoupling) -> Float[ndarray, " m"]:
    """The smallest inputs with which the functions of the first layer are in the middle of their domains."""
    middle = step.g[0].middle
    return np.linalg.lstsq(step.W[0], middle, rcond=None)[0] if middle.any() else np.zeros(step.n_inputs)


def _binary(code: str) -> bytes | None:
    """The library of these sources, if there is a compiler."""
    compiler = next((found for name in _COMPILERS if (found := shutil.which(name))), None)
    without = "The FMU has its C sources and no binary, so that the program that imports it must compile them"
    if compiler is None:
        warn(f"{without}: there is no {', '.join(_COMPILERS[:-1])} or {_COMPILERS[-1]} here.", stacklevel=4)
        return None
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "model.c", Path(folder) / "library"
        source.write_text(code, encoding="utf-8")
        command = [compiler, *_FLAGS, str(source), "-o", str(library), "-lm"]
        try:
            subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=True)
            return library.read_bytes()
        except (OSError, subprocess.SubprocessError) as error:
            said = getattr(error, "stderr", None) or error
            warn(f"{without}: {compiler} failed. {short_repr(said)}.", stacklevel=4)
            return None


# Description


def _description(step: Decoupling, states: Float[ndarray, " n"], dt: float, title: str, name: str, guid: str) -> bytes:
    """The file modelDescription.xml."""
    from .. import __version__

    n = len(states)
    root = ElementTree.Element(
        "fmiModelDescription",
        fmiVersion="2.0",
        modelName=labels([title])[0],
        guid=guid,
        description=f"{step!r}",
        generationTool=f"decouply {__version__}",
        variableNamingConvention="flat",
        numberOfEventIndicators="0",
    )
    shared: Attributes = {"modelIdentifier": name, "canGetAndSetFMUstate": "true", "canSerializeFMUstate": "true"}
    shared |= {"providesDirectionalDerivative": "true"}
    kinds: dict[str, Attributes] = {
        "ModelExchange": shared,
        "CoSimulation": shared | {"canHandleVariableCommunicationStepSize": "true"},
    }
    for kind, abilities in kinds.items():
        element = ElementTree.SubElement(root, kind, **abilities)
        ElementTree.SubElement(ElementTree.SubElement(element, "SourceFiles"), "File", name="model.c")
    rows = _variables(step, states)
    units = list(dict.fromkeys(row["unit"] for row in rows if row["unit"]))
    if units:
        defined = ElementTree.SubElement(root, "UnitDefinitions")
        for unit in units:
            ElementTree.SubElement(defined, "Unit", name=unit)
    experiment: Attributes = {"startTime": "0", "stopTime": repr(100 * dt)} | ({"stepSize": repr(dt)} if n else {})
    ElementTree.SubElement(root, "DefaultExperiment", **experiment)
    variables = ElementTree.SubElement(root, "ModelVariables")
    for i, row in enumerate(rows):
        of_real: Attributes = {key: row[key] for key in ("unit", "start") if row[key]}
        about: Attributes = {key: row[key] for key in row if row[key] and key not in ("unit", "start")}
        element = ElementTree.SubElement(variables, "ScalarVariable", valueReference=str(i), **about)
        ElementTree.SubElement(element, "Real", **of_real)
    structure = ElementTree.SubElement(root, "ModelStructure")
    listed, at_start = (ElementTree.SubElement(structure, kind) for kind in ("Outputs", "InitialUnknowns"))
    first = step.n_inputs - n + 1  # variables are counted from 1
    for i, row in enumerate(_dependencies(step)[n:, n:]):
        used = " ".join(str(j + 1) for j in np.flatnonzero(row))
        ElementTree.SubElement(listed, "Unknown", index=str(first + i), dependencies=used)
        ElementTree.SubElement(at_start, "Unknown", index=str(first + i))
    ElementTree.indent(root)
    return bytes(ElementTree.tostring(root, encoding="utf-8", xml_declaration=True))


def _variables(step: Decoupling, states: Float[ndarray, " n"]) -> list[dict[str, str]]:
    """The variables in the order of their value references: inputs, outputs, initial states, states."""
    n = len(states)
    given = [name.given or name.text for name in names("inputs", step.inputs, "x", step.n_inputs)]
    taken = [name.given or name.text for name in names("outputs", step.outputs, "y", step.n_outputs)][n:]
    pairs = [name_and_unit(name) for name in (*given[n:], *taken, *given[:n])]
    called = labels([f"{name} at start" for name, _ in pairs[len(pairs) - n :]] + [name for name, _ in pairs])
    called = [*called[n : len(called) - n], *called[:n], *called[len(called) - n :]]
    kinds = [("input", "continuous", "")] * (step.n_inputs - n) + [("output", "continuous", "")] * len(taken)
    kinds += [("parameter", "fixed", "exact")] * n + [("local", "discrete", "")] * n
    starts = [*map(repr, input_starts(step)[n:].tolist()), *[""] * len(taken), *map(repr, states.tolist()), *[""] * n]
    told = [*given[n:], *taken, *(f"{name} at the first sample" for name in given[:n]), *given[:n]]
    keys = ("name", "description", "unit", "causality", "variability", "initial", "start")
    units = [unit for _, unit in (*pairs, *pairs[len(pairs) - n :])]
    rows = zip(called, labels(told), units, kinds, starts, strict=True)
    return [dict(zip(keys, (name, about, unit, *kind, start), strict=True)) for name, about, unit, kind, start in rows]


def _dependencies(step: Decoupling) -> ndarray:
    """Which outputs depend on which inputs, by the weights that are not 0."""
    found = np.eye(step.n_inputs)
    for W in step.W:
        found = np.minimum((W != 0.0) @ found, 1.0)
    return (found > 0.0) if step.linear is None else (found > 0.0) | (step.linear != 0.0)
