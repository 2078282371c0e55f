"""Values and Jacobians of a sub-network, by `torch.func`, a chunk of samples at a time."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import jacfwd, jacrev, vmap

from .._checks import as_count
from .._errors import InputError
from .._jacobians import StoredJacobians
from .._progress import progress_callback
from .._samples import Samples

_ENTRIES = 4_000_000  # of Jacobians at a time, when the user names no chunk size
_STORED_FROM = 64_000_000  # numbers in all Jacobians


def sample(
    module: nn.Module,
    X: object,
    *,
    chunk_size: int | None = None,
    store: bool | None = None,
    device: object = None,
    progress: bool = True,
) -> Samples:
    """Values and exact Jacobians of `module` at the points X, computed in float64.

    Parameters
    ----------
    module
        A function of one tensor, from (S, ...) to (S, n). It is copied first: its parameters, gradients, precision
        and training mode stay as they are. The copy is in evaluation mode.
    X : (S, ...)
        Array or tensor of real numbers. Points of more than one axis are flattened in the samples.
    chunk_size
        Samples whose Jacobians are computed at once; by default as many as make a few million entries.
    store
        Whether the Jacobians are kept in a temporary file instead of in memory (`dc.StoredJacobians`); by default from
        half a gigabyte on. `Proj` and `Constr` take them from there.
    device
        Where to compute; by default where the module is.

    Examples
    --------
    >>> import decoupling as dc, torch  # doctest: +SKIP
    >>> dc.nn.sample(torch.nn.Linear(3, 2), torch.zeros(5, 3))  # doctest: +SKIP
    Samples(S=5, m=3, n=2: values and Jacobians)
    """
    points = as_inputs("X", X)
    twin = double_twin(module, device)
    where = next(twin.parameters(), points).device if device is None else as_device(device)
    n = values_of(twin, points[:1].to(where)).shape[1]
    m = int(np.prod(points.shape[1:]))
    size = max(1, _ENTRIES // (n * m)) if chunk_size is None else as_count("chunk_size", chunk_size)
    per_sample = vmap((jacrev if n <= m else jacfwd)(lambda x: twin(x[None])[0]))
    F: list[np.ndarray] = []

    def jacobians(report: Callable[..., None]) -> Iterator[np.ndarray]:
        for rows in chunks(len(points), size):
            part = points[rows].to(where)
            F.append(values_of(twin, part).cpu().numpy())
            check_finite("module", F[-1])
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", DeprecationWarning)  # torch.func's own, about torch.jit
                    J = per_sample(part)
            except (RuntimeError, NotImplementedError) as error:
                raise InputError(
                    f"`module` must be differentiable by torch.func.{'jacrev' if n <= m else 'jacfwd'} under vmap. "
                    f"{type(error).__name__}: {str(error).splitlines()[0]}"
                ) from error
            report(done=rows.stop, total=len(points))
            yield J.reshape(len(part), n, m).detach().cpu().numpy()

    stored = len(points) * n * m > _STORED_FROM if store is None else store
    with progress_callback(progress, "Sampling") as report:
        if stored:
            J: Any = StoredJacobians.write(jacobians(report), shape=(len(points), n, m))
        else:
            J = np.concatenate(list(jacobians(report)))
    return Samples(points.reshape(len(points), m).numpy(), F=np.concatenate(F), J=J)


def chunks(count: int, size: int) -> Iterator[slice]:
    return (slice(first, min(first + size, count)) for first in range(0, count, size))


def as_inputs(name: str, X: Any) -> Tensor:
    """Points as a float64 tensor on the CPU."""
    rule = f"`{name}` must be an array or tensor of real numbers of shape (S, ...)"
    try:
        points = X.detach().cpu() if isinstance(X, Tensor) else torch.as_tensor(np.asarray(X))
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{rule}. It cannot be read as one: {error}.") from error
    if not points.is_floating_point():
        raise InputError(
            f"{rule}. Got {points.dtype}: Jacobians need real inputs. Convert and scale them as the network expects."
        )
    if points.ndim < 2 or points.numel() == 0:
        raise InputError(f"{rule}, with at least one point. Got shape {tuple(points.shape)}.")
    points = points.double()
    bad = int(torch.count_nonzero(~torch.isfinite(points)))
    if bad:
        raise InputError(f"`{name}` must hold finite numbers only. Got {bad} NaN or infinite entries.")
    return points


def as_device(device: Any) -> torch.device:
    """A device that is there."""
    try:
        wanted = torch.device(device)
        torch.zeros(1, device=wanted)
    except (RuntimeError, AssertionError, TypeError) as error:
        raise InputError(
            f"`device` must be a device of this machine. Got {device!r}: {str(error).splitlines()[0]}"
        ) from error
    return wanted


def double_twin(module: Any, device: Any) -> nn.Module:
    """A copy in float64 and evaluation mode, without gradients."""
    if not isinstance(module, nn.Module):
        raise InputError(f"`module` must be a torch.nn.Module. Got {type(module).__name__}.")
    twin = copy.deepcopy(module).double().eval().requires_grad_(False)
    return twin if device is None else twin.to(as_device(device))


def values_of(module: nn.Module, points: Tensor) -> Tensor:
    """Outputs (S, n) of a part, with a plain word where it is not a function of one tensor to one tensor."""
    try:
        with torch.no_grad():
            values = module(points)
    except TypeError as error:
        raise InputError(f"`part` must be a function of one tensor. {error}.") from error
    except RuntimeError as error:
        raise InputError(
            f"`X` must have the shape that the module takes. Got {tuple(points.shape)}: {str(error).splitlines()[0]}"
        ) from error
    if not isinstance(values, Tensor) or values.ndim != 2 or len(values) != len(points):
        got = tuple(values.shape) if isinstance(values, Tensor) else type(values).__name__
        raise InputError(f"`module` must return one tensor of shape (S, n). Got {got} for {len(points)} samples.")
    return values


def check_finite(name: str, values: np.ndarray) -> None:
    bad = int(np.count_nonzero(~np.isfinite(values).all(axis=1)))
    if bad:
        raise InputError(
            f"`{name}` must return finite numbers. {bad} of {len(values)} samples give NaN or infinity: look at the "
            "network, or leave those samples out."
        )
