"""ARX and FROLS: models with lags that others begin with, from their definitions.

FROLS (Billings, Korenberg and Chen, 1988; Billings, 2013) chooses monomials of lagged signals one by one. Each time it
takes the one whose part orthogonal to those chosen explains most of y: the largest error reduction ratio. Here the
number of terms is that of the smallest Bayesian information criterion.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations_with_replacement

import numpy as np
from jaxtyping import Float
from numpy import ndarray

_LAGS, _DEGREE, _MOST_TERMS = 3, 3, 30
_TINY = 1e-10  # of a column's length: what is left of it is rounding
_BEYOND = 10.0  # half ranges of y in training: a free run that leaves this diverges
Run = Callable[[ndarray, ndarray], ndarray]


def fit_arx(u: Float[ndarray, " T"], y: Float[ndarray, " T"]) -> Run:
    """y(t) as a linear function of the last lags, whose number has the smallest Bayesian information criterion."""
    best = None
    for lags in range(1, 2 * _LAGS + 1):
        terms: list[tuple[int, ...]] = [(), *((i,) for i in range(2 * lags + 1))]
        R = _regressors(u, y, lags)
        target = y[lags:]
        c = np.linalg.lstsq(_table(R, terms), target, rcond=None)[0]
        error = np.mean((target - _table(R, terms) @ c) ** 2)
        score = len(target) * np.log(error) + len(terms) * np.log(len(target))
        if best is None or score < best[0]:
            best = score, lags, terms, c
    assert best is not None
    return _free_run(*best[1:], y)


def fit_frols(u: Float[ndarray, " T"], y: Float[ndarray, " T"]) -> Run:
    """Monomials of the last three inputs and outputs up to degree 3, chosen by forward orthogonal regression."""
    size_u, size_y = u.std(), y.std()
    v, z = (u - u.mean()) / size_u, (y - y.mean()) / size_y
    terms = [t for d in range(_DEGREE + 1) for t in combinations_with_replacement(range(2 * _LAGS + 1), d)]
    R, target = _regressors(v, z, _LAGS), z[_LAGS:]
    P = _table(R, terms)
    left, lengths = P.copy(), np.linalg.norm(P, axis=0)
    chosen: list[int] = []
    residual, scores = target.copy(), []
    for _ in range(_MOST_TERMS):
        norms = np.einsum("tk,tk->k", left, left)
        gains = np.where(np.sqrt(norms) > _TINY * lengths, (left.T @ residual) ** 2 / np.maximum(norms, 1e-300), -1.0)
        gains[chosen] = -1.0
        k = int(np.argmax(gains))
        q = left[:, k] / np.sqrt(norms[k])
        chosen.append(k)
        residual = residual - q * (q @ residual)
        left = left - np.outer(q, q @ left)
        scores.append(len(target) * np.log(np.mean(residual**2)) + len(chosen) * np.log(len(target)))
    chosen = chosen[: int(np.argmin(scores)) + 1]
    c = np.linalg.lstsq(P[:, chosen], target, rcond=None)[0]
    run = _free_run(_LAGS, [terms[k] for k in chosen], c, z)
    return lambda a, b: run((a - u.mean()) / size_u, (b - y.mean()) / size_y) * size_y + y.mean()


def _regressors(u: ndarray, y: ndarray, lags: int) -> Float[ndarray, "T k"]:
    """u(t), ..., u(t - lags), y(t - 1), ..., y(t - lags) for all times that have them."""
    T = len(u)
    columns = [u[lags - i : T - i] for i in range(lags + 1)] + [y[lags - i : T - i] for i in range(1, lags + 1)]
    return np.stack(columns, axis=1)


def _table(R: Float[ndarray, "T k"], terms: list[tuple[int, ...]]) -> Float[ndarray, "T terms"]:
    return np.stack([np.prod(R[:, list(t)], axis=1) if t else np.ones(len(R)) for t in terms], axis=1)


def _free_run(lags: int, terms: list[tuple[int, ...]], c: ndarray, y: ndarray) -> Run:
    """The model fed with its own outputs; NaN from where it leaves ten times the range of training."""
    middle, reach = (y.max() + y.min()) / 2.0, _BEYOND * np.ptp(y) / 2.0

    def run(v: ndarray, y_init: ndarray) -> ndarray:
        z = np.full(len(v), np.nan)
        z[: len(y_init)] = y_init
        for t in range(len(y_init), len(v)):
            r = [*v[t - lags : t + 1][::-1], *z[t - lags : t][::-1]]
            value = 0.0
            for a, term in zip(c, terms, strict=True):
                for i in term:
                    a = a * r[i]
                value += a
            if not abs(value - middle) < reach:
                break
            z[t] = value
        return z

    return run
