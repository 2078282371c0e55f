"""Images of ten classes, 28 by 28 pixels: handwritten digits (MNIST) and articles of clothing (Fashion-MNIST)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int64, UInt8
from numpy import ndarray

from .._support._errors import DataError, InputError
from ._downloads import RemoteFile, Source, fetch
from ._idx import read_idx

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
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion",
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
    """Images to learn from and images to be judged on."""

    train: Images
    test: Images


def mnist() -> ImageData:
    """MNIST: handwritten digits (LeCun, Bottou, Bengio and Haffner 1998), 60 000 to train and 10 000 to test.

    There is no official validation set; the usual choice is the last 5000 or 10 000 training images.

    Examples
    --------
    >>> import decouply as dc
    >>> d = dc.data.mnist()  # doctest: +SKIP
    >>> X = d.train.images.reshape(-1, 784) / 255.0  # doctest: +SKIP
    """
    return _image_data(MNIST)


def fashion_mnist() -> ImageData:
    """Fashion-MNIST: articles of clothing (Xiao, Rasul and Vollgraf 2017), in the format and split of MNIST.

    Classes 0, ..., 9: T-shirt or top, trouser, pullover, dress, coat, sandal, shirt, sneaker, bag, ankle boot.
    """
    return _image_data(FASHION_MNIST)


def _image_data(files: tuple[RemoteFile, ...]) -> ImageData:
    return ImageData(_part(files[0], files[1]), _part(files[2], files[3]))


def _part(images: RemoteFile, labels: RemoteFile) -> Images:
    paths = fetch(images), fetch(labels)
    try:
        return Images(*(read_idx(path) for path in paths))
    except InputError as error:
        raise DataError(f"`{paths[0]}` and `{paths[1]}` must hold images and their labels: {error}") from error
