"""Ours among others of the same size, on a network that is trained for a moment."""

import dataclasses

import pytest

torch = pytest.importorskip("torch")

from decoupling.reproduce import _students  # noqa: E402
from decoupling.reproduce._students import CASES, METHODS, OTHERS, OURS, STUDENTS, run_students  # noqa: E402


@pytest.fixture
def table(tmp_path, monkeypatch):
    pytest.importorskip("sklearn")
    small = dataclasses.replace(CASES["tabular"], rank=4, two=(3, 3), epochs=1, inputs=(60,))
    monkeypatch.setitem(CASES, "tabular", small)
    monkeypatch.setattr(_students, "RATES", (5e-3,))
    monkeypatch.setattr(_students, "_EPOCHS_WITH_LABELS", 1)
    monkeypatch.setattr(_students, "_POOL", 200)
    _students.original.cache_clear()
    yield run_students("tabular", n_runs=1, seed=0, n_jobs=1, store=tmp_path / "runs.jsonl", steps=5)
    _students.original.cache_clear()


def test_every_row_has_its_size_bytes_and_time(table, tmp_path):
    assert {method for method, _ in table.rows} == set(METHODS)
    ours = table.rows["ours", 60][0]["parameters"]
    for method in (*OURS, *STUDENTS, *OTHERS):
        row = table.rows[method, 60][0]
        assert row["parameters"] <= 1.25 * ours or method == "low rank", method  # which cannot be cut below rank 1
        assert row["bytes"] >= 4 * row["parameters"] and min(row["latency"]) > 0
    packed = table.rows["ours, 8 bits", 60][0]
    assert packed["bytes"] < 0.5 * table.rows["ours", 60][0]["bytes"]
    assert table.rows["original, 4 bits", 60][0]["bytes"] < table.rows["original, 8 bits", 60][0]["bytes"]
    assert table.drops("original, 8 bits", 60)[0] == pytest.approx(0.0, abs=0.5)
    _students.write_students(table, tmp_path)
    text = (tmp_path / "tabular.md").read_text()
    assert "| GELU, two | 60 |" in text and "| original, 4 bits |  |" in text
