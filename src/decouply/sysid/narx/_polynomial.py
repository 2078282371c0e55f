r"""Polynomial NARX models: all monomials of the regressors up to a degree, fitted by least squares.

The regressors are shifted and scaled to [-1, 1] first. The span of all monomials does not change under that, so
neither does the fit; the condition of the least-squares problem does, by many orders of magnitude.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement
from math import comb
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from ..._support._arguments import as_count, as_generator, as_points
from ..._support._errors import DecouplingWarning, InputError
from ...bases import Monomial
from ...fit._decouple import decouple
from ...samples._samples import Samples
from ...solvers import AbstractSolver, VarPro
from ...write._record_file import Record, described_by, read_record, write_record
from ...write._source import compiled
from ..signals._records import Range, Signals
from ._narx import AbstractNARX, Lags, Step, Training

if TYPE_CHECKING:
    from ._decoupled import DecoupledNARX

Term = tuple[int, ...]  # the regressors whose product is a monomial, sorted

_FILE_KIND, _FILE_VERSION = "polynomial NARX", 1
_MOST_TERMS = 20_000
_RIDGE = 1e-9  # shapes are compared without: it would hide which of them is exact
_ROWS = 8192  # regressors that are expanded at a time
_RANK_TOLERANCE = 1e-12
_SAMPLES, _STARTS = 200, 64  # of a decoupling where the user names none


@dataclass(frozen=True, eq=False, init=False, repr=False)
class PolynomialNARX(AbstractNARX):
    """A NARX model y(t) = p(u(t), ..., u(t - n_u), y(t - 1), ..., y(t - n_y)), p a polynomial with all monomials.

    Parameters
    ----------
    n_u : int
        Past inputs that enter besides u(t).
    n_y : int
        Past outputs that enter.
    degree : int
        Largest total degree of a monomial.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> u = np.random.default_rng(0).uniform(-1, 1, 200)
    >>> y = np.zeros(200)
    >>> for t in range(1, 200):
    ...     y[t] = 0.5 * y[t - 1] + u[t] - 0.2 * y[t - 1] ** 3
    >>> model = dc.sysid.PolynomialNARX(n_u=0, n_y=1, degree=3).fit(u, y)
    >>> bool(np.allclose(model.simulate(u, y[:1]), y))
    True
    """

    n_u: int
    n_y: int
    degree: int
    training: Training | None
    _coefficients: Float[ndarray, "terms n"]  # of regressors that are shifted and scaled to [-1, 1], once it is fitted

    def __init__(self, n_u: int = 1, n_y: int = 3, degree: int = 3) -> None:
        counts = {"n_u": as_count("n_u", n_u, least=0), "n_y": as_count("n_y", n_y, least=0)}
        self.__dict__.update(counts, degree=as_count("degree", degree), training=None)

    @classmethod
    def _of(cls, degree: int, training: Training, coefficients: Float[ndarray, "terms n"]) -> PolynomialNARX:
        """A fitted model."""
        model = cls(training.lags.n_u, training.lags.n_y, degree)
        model.__dict__.update(training=training, _coefficients=coefficients)
        return model

    # Training

    def fit(self, u: object, y: object) -> PolynomialNARX:
        """Fit the one-step predictions by least squares, and return the fitted model.

        Give a list of arrays to fit several records at once.
        """
        signals = Signals.read(u, y)
        lags = Lags(self.n_u, self.n_y, signals.n_inputs, signals.n_outputs)
        training = Training.of(signals, lags)
        n_terms = comb(lags.n_regressors + self.degree, self.degree)
        if n_terms > _MOST_TERMS:
            raise InputError(
                f"`n_u`, `n_y` and `degree` must give at most {_MOST_TERMS} monomials. Got {n_terms}: lower one."
            )
        X = training.X
        Y = np.concatenate([b[lags.longest :] for b in signals.y])
        if len(X) < n_terms:
            raise InputError(
                f"`u` and `y` must give at least {n_terms} equations, one per monomial. Got {len(X)}: give longer "
                "records, or lower `n_u`, `n_y` or `degree`."
            )
        terms = _terms(lags.n_regressors, self.degree)
        coefficients = _least_squares((X - training.middle) / training.half_width, Y, terms)
        return PolynomialNARX._of(self.degree, training, coefficients)

    # What it is

    @property
    def trained_on(self) -> Training:
        if self.training is None:
            raise InputError("The model must be fitted first: call fit(u, y), which returns it.")
        return self.training

    @cached_property
    def _terms(self) -> tuple[Term, ...]:
        return _terms(self.lags.n_regressors, self.degree)

    def _monomials(self, X: Float[ndarray, "S m"]) -> Float[ndarray, "S terms"]:
        """All monomials of regressors that are shifted and scaled to [-1, 1]."""
        return _monomials((X - self.trained_on.middle) / self.trained_on.half_width, self._terms)

    @property
    def limits(self) -> Range:
        return self.trained_on.y.believable

    @property
    def n_parameters(self) -> int:
        """Number of coefficients, of all outputs."""
        return len(self.exponents) * self.lags.n_outputs

    @property
    def exponents(self) -> Int[ndarray, "terms m"]:
        """One row per monomial: the power of each regressor, the constant first."""
        return np.array([[term.count(j) for j in range(self.lags.n_regressors)] for term in self._terms])

    @property
    def coefficients(self) -> Float[ndarray, "terms n"]:
        """Coefficients of the monomials `exponents` in the regressors as measured."""
        exponents, centre, scale = self.exponents, self.trained_on.middle, self.trained_on.half_width
        place = {tuple(e): i for i, e in enumerate(exponents.tolist())}
        raw = np.zeros_like(self._coefficients)
        for e, c in zip(exponents, self._coefficients, strict=True):
            # ((x - centre) / scale)^e by the binomial formula, regressor by regressor.
            expanded = {(0,) * len(e): 1.0}
            for j, power in enumerate(e):
                if power:
                    expanded = {
                        (*low[:j], q, *low[j + 1 :]): value
                        * comb(int(power), q)
                        * (-centre[j]) ** (int(power) - q)
                        / scale[j] ** int(power)
                        for low, value in expanded.items()
                        for q in range(int(power) + 1)
                    }
            for low, value in expanded.items():
                raw[place[low]] += value * c
        return raw

    # What it computes

    def __call__(self, X: object) -> Float[ndarray, "S n"]:
        points = as_points("X", X, self.lags.n_regressors)
        values = np.empty((len(points), self.lags.n_outputs))
        for rows in _blocks(len(points)):
            values[rows] = self._monomials(points[rows]) @ self._coefficients
        return values

    def jacobian(self, X: object) -> Float[ndarray, "S n m"]:
        """Jacobians at regressors X in closed form: d z^e / d z_j = e_j z^(e - 1_j)."""
        points = as_points("X", X, self.lags.n_regressors)
        exponents = self.exponents
        place = {tuple(e): i for i, e in enumerate(exponents.tolist())}
        J = np.empty((len(points), self.lags.n_outputs, self.lags.n_regressors))
        lowered = []  # for each regressor: the monomials that are left, and the coefficients they get
        for j in range(self.lags.n_regressors):
            with_j = np.flatnonzero(exponents[:, j])
            left = [place[tuple(exponents[i] - (np.arange(len(exponents[i])) == j))] for i in with_j]
            factors = exponents[with_j, j, None] * self._coefficients[with_j] / self.trained_on.half_width[j]
            lowered.append((left, factors))
        for rows in _blocks(len(points)):
            table = self._monomials(points[rows])
            for j, (left, factors) in enumerate(lowered):
                J[rows, :, j] = table[:, left] @ factors
        return J

    def _step(self) -> Step:
        # Straight-line Python: every monomial is one product of an earlier one and a regressor.
        middle, half_width = self.trained_on.middle.tolist(), self.trained_on.half_width.tolist()
        lines = [f"def f({', '.join(f'x{j}' for j in range(len(middle)))}):"]
        for j, (centre, scale) in enumerate(zip(middle, half_width, strict=True)):
            lines.append(f"    z{j} = (x{j} - {centre!r}) * {1.0 / scale!r}")
        for i, (parent, j) in enumerate(_parents(self._terms)):
            if i:
                lines.append(f"    p{i} = z{j}" if parent == 0 else f"    p{i} = p{parent} * z{j}")
        for o, c in enumerate(self._coefficients.T.tolist()):
            terms = [repr(c[0])] + [f"{value!r} * p{i}" for i, value in enumerate(c) if i]
            lines += [f"    y{o} = {terms[0]}"]
            lines += [f"    y{o} += {' + '.join(terms[k : k + 50])}" for k in range(1, len(terms), 50)]
        lines.append(f"    return ({', '.join(f'y{o}' for o in range(self.lags.n_outputs))},)")
        return compiled("\n".join(lines) + "\n")

    def formula(self, *, digits: int = 4) -> str:
        """All terms as text, one line per output, in the regressors as measured."""
        places = as_count("digits", digits)
        lines = []
        for output, column in zip(self.lags.output_names, self.coefficients.T, strict=True):
            text = ""
            for e, c in zip(self.exponents, column, strict=True):
                factors = [n if p == 1 else f"{n}^{p}" for n, p in zip(self.lags.names, e, strict=True) if p]
                term = " ".join([f"{abs(c):.{places}g}", *factors])
                text += f" {'-' if c < 0 else '+'} {term}" if text else f"{'-' if c < 0 else ''}{term}"
            lines.append(f"{output} = {text}")
        return "\n".join(lines)

    # Files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a .safetensors file; `load` reads it again."""
        record = self.trained_on.record() | Record.of({"coefficients": self._coefficients}, degree=self.degree)
        write_record(path, _FILE_KIND, _FILE_VERSION, record)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> PolynomialNARX:
        """Read what `save` wrote."""
        record = read_record(path, _FILE_KIND, "PolynomialNARX.save", (str(_FILE_VERSION),))
        with described_by(path, "a polynomial NARX model"):
            training, coefficients = Training.of_record(record), record.arrays["coefficients"]
            lags, degree = training.lags, int(record["degree"])
            wanted = (comb(lags.n_regressors + degree, degree), lags.n_outputs)
            if coefficients.shape != wanted:
                raise ValueError(f"coefficients of shape {coefficients.shape}, not {wanted}, one for every monomial")
            return cls._of(degree, training, coefficients)

    # Decoupling

    def decouple(
        self,
        ranks: int | Sequence[int] | Literal["auto"],
        degrees: int | Sequence[int] | None = None,
        *,
        basis: Any = None,
        linear: bool = False,
        solver: AbstractSolver | None = None,
        as_given: bool = False,
        n_samples: int | None = None,
        n_starts: int | None = None,
        max_seconds: float | None = None,
        rng: int | np.random.Generator = 0,
        progress: bool | Callable[..., None] = True,
    ) -> DecoupledNARX:
        """Replace the polynomial by a decoupling of it, found from values and Jacobians at training regressors.

        Parameters
        ----------
        ranks, degrees, basis, linear, solver, as_given, n_starts, max_seconds, rng, progress : see `dc.decouple`
            As for `dc.decouple`. A single layer has by default the degree of the polynomial. The default solver is
            `VarPro(lam=100, ridge=1e-9)` with 64 starts. Values count more than Jacobians, since they are what is
            predicted. The ridge keeps nearly parallel functions from growing large with opposite signs. With
            "auto" there is none: it would hide which shape is exact.
        n_samples : int, optional
            Training regressors that are drawn without replacement. By default 200, or all if there are fewer. The
            others are kept for validation: they judge lam in `TwoStage`, and the model in its report.
        """
        from ._decoupled import DecoupledNARX

        basis = Monomial if basis is None else basis
        training = self.trained_on
        X, chosen = training.X, np.zeros(len(training.X), dtype=bool)
        count = min(_SAMPLES, len(X)) if n_samples is None else as_count("n_samples", n_samples, least=2)
        if count > len(X):
            raise InputError(f"`n_samples` must be at most {len(X)}, the training regressors. Got {count}.")
        generator, others = as_generator(rng), None
        chosen[generator.choice(len(X), count, replace=False)] = True
        auto = isinstance(ranks, str)  # cross-validates, and has starts of its own
        if degrees is None and not auto and np.size(ranks) == 1 and isinstance(basis, type):
            degrees = self.degree
        if not (auto or chosen.all()):
            others = Samples(X[~chosen], F=self(X[~chosen]), inputs=self.lags.names, outputs=self.lags.output_names)
        result = decouple(
            self.samples(X[chosen]),
            ranks,
            degrees,
            basis=basis,
            linear=linear,
            solver=VarPro(lam=100.0, ridge=0.0 if auto else _RIDGE) if solver is None else solver,
            as_given=as_given,
            n_starts=_STARTS if solver is None and n_starts is None and not auto else n_starts,
            validation=others,
            max_seconds=max_seconds,
            rng=generator,
            progress=progress,
        )
        return DecoupledNARX(result, result.decoupling, training)

    def __repr__(self) -> str:
        size = ", not fitted" if self.training is None else f", {self.n_parameters} coefficients"
        return f"PolynomialNARX(n_u={self.n_u}, n_y={self.n_y}, degree={self.degree}{size})"


