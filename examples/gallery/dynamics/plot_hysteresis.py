"""
A mount with hysteresis
=======================

A rubber mount carries a machine. Its force depends on the last turning point of the motion, so the mount has a memory
that nobody measures. Only the force on the machine and its displacement are recorded.
"""

# %%
# A record
# --------
# The mount follows the equations of Bouc and Wen, with a hidden force z. The displacement has 0.5 % of noise.
import matplotlib.pyplot as plt
import numpy as np

import decouply as dc


def displacement(force, dt=0.3, substeps=10):
    state, measured = np.zeros(3), []
    for f in force:
        measured.append(state[0])
        for _ in range(substeps):
            x, v, z = state
            slopes = (
                v,
                f - 0.2 * v - 0.6 * x - z,
                0.8 * v - 0.9 * abs(v) * z - 0.3 * v * abs(z),
            )
            state = state + dt / substeps * np.array(slopes)
    return np.array(measured)


rng = np.random.default_rng(0)
force = np.convolve(rng.standard_normal(2000), np.hanning(20) / 3, mode="same")
clean = displacement(force)
record = clean + 0.005 * clean.std() * rng.standard_normal(2000)

# %%
# Four states and three curves
# ----------------------------
# The curves are of the kind that saturates. The record itself says what the hidden states must be.
model = dc.sysid.DecoupledStateSpace(4, [dc.bases.Tanh()] * 3, feedthrough=False)
model = model.fit(force, record, n_starts=3, progress=False)
for row in model.starts:
    errors = f"training {row.training:.2%}, validation {row.validation:.2%}"
    print(f"{row.start:10} {errors}")

# %%
# The loop
# --------
# A slow wave, which the model has not seen, shows the loop of the mount. That of a linear model is an ellipse.
wave = np.sin(2 * np.pi * np.arange(400) / 100)
true = displacement(wave)
figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.plot(wave[100:], true[100:], color="0.7", linewidth=5, label="the mount")
for name, one, colour in (
    ("linear", model.linear_twin(), "#D55E00"),
    ("three curves", model, "#0072B2"),
):
    simulated = one.simulate(wave, true[:50])
    print(f"{name:13} fit {dc.sysid.percent_fit(true, simulated)[0]:.1f} %")
    ax.plot(wave[100:], simulated[100:], color=colour, linewidth=1, label=name)
ax.set(xlabel="force", ylabel="displacement")
ax.legend(frameon=False)
figure.show()

# %%
# What it has found
# -----------------
# One step of the model as a network.
figure = model.plot()

# sphinx_gallery_thumbnail_number = 1
