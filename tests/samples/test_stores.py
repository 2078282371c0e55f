"""Samples in stores: the same numbers as in memory, and plain words where something is wrong."""

import functools
import http.server
import sys
import threading
from itertools import pairwise

import numpy as np
import pytest

import decouply as dc
from decouply.samples._portions import PORTION_ENTRIES, Portion, even_spans, fold

S = 5000
zarr = pytest.importorskip("zarr")


@pytest.fixture(scope="module")
def samples():
    f = dc.systems.f2()
    X = np.random.default_rng(0).uniform(-1, 1, (S, 3))
    return dc.Samples(X, F=f(X), J=f.jacobian(X), inputs=["a", "b", "c"], outputs=["p", "q", "r"])


def as_zarr(samples, directory):
    return samples.to_zarr(directory / "data.zarr", progress=False)


def as_npy(samples, directory):
    for name in "XFJ":
        np.save(directory / f"{name}.npy", getattr(samples, name))
    paths = {name: directory / f"{name}.npy" for name in "FJ"}
    return dc.Samples.from_npy(directory / "X.npy", **paths)


def as_collections(samples, directory):
    da = pytest.importorskip("dask.array")
    return dc.Samples.from_dask(
        *(da.from_array(getattr(samples, name), chunks=(900, -1, -1)[: 2 + (name == "J")]) for name in "XFJ")
    )


def as_batches(samples, directory):
    parts = [slice(i, i + 333) for i in range(0, S, 333)]
    given = ((samples.X[rows], samples.F[rows], samples.J[rows]) for rows in parts)
    return dc.Samples.from_batches(given, store=directory / "batches.zarr", progress=False)


STORES = [as_zarr, as_npy, as_collections, as_batches]


def moments(portion: Portion):
    assert portion.F is not None and portion.J is not None
    return portion.X.sum(axis=0), portion.F.sum(axis=0), portion.J.sum(axis=0), np.array([len(portion)])


@pytest.mark.parametrize("store", STORES, ids=lambda store: store.__name__)
def test_every_store_holds_the_same_samples(store, samples, tmp_path):
    stored = store(samples, tmp_path)
    assert not stored.in_memory and stored.data.shape == samples.data.shape and len(stored) == S
    rows = np.array([4999, 3, 700, 701, 3])
    for name in "XFJ":
        np.testing.assert_array_equal(getattr(stored.take(rows), name), getattr(samples, name)[rows])
    assert np.array_equal(stored.pilot(40, rng=1).J, samples.pilot(40, rng=1).J)
    for here, there in zip(samples.data.reduce(moments), stored.data.reduce(moments), strict=True):
        np.testing.assert_allclose(there, here, rtol=1e-13, atol=1e-10)
    with pytest.raises(dc.InputError, match=r"`samples\.X` must be in memory .*samples\.pilot"):
        stored.X  # noqa: B018


def test_names_travel_with_a_store(samples, tmp_path):
    stored = as_zarr(samples, tmp_path)
    assert stored.inputs == ("a", "b", "c") and stored.outputs == ("p", "q", "r")
    assert dc.Samples.load(tmp_path / "data.zarr").inputs == ("a", "b", "c")
    assert repr(stored) == "Samples(S=5000, m=3, n=3: values and Jacobians, in a store)"
    assert "in a store" in stored._repr_html_()


def test_remote_paths_go_through_fsspec(samples):
    pytest.importorskip("fsspec")
    stored = samples.to_zarr("memory://bucket/data.zarr", progress=False)
    assert np.array_equal(stored.pilot(20).F, samples.pilot(20).F)


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture
def server(tmp_path):
    handler = functools.partial(Quiet, directory=str(tmp_path))
    httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=httpd.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{httpd.server_port}"
    httpd.shutdown()
    httpd.server_close()


def test_a_store_is_read_from_a_web_server(samples, tmp_path, server):
    pytest.importorskip("aiohttp")
    as_zarr(samples, tmp_path)
    stored = dc.Samples.from_zarr(f"{server}/data.zarr")
    assert stored.inputs == samples.inputs and np.array_equal(stored.pilot(20).J, samples.pilot(20).J)
    with pytest.raises(dc.DataError, match=r"nothing\.zarr` must be a Zarr group"):
        dc.Samples.from_zarr(f"{server}/nothing.zarr")


def test_weights_and_single_precision_are_kept(tmp_path):
    X = np.random.default_rng(0).uniform(-1, 1, (300, 2))
    weights = np.linspace(0.5, 2.0, 300)
    given = dc.Samples(X, F=X[:, :1], weights=weights)
    stored = given.to_zarr(tmp_path / "data.zarr", dtype=np.float32, progress=False)
    assert stored.data.dtype == np.float32 and stored.data.weights_shape == ()
    np.testing.assert_allclose(stored.take(np.arange(300)).weights, weights, rtol=1e-7)


# Portions


def test_portions_are_joined_in_their_order():
    parts = [(np.array([float(k)]),) for k in range(5)]
    assert fold(parts, "rows")[0].tolist() == [0, 1, 2, 3, 4]
    assert [fold(parts, join)[0].item() for join in ("sum", "max", "min")] == [10, 4, 0]


def test_triangles_of_portions_are_those_of_the_whole_table():
    table = np.random.default_rng(0).normal(size=(100, 4))
    (R,) = fold([(table[:30],), (table[30:31],), (table[31:],)], "qr")
    np.testing.assert_allclose(R.T @ R, table.T @ table, atol=1e-12)


