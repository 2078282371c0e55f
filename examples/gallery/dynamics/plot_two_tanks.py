r"""
Two tanks: a measured process that overflows
============================================

A pump fills an upper tank, which drains into a lower one. If a tank is full, water spills over the edge. Only the pump
voltage and the level of the lower tank are known: a public benchmark with 1024 samples to learn from.
"""

# %%
# The record
# ----------
# The data are downloaded once, or read from the folder that ``DECOUPLY_DATA`` names.
import matplotlib.pyplot as plt

import decouply as dc

data = dc.data.cascaded_tanks()
train, test = data.train, data.test
print(f"{len(train.u)} samples to learn from, {len(test.u)} to test on")

# %%
# Two states and two curves
# -------------------------
# Each tank is a state. The curves have to describe the outflow, which grows with the root of the level, and the edge.
# The second one sees the state alone.
curves = [dc.bases.Tanh(), dc.sysid.StateFunction(dc.bases.Tanh())]
model = dc.sysid.DecoupledStateSpace(2, curves, feedthrough=False)
model = model.fit(train.u, train.y, n_starts=3, progress=False)
for row in model.starts:
    errors = f"training {row.training:.1%}, validation {row.validation:.1%}"
    print(f"{row.start:10} {errors}")

# %%
# A simulation of the test
# ------------------------
# The model sees the voltage and the first 50 levels. All other levels are its own.
figure, axes = plt.subplots(2, 1, figsize=(9, 5), sharex=True, layout="constrained")
axes[0].plot(test.y, color="black", linewidth=1, label="measured")
for name, one, colour in (
    ("linear", model.linear_twin(), "#D55E00"),
    ("two curves", model, "#0072B2"),
):
    simulated = one.simulate(test.u, test.y_init)
    print(f"{name:10} {test.rmse(simulated):.3f} V on the test")
    axes[0].plot(simulated, color=colour, linewidth=1, label=name)
    axes[1].plot(simulated - test.y, color=colour, linewidth=1)
axes[0].set_ylabel("level (V)")
axes[1].set(xlabel="sample", ylabel="error (V)")
axes[0].legend(frameon=False, ncols=3)
figure.show()

# %%
# What it has found
# -----------------
# One step of the model as a network.
figure = model.plot()
