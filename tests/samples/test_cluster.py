"""A real cluster of processes on loopback: the same digits as here, also when a worker is killed."""

import os
import signal
import threading

import numpy as np
import pytest

import decouply as dc
from decouply._support._parallel import active_client, connect, n_at_once, run_each, spread
from experiments.harness import run_all

from .cluster_tasks import Task, doubled_somewhere, moments, which_process

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.filterwarnings("ignore")  # of the cluster's own, when it is made and when a worker dies


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
    ) as made:
        yield made


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster) as made:
        made.wait_for_workers(2, timeout=120)
        yield made


@pytest.fixture(scope="module", autouse=True)
def short_portions():
    """So that even a few samples make many."""
    with pytest.MonkeyPatch.context() as patch:
        for module in ("stores._zarr", "_portions"):  # it takes the number from there when it is imported
            patch.setattr(f"decouply.samples.{module}.PORTION_ENTRIES", 30_000)
        yield


@pytest.fixture(scope="module")
def samples():
    f = dc.systems.random_system((4, 2, 2), (3,), rng=1)
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (12_000, 4))
    J = f.jacobian(X)
    return dc.Samples(X, F=f(X), J=J + 0.05 * J.std() * rng.normal(size=J.shape))


@pytest.fixture(scope="module")
def stored(samples, tmp_path_factory):
    return samples.to_zarr(tmp_path_factory.mktemp("store") / "data.zarr", progress=False)


def fitted(samples):
    return dc.decouple(samples, 2, 3, n_starts=8, progress=False, rng=0)


def parameters(result):
    return np.concatenate([a.ravel() for a in (*result.decoupling.W, *(g.C for g in result.decoupling.g))])


@pytest.fixture(scope="module")
def here(samples):
    return parameters(fitted(samples))


def test_workers_read_a_store_and_give_the_digits_of_memory(client, stored, samples, here):
    assert active_client() is client and len(stored.data.spans()) > 2
    on_workers, in_memory = (some.data.reduce(moments) for some in (stored, samples))
    assert all(np.array_equal(a, b) for a, b in zip(on_workers, in_memory, strict=True))
    np.testing.assert_allclose(parameters(fitted(stored)), here, rtol=0, atol=1e-12 * np.abs(here).max())


def test_collections_give_the_same(client, samples, stored, here):
    import dask.array as da

    rows = stored.data.spans()[0][1]
    path = stored.data.points.path
    arrays = [da.from_zarr(path, component=name).rechunk({0: rows}) for name in "XFJ"]
    found = parameters(fitted(dc.Samples.from_dask(*arrays)))
    np.testing.assert_allclose(found, here, rtol=0, atol=1e-12 * np.abs(here).max())


def test_a_killed_worker_costs_time_only(client, stored, here):
    pid = next(iter(client.run(os.getpid).values()))
    timer = threading.Timer(0.3, os.kill, (pid, signal.SIGKILL))
    timer.start()
    found = parameters(fitted(stored))
    timer.join()
    np.testing.assert_allclose(found, here, rtol=0, atol=1e-12 * np.abs(here).max())


def test_independent_runs_go_to_the_workers(client, tmp_path):
    outcomes = run_all([{"number": k} for k in range(4)], doubled_somewhere, store=tmp_path / "runs", n_jobs=1)
    assert [outcome["double"] for outcome in outcomes] == [0, 2, 4, 6]
    assert os.getpid() not in {outcome["process"] for outcome in outcomes}


def test_batches_and_folds_go_to_the_workers_in_their_order(client):
    assert n_at_once() == 2
    found = run_each(which_process, [Task(k) for k in range(4)])
    assert [outcome["double"] for outcome in found] == [0, 2, 4, 6]
    assert os.getpid() not in {outcome["process"] for outcome in found}
    assert client.submit(n_at_once).result() == 1  # workers have nobody to ask


def test_mistakes_in_a_store_are_told_by_the_workers_with_their_rows(client, tmp_path):
    import zarr

    X = np.random.default_rng(0).uniform(-1, 1, (9000, 4))
    path = tmp_path / "data.zarr"
    dc.Samples(X, F=X[:, :1]).to_zarr(path, progress=False)
    zarr.open_group(path)["F"][8123] = np.nan
    with pytest.raises(dc.DataError, match="rows 8123, counted from 0"):
        fitted(dc.Samples.from_zarr(path))


def test_the_command_line_takes_a_scheduler(cluster, stored):
    from click.testing import CliRunner

    from decouply.cli._main import decouply

    arguments = ["fit", stored.data.points.path, "--ranks", "2", "--degrees", "3", "--n-starts", "8", "--json"]
    done = CliRunner().invoke(decouply, [*arguments, "--scheduler", cluster.scheduler_address])
    assert done.exit_code == 0 and "passes over all 12000 samples" in done.output
    assert active_client() is None


def test_workers_with_another_version_are_refused(client, stored, monkeypatch):
    monkeypatch.setattr("decouply._support._parallel.__version__", "99.0")
    monkeypatch.setattr("decouply._support._parallel._checked", set())
    with pytest.raises(dc.InputError, match=r"workers must have decouply 99\.0 .* Got version"):
        fitted(stored)


def test_without_a_client_work_stays_here():
    assert active_client() is None
    with spread() as spreads:
        assert not spreads


def test_a_scheduler_that_is_not_there_is_told(monkeypatch):
    monkeypatch.setattr("decouply._support._parallel._SECONDS", 0.5)
    with pytest.raises(dc.InputError, match="does not answer within"):
        connect("tcp://127.0.0.1:9")
