"""Values and Jacobians of a sub-network, by `torch.func`, a chunk of samples at a time."""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import jacfwd, jacrev, vmap

from ..._support._arguments import as_count
from ..._support._errors import InputError, short_repr
from ..._support._progress import progress_callback
from ...samples._samples import Samples

_MAX_ENTRIES = 4_000_000  # numbers per module that are in memory at a time, when the user names no chunk size
_MAX_BATCH, _MAX_BATCH_OF_ARRAYS = 2048, 256  # inputs of a network at a time, at most
_NUMBERS_PER_TOKEN = 64  # numbers that a whole number is taken to become
_DEVICES_WITHOUT_FLOAT64 = ("mps",)  # devices that have no float64


def sample(
    module: nn.Module,
    X: object,
    *,
    chunk_size: int | None = None,
    store: str | os.PathLike[str] | None = None,
    device: object = None,
    progress: bool | Callable[..., None] = True,
) -> Samples:
    """Values and exact Jacobians of `module` at the points X, computed in float64.

    Parameters
    ----------
    module : Module
        A function of one tensor, from (S, ...) to (S, n), each sample by itself. It is copied first: its parameters,
        gradients, precision and training mode stay as they are. The copy is in evaluation mode.
    X : (S, ...)
        Array or tensor of real numbers. Points of more than one axis are flattened in the samples.
    chunk_size : int, optional
        Samples whose Jacobians are computed at once; by default this many that the widest module inside makes a few
        million numbers.
    store : path, optional
        The path of a Zarr store for more samples than fit into memory: it is written a chunk at a time and stays,
        `dc.Samples.from_zarr(path)` opens it again. By default samples are kept in memory.
    device : str or device, optional
        Where to compute; by default the device of the module, or the CPU if that device has no float64.
    progress : bool or callable
        True shows a bar on a terminal after two seconds; a callable gets named values.

    Returns
    -------
    Samples
        Points with values and Jacobians of the module.

    Examples
    --------
    >>> import decouply as dc, torch
    >>> dc.nn.sample(torch.nn.Linear(3, 2), torch.zeros(5, 3))
    Samples(S=5, m=3, n=2: values and Jacobians)
    """
    return sample_module("module", module, as_inputs("X", X), chunk_size, store, device, progress)


