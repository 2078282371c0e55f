"""Images of ten classes, 28 by 28 pixels: handwritten digits (MNIST) and articles of clothing (Fashion-MNIST).

They come in idx files: two zero bytes, one byte for the type, and one for the number of axes. Then comes the length of
each axis as an unsigned 32-bit integer, big endian. The entries follow, last axis fastest, often packed with gzip.
"""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Int64, UInt8
from numpy import ndarray

from .._support._errors import DataError, InputError
from ._downloads import RemoteFile, Source, fetch

_GZIP_MAGIC = b"\x1f\x8b"
_TYPES = {0x08: "uint8", 0x09: "int8", 0x0B: "int16", 0x0C: "int32", 0x0D: "float32", 0x0E: "float64"}


def read_idx(path: Path) -> ndarray:
    """The array of an idx file, packed or not: read-only, in the byte order of this machine."""
    rule = f"`{path}` must be a complete idx file, plain or packed with gzip"
    content = path.read_bytes()
    if content.startswith(_GZIP_MAGIC):
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error, struct.error) as error:
            raise DataError(f"{rule}. Its gzip content is damaged: {error}.") from error
    # The header: type and shape.
    magic = content[:4]
    if len(magic) == 4 and (magic[:2] != b"\0\0" or magic[2] not in _TYPES):
        known = ", ".join(f"{code:02x} ({name})" for code, name in _TYPES.items())
        raise DataError(
            f"{rule}. It must begin with 00 00 and a type out of {known}. Got {magic.hex(' ')}: it is of another kind."
        )
    start = 4 + 4 * magic[3] if len(magic) == 4 else 4
    if len(content) < start:
        raise DataError(f"{rule}. It is cut short: its header takes {start} bytes. Got {len(content)}.")
    dtype, shape = np.dtype(_TYPES[magic[2]]).newbyteorder(">"), struct.unpack(f">{magic[3]}I", content[4:start])
    # The entries.
    expected = start + math.prod(shape) * dtype.itemsize
    if len(content) != expected:
        problem = "It is cut short" if len(content) < expected else "It goes on after its last entry"
        raise DataError(
            f"{rule}. {problem}: an array of {dtype.name} and shape {shape} takes {expected} bytes. Got {len(content)}."
        )
    try:
        array = np.frombuffer(content, dtype, offset=start).reshape(shape)
    except ValueError as error:  # too many axes, or an empty array whose other axes are absurdly long
        raise DataError(f"{rule}. NumPy cannot hold the shape in its header: {error}.") from error
    array = array.astype(dtype.newbyteorder("="), copy=False)
    array.flags.writeable = False
    return array


_NAMES = (
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
)


def _remote_files(folder: str, addresses: tuple[str, ...], checksums: tuple[str, ...]) -> tuple[RemoteFile, ...]:
    return tuple(
        RemoteFile(f"{folder}/{name}", sha256, tuple(Source(f"{address}/{name}") for address in addresses))
        for name, sha256 in zip(_NAMES, checksums, strict=True)
    )


MNIST = _remote_files(
    "mnist",
    ("https://ossci-datasets.s3.amazonaws.com/mnist", "https://storage.googleapis.com/cvdf-datasets/mnist"),
    (
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    ),
)
FASHION_MNIST = _remote_files(
    "fashion-mnist",
    (
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/b2617bb6d3ffa2e429640350f613e3291e10b141"
        "/data/fashion",
    ),
    (
        "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
        "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
        "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
    ),
)


@dataclass(frozen=True, eq=False)
class Images:
    """Images and the number of the class that each one shows. ``images, labels = part`` works.

    Both are copies of what is given and can be written to, as PyTorch wants the arrays that it shares.

    Attributes
    ----------
    images : (N, 28, 28)
        Grey values 0, ..., 255, as the files hold them.
    labels : (N,)
        Whole numbers, 0, ..., 9 in the data sets of this package.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> part = dc.data.Images(np.zeros((2, 28, 28), dtype=np.uint8), np.array([3, 7]))
    >>> images, labels = part
    >>> images.shape, labels
    ((2, 28, 28), array([3, 7]))
    """

    images: UInt8[ndarray, "N 28 28"]
    labels: Int64[ndarray, " N"]

    def __init__(self, images: object, labels: object) -> None:
        pixels, classes = np.asarray(images), np.asarray(labels)
        if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[1:] != (28, 28):
            raise InputError(
                f"`images` must be a uint8 array of shape (N, 28, 28). Got {pixels.dtype} and shape {pixels.shape}."
            )
        if classes.dtype.kind not in "iu" or classes.shape != pixels.shape[:1]:
            raise InputError(
                f"`labels` must be {len(pixels)} whole numbers, one per image. Got {classes.dtype} and shape "
                f"{classes.shape}."
            )
        object.__setattr__(self, "images", np.array(pixels))
        object.__setattr__(self, "labels", np.array(classes, dtype=np.int64))

    def __iter__(self) -> Iterator[ndarray]:
        return iter((self.images, self.labels))

    def __len__(self) -> int:
        return len(self.images)

    def __repr__(self) -> str:
        return f"Images({len(self)} of 28 x 28 pixels, {len(np.unique(self.labels))} classes)"


@dataclass(frozen=True)
class ImageData:
    """Images to learn from and images to be judged on.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> part = dc.data.Images(np.zeros((2, 28, 28), dtype=np.uint8), np.array([3, 7]))
    >>> dc.data.ImageData(train=part, test=part).train.labels
    array([3, 7])
    """

    train: Images
    test: Images


def mnist() -> ImageData:
    """MNIST: handwritten digits (LeCun, Bottou, Bengio and Haffner 1998), 60 000 to train and 10 000 to test.

    There is no official validation set; the usual choice is the last 5000 or 10 000 training images.

    Returns
    -------
    ImageData
        60 000 images to learn from and 10 000 to be judged on.

    Examples
    --------
    >>> import decouply as dc
    >>> d = dc.data.mnist()  # doctest: +SKIP
    >>> X = d.train.images.reshape(-1, 784) / 255.0  # doctest: +SKIP
    >>> X.shape  # doctest: +SKIP
    (60000, 784)
    """
    return _image_data(MNIST)


def fashion_mnist() -> ImageData:
    """Fashion-MNIST: articles of clothing (Xiao, Rasul and Vollgraf 2017), in the format and split of MNIST.

    Classes 0, ..., 9: T-shirt or top, trouser, pullover, dress, coat, sandal, shirt, sneaker, bag, ankle boot.

    Returns
    -------
    ImageData
        60 000 images to learn from and 10 000 to be judged on.

    Examples
    --------
    >>> import decouply as dc
    >>> d = dc.data.fashion_mnist()  # doctest: +SKIP
    >>> d.train.images.shape  # doctest: +SKIP
    (60000, 28, 28)
    """
    return _image_data(FASHION_MNIST)


def _image_data(files: tuple[RemoteFile, ...]) -> ImageData:
    parts = []
    for images, labels in (files[:2], files[2:]):
        paths = fetch(images), fetch(labels)
        try:
            parts.append(Images(*(read_idx(path) for path in paths)))
        except InputError as error:
            raise DataError(f"`{paths[0]}` and `{paths[1]}` must hold images and their labels: {error}") from error
    return ImageData(*parts)
