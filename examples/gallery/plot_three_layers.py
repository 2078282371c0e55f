r"""
Three layers, and how many starts it takes
==========================================

More layers make the search harder: of all random starts only some end in the solution. The default solver carries many
of them along in one batch, drops the worst now and then, and stops when one meets the data to rounding.
"""

# %%
# A random three-layer system
# ---------------------------
import numpy as np

import decoupling as dc

system = dc.systems.random_system((2, 2, 2, 2, 2), (2, 2, 2), rng=4)
rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (100, 2))
samples = dc.Samples(X, F=system(X), J=system.jacobian(X))
result = dc.decouple(samples, ranks=(2, 2, 2), degrees=(2, 2, 2), rng=0, progress=False)
print(result)

# %%
# Where the starts end
# --------------------
# The step on the far left are starts that meet the data; all others stopped in local minima or were dropped early.
figure = result.plot_starts()

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
