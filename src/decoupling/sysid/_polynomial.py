r"""Polynomial NARX models: all monomials of the regressors up to a degree, fitted by least squares.

The regressors are shifted and scaled to [-1, 1] first. The span of all monomials does not change under that, so
neither does the fit; the condition of the least-squares problem does, by many orders of magnitude.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations_with_replacement
from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from .._support._checks import as_count, as_generator, as_points
from .._support._errors import DecouplingWarning, InputError
from ..bases import Monomial
from ..fit._decouple import decouple
from ..fit._layer_bases import layer_bases
from ..fit._result import fixed_parts
from ..model._scaling import can_be_shifted
from ..samples._samples import Samples
from ..solvers import AbstractSolver, VarPro
from ..write._formula import compiled
from ._abstract import AbstractNARX, OutputRange
from ._free_run import free_run
from ._lags import Lags
from ._signals import Signals
from ._units import Units

if TYPE_CHECKING:
    from ._decoupled import DecoupledNARX

_MOST_TERMS = 20_000
_ROWS = 8192  # regressors that are expanded at a time
_RANK_TOLERANCE = 1e-12
_SAMPLES, _STARTS = 200, 64  # of a decoupling where the user names none


class PolynomialNARX(AbstractNARX):
    """y(t) = polynomial of u(t), ..., u(t - n_u), y(t - 1), ..., y(t - n_y), with all monomials and the constant.

    Parameters
    ----------
    n_u
        Past inputs that enter besides u(t).
    n_y
        Past outputs that enter.
    degree
        Largest total degree of a monomial.

    Examples
    --------
    >>> import decoupling as dc, numpy as np
    >>> u = np.random.default_rng(0).uniform(-1, 1, 200)
    >>> y = np.zeros(200)
    >>> for t in range(1, 200):
    ...     y[t] = 0.5 * y[t - 1] + u[t] - 0.2 * y[t - 1] ** 3
    >>> model = dc.sysid.PolynomialNARX(n_u=0, n_y=1, degree=3).fit(u, y)
    >>> bool(np.allclose(model.simulate(u, y[:1]), y))
    True
    """

    def __init__(self, n_u: int = 1, n_y: int = 3, degree: int = 3) -> None:
        self.n_u = as_count("n_u", n_u, least=0)
        self.n_y = as_count("n_y", n_y, least=0)
        self.degree = as_count("degree", degree)
        self._fitted = False

    # Training

    def fit(self, u: object, y: object) -> PolynomialNARX:
        """Least-squares fit of the one-step predictions. Give a list of arrays to fit several records at once."""
        signals = Signals.read(u, y)
        lags = Lags(self.n_u, self.n_y, signals.n_inputs, signals.n_outputs)
        for record in signals.u:
            lags.check_length("u", len(record))
        units = Units.of(signals)
        n_terms = comb(lags.n_regressors + self.degree, self.degree)
        if n_terms > _MOST_TERMS:
            raise InputError(
                f"`n_u`, `n_y` and `degree` must give at most {_MOST_TERMS} monomials. Got {n_terms}: lower one."
            )
        X = np.concatenate([lags.regressors(a, b) for a, b in zip(signals.u, signals.y, strict=True)])
        Y = np.concatenate([b[lags.longest :] for b in signals.y])
        if len(X) < n_terms:
            raise InputError(
                f"`u` and `y` must give at least {n_terms} equations, one per monomial. Got {len(X)}: give longer "
                "records, or lower `n_u`, `n_y` or `degree`."
            )
        terms = _terms(lags.n_regressors, self.degree)
        coefficients = _least_squares(units.scaled_regressors(X, lags), Y, terms)
        self._lags, self._flat, self._units, self._terms = lags, signals.flat, units, terms
        self._centre, self._scale = units.centre(lags), units.size(lags)
        self._coefficients, self._X, self._fitted = coefficients, X, True
        return self

    # What it is

    @property
    def lags(self) -> Lags:
        self._check_fitted()
        return self._lags

    @property
    def output_range(self) -> OutputRange:
        self._check_fitted()
        return OutputRange(self._units.y_centre - self._units.y_size, self._units.y_centre + self._units.y_size)

    @property
    def flat(self) -> bool:
        self._check_fitted()
        return self._flat

    @property
    def n_parameters(self) -> int:
        """Number of coefficients, of all outputs."""
        self._check_fitted()
        return int(self._coefficients.size)

    @property
    def exponents(self) -> Int[ndarray, "terms m"]:
        """One row per monomial: the power of each regressor, the constant first."""
        self._check_fitted()
        return _exponents(self._terms, self.lags.n_regressors)

    @property
    def coefficients(self) -> Float[ndarray, "terms n"]:
        """Coefficients of the monomials `exponents` in the regressors as measured."""
        exponents = self.exponents
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
                        * (-self._centre[j]) ** (int(power) - q)
                        / self._scale[j] ** int(power)
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
            values[rows] = _monomials((points[rows] - self._centre) / self._scale, self._terms) @ self._coefficients
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
            factors = exponents[with_j, j, None] * self._coefficients[with_j] / self._scale[j]
            lowered.append((left, factors))
        for rows in _blocks(len(points)):
            table = _monomials((points[rows] - self._centre) / self._scale, self._terms)
            for j, (left, factors) in enumerate(lowered):
                J[rows, :, j] = table[:, left] @ factors
        return J

    def _free_run(self, u: ndarray, y_init: ndarray) -> tuple[Float[ndarray, "T outputs"], int | None]:
        return free_run(compiled(self._source()), self.lags, u, y_init, *self.output_range.widened())

    def _source(self) -> str:
        """The model as straight-line Python: every monomial is one product of an earlier one and a regressor."""
        m = self.lags.n_regressors
        lines = [f"def f({', '.join(f'x{j}' for j in range(m))}):"]
        for j, (centre, scale) in enumerate(zip(self._centre.tolist(), self._scale.tolist(), strict=True)):
            lines.append(f"    z{j} = (x{j} - {centre!r}) * {1.0 / scale!r}")
        for i, (parent, j) in enumerate(_parents(self._terms)):
            if i:
                lines.append(f"    p{i} = z{j}" if parent == 0 else f"    p{i} = p{parent} * z{j}")
        for o, c in enumerate(self._coefficients.T.tolist()):
            terms = [repr(c[0])] + [f"{value!r} * p{i}" for i, value in enumerate(c) if i]
            lines += [f"    y{o} = {terms[0]}"]
            lines += [f"    y{o} += {' + '.join(terms[k : k + 50])}" for k in range(1, len(terms), 50)]
        lines.append(f"    return ({', '.join(f'y{o}' for o in range(self.lags.n_outputs))},)")
        return "\n".join(lines) + "\n"

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

    # Decoupling

    def decouple(
        self,
        ranks: int | Sequence[int],
        degrees: int | Sequence[int] | None = None,
        *,
        basis: Any = Monomial,
        solver: AbstractSolver | None = None,
        n_samples: int | None = None,
        scale: bool = True,
        n_starts: int | None = None,
        rng: int | np.random.Generator = 0,
        progress: bool | Callable[..., None] = True,
    ) -> DecoupledNARX:
        """Replace the polynomial by a decoupling of it, found from values and Jacobians at training regressors.

        Parameters
        ----------
        ranks, degrees, basis, solver, n_starts, rng, progress
            As for `dc.decouple`; a single layer has by default the degree of the polynomial. The default solver is
            `VarPro(lam=100, ridge=1e-9)` with 64 starts: values count more than Jacobians, since they are what is
            predicted, and the ridge keeps nearly parallel functions from growing large with opposite signs.
        n_samples
            Training regressors that are drawn without replacement; by default 200, or all where there are fewer. The
            others judge lam in `TwoStage`.
        scale
            Whether regressors are shifted and scaled to [-1, 1] for the solver, so that channels in different units
            count alike. The decoupling that is returned always takes regressors as measured.
        """
        from ._decoupled import DecoupledNARX

        self._check_fitted()
        count = min(_SAMPLES, len(self._X)) if n_samples is None else as_count("n_samples", n_samples, least=2)
        if count > len(self._X):
            raise InputError(f"`n_samples` must be at most {len(self._X)}, the training regressors. Got {count}.")
        generator = as_generator(rng)
        if not isinstance(scale, bool):
            raise InputError(f"`scale` must be True or False. Got {scale!r}.")
        chosen = np.zeros(len(self._X), dtype=bool)
        chosen[generator.choice(len(self._X), count, replace=False)] = True
        if degrees is None and np.size(ranks) == 1 and isinstance(basis, type):
            degrees = self.degree
        samples, rest = self.samples(self._X[chosen]), self._X[~chosen]
        validation = Samples(rest, F=self(rest)) if len(rest) else None
        method = VarPro(lam=100.0, ridge=1e-9) if solver is None else solver
        if scale and fixed_parts(method):
            raise InputError("`scale` must be False where the solver holds parts fixed: they are in measured units.")

        def found(units: Units) -> DecoupledNARX:
            result = decouple(
                units.scaled_samples(samples, self.lags),
                ranks,
                degrees,
                basis=basis,
                solver=method,
                n_starts=_STARTS if solver is None and n_starts is None else n_starts,
                validation=None if validation is None else units.scaled_samples(validation, self.lags),
                rng=generator,
                progress=progress,
            )
            return DecoupledNARX(result, samples, self.lags, units, self.output_range, self._flat)

        if not scale:
            return found(Units.measured(self.lags))
        units = self._units
        layers = layer_bases(ranks, degrees, basis)
        if not can_be_shifted(layers[0].bases):
            units = units.uncentred(outputs_only=False)
        elif len(layers[-1].bases) < self.lags.n_outputs:
            units = units.uncentred(outputs_only=True)  # too few constants for the centre of every output
        decoupled = found(units)
        if not decoupled.has_measured_form:  # the constants of the last layer cannot give the centre of the outputs
            decoupled = found(units.uncentred(outputs_only=True))
        return decoupled

    def _check_fitted(self) -> None:
        if not self._fitted:
            raise InputError("The model must be fitted first: call fit(u, y).")

    def __repr__(self) -> str:
        size = f", {self.n_parameters} coefficients" if self._fitted else ", not fitted"
        return f"PolynomialNARX(n_u={self.n_u}, n_y={self.n_y}, degree={self.degree}{size})"


Term = tuple[int, ...]


def _terms(n_regressors: int, degree: int) -> tuple[Term, ...]:
    """Monomials as sorted tuples of regressors: () is the constant, (0, 0, 2) is x_0^2 x_2. Low degrees first."""
    return tuple(t for d in range(degree + 1) for t in combinations_with_replacement(range(n_regressors), d))


def _parents(terms: tuple[Term, ...]) -> Iterator[tuple[int, int]]:
    """For every monomial: the earlier one that it is a multiple of, and the regressor it is multiplied by."""
    place = {term: i for i, term in enumerate(terms)}
    for term in terms:
        yield (place[term[:-1]], term[-1]) if term else (0, 0)


def _exponents(terms: tuple[Term, ...], n_regressors: int) -> Int[ndarray, "terms m"]:
    return np.array([[term.count(j) for j in range(n_regressors)] for term in terms])


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
