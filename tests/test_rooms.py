"""Imports point down: every room knows only the rooms below it, and so does every room inside a room."""

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "decouply"
# From the lowest to the highest; rooms in one tuple do not know each other.
ORDER = (
    ("_support",),
    ("bases",),
    ("model",),
    ("systems",),
    ("samples",),
    ("data",),
    ("solvers",),
    ("fit",),
    ("testing",),
    ("write",),
    ("report",),
    ("sysid", "nn", "estimators"),
    ("cli",),
)
# Inside a room, the same: files that lie in the room itself come after its rooms.
INSIDE = {
    "solvers": (("problem",), ("least_squares",), ("initial",), ("alternating",), ("varpro",), ("inference",)),
    # "" is the room itself.
    "fit": (("quality", "interpret"), ("",), ("select", "_simplification"), ("_classification", "_decouple")),
    "sysid": (("signals",), ("free_run",), ("narx", "state_space")),
    "nn": (("layer",), ("carving",), ("training",), ("compression",)),
}
LEVEL = {room: level for level, rooms in enumerate(ORDER) for room in rooms}
LEVEL["__version__"] = -1  # of the package itself, known everywhere
MAY_USE = {"data": ("_support", "samples")}  # and nothing else
# Methods of one line that call up, so that people find them on the object in their hands.
FACADES = {
    ("model/_facade.py", "AbstractModelFacade", "ablation"),
    ("model/_facade.py", "AbstractModelFacade", "recognise"),
    ("model/_facade.py", "AbstractModelFacade", "simplified"),
    ("model/_facade.py", "AbstractModelFacade", "formula"),
    ("model/_facade.py", "AbstractModelFacade", "plot"),
    ("model/_facade.py", "AbstractModelFacade", "plot_functions"),
    ("model/_facade.py", "AbstractModelFacade", "save"),
    ("model/_facade.py", "AbstractModelFacade", "save_onnx"),
    ("model/_facade.py", "AbstractModelFacade", "save_fmu"),
    ("model/_decoupling.py", "Decoupling", "load"),
    ("model/_facade.py", "AbstractModelFacade", "_repr_html_"),
    ("samples/_samples.py", "Samples", "_repr_html_"),
    ("fit/_result_facade.py", "AbstractResultFacade", "formula"),
    ("fit/_result_facade.py", "AbstractResultFacade", "plot"),
    ("fit/_result_facade.py", "AbstractResultFacade", "plot_functions"),
    ("fit/_result_facade.py", "AbstractResultFacade", "plot_history"),
    ("fit/_result_facade.py", "AbstractResultFacade", "plot_starts"),
    ("fit/_result_facade.py", "AbstractResultFacade", "plot_fit"),
    ("fit/_result_facade.py", "AbstractResultFacade", "report"),
    ("fit/_result_facade.py", "AbstractResultFacade", "save"),
    ("fit/_result_facade.py", "AbstractResultFacade", "load"),
    ("fit/_result_facade.py", "AbstractResultFacade", "_repr_html_"),
    ("fit/interpret/_recognise.py", "Recognition", "_repr_html_"),
    ("fit/select/_selection.py", "Selection", "plot"),
}
# Classes with methods of one line that call functions of their own room, which take or return such objects:
# the constructors of Samples call readers, and a model is rewritten by functions.
CALL_WHAT_TAKES_THEM = ("samples/_samples.py", "model/_decoupling.py")


def modules_imported(node, path):
    """What an import statement of the file at `path` (relative to the package) reaches, as parts of dotted names."""
    if isinstance(node, ast.Import):
        return [name.name.split(".")[1:] for name in node.names if name.name.startswith("decouply.")]
    if node.level == 0:
        parts = (node.module or "").split(".")
        if parts[0] != "decouply":
            return []
        return [parts[1:]] if parts[1:] else [[name.name] for name in node.names]
    here = path.parts[:-1]
    reached = [*here[: len(here) - (node.level - 1)], *(node.module or "").split(".")]
    reached = [part for part in reached if part]
    if len(reached) == len(here) - (node.level - 1) or not reached:  # from . import x
        return [[*reached, name.name] for name in node.names]
    return [reached]


