"""Programs that `torch.export.save` wrote, as modules whose parts have names, and back; nothing in a file runs as code.

`torch.export.load` unpickles members, evaluates texts as expressions of SymPy, looks operators up by their dotted names
and writes names into Python source. So the file is not handed to it. Its members are read here, and those that are
known are checked and written again into an archive in memory. Only that one is loaded. What was pickled is read with
`weights_only` and pickled anew.
"""

from __future__ import annotations

import ast
import io
import json
import os
import re
import warnings
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

import torch
from torch import Tensor, nn

from ..._support._atomic_files import replace_file
from ..._support._errors import InputError, short_repr
from ..._support._machine import check_declared
from ._jacobian_sampling import first_line

_PLAIN_MEMBERS = ("archive_format", "archive_version", "byteorder", "version", ".data/version")
_GRAPHS = re.compile(r"models/\w+\.json|serialized_exported_program\.json")
_PAYLOADS = re.compile(r"data/(weights|constants)/\w+_config\.json")
_TENSORS = re.compile(r"data/(weights|constants)/(weight|tensor)_\d+")  # raw bytes, or pickled if a payload says so
_PICKLES = re.compile(r"data/(weights|constants|sample_inputs)/\w+\.pt|serialized_\w+\.pt")
_NAMES = re.compile(r"[\w.]*")  # they are written into source
_WORDS = re.compile(r"[\w.+<=-]*")  # numbers of versions, kinds
_STACK = re.compile(r"[\w.,;@<>\[\]() -]*")  # of modules: key,path,type;...
_OPERATOR = re.compile(r"torch\.ops\.(aten|prims|quantized|quantized_decomposed|torchvision)\.\w+\.\w+")
_NOT_ON_TENSORS = re.compile(
    r"_operator\.(getitem|add|sub|mul|truediv|floordiv|mod|pow|neg|pos|abs|eq|ne|lt|le|gt|ge|and_|or_|not_)|"
    r"math\.(ceil|floor|trunc|sqrt)|torch\._?sym_\w+|"
    r"torch\.ops\.higher_order\.(wrap_with_set_grad_enabled|wrap_with_autocast|cond)"
)
_EXPRESSIONS = (  # arithmetic of sizes: numbers, symbols, and functions that torch gives to SymPy
    *(ast.Expression, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Call, ast.Name, ast.Constant, ast.Load),
    *(ast.operator, ast.unaryop, ast.cmpop),
)
_FUNCTIONS = re.compile(
    r"FloorDiv|ModularIndexing|Where|PythonMod|Mod|CleanDiv|CeilToInt|FloorToInt|CeilDiv|LShift|RShift|PowByNatural|"
    r"FloatPow|FloatTrueDiv|IntTrueDiv|TruncToFloat|TruncToInt|RoundToInt|RoundDecimal|ToFloat|Identity|Max|Min|Abs|"
    r"Eq|Ne|Lt|Le|Gt|Ge|And|Or|Not|floor|ceiling|sqrt|Add|Mul|Pow|Integer|Rational|"
    r"Equality|Unequality|StrictLessThan|LessThan|StrictGreaterThan|GreaterThan"
)
_SYMBOL = re.compile(r"Symbol\('(\w+)'(, \w+=(True|False))*\)")  # as newer versions of torch write s0
_FLOAT = re.compile(r"Float\('([\w.+-]+)', precision=\d+\)")
_SYMBOLS = re.compile(r"[a-z]+\d+|int_oo|oo|zoo|True|False|true|false")
_LONGEST_EXPRESSION = 1000
_CONTAINERS = (None, "builtins.tuple", "builtins.list", "builtins.dict", "collections.OrderedDict")


# What a file may hold


class UnsafeProgramError(Exception):
    """A file holds what `torch.export.save` does not write, or what could run as code."""


