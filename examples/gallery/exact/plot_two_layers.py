r"""
A two-layer system, found exactly
=================================

The function below has three inputs and three outputs, and every output depends on every input. Behind it are four
functions of one variable, two in each of two layers:

.. math:: f(x) = W_2\, g_2(W_1\, g_1(W_0 x)).

From sixty samples of its values and Jacobians they are found again.
"""

# %%
# Samples
# -------
import numpy as np

import decouply as dc

system = dc.systems.f2()
X = np.random.default_rng(1).uniform(-1, 1, (60, 3))
samples = dc.Samples(X, F=system(X), J=system.jacobian(X))
print(samples)

# %%
# The numerical rank of the Jacobians, one below the other, already tells how many directions of the input matter: two
# of three.
singular = np.linalg.svd(np.concatenate(list(samples.J)), compute_uv=False)
print("singular values:", singular)

# %%
# Decouple
# --------
result = dc.decouple(samples, ranks=(2, 2), degrees=(3, 3), rng=0, progress=False)
print(result)

# %%
# The network
# -----------
# Inputs on the left, outputs on the right, one curve per internal function over the range that the samples visit.
# Dashed edges have negative weights.
figure = result.plot()

# %%
# Is this the truth?
# ------------------
# Scales, signs and the order of functions can be chosen freely without changing the map, so models are compared after
# these are fixed: ``canonical`` does that on the points given.
true = system.canonical(X)
for l in range(3):
    print(f"W_{l}: largest difference {np.abs(true.W[l] - result.decoupling.W[l]).max():.1e}")

# %%
# New points, and points far outside the samples, are met as well: the formula is the same.
far = np.random.default_rng(2).uniform(-3, 3, (1000, 3))
print(
    "largest relative error far away:", np.abs(result.decoupling(far) - system(far)).max() / np.abs(system(far)).max()
)

# %%
# And this is the whole function, to be read or copied.
print(result.decoupling.formula(digits=3))
