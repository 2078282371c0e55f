"""What a model leaves of samples, wherever they are: sums over portions."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from .._support._errors import InputError
from ..model._decoupling import Decoupling
from ._data import Portion
from ._metrics import percents
from ._samples import Samples


def value_squares(model: Decoupling, samples: Samples) -> tuple[Float[ndarray, " n"], Float[ndarray, " n"]]:
    """||f_i - f_hat_i||^2 and ||f_i||^2 for every output."""
    off, _, size = samples.data.reduce(value_task, model, np.zeros(samples.n_outputs))
    return off, size


def jacobian_squares(model: Decoupling, samples: Samples) -> tuple[Float[ndarray, " n"], Float[ndarray, " n"]]:
    """||J_i - J_hat_i||^2 and ||J_i||^2 for every output."""
    off, size = samples.data.reduce(jacobian_task, model)
    return off, size


def relative_rmse_at(model: Decoupling, samples: Samples) -> Float[ndarray, " n"]:
    """e_i in percent on these samples; see `relative_rmse`."""
    if (samples.n_inputs, samples.n_outputs) != (model.n_inputs, model.n_outputs):
        raise InputError(
            f"`samples` must have {model.n_inputs} inputs and {model.n_outputs} outputs, like the model. Got "
            f"{samples.n_inputs} and {samples.n_outputs}."
        )
    (total,) = samples.data.reduce(sum_task)
    off, spread, size = samples.data.reduce(value_task, model, total / samples.n_samples)
    return percents(off, spread, size, samples.n_samples)


def sum_task(portion: Portion) -> tuple[ndarray]:
    """Sums of the values."""
    assert portion.F is not None
    return (portion.F.sum(axis=0),)


def value_task(portion: Portion, model: Decoupling, centre: ndarray) -> tuple[ndarray, ndarray, ndarray]:
    """Squares of what a model leaves of the values, of the values around a centre, and of the values."""
    assert portion.F is not None
    left = portion.F - model.values(portion.X)
    return np.sum(left**2, axis=0), np.sum((portion.F - centre) ** 2, axis=0), np.sum(portion.F**2, axis=0)


def jacobian_task(portion: Portion, model: Decoupling) -> tuple[ndarray, ndarray]:
    """The same for Jacobians."""
    assert portion.J is not None
    left = portion.J - model.jacobians(portion.X)
    return np.sum(left**2, axis=(0, 2)), np.sum(portion.J**2, axis=(0, 2))
