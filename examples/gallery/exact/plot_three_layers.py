r"""
Three layers, found exactly
===========================

More layers make the search harder: of all random starts only few end in the solution. From Jacobians the default solver
needs none: it reads a start from the data, layer by layer.
"""

# %%
# A random three-layer system
# ---------------------------
import numpy as np

import decouply as dc

system = dc.systems.random_system((2, 2, 2, 2, 2), (2, 2, 2), rng=4)
rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (100, 2))
samples = dc.Samples(X, F=system(X), J=system.jacobian(X))
result = dc.decouple(samples, ranks=(2, 2, 2), degrees=(2, 2, 2), rng=0, progress=False)
print(result)

# %%
# How it was found
# ----------------
# The first start was enough. It came from directions in which gradients are parallel. Values alone are enough here too:
# then the first layer is peeled off, with a polynomial in place of all others.
by_values = dc.decouple(dc.Samples(X, F=system(X)), ranks=(2, 2, 2), degrees=(2, 2, 2), rng=0, progress=False)
for one in (result, by_values):
    print(f"{len(one.starts)} start, by {one.found_by}: {one.status.name}")

# %%
# The model
# ---------
figure = result.plot()

# %%
# Is it unique?
# -------------
# The derivatives of all data with respect to all parameters have a rank. If it is as large as the number of parameters
# that scalings leave free, no other model nearby fits as well.
print(result.identifiability)

# %%
# One layer is not enough
# -----------------------
# A single layer with more functions is a simpler question, but not a better answer here.
for rank in (2, 3, 4):
    single = dc.decouple(samples, ranks=rank, degrees=8, rng=0, n_starts=16, progress=False)
    size, errors = single.decoupling.n_parameters, single.relative_rmse().round(2)
    print(f"one layer of {rank}: {size} parameters, errors {errors} %")
print(f"three layers: {result.decoupling.n_parameters} parameters, errors {result.relative_rmse()} %")