def _terms(n_regressors: int, degree: int) -> tuple[Term, ...]:
    """Monomials as sorted tuples of regressors: () is the constant, (0, 0, 2) is x_0^2 x_2. Low degrees first."""
    return tuple(t for d in range(degree + 1) for t in combinations_with_replacement(range(n_regressors), d))


def _parents(terms: tuple[Term, ...]) -> Iterator[tuple[int, int]]:
    """For every monomial: the earlier one that it is a multiple of, and the regressor it is multiplied by."""
    place = {term: i for i, term in enumerate(terms)}
    for term in terms:
        yield (place[term[:-1]], term[-1]) if term else (0, 0)


def _monomials(Z: Float[ndarray, "S m"], terms: tuple[Term, ...]) -> Float[ndarray, "S terms"]:
    """All monomials, each one product of an earlier one and a regressor."""
    table = np.empty((len(Z), len(terms)), order="F")
    table[:, 0] = 1.0
    for i, (parent, j) in enumerate(_parents(terms)):
        if i:
            np.multiply(table[:, parent], Z[:, j], out=table[:, i])
    return table


def _least_squares(Z: ndarray, Y: ndarray, terms: tuple[Term, ...]) -> Float[ndarray, "terms n"]:
    """Householder triangle of [monomials, y], a block of rows at a time; the SVD of the triangle does the rest."""
    k = len(terms)
    triangle: ndarray = np.zeros((0, k + Y.shape[1]))
    for rows in _blocks(len(Z)):
        block = np.concatenate([_monomials(Z[rows], terms), Y[rows]], axis=1)
        triangle = np.asarray(np.linalg.qr(np.concatenate([triangle, block]), mode="r"))
    coefficients, _, rank, _ = np.linalg.lstsq(triangle[:k, :k], triangle[:k, k:], rcond=_RANK_TOLERANCE)
    if rank < k:
        warnings.warn(
            f"The records determine {rank} of {k} coefficients: their inputs take too few values or excite too few "
            "frequencies. Of all models that fit equally well the one with the smallest coefficients is taken; "
            "richer inputs or a lower `degree` or `n_y` would settle it.",
            DecouplingWarning,
            stacklevel=3,
        )
    return coefficients


def _blocks(n_rows: int) -> Iterator[slice]:
    return (slice(i, i + _ROWS) for i in range(0, n_rows, _ROWS))
