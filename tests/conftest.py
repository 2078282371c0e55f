"""Settings of all tests."""

import inspect
import os
import signal
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Processes that tests start use the package and the experiments of this checkout, wherever they run.
_ROOT = Path(__file__).parents[1]
_FOLDERS = [str(_ROOT / "src"), str(_ROOT), os.environ.get("PYTHONPATH", "")]
os.environ["PYTHONPATH"] = os.pathsep.join(folder for folder in _FOLDERS if folder)

# Machines are shared: an example may be slow without anything being wrong.
settings.register_profile(
    "default", deadline=None, max_examples=30, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("default")

# Shells that run this in their background let it, and every process it starts, ignore Ctrl-C, which tests press.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


_MARKS = {  # of what lies in a folder, or in a file
    "nn": "torch",
    "robustness": "robustness",
    "golden": "slow",
    "experiments": "slow",
    "test_packaging.py": "docs",
    "test_notebooks.py": "docs",
}


def pytest_collection_modifyitems(items):
    """Mark tests by where they lie, and those that start a process, themselves or by a function of their file."""
    for item in items:
        folder = item.path.relative_to(_ROOT).parts[1]
        if folder in _MARKS:
            item.add_marker(_MARKS[folder])
        if (test := getattr(item, "function", None)) is not None and _starts_processes(test):
            item.add_marker("processes")


def _starts_processes(function):
    names = set(function.__code__.co_names)
    called = (function.__globals__.get(name) for name in names)
    return "subprocess" in names or any(
        "subprocess" in f.__code__.co_names
        for f in called
        if inspect.isfunction(f) and f.__module__.startswith("tests")
    )


_REMEDIES = {  # where the reason is not ours
    "could not import": "install it, or all that tests use: pip install -e '.[dev]'",
    "SCIPY_ARRAY_API is not set": "set it to 1",
}


def pytest_terminal_summary(terminalreporter):
    """At the end, what was skipped and how to have it run: the reasons of skips say so."""
    skipped = terminalreporter.stats.get("skipped", ())
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
    if reasons:
        terminalreporter.section("skipped tests, and how to run them")
    for reason, n in sorted(reasons.items()):
        more = next((f"; {remedy}" for words, remedy in _REMEDIES.items() if words in reason), "")
        terminalreporter.write_line(f"{n} skipped: {reason}{more}")


@pytest.fixture
def real_data():
    """The folder of the public data sets."""
    folder = os.environ.get("DECOUPLY_DATA", "").strip()
    if not folder:
        pytest.skip("needs the public data sets: set DECOUPLY_DATA to a folder that holds them, or may be filled")
    return Path(folder).expanduser()
