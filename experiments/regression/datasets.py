"""Small regression problems that need no network: measured ones, known formulas with noise, and one in between."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from decouply._support._optional_packages import needed

N_FORMULA, N_HOUSES = 500, 2000  # samples of Friedman's formulas, and of houses
_NOISE = {1: 1.0, 2: 125.0, 3: 0.1}  # of Friedman's formulas, as in his paper: a third of the signal and less


@dataclass(frozen=True)
class RegressionSet:
    """One problem: `make` gets a seed, which matters for data that are made."""

    name: str
    question: str
    make: Callable[[int], tuple[Float[ndarray, "S m"], Float[ndarray, " S"]]]


def _diabetes(seed: int) -> tuple[ndarray, ndarray]:  # noqa: ARG001 (measured)
    X, y = needed("sklearn.datasets", "sklearn", "this experiment").load_diabetes(return_X_y=True)
    return X, y


def _friedman(number: int) -> Callable[[int], tuple[ndarray, ndarray]]:
    def make(seed: int) -> tuple[ndarray, ndarray]:
        datasets = needed("sklearn.datasets", "sklearn", "this experiment")
        function = getattr(datasets, f"make_friedman{number}")
        X, y = function(n_samples=N_FORMULA, noise=_NOISE[number], random_state=seed)
        return X, y

    return make


def _wine(seed: int) -> tuple[ndarray, ndarray]:  # noqa: ARG001 (measured)
    X, _ = needed("sklearn.datasets", "sklearn", "this experiment").load_wine(return_X_y=True)
    return X[:, 1:], X[:, 0]


def _cells(seed: int) -> tuple[ndarray, ndarray]:  # noqa: ARG001 (measured)
    X, _ = needed("sklearn.datasets", "sklearn", "this experiment").load_breast_cancer(return_X_y=True)
    return X[:, :10], X[:, 23]


def houses(seed: int, n_samples: int = N_HOUSES) -> tuple[Float[ndarray, "S 8"], Float[ndarray, " S"]]:
    """Prices of districts along a coast, in the manner of the California data, which need a download.

    Inputs: income, age, rooms, bedrooms, people, people per household, latitude, longitude. Prices rise with income,
    and saturate, fall with the distance from the coast and from two cities, and are cut off at 5, as in the original.
    """
    rng = np.random.default_rng(seed)
    income = np.exp(rng.normal(1.25, 0.47, n_samples)).clip(0.5, 15.0)
    age = rng.uniform(1.0, 52.0, n_samples)
    rooms = (3.5 + 0.45 * income + rng.gamma(2.0, 0.4, n_samples)).clip(1.0, 15.0)
    bedrooms = rooms / 5.0 + rng.normal(0.0, 0.1, n_samples)
    people = np.exp(rng.normal(7.0, 0.7, n_samples))
    household = rng.gamma(9.0, 0.33, n_samples).clip(1.0, 8.0)
    in_south = rng.uniform(size=n_samples) < 0.55
    latitude = np.where(in_south, rng.normal(34.0, 0.6, n_samples), rng.normal(37.8, 0.9, n_samples))
    coast = -117.0 - 0.85 * (latitude - 32.5)
    longitude = coast + rng.gamma(1.2, 0.8, n_samples)
    to_city = np.minimum(np.hypot(latitude - 34.05, longitude + 118.25), np.hypot(latitude - 37.78, longitude + 122.0))
    price = (
        0.35
        + 5.0 * income / (income + 4.0)
        + 0.9 * np.exp(-(longitude - coast) / 0.5)
        + 0.8 * np.exp(-to_city)
        - 0.25 * (household - 2.0)
        + 0.004 * age
    )
    price *= np.exp(rng.normal(0.0, 0.15, n_samples))
    X = np.stack([income, age, rooms, bedrooms, people, household, latitude, longitude], axis=1)
    return X, price.clip(0.15, 5.0)


SETS = (
    RegressionSet("diabetes", "progression of the disease, from 10 measured inputs of 442 people", _diabetes),
    RegressionSet("friedman1", "Friedman's first formula and noise, 10 inputs of which 5 matter", _friedman(1)),
    RegressionSet("friedman2", "his second, an impedance, 4 inputs", _friedman(2)),
    RegressionSet("friedman3", "his third, a phase, 4 inputs", _friedman(3)),
    RegressionSet("houses", "prices along a coast, made in the manner of the California data, 8 inputs", houses),
    RegressionSet("wine", "alcohol of 178 wines, from 12 other measurements", _wine),
    RegressionSet("cells", "largest area of the nuclei in 569 images, from 10 means", _cells),
)