def imports():
    """(file, class or None, function or None, modules reached) of every import statement inside the package."""
    for file in sorted(PACKAGE.rglob("*.py")):
        path = file.relative_to(PACKAGE)
        if path.parts == ("__init__.py",):
            continue
        stack = [(ast.parse(file.read_text()), None, None)]
        while stack:
            node, owner, function = stack.pop()
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.Import | ast.ImportFrom):
                    yield path, owner, function, modules_imported(child, path)
                name = child.name if isinstance(child, ast.ClassDef) else owner
                inside = child.name if isinstance(child, ast.FunctionDef) and function is None else function
                stack.append((child, name, inside))


def calls_up(path, module):
    own, room = path.parts[0].removesuffix(".py"), module[0]
    if own == room:
        return False
    return LEVEL[room] >= LEVEL[own] or room not in (*MAY_USE.get(own, (room,)), "__version__")


def calls_up_inside(path, module):
    """Whether a file reaches a room beside or above its own, inside the same room."""
    order = INSIDE.get(path.parts[0])
    if order is None or module[0] != path.parts[0]:
        return False
    level = {room: i for i, rooms in enumerate(order) for room in rooms}
    level.setdefault("", len(order))
    own, other = (name if name in level else "" for name in (path.parts[1].removesuffix(".py"), *module[1:2]))
    return own != other and level[other] >= level[own]


def test_every_file_is_in_a_known_room():
    assert {path.parts[0].removesuffix(".py") for path, *_ in imports()} <= set(LEVEL)
    for room, order in INSIDE.items():
        inside = {file.parent.name for file in (PACKAGE / room).glob("*/__init__.py")}
        assert inside == {name for rooms in order for name in rooms if name and name[0] != "_"}


@pytest.mark.slow
@pytest.mark.parametrize("listed", [True, False])
def test_imports_point_down_but_for_the_facades(listed):
    found = {
        (path.as_posix(), owner, function)
        for path, owner, function, reached in imports()
        if any(calls_up(path, module) for module in reached)
    }
    assert found == FACADES if listed else found <= FACADES


def test_imports_point_down_inside_a_room_too():
    found = {
        f"{path.as_posix()} knows {'.'.join(module)}"
        for path, owner, function, reached in imports()
        for module in reached
        if path.name != "__init__.py"
        and (path.as_posix(), owner, function) not in FACADES
        and calls_up_inside(path, module)
    }
    assert not found


def test_facades_are_one_line():
    for path, owner, method in FACADES:
        tree = ast.parse((PACKAGE / path).read_text())
        body = next(
            function.body
            for cls in tree.body
            if isinstance(cls, ast.ClassDef) and cls.name == owner
            for function in cls.body
            if isinstance(function, ast.FunctionDef) and function.name == method
        )
        code = [
            s
            for s in body
            if not isinstance(s, ast.ImportFrom) and not isinstance(getattr(s, "value", None), ast.Constant)
        ]
        assert len(code) <= 2, f"{owner}.{method} does more than call up"


def test_no_two_files_know_each_other():
    """What the order of the rooms rules out between rooms must not hide inside one either."""
    graph = {}
    for path, owner, function, reached in imports():
        if path.name == "__init__.py" or (path.as_posix(), owner, function) in FACADES:
            continue
        if path.as_posix() in CALL_WHAT_TAKES_THEM and function is not None:
            continue
        known = graph.setdefault(".".join(path.with_suffix("").parts), set())
        known.update(".".join(module) for module in reached)
    done, cycles = set(), []

    def visit(name, trail):
        if name in trail:
            cycles.append((*trail[trail.index(name) :], name))
        elif name not in done:
            for other in sorted(graph.get(name, ())):
                visit(other, (*trail, name))
            done.add(name)

    for name in sorted(graph):
        visit(name, ())
    assert not cycles


def test_functions_of_many_parameters_are_those_that_the_rules_name():
    rules = (PACKAGE.parents[1] / "CONTRIBUTING.md").read_text()
    (rule,) = (line for line in rules.splitlines() if line.startswith("- Functions have at most eight parameters."))
    named = set(re.findall(r"`(?:\w+\.)?(\w+)`", rule))
    found = set()
    for file in PACKAGE.rglob("*.py"):
        for owner in ast.walk(ast.parse(file.read_text())):
            for function in getattr(owner, "body", ()) if isinstance(owner, ast.Module | ast.ClassDef) else ():
                if isinstance(function, ast.FunctionDef):
                    given = [a.arg for a in (*function.args.args, *function.args.kwonlyargs)]
                    if len(given) - (given[:1] in (["self"], ["cls"])) > 8:
                        found.add(owner.name if function.name == "__init__" else function.name)
    assert found == named
