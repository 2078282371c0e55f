r"""
An engine map: what gradients are worth
=======================================

Engineers tabulate an engine by a slow simulation: thrust and fuel consumption for Mach number, altitude and throttle.
If the simulation has an adjoint, each point also brings its gradients. How many points do they save?
"""

# %%
# The table
# ---------
# It comes with the package ``smt``: a jet engine at 1056 points, with derivatives.
import numpy as np

import decouply as dc

table = dc.data.b777_engine()
print(table, table.inputs, table.outputs)

# %%
# With and without gradients
# --------------------------
# Forty points are for the fit, and 756 others for the test; three draws of points. Two layers of curves of curves suit
# an engine. Gradients change little for the thrust, which is easy. They pay for the consumption, which is not.
errors: dict[str, list] = {"values alone": [], "with gradients": []}
for seed in range(3):
    rows = np.random.default_rng(seed).permutation(len(table))
    train, test = table.take(rows[:40]), table.take(rows[300:])
    values = dc.Samples(train.X, F=train.F, inputs=train.inputs, outputs=train.outputs)
    for name, samples in zip(errors, (values, train), strict=True):
        result = dc.decouple(
            samples, ranks=(4, 3), degrees=(3, 3), n_starts=32, rng=0, progress=False
        )
        errors[name].append(result.relative_rmse(test))
print("mean error in % of the standard deviation, thrust and consumption:")
for name, found in errors.items():
    print(f"{name:14} {np.mean(found, axis=0).round(1)}")

# %%
# The model
# ---------
# Four curves feed three.
figure = result.plot()

# %%
# What is missed
# --------------
# The verdict and the residuals show how far to trust the map.
print(result)
figure = result.plot_fit(test)

# sphinx_gallery_thumbnail_number = 1
