"""Benchmark data: the splits, and downloads that are checked, retried and refused plainly."""

import hashlib
import http.server
import io
import re
import threading
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

import decouply as dc
from decouply.data import _benchmarks, _downloads, _images
from decouply.data._downloads import RemoteFile, Source, fetch


def sha256(content):
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def server(tmp_path):
    """A server on loopback with a folder of its own, and the addresses it was asked for."""
    folder = tmp_path / "served"
    folder.mkdir()
    asked = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, directory=str(folder), **kwargs)

        def log_message(self, *args):
            asked.append(self.path)

    httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever, daemon=True)
    thread.start()
    yield folder, f"http://127.0.0.1:{httpd.server_port}", asked
    httpd.shutdown()
    httpd.server_close()
    thread.join()


@pytest.fixture
def home(tmp_path, monkeypatch):
    folder = tmp_path / "data"
    monkeypatch.setenv("DECOUPLY_DATA", str(folder))
    return folder


def test_a_file_is_downloaded_once_and_checked_every_time(server, home):
    folder, address, asked = server
    (folder / "a.bin").write_bytes(b"content")
    file = RemoteFile("set/a.bin", sha256(b"content"), (Source(f"{address}/a.bin"),))
    assert fetch(file).read_bytes() == b"content" and fetch(file) == home / "set/a.bin"
    assert len(asked) == 1
    (home / "set/a.bin").write_bytes(b"conte")
    with pytest.raises(dc.DataError, match="another or a damaged file: delete it"):
        fetch(file)


def test_downloads_have_a_largest_size(server, home, monkeypatch):
    folder, address, _ = server
    (folder / "a.bin").write_bytes(b"content")
    monkeypatch.setattr(_downloads, "_LARGEST", 3)
    with pytest.raises(dc.DataError, match="it is larger than 0 MB"):
        fetch(RemoteFile("set/a.bin", sha256(b"content"), (Source(f"{address}/a.bin"),)))
    assert not (home / "set/a.bin").exists()


def test_the_next_address_is_tried_and_archives_are_opened(server, home):
    folder, address, _ = server
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("Files/__MACOSX/a.bin", b"junk")
        archive.writestr("Files/a.bin", b"content")
    (folder / "all.zip").write_bytes(packed.getvalue())
    (folder / "wrong.bin").write_bytes(b"something else")
    (folder / "broken.zip").write_bytes(packed.getvalue()[:50])
    good = Source(f"{address}/all.zip", "a.bin")
    bad = [
        Source(f"{address}/missing.bin"),
        Source(f"{address}/wrong.bin"),
        Source(f"{address}/broken.zip", "a.bin"),
        Source(f"{address}/all.zip", "b.bin"),
        Source("http://127.0.0.1:9/refused"),
    ]
    file = RemoteFile("a.bin", sha256(b"content"), (*bad, good))
    assert fetch(file).read_bytes() == b"content"
    assert [path.name for path in home.iterdir()] == ["a.bin"]
    with pytest.raises(dc.DataError) as told:
        fetch(replace(file, path="b.bin", sources=tuple(bad)))
    message = str(told.value)
    for part in ("404", "another checksum", "not the expected archive", "b.bin is not in it", "no connection"):
        assert part in message
    assert "DECOUPLY_DATA" in message and not (home / "b.bin").exists()


def test_files_are_fetched_over_https():
    files = [*_images.MNIST, *_images.FASHION_MNIST]
    files += [file for file in vars(_benchmarks).values() if isinstance(file, RemoteFile)]
    assert len(files) == 13 and all(source.url.startswith("https://") for file in files for source in file.sources)


