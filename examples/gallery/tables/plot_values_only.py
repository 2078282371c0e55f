r"""
Only values, and noisy ones
===========================

Often there is no function to differentiate, only a table of measurements. Then the values alone must do.
"""

# %%
# A table of measurements
# -----------------------
# Three inputs, one output: a saturation in one direction, a parabola in another, and one percent of noise.
import numpy as np

import decouply as dc

rng = np.random.default_rng(0)


def plant(X):
    return np.tanh(1.5 * (X[:, 0] + X[:, 1])) + (X[:, 1] - X[:, 2]) ** 2


X = rng.uniform(-1, 1, (300, 3))
clean = plant(X)
y = clean + 0.01 * clean.std() * rng.normal(size=300)
samples = dc.Samples(X, F=y)
train, test = samples.split(0.2, rng=0)
print(train, test)

# %%
# Fit
# ---
# The degree of a saturation is not known; odd powers up to seven describe it well on this range.
result = dc.decouple(train, ranks=2, degrees=7, rng=0, progress=False)
print(result)
print("error on new samples, in percent of their spread:", result.relative_rmse(test).round(2))

# %%
# The error is about the noise, one percent: what could be found was found.
figure = result.plot_fit(test, outputs=["y"])

# %%
# What is known of the functions
# ------------------------------
# Bands are two standard errors, from the residuals and the derivatives of the model. Where there are few samples they
# are wide.
figure = result.plot_functions()

# %%
# The directions
# --------------
# Rows of :math:`W_0` are the directions in which the functions look, up to scale: (1, 1, 0) and (0, 1, -1).
W0 = result.decoupling.W[0]
print((W0 / np.abs(W0).max(axis=1, keepdims=True)).round(2))