def checked_archive(stream: IO[bytes]) -> io.BytesIO:
    """The program in a file as an archive in memory in which nothing is left that could run as code."""
    with zipfile.ZipFile(stream) as archive:
        members = archive.infolist()
        check_declared("A program", sum(member.file_size for member in members), InputError)
        names = [member.filename for member in members]
        if len(set(names)) < len(names):
            raise UnsafeProgramError("a member of the archive is there twice")
        content = {name: archive.read(name) for name in names}
    top = {PurePosixPath(name).parts[0] for name in names if name}
    root = f"{top.pop()}/" if len(top) == 1 else ""  # newer files hold all of it in one folder
    inside = {name.removeprefix(root): data for name, data in content.items()}
    made_by_pickle = _pickled_payloads(inside)
    checked = io.BytesIO()
    with zipfile.ZipFile(checked, "w") as archive:
        for name, data in inside.items():
            if _PICKLES.fullmatch(name) or name in made_by_pickle:
                archive.writestr(root + name, _pickled_again(name, data))
            elif _GRAPHS.fullmatch(name):
                archive.writestr(root + name, json.dumps(_checked_graph(_from_json(name, data))))
            elif name in _PLAIN_MEMBERS or _TENSORS.fullmatch(name) or _PAYLOADS.fullmatch(name):
                archive.writestr(root + name, data)
            elif "aotinductor" in name:
                raise UnsafeProgramError(f"its member {short_repr(name)} is compiled code")
    checked.seek(0)
    return checked


def _pickled_payloads(inside: dict[str, bytes]) -> set[str]:
    """The members that a list of weights or constants calls pickled."""
    pickled = set()
    for name, data in inside.items():
        if not _PAYLOADS.fullmatch(name):
            continue
        try:
            payloads = list(_from_json(name, data)["config"].values())
            listed = [(str(payload["path_name"]), bool(payload["use_pickle"])) for payload in payloads]
        except (AttributeError, KeyError, TypeError) as error:
            raise UnsafeProgramError(f"its member {short_repr(name)} is no list of tensors") from error
        for path, by_pickle in listed:
            member = f"{name.rpartition('/')[0]}/{path}"
            if not _TENSORS.fullmatch(member):
                raise UnsafeProgramError(f"{short_repr(path)} in it is an object, not a tensor")
            pickled |= {member} if by_pickle else set()
    return pickled


def _pickled_again(name: str, data: bytes) -> bytes:
    """What a pickled member holds, pickled by us: tensors and plain values only."""
    if not data:
        return data
    again = io.BytesIO()
    try:
        torch.save(torch.load(io.BytesIO(data), map_location="cpu", weights_only=True), again)
    except Exception as error:  # whatever is there instead of tensors
        raise UnsafeProgramError(f"its member {short_repr(name)} is a pickle of something else than tensors") from error
    return again.getvalue()


def _from_json(name: str, data: bytes | str) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UnsafeProgramError(f"{short_repr(name)} in it is no JSON") from error


def _checked_graph(graph: Any, key: str = "") -> Any:
    """The same description of a graph, if all texts in it are harmless; comments on its making are left out.

    Each kind of text goes its own way into torch: `key` says which one it is.
    """
    if isinstance(graph, dict):
        if key == "metadata":
            graph = {name: text for name, text in graph.items() if name == "nn_module_stack"}
        for name in graph:
            if not _WORDS.fullmatch(name):
                _check_expression(name)
        return {name: [] if name == "guards_code" else _checked_graph(value, name) for name, value in graph.items()}
    if isinstance(graph, list):
        return [_checked_graph(item, key) for item in graph]
    if not isinstance(graph, str) or key in ("as_string", "as_strings"):  # texts as arguments of operators stay texts
        return graph
    if key in ("target", "as_operator"):
        _check_operator(graph)
    elif key == "expr_str":
        _check_expression(graph)
    elif key in ("in_spec", "out_spec"):
        _check_containers(_from_json(key, graph))
    elif not {"nn_module_stack": _STACK, "name": _NAMES, "as_name": _NAMES}.get(key, _WORDS).fullmatch(graph):
        raise UnsafeProgramError(f"the text {short_repr(graph)} in it is no name")
    return graph


def _check_operator(target: str) -> None:
    """An operator of torch on tensors and numbers; those that read or write files are none."""
    if _NOT_ON_TENSORS.fullmatch(target):
        return
    found: Any = torch if _OPERATOR.fullmatch(target) and "__" not in target else None
    for name in target.split(".")[1:]:
        found = getattr(found, name, None)
    if not isinstance(found, torch._ops.OpOverload):
        raise UnsafeProgramError(f"{short_repr(target)} in it is no operator that is known here")
    if any("file" in argument.name for argument in found._schema.arguments):
        raise UnsafeProgramError(f"the operator {short_repr(target)} in it works on files")