def test_a_folder_that_cannot_be_written_is_told(server, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("DECOUPLY_DATA", str(tmp_path / "file"))
    with pytest.raises(dc.DataError, match="cannot be written to"):
        fetch(RemoteFile("a/b.bin", "0", (Source("http://127.0.0.1:9/x"),)))


def test_without_a_named_folder_the_cache_of_the_user_is_used(monkeypatch, tmp_path):
    monkeypatch.delenv("DECOUPLY_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    from decouply.data._downloads import data_folder

    assert data_folder().name == "decouply"


@pytest.fixture
def made(home, monkeypatch):
    """Files of the right shape that the test makes itself."""
    rng = np.random.default_rng(0)
    contents = {
        "SILVERBOX": {"V1": rng.normal(size=(1, 131072)), "V2": rng.normal(size=(1, 131072))},
        "WIENER_HAMMERSTEIN": {"uBenchMark": rng.normal(size=(188000, 1)), "yBenchMark": rng.normal(size=(188000, 1))},
        "CASCADED_TANKS": {name: rng.normal(size=(1024, 1)) for name in ("uEst", "yEst", "uVal", "yVal")},
        "EMPS_TRAIN": {"vir": rng.normal(size=(500, 1)), "qm": rng.normal(size=(500, 1))},
        "EMPS_TEST": {"vir": rng.normal(size=(400, 1)), "qm": rng.normal(size=(400, 1))},
    }
    for name, content in contents.items():
        file = getattr(_benchmarks, name)
        path = home / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        savemat(path, content)
        monkeypatch.setattr(_benchmarks, name, replace(file, sha256=sha256(path.read_bytes())))
    return contents


def test_records_are_cut_by_the_official_split(made):
    d = dc.data.silverbox()
    u = made["SILVERBOX"]["V1"][0]
    assert np.array_equal(d.train.u, u[40650:105712]) and d.train.n_init == 0
    assert np.array_equal(d.multisine.u, u[105712:127400]) and d.multisine.n_init == 50
    assert np.array_equal(d.arrow.u, u[100:40575])
    assert np.array_equal(d.arrow_no_extrapolation.u, u[100:32100])
    assert d.tests == (d.multisine, d.arrow, d.arrow_no_extrapolation)
    w = dc.data.wiener_hammerstein()
    assert (len(w.train), len(w.test), w.test.n_init) == (100000, 78800, 50)
    t = dc.data.cascaded_tanks()
    assert (len(t.train), len(t.test)) == (1024, 1024) and np.array_equal(
        t.test.y, made["CASCADED_TANKS"]["yVal"][:, 0]
    )
    e = dc.data.emps()
    assert (len(e.train), len(e.test), e.test.n_init) == (500, 400, 20)


def test_records_go_to_pytorch_without_a_warning(made, torch_that_warns):
    d = dc.data.silverbox()
    for record in (d.train, *d.tests, dc.data.emps().test):
        for array in (*record, record.y_init):
            assert torch_that_warns.as_tensor(array).shape == array.shape
    d.arrow.u[:] = 0.0  # nobody else's, although one is a prefix of the other
    assert d.arrow_no_extrapolation.u.any()


def test_a_file_without_the_variables_is_told(made, home, monkeypatch):
    path = home / _benchmarks.SILVERBOX.path
    savemat(path, {"V1": np.zeros(3)})
    monkeypatch.setattr(_benchmarks, "SILVERBOX", replace(_benchmarks.SILVERBOX, sha256=sha256(path.read_bytes())))
    with pytest.raises(dc.DataError, match="Missing: V2"):
        dc.data.silverbox()


def test_a_record_unpacks_and_scores_without_its_initial_window():
    y = np.sin(np.arange(100.0))
    record = dc.data.Record("r", np.zeros(100), y, 0.1, 10)
    _, same = record
    assert same is record.y and len(record) == 100 and len(record.y_init) == 10
    off = y + 1.0
    off[:10] = 1e9
    assert record.rmse(off) == pytest.approx(1.0)
    assert record.relative_rmse(off) == pytest.approx(100.0 / np.std(y[10:]))
    assert record.rmse(off[:, None]) == pytest.approx(1.0)
    far = dc.data.Record("r", 1.5e308 * np.eye(16)[0], -1.5e308 * np.eye(16)[0], 0.1)
    assert far.rmse(-far.y) == pytest.approx(7.5e307)  # the error itself is no number
    for act, message in [
        (lambda: record.rmse(y[:50]), "100 outputs"),
        (lambda: record.rmse("abc"), "real numbers"),
        (lambda: dc.data.Record("r", y, y, 0.1, 100), "above `n_init`"),
        (lambda: dc.data.Record("r", y, 0 * y, 0.1).relative_rmse(y), "must vary"),
    ]:
        with pytest.raises(dc.InputError, match=message):
            act()


def test_the_real_files_have_their_checksums(real_data):
    assert len(dc.data.silverbox().train) == 65062
    assert len(dc.data.wiener_hammerstein().test) == 78800
    assert dc.data.cascaded_tanks().train.y.max() == 10.0
    assert len(dc.data.emps().train) == 24841


def test_a_record_may_have_several_inputs_and_outputs():
    rng = np.random.default_rng(0)
    u, y = rng.standard_normal((40, 3)), rng.standard_normal((40, 2)) * [1.0, 1000.0]
    record = dc.data.Record("r", u, y, 0.1, 10)
    assert record.y_init.shape == (10, 2) and len(record) == 40
    off = y + 0.1 * y[10:].std(axis=0)
    assert record.relative_rmse(off) == pytest.approx(10.0)
    assert record.rmse(off) == pytest.approx(np.sqrt(np.mean((off - y)[10:] ** 2)))
    with pytest.raises(dc.InputError, match=re.escape("must have shape (40, 2)")):
        record.rmse(off.T)


def test_the_page_shows_a_model_for_identibench():
    page = (Path(__file__).parents[2] / "docs/how-to/scores.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^def build_model.*?(?=^```)", page, flags=re.MULTILINE | re.DOTALL)
    space = {"dc": dc}
    exec(code, space)
    u = np.random.default_rng(0).uniform(-1, 1, (300, 2)).astype(np.float32)
    y = np.zeros((300, 1), np.float32)
    for t in range(1, 300):
        y[t] = 0.5 * y[t - 1] + u[t - 1, :1] - u[t - 1, 1:]

    class Context:  # of identibench, with sequences (u, y, attributes)
        seed, hyperparameters = 0, {"n_states": 1, "functions": []}

        def get_train_valid_sequences(self):
            yield from ((u[a:b], y[a:b], {}) for a, b in ((0, 200), (200, 300)))

    model = space["build_model"](Context())
    for attributes in ((), ({},)):  # older versions do not hand them over
        np.testing.assert_allclose(model(u, y[:20], *attributes), y, atol=1e-4)


def test_records_of_the_benchmark_package_are_taken():
    class Foreign:
        name, u, y, sampling_time = "test", np.arange(5.0), np.ones(5), 0.1
        state_initialization_window_length = 3

    record = dc.data.Record.of(Foreign())
    assert (record.name, record.n_init, record.sampling_time) == ("test", 3, 0.1)
    with pytest.raises(dc.InputError, match="nonlinear_benchmarks"):
        dc.data.Record.of(3)
