"""
Two valves: a dead zone and a saturation
========================================

Two valves feed a tank. The main valve saturates: beyond some command it is simply open, or shut. The trim valve sticks:
small commands do nothing at all. Polynomials are poor at both. Splines follow both without any hint, and the library
then names the curves.
"""

# %%
# What is measured
# ----------------
# Flow and temperature for 300 settings of two commands and the supply pressure, with 1 % noise. The commands leak into
# each other, so neither curve can be seen in the data directly.
import numpy as np

import decouply as dc

rng = np.random.default_rng(3)
X = rng.uniform(-1, 1, (300, 3))
main = np.clip(X @ [1.2, 0.3, 0.2], -0.6, 0.6)
moved = X @ [-0.2, 1.1, 0.3]
trim = moved - np.clip(moved, -0.35, 0.35)
F = np.stack([2.0 * main + 0.8 * trim, -0.5 * main + 1.5 * trim], axis=1)
F += 0.01 * F.std(axis=0) * rng.normal(size=F.shape)
names = {"inputs": ["main", "trim", "pressure"], "outputs": ["flow", "temperature"]}
samples = dc.Samples(X, F=F, **names)

# %%
# Splines that smooth themselves
# ------------------------------
# Sixteen pieces are more than enough; the data decide how smooth the functions are.
result = dc.decouple(samples, ranks=2, basis=dc.Spline(16), n_starts=16, progress=False)
polynomials = dc.decouple(samples, ranks=2, degrees=7, n_starts=16, progress=False)
print(
    "error of splines, in % of the standard deviation:    ",
    result.relative_rmse().round(2),
)
print(
    "error of degree 7, in % of the standard deviation:   ",
    polynomials.relative_rmse().round(2),
)
figure = result.plot_functions()

# %%
# Names for the curves
# --------------------
# Every kind of curve that has a name is compared with what the samples say of a function. A score below 0 is better
# than that of a smooth curve of any shape.
found = result.recognise()
print(found)

# %%
# A simpler model
# ---------------
# The names are put in place and everything is refitted: a few parameters instead of many, and an error that is nothing
# but the noise.
simpler = result.simplified(progress=False)
print(simpler)
print(simpler.decoupling.formula())

# %%
# In the controller
# -----------------
# One function in C99, without allocation, that computes what the model does.
print(simpler.decoupling.formula("c"))

# sphinx_gallery_thumbnail_number = 1
