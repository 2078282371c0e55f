"""Images with labels: the idx reader, the two data sets, and the progress of their downloads."""

import gzip
import hashlib
import http.server
import struct
import sys
import threading
from contextlib import contextmanager
from dataclasses import replace
from itertools import count

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import decouply as dc
from decouply._support import _progress
from decouply.data import _downloads, _images
from decouply.data._downloads import RemoteFile, Source, fetch
from decouply.data._images import read_idx

CODES = {"uint8": 8, "int8": 9, "int16": 11, "int32": 12, "float32": 13, "float64": 14}


def idx(array):
    """The format by definition: one struct call per number."""
    letter = {"uint8": "B", "int8": "b", "int16": "h", "int32": "i", "float32": "f", "float64": "d"}[array.dtype.name]
    content = bytes([0, 0, CODES[array.dtype.name], array.ndim])
    for length in array.shape:
        content += struct.pack(">I", length)
    for entry in array.ravel().tolist():
        content += struct.pack(f">{letter}", entry)
    return content


def packed(content):
    return gzip.compress(content, 1, mtime=0)


def sha256(content):
    return hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("dtype", CODES)
@pytest.mark.parametrize("shape", [(), (3,), (0,), (2, 3), (4, 2, 3), (2, 1, 2, 1, 2)], ids=repr)
@pytest.mark.parametrize("pack", [bytes, packed], ids=["plain", "gzip"])
def test_every_type_and_number_of_axes_is_read(dtype, shape, pack, tmp_path):
    low = 0 if dtype == "uint8" else -100
    array = np.asarray(np.random.default_rng(0).integers(low, 100, shape) * 1.0).astype(dtype)
    if "float" in dtype:
        array = array + np.asarray(0.25, dtype)
    path = tmp_path / "a"
    path.write_bytes(pack(idx(array)))
    again = read_idx(path)
    assert again.dtype == np.dtype(dtype) and again.dtype.isnative and not again.flags.writeable
    assert again.shape == shape
    assert_array_equal(again, array)


