"""Ours among others of the same size, on networks that are trained for a moment."""

import dataclasses
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from decouply.nn.training._distillation import divergence  # noqa: E402
from experiments.networks import (  # noqa: E402
    jacobian_start,
    other_methods,
    scientific_networks,
    students,
    trained_networks,
    vision_transformer,
)
from experiments.networks.baselines import n_parameters  # noqa: E402
from experiments.networks.other_methods import (  # noqa: E402
    divergences,
    rate_at,
    squared_errors,
    student_widths,
    train_together,
)
from experiments.networks.students import METHODS, OTHERS, OURS, STUDENTS  # noqa: E402
from experiments.networks.trained_networks import CASES, Size, TrainingRates  # noqa: E402


@pytest.fixture
def table(tmp_path, monkeypatch):
    pytest.importorskip("sklearn")
    sizes = (Size(4, (3, 3), (60,), (6, 4)), Size(2, (2, 2), (60,)))
    how = TrainingRates(512, 0.02, (5e-3, 1e-2))
    monkeypatch.setitem(CASES, "tabular", dataclasses.replace(CASES["tabular"], sizes=sizes, epochs=1, training=how))
    monkeypatch.setattr(other_methods, "POOL", 200)
    monkeypatch.setattr(trained_networks, "EPOCHS_WITH_LABELS", 1)
    students.original.cache_clear()
    yield students.TABULAR.run(tmp_path, n_runs=2, steps=5)
    students.original.cache_clear()


def test_every_row_has_its_size_bytes_and_time(table, tmp_path):
    cells = {(cell["rank"], cell["method"]): cell["runs"] for cell in table["cells"]}
    assert {method for rank, method in cells if rank == 4} == set(METHODS)
    assert {method for rank, method in cells if rank == 2} == set(students.SMALL)
    first = {method: cells[4, method][0] for method in METHODS}
    for method in (*OURS, *STUDENTS, *OTHERS):
        assert len(cells[4, method]) == 2, method
        assert first[method]["parameters"] <= 1.25 * first["ours"]["parameters"] or method == "low rank", method
        assert first[method]["bytes"] >= 4 * first[method]["parameters"] and min(first[method]["latency"]) > 0
    assert first["ours, 8 bits"]["bytes"] < 0.5 * first["ours"]["bytes"]
    assert (first["ours, fewer bits"]["rank"], first["ours, fewer bits"]["n_bits"]) == (6, 4)
    assert first["original, 4 bits"]["bytes"] < first["original, 8 bits"]["bytes"]
    assert first["original, 8 bits"]["score"] == pytest.approx(table["score"], abs=0.5)
    assert all(run["rate"] in (5e-3, 1e-2) for run in cells[4, "pruned"])
    students.TABULAR.write(table, tmp_path)
    text = (tmp_path / "tabular.md").read_text()
    assert "| GELU, two | **" in text and "**r = 2, 60 inputs**" in text and "| ours, r = 6 in 4 bits |" in text


def test_stacked_training_is_adam_on_each(monkeypatch):
    """Two draws with two rates each, beside torch's own Adam on one of them with the same batches."""
    torch.manual_seed(0)
    X, known = torch.randn(2, 40, 3), torch.randn(2, 40, 2)
    students = [[nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.Linear(4, 2)) for _ in range(2)] for _ in range(2)]
    rates = [[0.01, 0.03]] * 2
    options = {"n_real": 30, "share": 0.25, "steps": 7, "batch_size": 8}
    found = train_together(
        students, rates, X, known, squared_errors, generator=torch.Generator().manual_seed(5), **options
    )
    alone, generator = students[1][1], torch.Generator().manual_seed(5)
    optimiser = torch.optim.Adam(alone.parameters(), lr=0.03, betas=(0.9, 0.99))
    for t in range(7):
        rows = torch.randint(30, (2, 8), generator=generator)
        rows[:, :2] = torch.randint(30, 40, (2, 2), generator=generator)
        optimiser.param_groups[0]["lr"] = 0.03 * rate_at((t + 0.5) / 7)
        optimiser.zero_grad()
        (alone(X[1, rows[1]]) - known[1, rows[1]]).pow(2).mean().backward()
        optimiser.step()
    with torch.no_grad():
        assert_allclose(found[1][1](X[1]), alone(X[1]), atol=1e-5)
        assert not np.allclose(found[1][0](X[1]), alone(X[1]), atol=1e-3)


def test_divergences_are_those_of_each():
    logits, wanted = torch.randn(2, 3, 5, 4), torch.randn(2, 1, 5, 4).log_softmax(-1)
    assert_allclose(divergences(logits, wanted)[1, 2], divergence(logits[1, 2], wanted[1, 0]), rtol=1e-5)
    assert rate_at(0.05) == pytest.approx(0.5) and rate_at(1.0) == pytest.approx(0.0, abs=1e-12)


