r"""
The branches of a parallel Wiener-Hammerstein system
====================================================

A parallel Wiener-Hammerstein system has several branches, each a filter, a static nonlinearity and a filter again:

.. math:: y = S_1 g_1(R_1 u) + S_2 g_2(R_2 u).

Methods that find the filters from input-output data see the filtered signals only through an unknown mixing, so what
lies between the filters is a *coupled* polynomial :math:`f: \mathbb{R}^2 \to \mathbb{R}^2`. Decoupling it brings
the branches back (Dreesen and Schoukens 2015, Hollander and others 2016). Here the system is simulated, so that what
is found can be compared with the truth.
"""

# %%
# A system with two branches
# --------------------------
# The front filters are a low pass and a band pass, the nonlinearities a saturation-like cubic and a square. A method
# for the filters is assumed: it delivers the two front signals mixed by an unknown matrix, and the back filters mixed
# by another.
import matplotlib.pyplot as plt
import numpy as np
from scipy.signal import butter, freqz, lfilter

import decouply as dc

rng = np.random.default_rng(0)
R = [butter(2, 0.1), butter(1, [0.2, 0.3], "bandpass")]
S = [butter(1, 0.4), butter(1, 0.2, "highpass")]


def g(signals):
    """The nonlinearities of the two branches."""
    return np.stack([signals[:, 0] - 0.3 * signals[:, 0] ** 3, signals[:, 1] + 0.5 * signals[:, 1] ** 2], axis=1)


def filtered(filters, signals):
    return np.stack([lfilter(b, a, s) for (b, a), s in zip(filters, signals.T, strict=True)], axis=1)


u = rng.normal(size=6000)
front = filtered(R, np.stack([u, u], axis=1))
front_scale = front.std(axis=0)
branches = front / front_scale
y = filtered(S, g(branches)).sum(axis=1)
y += 0.01 * y.std() * rng.normal(size=y.shape)  # 1 % measurement noise

mixing_in, mixing_out = np.array([[1.0, 0.6], [-0.5, 1.0]]), np.array([[0.8, -0.4], [0.5, 1.0]])
x = branches @ mixing_in.T  # what the first step of an identification knows

# %%
# A coupled polynomial between the filters
# ----------------------------------------
# With the filters known, y is linear in the coefficients of f: every monomial of x is passed through every (mixed)
# back filter, and least squares does the rest. That gives 2 x 10 coefficients and a function of two inputs and two
# outputs that nobody can read.
powers = [(i, j) for i in range(4) for j in range(4 - i)]
monomials = np.stack([x[:, 0] ** i * x[:, 1] ** j for i, j in powers], axis=1)
columns = []
for o in range(2):  # f_o passes through the mixed back filter o
    through = [lfilter(b, a, monomials, axis=0) for b, a in S]
    columns.append(mixing_out[0, o] * through[0] + mixing_out[1, o] * through[1])
coefficients, *_ = np.linalg.lstsq(np.concatenate(columns, axis=1), y, rcond=None)
coefficients = coefficients.reshape(2, len(powers)).T


def f(X):
    """The coupled polynomial, (S, 2) to (S, 2)."""
    return np.stack([X[:, 0] ** i * X[:, 1] ** j for i, j in powers], axis=1) @ coefficients


# %%
# Decoupling
# ----------
# Two functions of one variable each, found from values and exact Jacobians at 200 of the visited points.
samples = dc.Samples.from_function(f, x[rng.choice(len(x), 200, replace=False)])
result = dc.decouple(samples, ranks=2, degrees=3, progress=False)
print(result)
print(result.decoupling.formula(inputs=["xa", "xb"]))

# %%
# The relative error per output is a fraction of a percent, which is the noise in the coefficients of f.
print("e_i in percent:", result.relative_rmse().round(3))

# %%
# The branches, found again
# -------------------------
# W_0 undoes the mixing: each of its rows times the mixing matrix should select one branch. So the filters in front
# of the two functions are those of the system, up to scale.
selected = result.decoupling.W[0] @ mixing_in
selected /= np.abs(selected).max(axis=1, keepdims=True)
print("rows of W_0 times the mixing:\n", selected.round(3))

figure, axes = plt.subplots(2, 2, figsize=(8, 5.5), layout="constrained")
order = np.argmax(np.abs(selected), axis=1)  # which branch each function belongs to
for j, branch in enumerate(order):
    w, _ = freqz(*R[0], worN=400)
    combined = sum(selected[j, k] * freqz(*R[k], worN=400)[1] / front_scale[k] for k in range(2))
    truth = freqz(*R[branch], worN=400)[1] / front_scale[branch]
    axes[0, j].plot(w / np.pi, 20 * np.log10(np.abs(truth) + 1e-6), color="0.6", linewidth=4, label="true")
    axes[0, j].plot(w / np.pi, 20 * np.log10(np.abs(combined) + 1e-6), color="#0072B2", label="found")
    axes[0, j].set(
        title=f"front filter of branch {branch + 1}", xlabel="frequency / Nyquist", ylabel="dB", ylim=(-50, 15)
    )
    u_j = samples.X @ result.decoupling.W[0].T
    grid = np.linspace(u_j[:, j].min(), u_j[:, j].max(), 200)
    inputs = np.zeros((200, 2))
    inputs[:, j] = grid
    found = result.decoupling.g[0](inputs)[:, j]
    along = np.zeros((200, 2))
    along[:, branch] = grid / (result.decoupling.W[0] @ mixing_in)[j, branch]  # the same signal in units of the branch
    true = g(along)[:, branch]
    basis = np.stack([true, np.ones(200)], axis=1)  # functions are known up to scale and constant
    scale = np.linalg.lstsq(basis, found, rcond=None)[0]
    axes[1, j].plot(grid, basis @ scale, color="0.6", linewidth=4, label="true, scaled")
    axes[1, j].plot(grid, found, color="#D55E00", label="found")
    axes[1, j].set(title=f"nonlinearity of branch {branch + 1}", xlabel="input of the function")
for ax in axes.flat:
    ax.legend(frameon=False)
figure.show()

# %%
# The number of coefficients of the static part went from 20 to what two cubics and two small matrices need:
print("parameters:", coefficients.size, "->", result.decoupling.n_parameters)
