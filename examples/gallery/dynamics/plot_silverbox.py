r"""
Silverbox: a measured oscillator in thirty numbers
==================================================

The Silverbox is an electronic circuit that behaves like a mass on a hardening spring. This page fits a polynomial NARX
model with 56 coefficients to a record, decouples it into three functions of one variable, and refines these for
simulation.
"""

# %%
# The record
# ----------
# The data are downloaded once, or read from the folder that ``DECOUPLY_DATA`` names.
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import decouply as dc

data = dc.data.silverbox()
train, test = data.train, data.multisine
print(f"{len(train.u)} samples to learn from, {len(test.u)} to test on")

# %%
# From 56 coefficients to 30 parameters
# -------------------------------------
narx = dc.sysid.PolynomialNARX(n_u=1, n_y=3, degree=3).fit(train.u, train.y)
decoupled = narx.decouple(ranks=3, rng=0, progress=False)
refined = decoupled.refine(train.u, train.y, progress=False)

# %%
# Simulations
# -----------
# Every model starts with the 50 measured outputs that the benchmark allows and is then fed its own outputs. Note the
# scales: the output reaches 200 mV, the errors a hundredth of that.
figure, axes = plt.subplots(2, 1, figsize=(9, 5), sharex=True, layout="constrained")
shown = slice(2000, 2300)
axes[0].plot(1e3 * test.y[shown], color="black", linewidth=1)
axes[0].set_ylabel("output (mV)")
for name, model, colour in (
    ("polynomial, 56 coefficients", narx, "#56B4E9"),
    ("decoupled, 30 parameters", decoupled, "#D55E00"),
    ("refined for simulation, 30 parameters", refined, "#009E73"),
):
    simulated = model.simulate(test.u, test.y_init)
    label = f"{name}: {1e3 * test.rmse(simulated):.2f} mV"
    axes[1].plot(
        1e3 * (simulated - test.y)[shown], label=label, color=colour, linewidth=1
    )
axes[1].set(xlabel="sample", ylabel="error (mV)")
legend = figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=8)

# %%
# What is inside
# --------------
# The delays go in on the left. Three functions of one variable are all the nonlinearity there is: the hardening spring
# and what the sampling makes of it.
figure = refined.plot()

# %%
# The model as a formula, in volts.
print(refined.formula(digits=3))

# %%
# For a simulator
# ---------------
# An FMU makes one step of the model per sample, 610 times a second. The delayed inputs and outputs that a run begins
# with are its parameters.
file = Path(tempfile.mkdtemp()) / "silverbox.fmu"
refined.save_fmu(file, sampling_time=1 / 610.35)
print(f"{file.stat().st_size / 1000:.0f} kB")