def sample_module(
    name: str,
    module: nn.Module,
    points: Tensor,
    chunk_size: int | None,
    store: str | os.PathLike[str] | None,
    device: object,
    progress: bool | Callable[..., None],
) -> Samples:
    """What `sample` does, for a module that messages call `name`."""
    twin = twin_of(module, name)
    if device is None and any(p.device.type in _DEVICES_WITHOUT_FLOAT64 for p in twin.parameters()):
        device = "cpu"
    twin = twin if device is None else twin.to(as_device(device))
    try:
        twin = twin.double().requires_grad_(False)
    except (RuntimeError, TypeError) as error:  # of scripted modules, and of devices without float64
        raise InputError(f"`{name}` must have a copy in float64. {first_line(error)}") from error
    where = next(twin.parameters(), points).device if device is None else as_device(device)
    first = points[:1].to(where)
    # Values at one point, and the largest number of entries that a module inside gives on the way.
    width = 0

    def look(_: nn.Module, __: Any, output: Any) -> None:
        nonlocal width
        width = max(width, output.numel() if isinstance(output, Tensor) else 0)

    handles = [inner.register_forward_hook(look) for inner in twin.modules()]
    try:
        alone = values_of(twin, first, name)
    finally:
        for handle in handles:
            handle.remove()
    n, m = alone.shape[1], first[0].numel()
    if n == 0:
        raise InputError(f"`{name}` must return at least one number per sample. Got none.")
    per_point = min(n, m) * max(n, m, width)  # numbers that the derivatives of one sample take, in the widest module
    size = max(1, _MAX_ENTRIES // per_point) if chunk_size is None else as_count("chunk_size", chunk_size)
    per_sample = vmap((jacrev if n <= m else jacfwd)(lambda x: twin(x[None].clone())[0]))
    F: list[np.ndarray] = []

    def jacobians(report: Callable[..., None]) -> Iterator[np.ndarray]:
        for rows in chunks(len(points), size):
            part = points[rows].to(where)
            values = values_of(twin, part, name)
            check_finite(name, values.cpu().numpy())
            if rows.start == 0 and not torch.allclose(
                values[:1], alone, rtol=1e-6, atol=1e-6 * float(values.abs().max())
            ):
                raise InputError(
                    f"`{name}` must treat every sample by itself. Its value at the first one changes with the others "
                    "in the batch: look for statistics of the batch and for random numbers."
                )
            F.append(values.cpu().numpy())
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", DeprecationWarning)  # torch.func's own, about torch.jit
                    J = per_sample(part)
            except (RuntimeError, NotImplementedError) as error:
                raise InputError(
                    f"`{name}` must be differentiable by torch.func.{'jacrev' if n <= m else 'jacfwd'} under vmap. "
                    f"{type(error).__name__}: {first_line(error)}"
                ) from error
            report(done=rows.stop, total=len(points))
            yield J.reshape(len(part), n, m).detach().cpu().numpy()

    flat = points.reshape(len(points), m).numpy()
    with progress_callback(progress, "Sampling") as report:
        if store is not None:
            parts = zip(chunks(len(points), size), jacobians(report), strict=True)
            return Samples.from_batches(((flat[rows], F.pop(), J) for rows, J in parts), store=store, progress=False)
        J = np.concatenate(list(jacobians(report)))
    return Samples(flat, F=np.concatenate(F), J=J)


def chunks(count: int, size: int) -> Iterator[slice]:
    return (slice(first, min(first + size, count)) for first in range(0, count, size))


def batch_for(data: Tensor) -> int:
    """How many inputs go through a network at a time: its activations must fit as well, also those of tokens."""
    numbers = data[0].numel() * (1 if data.is_floating_point() else _NUMBERS_PER_TOKEN)
    most = _MAX_BATCH if data.ndim == 2 and data.is_floating_point() else _MAX_BATCH_OF_ARRAYS
    return max(1, min(most, _MAX_ENTRIES // max(1, numbers)))


def as_inputs(name: str, X: Any) -> Tensor:
    """Points as a float64 tensor on the CPU."""
    rule = f"`{name}` must be an array or tensor of real numbers of shape (S, ...)"
    if not isinstance(X, Tensor | list | tuple) and not hasattr(X, "__array__"):
        raise InputError(
            f"{rule}. Got {type(X).__name__}: collect the inputs first, from a DataLoader by "
            "torch.cat([x for x, *_ in loader])."
        )
    try:
        given = X.detach().cpu() if isinstance(X, Tensor) else np.asarray(X)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{rule}. It cannot be read as one: {first_line(error)}") from error
    if not (given.is_floating_point() if isinstance(given, Tensor) else given.dtype.kind == "f"):
        raise InputError(
            f"{rule}. Got {given.dtype}: Jacobians need real inputs. Convert and scale them as the network expects."
        )
    if isinstance(given, Tensor):
        points = given.to_dense().double() if given.layout != torch.strided else given.double()
    else:
        points = torch.from_numpy(np.array(given, dtype=np.float64))
    if points.ndim < 2 or points.numel() == 0:
        raise InputError(f"{rule}, with at least one point. Got shape {tuple(points.shape)}.")
    bad = int(torch.count_nonzero(~torch.isfinite(points)))
    if bad:
        raise InputError(f"`{name}` must hold finite numbers only. Got {bad} NaN or infinite entries.")
    return points


def as_device(device: Any) -> torch.device:
    """A device that is there and computes."""
    try:
        wanted = torch.device(device)
        torch.zeros(1, device=wanted).cpu()
    except (RuntimeError, AssertionError, TypeError) as error:  # NotImplementedError, of "meta", is a RuntimeError
        raise InputError(
            f"`device` must be a device of this machine. Got {short_repr(device)}: {first_line(error)}"
        ) from error
    return wanted


def twin_of(module: Any, name: str) -> nn.Module:
    """A copy in evaluation mode, without gradients in it."""
    if not isinstance(module, nn.Module):
        raise InputError(f"`{name}` must be a torch.nn.Module. Got {type(module).__name__}.")
    if any(isinstance(p, nn.parameter.UninitializedParameter) for p in module.parameters()):
        raise InputError(f"`{name}` must know its shapes. It has lazy modules that never ran: call it once.")
    if any(p.is_meta for p in module.parameters()):
        raise InputError(f'`{name}` must hold numbers. Its parameters are on the device "meta": load them.')
    try:
        twin = copy.deepcopy(module).eval()
        twin.zero_grad()
    except (RuntimeError, TypeError) as error:
        raise InputError(
            f"`{name}` must be a module that copy.deepcopy can copy. {first_line(error)} A module with weight_norm can "
            "be copied once it has run within torch.no_grad()."
        ) from error
    return twin


def values_of(module: nn.Module, points: Tensor, name: str = "part") -> Tensor:
    """Outputs (S, n) of a module, with a plain word if it is not a function of one tensor to one tensor."""
    try:
        with torch.no_grad():
            values = module(points.clone())  # for modules that work in place
    except TypeError as error:
        raise InputError(f"`{name}` must be a function of one tensor. {first_line(error)}") from error
    except (RuntimeError, ValueError, IndexError) as error:
        raise InputError(
            f"`{name}` must fit its inputs, called with one sample or many, in float32 or float64. For the shape "
            f"{tuple(points.shape)} in {str(points.dtype).removeprefix('torch.')} it says: {first_line(error)}"
        ) from error
    if not isinstance(values, Tensor) or values.ndim != 2 or len(values) != len(points):
        got = f"shape {tuple(values.shape)}" if isinstance(values, Tensor) else type(values).__name__
        raise InputError(f"`{name}` must return one tensor of shape (S, n). Got {got} for {len(points)} samples.")
    return values


def check_finite(name: str, values: np.ndarray) -> None:
    bad = int(np.count_nonzero(~np.isfinite(values).all(axis=1)))
    if bad:
        raise InputError(
            f"`{name}` must return finite numbers. {bad} of {len(values)} samples give NaN or infinity: look at the "
            "network, or leave those samples out."
        )


def first_line(error: BaseException) -> str:
    """What an error of torch says in its first line; the lines below are for people who work on torch."""
    lines = str(error).splitlines()
    return lines[0] if lines else type(error).__name__
