"""The paper's experiments in reduced forms: the Silverbox figure and the compression table."""

import json

import numpy as np
import pytest

import decouply as dc
from decouply.sysid.narx import _polynomial
from experiments.paper import silverbox
from tests.sysid.systems import duffing


@pytest.fixture
def small_silverbox(monkeypatch):
    """Records of a simulated oscillator in place of the measured ones."""

    def record(name, seed, n):
        u, y = duffing(n=n, seed=seed)
        return dc.data.Record(name, u, y + 0.01 * np.random.default_rng(seed).normal(size=n), 1.0, 50)

    data = dc.data.Silverbox(record("a", 0, 600), record("b", 1, 300), record("c", 2, 300), record("d", 3, 200))
    narx = dc.sysid.PolynomialNARX(n_u=1, n_y=2, degree=3).fit(*data.train)
    monkeypatch.setattr(silverbox, "reference", lambda: (data, narx))
    monkeypatch.setattr(_polynomial, "_STARTS", 8)


def test_the_silverbox_figure_in_small(small_silverbox, tmp_path):
    options = {"n_runs": 2, "ranks": (1, 2), "n_refined": 1, "refine_steps": 2}
    found = silverbox.SILVERBOX.run(tmp_path, **options)
    assert {(c["algorithm"], c["rank"]) for c in found["cells"]} == {
        (a, r) for a in silverbox.ALGORITHMS for r in (1, 2)
    }
    text = silverbox.table(found)
    assert "35 coefficients" in text and text.count("| VarPro |") == 2 and "| median | | after |" in text
    silverbox.SILVERBOX.write(found, tmp_path)
    content = json.loads((tmp_path / "silverbox.json").read_text())
    assert len(content["cells"]) == 24 and (tmp_path / "silverbox.png").stat().st_size > 10_000
    approximation = [cell for cell in found["cells"] if cell["quantity"] == silverbox.QUANTITIES[0]]
    best = min(approximation, key=lambda cell: cell["median"])
    assert (best["algorithm"], best["rank"]) == ("VarPro", 2)


def test_diverged_runs_count_as_the_worst():
    median, mean, diverged = silverbox.statistics(np.array([1.0, np.nan, 3.0, 2.0, np.nan]))
    assert (median, mean, diverged) == (3.0, 2.0, 2)


@pytest.fixture
def small_teacher(monkeypatch, tmp_path):
    """A network on random images in place of the real ones, and few steps of training."""
    torch = pytest.importorskip("torch")
    from experiments.networks import trained_networks
    from experiments.paper import network_compression

    rng = np.random.default_rng(0)
    centres = rng.integers(0, 255, (10, 784))

    def images(n):
        labels = rng.integers(0, 10, n)
        noisy = np.clip(centres[labels] + rng.normal(size=(n, 784)) * 60, 0, 255).astype(np.uint8)
        return dc.data.Images(noisy.reshape(-1, 28, 28), labels)

    data = dc.data.ImageData(images(1500), images(300))
    small = trained_networks.Architecture((784, 16, 12, 10), trained_networks.SIGMOID, 40, lambda: data)
    monkeypatch.setitem(trained_networks.ARCHITECTURES, "mnist", small)
    monkeypatch.setitem(network_compression.SIZES, "mnist", (network_compression.Size(4, (4, 4), "about 1"),))
    monkeypatch.setattr(network_compression, "STEPS", 60)
    trained_networks.teacher.cache_clear()
    threads = torch.get_num_threads()
    yield tmp_path
    torch.set_num_threads(threads)
    trained_networks.teacher.cache_clear()


def test_the_compression_table_in_small(small_teacher):
    from experiments.networks import trained_networks
    from experiments.paper import network_compression

    mnist, methods = network_compression.MNIST, network_compression.METHODS
    found = mnist.run(small_teacher, n_runs=1)
    parameters = {cell["method"]: cell["parameters"] for cell in found["cells"]}
    assert set(parameters) == set(methods) and found["accuracy"] > 50.0
    assert parameters["TS-PROJ-1"] == 4 * (16 + 10 + 5)
    assert found["part_parameters"] == 16 * 12 + 12 + 12 * 10 + 10
    assert parameters["truncated SVD"] <= found["part_parameters"]
    mnist.write(found, small_teacher)
    text = (small_teacher / "mnist.md").read_text()
    assert "has the sigmoid inside" in text and f"has {found['part_parameters']} parameters" in text
    assert (small_teacher / "mnist.png").stat().st_size > 10_000
    assert (small_teacher / "mnist-means.png").stat().st_size > 10_000
    trained_networks.teacher.cache_clear()
    assert mnist.run(small_teacher, n_runs=1) == found  # the network and the runs are read, not made again