GOOD = idx(np.arange(12, dtype=np.int16).reshape(3, 4))
PACKED = packed(GOOD)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "cut short: its header takes 4 bytes. Got 0"),
        (GOOD[:3], "cut short: its header takes 4 bytes. Got 3"),
        (GOOD[:9], "cut short: its header takes 12 bytes. Got 9"),
        (GOOD[:-1], r"cut short: an array of int16 and shape \(3, 4\) takes 36 bytes. Got 35"),
        (GOOD + b"\0", "goes on after its last entry: .* takes 36 bytes. Got 37"),
        (b"\x01" + GOOD[1:], "begin with 00 00 .* Got 01 00 0b 02: it is of another kind"),
        (b"\0\0\x0a" + GOOD[3:], "type out of 08 .uint8.* Got 00 00 0a 02"),
        (b"PK\x03\x04 an archive", "of another kind"),
        (bytes([0, 0, 8, 70]) + struct.pack(">70I", *[1] * 70) + b"\0", "cannot hold the shape"),
        (bytes([0, 0, 8, 5]) + struct.pack(">5I", 0, *[2**32 - 1] * 4), "cannot hold the shape"),
        (PACKED[:-9], "gzip content is damaged"),
        (PACKED[:-8] + b"12345678", "gzip content is damaged"),
        (PACKED[:12] + b"\xff" * 20, "gzip content is damaged"),
        (PACKED[:5], "gzip content is damaged"),
        (PACKED + b"more", "gzip content is damaged"),
        (packed(GOOD[:-2]), "cut short"),
        (packed(b"text, not an array"), "of another kind"),
    ],
    ids=count(),
)
def test_damaged_files_are_told(content, message, tmp_path):
    path = tmp_path / "broken.gz"
    path.write_bytes(content)
    with pytest.raises(dc.DataError, match=message) as told:
        read_idx(path)
    assert "broken.gz" in str(told.value) and "complete idx file" in str(told.value)


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Small files of both sets, with their checksums in the place of the real ones."""
    monkeypatch.setenv("DECOUPLY_DATA", str(tmp_path))
    rng = np.random.default_rng(0)
    contents = {}

    def put(name, arrays):
        files = []
        for file, array in zip(getattr(_images, name), arrays, strict=True):
            content = packed(idx(array))
            path = tmp_path / file.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            files.append(replace(file, sha256=sha256(content)))
        monkeypatch.setattr(_images, name, tuple(files))
        contents[name] = arrays

    for name in ("MNIST", "FASHION_MNIST"):
        arrays = []
        for N in (4, 3):
            arrays.append(rng.integers(0, 256, (N, 28, 28)).astype(np.uint8))
            arrays.append(rng.integers(0, 10, N).astype(np.uint8))
        put(name, arrays)
    return contents, put


@pytest.mark.parametrize(("load", "name"), [(dc.data.mnist, "MNIST"), (dc.data.fashion_mnist, "FASHION_MNIST")])
def test_images_and_labels_come_in_two_parts(made, load, name):
    d = load()
    assert isinstance(d, dc.data.ImageData) and isinstance(d.train, dc.data.Images)
    found = [d.train.images, d.train.labels, d.test.images, d.test.labels]
    for array, expected in zip(found, made[0][name], strict=True):
        assert_array_equal(array, expected)
    assert d.train.images.dtype == np.uint8 and d.train.labels.dtype == np.int64
    images, labels = d.test
    assert images is d.test.images and labels is d.test.labels and len(d.test) == 3
    assert repr(d.train).startswith("Images(4 of 28 x 28 pixels")


def test_images_and_labels_go_to_pytorch_without_a_warning(made, torch_that_warns):
    d = dc.data.mnist()
    for part in (d.train, d.test):
        for array in part:
            assert torch_that_warns.as_tensor(array).shape == array.shape
    d.train.images[0] = 7  # nobody else's
    assert_array_equal(dc.data.mnist().train.images, made[0]["MNIST"][0])


def test_files_that_do_not_belong_together_are_told(made):
    contents, put = made
    images, labels = contents["MNIST"][:2]
    for wrong in ([images, labels[:2]], [labels, labels], [images[:, :, :14], labels], [images, images]):
        put("MNIST", [*wrong, images, labels])
        with pytest.raises(dc.DataError, match="must hold images and their labels"):
            dc.data.mnist()


def test_images_check_and_protect_what_they_are_given():
    images, labels = np.zeros((2, 28, 28), np.uint8), np.array([3, 1])
    part = dc.data.Images(images, labels)
    images[:] = 1
    labels[:] = 0
    assert part.images.max() == 0 and part.labels.tolist() == [3, 1]
    for arguments, message in [
        ((images / 255.0, labels), "`images` must be a uint8 array .* Got float64"),
        ((images[0], labels), r"`images` must .* shape \(28, 28\)"),
        ((images, labels[:1]), "`labels` must be 2 whole numbers"),
        ((images, labels * 1.0), "`labels` must be 2 whole numbers, one per image. Got float64"),
    ]:
        with pytest.raises(dc.InputError, match=message):
            dc.data.Images(*arguments)


@pytest.fixture
def address():
    """A server on loopback for one body: /sized tells its length, anything else does not."""
    body = bytes(5000)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            if self.path == "/sized":
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever, daemon=True)
    thread.start()
    yield body, f"http://127.0.0.1:{httpd.server_port}"
    httpd.shutdown()
    httpd.server_close()
    thread.join()


@pytest.mark.parametrize(("name", "total"), [("sized", 5000), ("unsized", None)])
def test_downloads_report_the_bytes_that_are_here(address, name, total, tmp_path, monkeypatch):
    body, server = address
    monkeypatch.setenv("DECOUPLY_DATA", str(tmp_path))
    titles, reports = [], []

    @contextmanager
    def recorded(progress, title):
        titles.append((progress, title))
        yield lambda **values: reports.append(values)

    monkeypatch.setattr(_downloads, "progress_callback", recorded)
    fetch(RemoteFile("set/a.bin", sha256(body), (Source(f"{server}/{name}"),)))
    assert titles == [(True, "Downloading set/a.bin")]
    assert {values["total"] for values in reports} == {total}
    done = [values["done"] for values in reports]
    if total is not None:
        assert done == [1024, 2048, 3072, 4096, 5000, 5000]
    else:
        assert done[:5] == [1024, 2048, 3072, 4096, 5120]


def test_a_slow_download_shows_a_bar_on_a_terminal_and_nothing_elsewhere(address, tmp_path, monkeypatch, capsys):
    body, server = address
    monkeypatch.setenv("DECOUPLY_DATA", str(tmp_path))
    monkeypatch.setattr(_progress, "_QUIET_SECONDS", 0.0)
    file = RemoteFile("a.bin", sha256(body), (Source(f"{server}/sized"),))
    fetch(file)
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    fetch(replace(file, path="b.bin"))
    assert "Downloading b.bin" in capsys.readouterr().err


def test_the_real_images_have_their_checksums_and_means(real_data):
    for load, means, counts in [
        (dc.data.mnist, (0.1307, 0.1325), (5421, 892)),
        (dc.data.fashion_mnist, (0.2860, 0.2868), (6000, 1000)),
    ]:
        d = load()
        for part, size, mean, fewest in zip((d.train, d.test), (60000, 10000), means, counts, strict=True):
            assert part.images.shape == (size, 28, 28) and part.labels.shape == (size,)
            assert part.images.mean() / 255.0 == pytest.approx(mean, abs=5e-5)
            assert np.bincount(part.labels, minlength=10).min() == fewest
