"""Experiments in reduced form: runs that go on where they were stopped, and the Silverbox figure."""

import json
from dataclasses import dataclass

import numpy as np
import pytest

import decouply as dc
from decouply.sysid.narx import _polynomial
from experiments import run_silverbox, silverbox_markdown, write_silverbox
from experiments.harness import run_all
from experiments.paper import silverbox
from tests.sysid.systems import duffing


@dataclass(frozen=True)
class Square:
    number: int


def square(task):
    return {"value": task.number**2}


def refuse(task):
    raise AssertionError("run again")


def test_finished_runs_are_kept_and_broken_lines_run_again(tmp_path):
    store = tmp_path / "runs.jsonl"
    tasks = [Square(i) for i in range(4)]
    seen = []
    found = run_all(tasks, square, store=store, n_jobs=1, progress=lambda **values: seen.append(values["done"]))
    assert [found[t]["value"] for t in tasks] == [0, 1, 4, 9] and seen == [0, 1, 2, 3, 4]
    assert run_all(tasks, refuse, store=store, n_jobs=1) == found
    lines = store.read_text().splitlines()
    empty = json.dumps({"task": {"number": 2}, "outcome": {}})
    store.write_text("\n".join([*lines[:2], "not json", empty, lines[3][:10]]))
    assert run_all(tasks, square, store=store, n_jobs=1) == found
    assert run_all(tasks, refuse, store=store, n_jobs=1) == found
    with pytest.raises(AssertionError, match="run again"):
        run_all([Square(9)], refuse, store=store, n_jobs=1)
    assert run_all(tasks[:1], square, store=None, n_jobs=1) == {tasks[0]: {"value": 0}}


@pytest.fixture
def small_silverbox(monkeypatch):
    """Records of a simulated oscillator in place of the measured ones."""

    def record(name, seed, n):
        u, y = duffing(n=n, seed=seed)
        return dc.data.Record(name, u, y + 0.01 * np.random.default_rng(seed).normal(size=n), 1.0, 50)

    data = dc.data.Silverbox(record("a", 0, 600), record("b", 1, 300), record("c", 2, 300), record("d", 3, 200))
    narx = dc.sysid.PolynomialNARX(n_u=1, n_y=2, degree=3).fit(*data.train)
    monkeypatch.setattr(silverbox, "_reference", lambda: (data, narx))
    monkeypatch.setattr(_polynomial, "_STARTS", 8)


def test_the_silverbox_figure_in_small(small_silverbox, tmp_path):
    figure = run_silverbox(n_runs=2, ranks=(1, 2), n_refined=1, refine_steps=2, seed=0, n_jobs=1, store=tmp_path / "s")
    assert set(figure.runs) == {(a, r) for a in silverbox.ALGORITHMS for r in (1, 2)}
    text = silverbox_markdown(figure)
    assert "35 coefficients" in text and text.count("| VarPro |") == 2 and "| median | | after |" in text
    write_silverbox(figure, tmp_path)
    content = json.loads((tmp_path / "silverbox.json").read_text())
    assert len(content["cells"]) == 24 and (tmp_path / "silverbox.png").stat().st_size > 10_000
    best = min(figure.runs, key=lambda key: np.median(figure.runs[key][:, 0]))
    assert best == ("VarPro", 2)


def test_diverged_runs_count_as_the_worst():
    median, mean, diverged = silverbox.statistics(np.array([1.0, np.nan, 3.0, 2.0, np.nan]))
    assert (median, mean, diverged) == (3.0, 2.0, 2)


@pytest.fixture
def small_teacher(monkeypatch, tmp_path):
    """A network on random images in place of the real ones, and few steps of training."""
    torch = pytest.importorskip("torch")
    from decouply.nn.training import _distillation
    from experiments.paper import network_compression, networks_as_in_paper

    rng = np.random.default_rng(0)
    centres = rng.integers(0, 255, (10, 784))

    def images(n):
        labels = rng.integers(0, 10, n)
        noisy = np.clip(centres[labels] + rng.normal(size=(n, 784)) * 60, 0, 255).astype(np.uint8)
        return dc.data.Images(noisy.reshape(-1, 28, 28), labels)

    data = dc.data.ImageData(images(1500), images(300))
    small = networks_as_in_paper.Architecture((784, 16, 12, 10), networks_as_in_paper.SIGMOID, 40, lambda: data)
    monkeypatch.setitem(networks_as_in_paper.ARCHITECTURES, "mnist", small)
    monkeypatch.setitem(
        network_compression.SIZES, "mnist", (network_compression.Size(4, (4, 4), "about 1", (50.0, 50.0, 50.0)),)
    )
    monkeypatch.setattr(network_compression, "STEPS", 60)
    monkeypatch.setattr(_distillation, "_STEPS", 60)
    networks_as_in_paper.teacher.cache_clear()
    threads = torch.get_num_threads()
    yield tmp_path
    torch.set_num_threads(threads)
    networks_as_in_paper.teacher.cache_clear()


def test_the_compression_table_in_small(small_teacher):
    from experiments.paper import network_compression, networks_as_in_paper

    options = {"n_runs": 1, "seed": 0, "n_jobs": 1, "store": small_teacher / "runs"}
    table = network_compression.run_networks("mnist", **options)
    assert set(table.runs) == {(method, 0) for method in network_compression.METHODS} and table.accuracy > 50.0
    assert table.parameters["TS-PROJ-1", 0] == 4 * (16 + 10 + 5)
    assert table.part_parameters == 16 * 12 + 12 + 12 * 10 + 10
    assert table.parameters["truncated SVD", 0] <= table.part_parameters
    text = network_compression.networks_markdown(table)
    assert text.count("✓") + text.count("✗") == 1 + 3  # the legend, and three targets
    network_compression.write_networks(table, small_teacher)
    content = json.loads((small_teacher / "mnist.json").read_text())
    assert (
        len(content["cells"]) == len(network_compression.METHODS)
        and (small_teacher / "mnist.png").stat().st_size > 10_000
    )
    assert (small_teacher / "mnist-means.png").stat().st_size > 10_000 and "has the sigmoid inside" in text
    networks_as_in_paper.teacher.cache_clear()
    again = network_compression.run_networks("mnist", **options)  # the network and the runs are read, not made again
    assert again.accuracy == table.accuracy and again.content() == table.content()


def test_silverbox_on_the_command_line_tells_where_the_data_should_be(tmp_path, monkeypatch):
    from tests.experiments.test_commands import experiment

    monkeypatch.setenv("DECOUPLY_DATA", str(tmp_path))
    (tmp_path / "silverbox").mkdir()
    (tmp_path / "silverbox" / "SNLS80mV.mat").write_bytes(b"cut short")
    done = experiment("silverbox --quick", cwd=tmp_path)
    assert done.returncode == 2 and "delete it to download it again" in done.stderr and "Traceback" not in done.stderr
