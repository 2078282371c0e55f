"""What is known of the function to decouple: points, and at each of them values, Jacobians or both."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy import ndarray

from .._support._arguments import as_array, as_count, as_generator, as_number, as_path, read_array
from .._support._atomic_files import replace_file
from .._support._errors import InputError, short_repr
from .._support._progress import progress_callback
from ..model._names import as_names, column_names
from ._array_checks import as_weights, what_does_not_fit
from ._portions import AbstractData, AbstractNamedData, HeldData

VectorFunction = Callable[[ndarray], ndarray]
Differences = Literal["complex-step", "central"]
_SAMPLES_DRAWN = 10_000  # samples of a store that are drawn


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Samples(AbstractNamedData):
    """Points X with values F and Jacobians J of a function; checked once, read-only afterwards.

    Parameters
    ----------
    X : (S, m)
        Sampling points.
    F : (S, n), optional
        Values at the points. One-dimensional values of a scalar function are taken as (S, 1).
    J : (S, n, m), optional
        Jacobians at the points, at least one of `F` and `J` must be given.
    weights : (S,) or (S, n), optional
        Factors of the squared residuals in both terms of the objective: one positive number per sample, or one number
        of at least 0 per sample and output.
    inputs, outputs : optional
        Names of the m inputs and n outputs. By default those of the columns if `X` and `F` are data frames. They
        travel to models, formulas, plots, pages and files.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> dc.Samples([[0.0, 1.0], [1.0, 1.0]], F=[[1.0], [2.0]])
    Samples(S=2, m=2, n=1: values)
    """

    data: AbstractData
    inputs: tuple[str, ...] | None
    outputs: tuple[str, ...] | None

    def __init__(
        self,
        X: object,
        *,
        F: object = None,
        J: object = None,
        weights: object = None,
        inputs: Collection[str] | None = None,
        outputs: Collection[str] | None = None,
    ) -> None:
        points = as_array("X", X, ("S", "m"))
        values = None if F is None else as_array("F", F, ("S",) if _is_flat(F) else ("S", "n"))
        jacobians = None if J is None else as_array("J", J, ("S", "n", "m"))
        given = {"X": points, "F": values, "J": jacobians}
        wrong = what_does_not_fit({name: array.shape for name, array in given.items() if array is not None})
        if wrong:
            raise InputError(wrong)
        values = values[:, None] if values is not None and values.ndim == 1 else values
        known = jacobians if values is None else values
        assert known is not None
        factors = None if weights is None else as_weights(weights, len(points), known.shape[1])
        called = column_names(X) if inputs is None else inputs, column_names(F) if outputs is None else outputs
        self._set(HeldData(points, values, jacobians, factors), *called)

    def _set(self, data: AbstractData, inputs: Collection[str] | None, outputs: Collection[str] | None) -> None:
        _, n, m = data.shape
        object.__setattr__(self, "data", data)
        object.__setattr__(self, "inputs", as_names("inputs", inputs, m))
        object.__setattr__(self, "outputs", as_names("outputs", outputs, n))

    @classmethod
    def stored(
        cls, data: AbstractData, *, inputs: Collection[str] | None = None, outputs: Collection[str] | None = None
    ) -> Samples:
        """Samples that are kept elsewhere, for sources of data of your own; see `from_zarr` and its neighbours."""
        samples = object.__new__(cls)
        samples._set(data, inputs, outputs)
        return samples

    def _repr_html_(self) -> str:
        from ..write._notebook import samples_html

        return samples_html(self)

    def take(self, indices: object) -> Samples:
        """The samples with these indices, all of them in memory."""
        try:
            rows = np.arange(self.n_samples)[read_array("`indices` must be whole numbers or a mask", indices)]
        except (IndexError, OverflowError) as error:
            raise InputError(f"`indices` must be whole numbers below {self.n_samples}, or a mask. {error}.") from error
        some = self.data.take(np.atleast_1d(rows))
        return Samples(some.X, F=some.F, J=some.J, weights=some.weights, inputs=self.inputs, outputs=self.outputs)

    def pilot(self, count: int, *, rng: int | np.random.Generator = 0) -> Samples:
        """This many samples, drawn at random and in their order, in memory; all of them if there are no more."""
        size = min(as_count("count", count), self.n_samples)
        if size == self.n_samples and self.in_memory:
            return self
        return self.take(np.sort(as_generator(rng).choice(self.n_samples, size, replace=False)))

    @cached_property
    def shown(self) -> Samples:
        """What pictures and pages draw: these samples, or some of them in memory if they are in a store."""
        return self if self.in_memory else self.pilot(_SAMPLES_DRAWN)

    def split(self, fraction: float, *, rng: int | np.random.Generator = 0) -> tuple[Samples, Samples]:
        """Two random parts; the second holds about `fraction` of the samples, and neither is empty."""
        share = as_number("fraction", fraction, above=True)
        if share >= 1.0 or self.n_samples < 2:
            raise InputError(
                "`fraction` must lie between 0 and 1, and at least two samples are needed to split. "
                f"Got {short_repr(fraction)} with {self.n_samples} samples."
            )
        if not self.in_memory:
            raise InputError(
                f"`samples` must be in memory to be split. Got {self.n_samples} samples in {self.data.place}: keep "
                "some apart when you write the store."
            )
        order = as_generator(rng).permutation(self.n_samples)
        n_second = min(max(round(share * self.n_samples), 1), self.n_samples - 1)
        return self.take(np.sort(order[n_second:])), self.take(np.sort(order[:n_second]))

    @classmethod
    def from_function(cls, f: VectorFunction, X: object, *, jac: VectorFunction | Differences | None = None) -> Samples:
        """Sample `f`, which maps (S, m) to (S, n).

        Parameters
        ----------
        jac : callable or "finite-differences", optional
            A function that maps (S, m) to (S, n, m), or "complex-step", or "central". The complex step is exact to
            machine precision and needs an analytic `f` that accepts complex numbers. Central differences have about ten
            digits. By default the complex step is tried, checked against central differences, and given up for them
            when the two disagree.

        Examples
        --------
        >>> import decouply as dc, numpy as np
        >>> s = dc.Samples.from_function(lambda X: X[:, :1] * X[:, 1:] ** 2, [[2.0, 3.0]])
        >>> s.J
        array([[[ 9., 12.]]])
        """
        from .readers._functions import sample_function

        return sample_function(f, X, jac)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write an .npz file with the arrays X, F, J and weights and the names, as far as they are known."""
        if as_path("path", path).suffix.lower() not in ("", ".npz"):
            raise InputError(f"`path` must end with .npz. Got {short_repr(str(path))}; `to_zarr` writes a Zarr store.")
        if not self.in_memory:
            raise InputError(
                "`samples` must be in memory to be saved in one file. Got a store: save `samples.take(...)`, or write "
                "another store, `samples.to_zarr(path)`."
            )
        arrays = {name: getattr(self, name) for name in ("X", "F", "J", "weights")}
        arrays |= {"input_names": self.inputs, "output_names": self.outputs}  # texts, no objects
        content: dict[str, Any] = {name: np.asarray(array) for name, array in arrays.items() if array is not None}
        with replace_file(path) as stream:
            np.savez_compressed(stream, **content)

    def to_zarr(
        self, path: str | os.PathLike[str], *, dtype: Any = "float64", progress: bool | Callable[..., None] = True
    ) -> Samples:
        """Write a Zarr store a portion at a time, and return the samples of that store.

        Parameters
        ----------
        path : path
            A directory that is not there yet, or an address that fsspec knows, such as ``s3://bucket/data.zarr``.
        dtype : NumPy type
            float64, or float32 for half the room and seven digits; what is computed from them is float64.
        """
        from .stores._zarr import store_samples

        with progress_callback(progress, "Writing") as report:
            return store_samples(self, path, dtype, report)

    @classmethod
    def from_zarr(
        cls,
        path: str | os.PathLike[str],
        *,
        arrays: Mapping[str, str] | None = None,
        inputs: Collection[str] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Samples:
        """Samples in a Zarr group with the arrays X, F, J and weights, as `to_zarr` writes it. Extra `zarr`.

        Nothing is read but the shapes. Solvers read portions of a few megabytes when they need them; with an active
        ``distributed.Client`` its workers do, so that the path must be one that they reach.

        Parameters
        ----------
        path : path
            A directory, or an address that fsspec knows, such as ``s3://bucket/data.zarr``.
        arrays : dict, optional
            What X, F, J and weights are called in the group, such as ``{"X": "points", "J": "T"}``.
        inputs, outputs : sequence of str, optional
            Names of the variables; by default those that `to_zarr` wrote.

        Examples
        --------
        >>> import decouply as dc
        >>> samples = dc.Samples.from_zarr("data.zarr")  # doctest: +SKIP
        >>> dc.decouple(samples, ranks=3, degrees=3)  # doctest: +SKIP
        """
        from .stores._zarr import open_zarr

        return open_zarr(path, arrays, inputs, outputs)

    @classmethod
    def from_npy(
        cls,
        X: str | os.PathLike[str],
        *,
        F: str | os.PathLike[str] | None = None,
        J: str | os.PathLike[str] | None = None,
        weights: str | os.PathLike[str] | None = None,
        inputs: Collection[str] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Samples:
        """Samples in .npy files, one per array, of which portions are read when they are needed.

        Examples
        --------
        >>> import decouply as dc
        >>> dc.Samples.from_npy("X.npy", F="F.npy", J="J.npy")  # doctest: +SKIP
        """
        from .stores._stored_arrays import open_npy

        return open_npy(X, F, J, weights, inputs, outputs)

    @classmethod
    def from_dask(
        cls,
        X: Any,
        F: Any = None,
        J: Any = None,
        *,
        weights: Any = None,
        inputs: Collection[str] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Samples:
        """Samples in Dask arrays, cut into the same chunks of samples. Extra `cluster`.

        With an active ``distributed.Client`` its workers make and use the chunks, one at a time. Collections that were
        scattered from here are lost with the worker that holds them: let workers read their data themselves.

        Examples
        --------
        >>> import decouply as dc, dask.array as da
        >>> X = da.random.default_rng(0).uniform(-1, 1, (6000, 3), chunks=(2000, 3))
        >>> dc.Samples.from_dask(X, F=(X**2).sum(axis=1, keepdims=True))
        Samples(S=6000, m=3, n=1: values, in Dask collections)
        """
        from .stores._dask import samples_of_dask

        return samples_of_dask(X, F, J, weights, inputs, outputs)

    @classmethod
    def from_batches(
        cls,
        batches: Iterable[Any],
        *,
        store: str | os.PathLike[str] | None = None,
        dtype: Any = "float64",
        inputs: Collection[str] | None = None,
        outputs: Collection[str] | None = None,
        progress: bool | Callable[..., None] = True,
    ) -> Samples:
        """Write batches, which may come from a generator, into a Zarr store, in one pass and bounded memory.

        Parameters
        ----------
        batches : iterable of dict or Samples
            Tuples (X, F) or (X, F, J), with None for what is not known, or `Samples`; of any length each.
        store : path, optional
            The folder of the store; by default a temporary directory, which is removed when the program ends.
        dtype : NumPy type
            float64, or float32 for half the room and seven digits.

        Examples
        --------
        >>> import decouply as dc, numpy as np
        >>> f, rng = dc.systems.f2(), np.random.default_rng(0)
        >>> points = (rng.uniform(-1, 1, (500, 3)) for _ in range(4))
        >>> dc.Samples.from_batches((X, f(X), f.jacobian(X)) for X in points)
        Samples(S=2000, m=3, n=3: values and Jacobians, in a store)
        """
        from .stores._zarr import store_batches

        with progress_callback(progress, "Writing") as report:
            return store_batches(batches, store, dtype, inputs, outputs, report)

    @classmethod
    def from_jax(cls, f: Callable[..., Any], X: object) -> Samples:
        """Sample a JAX function: values and exact Jacobians, in float64.

        Parameters
        ----------
        f : callable
            A function of one point, from (m,) to (n,) or to a number; or one of many points, from (S, m) to (S, n).
            Arrays that it holds in float32 keep their seven digits. JAX's own settings stay as they are.

        Examples
        --------
        >>> import decouply as dc, jax.numpy as jnp
        >>> dc.Samples.from_jax(lambda x: jnp.stack([x[0] * x[1] ** 2]), [[2.0, 3.0]]).J
        array([[[ 9., 12.]]])
        """
        from .readers._functions import sample_jax

        return sample_jax(f, X)

    @classmethod
    def from_onnx(cls, path: str | os.PathLike[str], X: object) -> Samples:
        """Sample a network in an ONNX file: values and exact Jacobians, in float64. Extras `onnx` and `jax`.

        Parameters
        ----------
        path : path
            A file whose graph has one input, of shape (points, ...), and whose outputs are sampled side by side. Its
            operators are those of dense networks: matrices, activations, norms, and changes of shape.
        X : (S, m)
            Points; inputs of more than one axis are flattened.

        Examples
        --------
        >>> import decouply as dc, numpy as np
        >>> X = np.random.default_rng(0).uniform(-1, 1, (200, 3))
        >>> dc.Samples.from_onnx("network.onnx", X)  # doctest: +SKIP
        """
        from .readers._onnx_graph import sample_onnx

        return sample_onnx(path, X)

    @classmethod
    def from_sympy(cls, expressions: object, symbols: object, X: object) -> Samples:
        """Sample SymPy expressions: values and Jacobians from symbolic derivatives.

        Parameters
        ----------
        expressions : sequence of expressions
            One expression, or a list or matrix of n expressions: the outputs.
        symbols : sequence of symbols
            The inputs, in the order of the columns of `X`. They stand for real numbers.

        Examples
        --------
        >>> import decouply as dc, sympy
        >>> a, b = sympy.symbols("a b")
        >>> dc.Samples.from_sympy(a * b**2, [a, b], [[2.0, 3.0]]).J
        array([[[ 9., 12.]]])
        """
        from .readers._functions import sample_sympy

        return sample_sympy(expressions, symbols, X)

    @classmethod
    def from_volterra(cls, kernels: Sequence[object], X: object) -> Samples:
        """Values and exact Jacobians of a Volterra series with finite memory, a polynomial of the last m inputs.

        Parameters
        ----------
        kernels : sequence of arrays
            ``[h_0, h_1, ..., h_D]``: h_0 holds one constant per output, h_d has shape (n, m, ..., m) with d lags. For
            one output the first axis may be left out. Kernels need not be symmetric.
        X : (S, m)
            Points: rows of lagged inputs u(t), u(t - 1), ..., u(t - m + 1), measured or drawn.

        Examples
        --------
        >>> import decouply as dc, numpy as np
        >>> h = np.array([1.0, 0.5, 0.2])  # y = (h * u)^2, a filter and a square
        >>> X = np.random.default_rng(0).normal(size=(40, 3))
        >>> result = dc.decouple(dc.Samples.from_volterra([0.0, np.zeros(3), np.outer(h, h)], X), 1, 2, progress=False)
        >>> np.round(result.decoupling.W[0][0] / result.decoupling.W[0][0, 0], 6).tolist()
        [1.0, 0.5, 0.2]
        """
        from .readers._functions import samples_of_volterra

        return samples_of_volterra(kernels, X)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        inputs: str | Sequence[str | int] | None = None,
        outputs: str | Sequence[str | int] | None = None,
        jacobians: bool | None = None,
        drop_missing: bool = False,
        order: Literal["samples", "matlab"] | None = None,
        arrays: Mapping[str, str] | None = None,
    ) -> Samples:
        """Read a file: arrays X, F, J and weights of an .npz or .mat file, or named columns of any kind of file.

        The ending tells the kind: .npz, .npy, .csv, .tsv, .parquet or .mat. A store, .zarr, is opened and
        read in portions (see `from_zarr`). A text file may have commas,
        semicolons or tabs between its columns. Columns without names are numbered from 1.

        Parameters
        ----------
        inputs, outputs : str or sequence of str or int, optional
            Names of columns (of arrays, for .npz and .mat). If only one of the two is given, the other columns make
            up the other one. Of the arrays X and F they choose columns, by number, or by name if the file has names.
        jacobians : bool, optional
            Columns named ``dy/dx1`` (or ``dy_dx1``) hold the derivative of output ``y`` by input ``x1``. By default
            they are used if they are all there. True asks for them, False leaves them.
        drop_missing : bool
            Leave out rows with missing or infinite numbers instead of refusing the file.
        order : "samples" or "matlab", optional
            Which axis of the arrays of an .npz or .mat file counts samples: "samples", the first, or "matlab", the
            last. In MATLAB's order the shapes are X (m, S), F (n, S), J (n, m, S). A .mat file whose shapes fit both,
            as with n = m, is refused without it.
        arrays : dict, optional
            What X, F, J and weights are called in an .npz or .mat file, such as ``{"X": "points", "J": "T"}``.

        Examples
        --------
        >>> import decouply as dc
        >>> dc.Samples.load("jacobians.mat", order="matlab", arrays={"X": "x", "J": "T"})  # doctest: +SKIP
        >>> dc.Samples.load("data.csv", inputs=["x1", "x2"], outputs="y")  # doctest: +SKIP
        """
        from .readers._by_extension import read_samples

        return read_samples(
            path,
            inputs=inputs,
            outputs=outputs,
            jacobians=jacobians,
            drop_missing=drop_missing,
            order=order,
            arrays=arrays,
        ).samples


def _is_flat(values: Any) -> bool:
    """Whether these are the numbers of a scalar function, one per sample."""
    try:
        return np.ndim(values) == 1
    except Exception:  # not an array, which `as_array` explains
        return False
