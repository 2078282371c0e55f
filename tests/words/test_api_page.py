"""The page of the API names everything that is public."""

import importlib
import re
from pathlib import Path

import pytest

LISTED = set(re.findall(r"^   ([\w.]+)$", Path("docs/api.rst").read_text(encoding="utf-8"), re.M))
ROOMS = {"data", "nn", "solvers", "sysid", "systems"}  # have names of their own


@pytest.mark.parametrize("room", ["", "sysid.", "nn.", "data.", "systems.", "testing."])
def test_public_names_are_listed(room):
    if room == "nn.":
        pytest.importorskip("torch")
    names = importlib.import_module(f"decoupling.{room}".rstrip(".")).__all__
    assert {f"{room}{name}" for name in names} - LISTED <= ROOMS