def test_students_with_two_layers_have_the_larger_of_two_shapes():
    assert student_widths((80, 10), 950, None) == (80, 10, 10) and n_parameters((80, 10, 10)) == 920
    assert student_widths((400, 10), 2075, (5, 6)) == (400, 5, 6, 10)  # equal ones would be (4, 4)
    assert student_widths((10, 1), 224, (3, 3)) == (10, 9, 9, 1)


def test_starts_from_jacobians_and_from_nothing(tmp_path, monkeypatch):
    def few():
        generator = torch.Generator().manual_seed(0)
        X = torch.rand(300, 6, generator=generator)
        y = (X[:, :3].argmax(1)).long()
        return X, y, X[:100], y[:100]

    def network():
        return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 3))

    small = dataclasses.replace(CASES["mnist"], network=network, data=few, sizes=(Size(3, (2, 2), (60,)),))
    monkeypatch.setitem(CASES, "mnist", small)
    students.original.cache_clear()
    options = {"inputs": (30,), "steps": (3,), "epochs": 2}
    table = jacobian_start.JACOBIAN_START.run(tmp_path, n_runs=2, **options)
    students.original.cache_clear()
    exact = {cell["start"]: cell for cell in table["cells"] if cell["part"] == jacobian_start.EXACT}
    assert max(run["distance"] for run in exact["Jacobians"]["runs"]) < 1e-8
    assert exact["random"]["failed"] == 2 and exact["Jacobians"]["failed"] == 0
    assert all(run["seconds"] >= run["start_seconds"] > 0 for cell in table["cells"] for run in cell["runs"])
    jacobian_start.JACOBIAN_START.write(table, tmp_path)
    assert "| mnist | 30 | 3 | **" in (tmp_path / "jacobian-start.md").read_text()
    assert (tmp_path / "jacobian-start.png").stat().st_size > 10_000


def test_all_blocks_of_a_transformer(tmp_path, monkeypatch):
    def few(_):
        generator = torch.Generator().manual_seed(0)
        X, y = torch.rand(300, 784, generator=generator), torch.randint(10, (300,), generator=generator)
        return X, y, X[:100], y[:100]

    monkeypatch.setattr(vision_transformer, "images", few)
    monkeypatch.setattr(vision_transformer, "N_INPUTS", 120)
    monkeypatch.setattr(vision_transformer, "_KEPT", 20)
    vision_transformer.transformer.cache_clear()
    options = {"steps": 3, "joint_steps": 2, "epochs": 1}
    table = vision_transformer.VISION_TRANSFORMER.run(tmp_path, n_runs=1, **options)
    vision_transformer.transformer.cache_clear()
    assert table["part_parameters"] == 2 * (32 * 128 + 128 + 128 * 32 + 32)
    rows = {(cell["method"], cell["training"]): cell for cell in table["cells"]}
    for method in (*vision_transformer.OURS, *vision_transformer.OTHERS):
        for training in ("local", "joint"):
            row = rows[method, training]["runs"][0]
            assert row["parameters"] <= 0.13 * table["part_parameters"] and math.isfinite(row["distance"])
    assert rows["original, 8 bits", "none"]["runs"][0]["score"] == pytest.approx(table["score"], abs=5.0)
    vision_transformer.VISION_TRANSFORMER.write(table, tmp_path)
    assert "| narrow GELU | joint | **" in (tmp_path / "vision-transformer.md").read_text()


def test_a_mirrored_airfoil_is_mirrored_back_and_networks_are_told_side_by_side():
    torch.manual_seed(0)
    at = scientific_networks.Mirrored(nn.Linear(25, 198))
    x = torch.randn(3, 25)
    assert torch.equal(at.flip(at.flip(x)), x)
    with torch.no_grad():
        turned = at(at.flip(x))[..., at.outputs] * at.out_signs
        assert torch.allclose(turned, at(x), atol=1e-6)
    runs = [
        {"case": "QLKNN", "method": method, "size": size, "run": 0, "n": size - 3, "error": 10.0 + size / 1000}
        | {"seconds": 2.0, "taken": f"{method} of {size}"}
        for method in (scientific_networks.STUDENT, scientific_networks.OURS)
        for size in scientific_networks.SIZES["QLKNN"]
    ]
    content = {"runs": runs, "n_runs": 1, "steps": 10, "inputs": 100, "seed": 0}
    assert "| ours | 3690 | **13.7** | ours of 3693 | 2 |" in scientific_networks.table(content)
    assert len(scientific_networks.figure(content).axes) == 1


def test_a_student_of_a_whole_network_has_the_size_that_was_asked_for():
    X = torch.randn(200, 10, generator=torch.Generator().manual_seed(0)) + 3.0
    Y = torch.stack([X[:, 0] * X[:, 1], 100.0 * X[:, 2]], dim=1)
    student, words = scientific_networks._student("QLKNN", X, Y, 400, 30, 0)
    assert 300 < sum(p.numel() for p in student.parameters()) <= 400 and "rate" in words
    with torch.no_grad():
        assert (student(X) - Y).pow(2).mean(0)[1] < Y.var(0)[1]