@pytest.mark.parametrize(("per_sample", "chunk"), [(1, 1), (10, 700), (1000, 3), (1, 2 * PORTION_ENTRIES)])
def test_portions_cover_all_samples_and_begin_with_chunks(per_sample, chunk):
    spans = even_spans(3_000_000, per_sample, chunk)
    assert spans[0][0] == 0 and spans[-1][1] == 3_000_000
    assert all(end == begin for (_, end), (begin, _) in pairwise(spans))
    assert all(first % chunk == 0 for first, _ in spans)


# Mistakes


def test_rows_with_nan_deep_inside_a_store_are_named(samples, tmp_path):
    stored = as_zarr(samples, tmp_path)
    zarr.open_group(tmp_path / "data.zarr")["J"][[1234, 4321]] = np.nan
    with pytest.raises(dc.DataError, match=r"`J` in .* must hold finite numbers .* rows 1234, 4321, counted from 0"):
        stored.data.reduce(moments)


def test_a_store_that_has_lost_a_chunk_is_not_read_as_zeros(samples, tmp_path):
    as_zarr(samples, tmp_path)
    chunk = next(path for path in (tmp_path / "data.zarr" / "F").rglob("c/*") if path.is_dir() or path.is_file())
    for file in [chunk] if chunk.is_file() else [p for p in chunk.rglob("*") if p.is_file()]:
        file.unlink()
    with pytest.raises(dc.DataError, match=r"`F` in .* must have all its 1 chunks\. Got 0"):
        dc.Samples.from_zarr(tmp_path / "data.zarr")


def test_a_chunk_that_is_cut_off_is_told(samples, tmp_path):
    path = tmp_path / "data.zarr"
    store = samples.to_zarr(path, progress=False)
    chunk = next(file for file in sorted((path / "F" / "c").rglob("*")) if file.is_file())
    chunk.write_bytes(chunk.read_bytes()[:-8])
    with pytest.raises(dc.DataError, match=r"`F` in .* must be readable. Samples 0 to .* The store is damaged"):
        store.data.portion(store.data.spans()[0])


@pytest.mark.parametrize("call", [lambda path: dc.Samples.from_zarr(path), lambda path: dc.Samples.from_npy(path)])
def test_a_service_without_its_package_is_told(call, monkeypatch):
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(dc.InputError, match=r"`s3://bucket/data` must be an address whose service can be reached"):
        call("s3://bucket/data")


def test_a_store_that_is_being_written_says_so(tmp_path):
    def batches():
        yield np.zeros((40, 2)), np.zeros((40, 1))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dc.Samples.from_batches(batches(), store=tmp_path / "data.zarr", progress=False)
    with pytest.raises(dc.DataError, match="must be complete"):
        dc.Samples.from_zarr(tmp_path / "data.zarr")


def test_a_file_that_is_cut_off_is_told(samples, tmp_path):
    as_npy(samples, tmp_path)
    path = tmp_path / "J.npy"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(dc.DataError, match=r"must hold 5000 samples, as its header says\. It is cut off"):
        dc.Samples.from_npy(tmp_path / "X.npy", J=path)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda p: dc.Samples.from_zarr(p / "none.zarr"), "must be a Zarr group"),
        (lambda p: dc.Samples.from_npy(p / "none.npy", F=p / "none.npy"), "cannot be read: No such file"),
        (lambda p: dc.Samples.from_batches([], store=p / "a.zarr"), "at least one batch"),
        (lambda p: dc.Samples.from_batches([3], store=p / "b.zarr"), r"tuples \(X, F\) or \(X, F, J\)"),
        (
            lambda p: dc.Samples.from_batches([(np.zeros((3, 2)), np.zeros((4, 1)))], store=p / "c.zarr"),
            "as many of each",
        ),
        (
            lambda p: dc.Samples.from_batches(
                [(np.zeros((3, 2)), np.zeros((3, 1))), (np.zeros((3, 4)), np.zeros((3, 1)))], store=p / "d.zarr"
            ),
            r"same arrays, X \(2,\), F \(1,\) per sample. Got X \(4,\), F \(1,\) from sample 3 on",
        ),
        (lambda p: dc.Samples([[0.0]], F=[1.0]).to_zarr(p / "e.zarr", dtype=int), "`dtype` must be np.float32"),
    ],
)
def test_mistakes_are_told(make, words, tmp_path):
    with pytest.raises((dc.InputError, dc.DataError), match=words):
        make(tmp_path)


def test_a_store_is_not_overwritten(samples, tmp_path):
    as_zarr(samples, tmp_path)
    with pytest.raises(dc.InputError, match="must not be there yet"):
        as_zarr(samples, tmp_path)


def test_chunks_that_disagree_are_told(samples, tmp_path):
    da = pytest.importorskip("dask.array")
    X, F = da.from_array(samples.X, chunks=(1000, 3)), da.from_array(samples.F, chunks=(900, 3))
    with pytest.raises(dc.InputError, match=r"`F` must be cut into the same chunks .* 1000, .* Got 900, .*rechunk"):
        dc.Samples.from_dask(X, F)
    group = zarr.open_group(tmp_path / "data.zarr", mode="w")
    for name, rows in (("X", 1000), ("F", 300)):
        array = getattr(samples, name)
        group.create_array(name, shape=array.shape, chunks=(rows, 3), dtype="f8")[:] = array
    with pytest.raises(dc.InputError, match="X 1000, F 300: rechunk them alike"):
        dc.Samples.from_zarr(tmp_path / "data.zarr")


def test_shapes_that_do_not_fit_are_told(samples, tmp_path):
    group = zarr.open_group(tmp_path / "data.zarr", mode="w")
    for name, array in (("X", samples.X), ("F", samples.F[:-1])):
        group.create_array(name, shape=array.shape, chunks=(S, 3), dtype="f8")[:] = array
    with pytest.raises(dc.InputError, match=r"X \(5000, 3\), F \(4999, 3\)"):
        dc.Samples.from_zarr(tmp_path / "data.zarr")
