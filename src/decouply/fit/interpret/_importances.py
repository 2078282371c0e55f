r"""What matters: the share of the outputs that hangs on each input and on each function.

The share of an input is Jansen's estimator of Sobol's total index, for independent inputs. It is half the mean squared
change of an output when the values of that input are exchanged between samples, over the variance of the output. Shares
of inputs that act together add up to more than 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ...model._decoupling import Decoupling
from ...samples._samples import Samples

_EXCHANGES = 4  # of the values of an input
_MOST_SAMPLES = 2000
_MOST_IN_WORDS = 8
_LEAST_RESIDUALS = 1e-16  # of the variance: residuals that are smaller are none


@dataclass(frozen=True, eq=False)
class Importances:
    """How much the outputs hang on inputs and functions; `str` is a table.

    Attributes
    ----------
    inputs : array (n, m)
        Share of the variance of every output (rows) that each input (columns) is part of.
    functions : tuple of arrays (n, r_l)
        Effects of the functions of every layer on the outputs, as shares that add up to 1.
    idle : tuple of str
        Names of inputs that the samples show no effect of: without them, errors are as small.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> X = np.random.default_rng(0).uniform(-1, 1, (60, 2))
    >>> samples = dc.Samples(X, F=X[:, :1] ** 2, inputs=["load", "temperature"])
    >>> importances = dc.decouple(samples, ranks=1, degrees=2).importances
    >>> importances.inputs.round(3)
    array([[0.972, 0.   ]])
    >>> importances.idle
    ('temperature',)
    """

    inputs: Float[ndarray, "n m"]
    functions: tuple[Float[ndarray, " _"], ...]
    idle: tuple[str, ...]
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]

    @property
    def of_inputs(self) -> Float[ndarray, " m"]:
        """One number for each input, the mean over the outputs, as shares that add up to 1."""
        mean = np.mean(self.inputs, axis=0)
        return mean / (np.sum(mean) or 1.0)

    @property
    def in_words(self) -> str:
        """The share of the variance that each input takes part in, over all outputs, the largest first."""
        shares = np.mean(self.inputs, axis=0)
        order = [i for i in np.argsort(-shares, kind="stable") if self.input_names[i] not in self.idle]
        named = [f"{self.input_names[i]} {100.0 * shares[i]:.0f} %" for i in order[:_MOST_IN_WORDS]]
        more = [f"{len(order) - _MOST_IN_WORDS} more"] if len(order) > _MOST_IN_WORDS else []
        idle = [f"without visible effect: {', '.join(self.idle[:_MOST_IN_WORDS])}"] if self.idle else []
        return "; ".join(([", ".join([*named, *more]) + " of the variance"] if named else []) + idle)

    def __str__(self) -> str:
        wide = max(map(len, self.input_names))
        outputs = [name[:12] for name in self.output_names]
        lines = [" " * wide + "".join(f"  {name:>6}" for name in outputs)]
        for name, shares in zip(self.input_names, self.inputs.T, strict=True):
            cells = (f"  {100.0 * share:>{max(len(o), 6) - 2}.0f} %" for share, o in zip(shares, outputs, strict=True))
            lines.append(f"{name:<{wide}}" + "".join(cells))
        if self.idle:
            lines.append(f"Without visible effect: {', '.join(self.idle)}.")
        return "\n".join(lines)


def importances(model: Decoupling, samples: Samples) -> Importances:
    """Exchange the values of one input at a time, and hold one at a time at its mean."""
    X = samples.X if samples.n_samples <= _MOST_SAMPLES else samples.X[:: -(-samples.n_samples // _MOST_SAMPLES)]
    values, rng = model.values(X), np.random.default_rng(0)
    spread = np.var(values, axis=0)
    shares = np.zeros((model.n_outputs, model.n_inputs))
    for i in range(model.n_inputs):
        for _ in range(_EXCHANGES):
            other = X.copy()
            other[:, i] = rng.permutation(X[:, i])
            shares[:, i] += 0.5 * np.mean((model.values(other) - values) ** 2, axis=0) / _EXCHANGES
    # An exchange leaves the cloud of few samples, so that a steep model can seem to vary more than it does among them.
    shares = np.minimum(np.divide(shares.T, spread, out=np.zeros(shares.T.shape), where=spread > 0.0).T, 1.0)
    effects = tuple(effect / (np.sum(effect) or 1.0) for effect in model.importance(X))
    x = samples.inputs or tuple(f"x{i + 1}" for i in range(model.n_inputs))
    y = samples.outputs or tuple(f"y{i + 1}" for i in range(model.n_outputs))
    return Importances(shares, effects, _idle_inputs(model, samples, x), x, y)


def _idle_inputs(model: Decoupling, samples: Samples, names: tuple[str, ...]) -> tuple[str, ...]:
    """Inputs that Schwarz's criterion would drop, even without a new fit of the residual."""
    F = None if samples.F is None else np.asarray(samples.F)
    if F is None or samples.n_samples < 2:
        return ()
    least = np.maximum(_LEAST_RESIDUALS * np.var(F, axis=0) * len(F), np.finfo(float).tiny)
    squares = np.sum((F - model.values(samples.X)) ** 2, axis=0) + least
    found = []
    for i, name in enumerate(names):
        held = samples.X.copy()
        held[:, i] = held[:, i].mean()
        without = np.sum((F - model.values(held)) ** 2, axis=0) + least
        n_weights = model.ranks[0] + (0 if model.linear is None else model.n_outputs)
        if len(F) * np.sum(np.log(without / squares)) < n_weights * np.log(F.size):
            found.append(name)
    return tuple(found)