def _check_expression(text: str) -> None:
    """Arithmetic of sizes such as 2*s0 + 1: SymPy evaluates such texts as Python."""
    short = _FLOAT.sub("0.5", _SYMBOL.sub("s0", text))
    try:
        nodes = list(ast.walk(ast.parse(short, mode="eval"))) if len(text) <= _LONGEST_EXPRESSION else []
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        nodes = []
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    good = bool(nodes) and all(
        isinstance(node, _EXPRESSIONS)
        and not (isinstance(node, ast.Call) and (node.keywords or not isinstance(node.func, ast.Name)))
        and not (isinstance(node, ast.Constant) and not isinstance(node.value, int | float))
        and not (isinstance(node, ast.Name) and not (_FUNCTIONS if id(node) in called else _SYMBOLS).fullmatch(node.id))
        for node in nodes
    )
    if not good:
        raise UnsafeProgramError(f"{short_repr(text)} in it is no arithmetic of sizes")


def _check_containers(spec: Any) -> None:
    """How arguments are nested: other kinds would be imported by their names."""
    if isinstance(spec, list):
        for item in spec:
            _check_containers(item)
    elif isinstance(spec, dict):
        context = spec.get("context")
        keys = _from_json("context", context) if isinstance(context, str) else context
        keys = [] if keys is None else keys
        plain = isinstance(keys, list) and all(isinstance(key, str | int) for key in keys)
        if not plain or spec.get("type") not in _CONTAINERS:
            raise UnsafeProgramError(f"arguments of the kind {short_repr(spec.get('type'))} are not taken")
        _check_containers(spec.get("children_spec"))


# Programs


@dataclass(frozen=True)
class Program:
    """A network read from a file, and what it was exported with.

    Attributes
    ----------
    network
        Its modules, by their names.
    example
        The input it was exported with.
    least, most
        How many samples it takes.
    """

    network: nn.Module
    example: Tensor
    least: int
    most: int | None


def load_program(path: str | os.PathLike[str]) -> Program:
    """Read a program of one input whose number of samples is free."""
    rule = f"`{os.fspath(path)}` must be a program that torch.export.save wrote"
    with Path(path).open("rb") as stream:  # torch prints pages about files that are not there, or not its own
        if not zipfile.is_zipfile(stream):
            raise InputError(f"{rule}. It is none.")
        try:
            archive = checked_archive(stream)
        except UnsafeProgramError as error:
            raise InputError(f"{rule}, and nothing that could run as code. Refused because {error}.") from error
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
            raise InputError(f"{rule}. It is damaged: {first_line(error)}") from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.export.load(archive)
            network = torch.export.unflatten(program)
    except Exception as error:  # whatever torch finds in a file that is none of its own
        raise InputError(f"{rule}. {type(error).__name__}: {first_line(error)}") from error
    given_as: Any = program.example_inputs or ((), {})
    args, kwargs = given_as
    if len(args) != 1 or kwargs or not isinstance(args[0], Tensor):
        raise InputError(
            f"`{os.fspath(path)}` must be a function of one tensor. It takes {len(args) + len(kwargs)} inputs."
        )
    names: Any = program.graph_signature.user_inputs
    (given,) = (node for node in program.graph.nodes if node.op == "placeholder" and node.name in names)
    size = given.meta["val"].shape[0]
    if isinstance(size, int):
        raise InputError(
            f"`{os.fspath(path)}` must take any number of samples. It takes {size}: export it with "
            'dynamic_shapes=({0: torch.export.Dim("samples")},).'
        )
    span = program.range_constraints.get(size.node.expr)
    for module in network.modules():
        graph: Any = getattr(module, "graph", None)
        for node in () if graph is None else graph.nodes:
            node.meta = {}  # what tracing left there cannot be copied
    least, most = (2, None) if span is None else (int(span.lower), None)
    if span is not None and not str(span.upper).endswith("oo") and int(span.upper) < 2**62:  # infinite in two ways
        most = int(span.upper)
    return Program(network, args[0].detach(), least, most)


def save_program(network: nn.Module, like: Program, path: str | os.PathLike[str]) -> None:
    """Write a network as a program that takes what another one took."""
    samples = torch.export.Dim("samples", min=max(2, like.least), max=like.most)
    example = like.example if len(like.example) > 1 else torch.cat([like.example, like.example])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(network.eval(), (example,), dynamic_shapes=(({0: samples},),))
        with replace_file(path) as stream:
            torch.export.save(program, stream)
