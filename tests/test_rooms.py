"""Imports point down: every room knows only the rooms below it, lazy imports included."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "decouply"
ORDER = (
    ("_support",),
    ("data",),
    ("bases",),
    ("model",),
    ("systems",),
    ("samples",),
    ("solvers",),
    ("fit",),
    ("testing",),
    ("write",),
    ("report",),
    ("sysid", "nn", "estimators"),
    ("cli",),
)
LEVEL = {room: level for level, rooms in enumerate(ORDER) for room in rooms}
LEVEL["__version__"] = -1  # of the package itself, known everywhere
ONLY_SUPPORT = ("data",)  # may use nothing else
# Methods of one line that call up, so that people find them on the object in their hands.
FACADES = {
    ("model/_decoupling.py", "Decoupling", "ablation"),
    ("model/_decoupling.py", "Decoupling", "recognise"),
    ("model/_decoupling.py", "Decoupling", "simplified"),
    ("model/_decoupling.py", "Decoupling", "formula"),
    ("model/_decoupling.py", "Decoupling", "plot"),
    ("model/_decoupling.py", "Decoupling", "plot_functions"),
    ("model/_decoupling.py", "Decoupling", "save"),
    ("model/_decoupling.py", "Decoupling", "save_onnx"),
    ("model/_decoupling.py", "Decoupling", "load"),
    ("model/_decoupling.py", "Decoupling", "_repr_html_"),
    ("samples/_samples.py", "Samples", "_repr_html_"),
    ("fit/_result.py", "Result", "plot"),
    ("fit/_result.py", "Result", "plot_functions"),
    ("fit/_result.py", "Result", "plot_history"),
    ("fit/_result.py", "Result", "plot_starts"),
    ("fit/_result.py", "Result", "plot_fit"),
    ("fit/_result.py", "Result", "report"),
    ("fit/_result.py", "Result", "save"),
    ("fit/_result.py", "Result", "load"),
    ("fit/_result.py", "Result", "_repr_html_"),
    ("fit/interpret/_recognise.py", "Recognition", "_repr_html_"),
    ("fit/select/_select.py", "Selection", "plot"),
}


def rooms_imported(node, path):
    """The rooms that an import statement of the file at `path` (relative to the package) reaches."""
    if isinstance(node, ast.Import):
        return [name.name.split(".")[1] for name in node.names if name.name.startswith("decouply.")]
    if node.level == 0:
        parts = (node.module or "").split(".")
        if parts[0] != "decouply":
            return []
        return parts[1:2] or [name.name for name in node.names]
    here = path.parts[:-1]
    reached = [*here[: len(here) - (node.level - 1)], *(node.module or "").split(".")]
    reached = [part for part in reached if part]
    return reached[:1] or [name.name for name in node.names]


def imports():
    """(file, class or None, function or None, rooms reached) of every import statement inside the package."""
    for file in sorted(PACKAGE.rglob("*.py")):
        path = file.relative_to(PACKAGE)
        if path.parts == ("__init__.py",):
            continue
        stack = [(ast.parse(file.read_text()), None, None)]
        while stack:
            node, owner, function = stack.pop()
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.Import | ast.ImportFrom):
                    yield path, owner, function, rooms_imported(child, path)
                name = child.name if isinstance(child, ast.ClassDef) else owner
                inside = child.name if isinstance(child, ast.FunctionDef) and function is None else function
                stack.append((child, name, inside))


def calls_up(path, room):
    own = path.parts[0].removesuffix(".py")
    if own == room:
        return False
    return LEVEL[room] >= LEVEL[own] or (own in ONLY_SUPPORT and room not in ("_support", "__version__"))


def test_every_file_is_in_a_known_room():
    assert {path.parts[0].removesuffix(".py") for path, *_ in imports()} <= set(LEVEL)


@pytest.mark.parametrize("listed", [True, False])
def test_imports_point_down_but_for_the_facades(listed):
    found = {
        (path.as_posix(), owner, function)
        for path, owner, function, reached in imports()
        if any(calls_up(path, room) for room in reached)
    }
    assert found == FACADES if listed else found <= FACADES


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


def test_no_import_is_made_inside_a_function_within_a_room_to_break_a_cycle():
    """What the rooms rule out between rooms must not hide inside one either."""
    cycles = []
    graph = {}
    for path, _, _, _ in imports():
        graph.setdefault(path.as_posix(), set())
    for file in sorted(PACKAGE.rglob("*.py")):
        path = file.relative_to(PACKAGE)
        if path.name == "__init__.py":
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module:
                target = path.parent / f"{node.module.split('.')[0]}.py"
                if (PACKAGE / target).exists():
                    graph.setdefault(path.as_posix(), set()).add(target.as_posix())

    def visit(name, trail):
        if name in trail:
            cycles.append((*trail[trail.index(name) :], name))
            return
        if name in done:
            return
        for target in sorted(graph.get(name, ())):
            visit(target, (*trail, name))
        done.add(name)

    done = set()
    for name in sorted(graph):
        visit(name, ())
    assert not cycles
