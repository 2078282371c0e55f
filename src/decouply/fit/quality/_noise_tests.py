r"""Whether anything is left in residuals that inputs could predict: if nothing is, they are noise.

Kernel ridge regression predicts each residual from all others, by smooth functions of the inputs. The best of several
widths and penalties counts. The same with residuals that are dealt out to the
samples at random tells what chance achieves; so the answer needs no assumption about the kind of noise.

Kernels are too wide for steps, kinks and wiggles. Along one direction, neighbours see these: noise has no sign that
neighbours share, however its size changes from place to place. The directions are the arguments of the model's own
functions, and many random ones, since a function that the model lacks has a direction that nobody knows.

If inputs repeat, what differs between outputs at equal inputs is noise, and no kernel is needed. If Jacobians are
known, the residuals of neighbours must differ by what the residuals of the slopes say, unless they are noise.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from ...samples._duplicates import places

_MOST_SAMPLES = 700  # more are not needed to see what matters, and take long
_LEAST_SAMPLES = 24
_MOST_NEIGHBOURS = 2500
_DEALS = 99  # at random: chance does as well in one of a hundred cases
_WIDTHS = (0.35, 1.0)  # of kernels, in spreads of the inputs
_ADDITIVE_WIDTH = 0.5
_ADDITIVE_INPUTS = 30
_PENALTIES = (0.1, 1.0, 10.0, 100.0)
_LEAST_REPEATED = 8  # degrees of freedom
CHANCE = 0.01  # probability below which something is said to be no chance
_SAMPLES_PER_BIN = 5  # at least, along the argument of a function
_MOST_BINS = 32
_DIRECTIONS = 1000  # at random: in three dimensions every direction has one within some three degrees
_AT_ONCE = 100  # of these
_STEPS, _FIRST_STEP, _SHRINK = 150, 0.2, 0.97  # from the best of these to one nearby that explains more
_FEWEST_BLOCKS = 8  # of neighbours
_LESS, _WORSE = 0.5, 50.0  # what kernels must explain of what the model does, and how much more they may leave


def predictable_shares(
    X: Float[ndarray, "S m"], R: Float[ndarray, "S n k"], data: Float[ndarray, "S n k"]
) -> Float[ndarray, " n"]:
    """The share of the squares of residuals R[:, i] that inputs predict, 0 if chance does as well.

    NaN if samples are too few to tell: if the data themselves, of which R is left, are predicted far worse than
    by the model.
    """
    if len(X) < _LEAST_SAMPLES:
        return np.full(R.shape[1], np.nan)
    rng = np.random.default_rng(0)
    if len(X) > _MOST_SAMPLES:
        some = rng.choice(len(X), _MOST_SAMPLES, replace=False)
        X, R, data = X[some], R[some], data[some]
    R, data = (part - part.mean(axis=0) for part in (R, data))
    S, n, k = R.shape
    deals = [R, *(R[rng.permutation(S)] for _ in range(_DEALS)), data]
    Y = np.stack(deals, axis=1).reshape(S, -1)
    left = np.full((len(deals), n), np.inf)
    for K in _kernels(X):
        values, Q = np.linalg.eigh(K)
        values = np.maximum(values, 0.0)
        turned = Q.T @ Y
        for penalty in _PENALTIES:
            kept = values / (values + penalty)
            own = (Q**2) @ kept  # the share of its own number in what is predicted at a sample
            error = (Y - Q @ (kept[:, None] * turned)) / (1.0 - own)[:, None]
            left = np.minimum(left, np.sum(error.reshape(S, -1, n, k) ** 2, axis=(0, 3)))
    size, total = (np.sum(part**2, axis=(0, 2)) for part in (R, data))
    share = np.maximum(1.0 - np.divide(left[0], size, out=np.ones(n), where=size > 0.0), 0.0)
    share = np.where(left[0] < left[1:-1].min(axis=0), share, 0.0)
    blind = (total - left[-1] < _LESS * (total - size)) | (left[-1] > _WORSE * size)
    return np.where((share == 0.0) & blind, np.nan, share)


def lack_of_fit(residual: Float[ndarray, "S n"], u: Float[ndarray, "S r"]) -> tuple[float, Float[ndarray, " n"]]:
    """Whether residuals depend on the arguments u of functions.

    For every function an F test compares the means of the residuals in bins along its argument with their standard
    deviation within the bins. Returns the probability of so much dependence if there is none, and for every output the
    share of the squares of the residuals that is above what chance would do.
    """
    from scipy.special import fdtrc

    S, n = residual.shape
    n_bins, chance, share = min(_MOST_BINS, S // _SAMPLES_PER_BIN), 1.0, np.zeros(n)
    spread = residual.std(axis=0)
    varies = spread > 0.0
    if n_bins < 3 or not varies.any():
        return chance, share
    R = (residual - residual.mean(axis=0))[:, varies] / spread[varies]
    for j in range(u.shape[1]):
        bins = np.array_split(np.argsort(u[:, j], kind="stable"), n_bins)
        between = np.sum([len(rows) * R[rows].mean(axis=0) ** 2 for rows in bins], axis=0)
        within = np.maximum(S - between, np.finfo(float).tiny) / (S - n_bins)
        ratio = np.mean(between) / (n_bins - 1) / np.mean(within)
        chance = min(chance, float(fdtrc(len(within) * (n_bins - 1), len(within) * (S - n_bins), ratio)))
        share[varies] = np.maximum(share[varies], (between - (n_bins - 1) * within) / S)
    return min(1.0, chance * u.shape[1]), share


def local_shares(X: Float[ndarray, "S m"], R: Float[ndarray, "S n"], u: Float[ndarray, "S r"]) -> Float[ndarray, " n"]:
    """The share of the squares of residuals R that their neighbours predict, 0 if chance may do as well.

    Neighbours are near along an argument u of the model, or along a direction of the inputs.
    """
    moving = X.std(axis=0) > 0.0
    Z = (X[:, moving] - X[:, moving].mean(axis=0)) / X[:, moving].std(axis=0)
    rng = np.random.default_rng(0)
    some = np.sort(rng.choice(len(X), min(len(X), _MOST_NEIGHBOURS), replace=False))
    Z, R, u = Z[some], (R - R.mean(axis=0))[some], u[some]
    directions = rng.normal(size=(_DIRECTIONS if Z.shape[1] > 1 else 0, Z.shape[1]))
    share = np.zeros(R.shape[1])
    for i, residual in enumerate(R.T):
        share[i] = _shared_by_neighbours(residual, u, u.shape[1]).max(initial=0.0)
        found = np.zeros(len(directions))
        for first in range(0, len(directions), _AT_ONCE):
            rows = slice(first, first + _AT_ONCE)
            found[rows] = _shared_by_neighbours(residual, Z @ directions[rows].T, len(directions))
        if found.max(initial=0.0) > 0.0:  # then a direction nearby may be better still
            best, most = directions[np.argmax(found)], found.max()
            for k in range(_STEPS):
                near = best / np.linalg.norm(best) + _FIRST_STEP * _SHRINK**k * rng.normal(size=best.shape)
                if (there := _shared_by_neighbours(residual, (Z @ near)[:, None], 1)[0]) > most:
                    best, most = near, there
            share[i] = max(share[i], most)
    return share


def _shared_by_neighbours(
    residual: Float[ndarray, " S"], along: Float[ndarray, "S k"], n_tried: int
) -> Float[ndarray, " k"]:
    """The share of squares that neighbours along each column have in common, 0 where chance may do as well.

    In blocks of w neighbours, noise has a squared sum of its sum of squares on average, whatever its size at each
    sample: signs at random leave that. Misfit that is the same within a block adds w - 1 times its squares. The sum of
    both over blocks is compared with the gamma distribution of the same mean and variance, for every w; chance may try
    as often as we do.
    """
    from scipy.special import gammaincc

    e = residual[np.argsort(along, axis=0, kind="stable")]
    S = len(e)
    widths = 2 ** np.arange(1, max(int(np.log2(S / _FEWEST_BLOCKS)), 1) + 1)
    sums, squares, fourths = (np.concatenate([np.zeros((1, e.shape[1])), np.cumsum(e**k, axis=0)]) for k in (1, 2, 4))
    share = np.zeros(e.shape[1])
    for w in widths:
        total, own, fourth = (np.diff(part[::w], axis=0) for part in (sums, squares, fourths))
        mean, agree = own.sum(axis=0), np.sum(total**2, axis=0)
        variance = 2.0 * np.sum(np.maximum(own**2 - fourth, 0.0), axis=0)
        told = variance > 0.0
        form, scale = (np.divide(mean**k, variance, out=np.ones_like(mean), where=told) for k in (2, 1))
        chance = n_tried * len(widths) * gammaincc(form, agree * scale)
        found = (agree - mean) / ((w - 1) * np.maximum(squares[-1], np.finfo(float).tiny))
        share = np.where(told & (chance < CHANCE), np.maximum(share, found), share)
    return share


def telling_pairs(residual: Float[ndarray, "S n"], u: Float[ndarray, "S r"]) -> Float[ndarray, " n"]:
    """How many pairs of neighbours carry the squares of the residuals, at the place with the fewest along an argument.

    With few of them, as when all that is left lies in one place, nobody can tell misfit from noise that is larger.
    """
    fewest = np.full(residual.shape[1], np.inf)
    for column in u.T:
        e = np.abs(residual[np.argsort(column, kind="stable")])
        both = e[1:] * e[:-1]
        squares = np.sum(both**2, axis=0)
        fewest = np.minimum(
            fewest, np.divide(np.sum(both, axis=0) ** 2, squares, out=np.zeros(len(squares)), where=squares > 0.0)
        )
    return fewest


def agreeing_shares(
    X: Float[ndarray, "S m"], R: Float[ndarray, "S n"], slopes: Float[ndarray, "S n m"]
) -> Float[ndarray, " n"]:
    """The share of the squares of residuals R that agrees with residuals of the slopes, 0 if chance may do as well.

    From a sample to its nearest neighbour, R changes by the mean of both slopes times the way, up to third order. Noise
    does not know of slopes: it changes by twice its variance.
    """
    Z = X / np.maximum(np.std(X, axis=0), np.finfo(float).tiny)
    squares = np.sum(Z**2, axis=1)
    some = np.arange(min(len(X), _MOST_SAMPLES))
    D = squares + squares[some, None] - 2.0 * Z[some] @ Z.T
    D[some, some] = np.inf
    near = np.argmin(D, axis=1)
    told = np.einsum("snm,sm->sn", slopes[some] + slopes[near], X[near] - X[some]) / 2.0
    off = np.mean((R[near] - R[some] - told) ** 2, axis=0)
    size = np.mean((R - R.mean(axis=0)) ** 2, axis=0)
    share = 1.0 - np.divide(off, 2.0 * size, out=np.ones(R.shape[1]), where=size > 0.0)
    return np.where(share > 4.0 / np.sqrt(len(some)), share, 0.0)


def _kernels(X: Float[ndarray, "S m"]) -> list[Float[ndarray, "S S"]]:
    """Functions of all inputs together, of two widths, and sums of functions of one input each."""
    spread = np.std(X, axis=0)
    moving = spread > 1e-12 * np.abs(X).max(axis=0, initial=0.0)
    Z = (X[:, moving] - X[:, moving].mean(axis=0)) / spread[moving]
    S, m = Z.shape
    if m == 0:
        return []
    squares = np.sum(Z**2, axis=1)
    D = np.maximum(squares[:, None] + squares - 2.0 * Z @ Z.T, 0.0) / m
    found = [np.exp(-D / (2.0 * width**2)) for width in _WIDTHS]
    single = Z[:, :_ADDITIVE_INPUTS].T
    found.append(sum((np.exp(-((z[:, None] - z) ** 2) / (2.0 * _ADDITIVE_WIDTH**2)) for z in single), np.zeros((S, S))))
    found[-1] /= len(single)
    return found


def repeated_places(X: Float[ndarray, "S m"]) -> Int[ndarray, " S"] | None:
    """The places of samples, if enough of them share one to tell noise by; None if too few do."""
    place = places(X)
    return place if len(X) - (place.max() + 1) >= _LEAST_REPEATED else None


def noise_of_repeated(F: Float[ndarray, "S n"], place: Int[ndarray, " S"]) -> tuple[Float[ndarray, " n"], int]:
    """Sums of squares around the means at places, and their degrees of freedom."""
    count = np.bincount(place)
    means = np.stack([np.bincount(place, column) for column in F.T], axis=1) / count[:, None]
    return np.sum((F - means[place]) ** 2, axis=0), len(F) - len(count)


def share_beyond_noise(
    residual: Float[ndarray, " n"], freedom: Float[ndarray, " n"], noise: Float[ndarray, " n"], n_noise: int
) -> Float[ndarray, " n"]:
    """The share of sums of squares `residual` that repeated samples do not explain; 0 if chance does as well."""
    from scipy.special import fdtrc

    lack, rest = np.maximum(residual - noise, 0.0), np.maximum(freedom - n_noise, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        F = (lack / rest) / (noise / n_noise)
        expected = np.where(noise > 0.0, rest / n_noise * noise, 0.0)
        share = np.where(residual > 0.0, np.maximum(lack - expected, 0.0) / residual, 0.0)
    return np.where(fdtrc(rest, n_noise, F) < CHANCE, share, 0.0)
