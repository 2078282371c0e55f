"""
From a record to a state-space model
====================================

An oscillator with a hardening spring and dry friction is simulated, and identified from its input and output alone.
"""

# %%
# A record
# --------
# The spring is cubic, the friction a tanh of the velocity. The output is measured with a little noise.
import numpy as np

import decouply as dc

rng = np.random.default_rng(0)
force = np.convolve(rng.standard_normal(2400), np.ones(4) / 4, mode="same")
position = np.zeros(2400)
x = v = 0.0
for t, f in enumerate(force):
    position[t] = x
    v += 0.2 * (f - x - 0.5 * x**3 - 0.2 * v - 0.3 * np.tanh(4 * v))
    x += 0.2 * v
position += 1e-3 * rng.standard_normal(2400)
u, y = force[:1600], position[:1600]
u_test, y_test = force[1600:], position[1600:]

# %%
# Which size?
# -----------
# One call compares sizes on data that it holds back. The table says what every number of states gives.
bases = [dc.Monomial(3), dc.bases.Tanh()]
found = dc.sysid.identify(u, y, n_states=(1, 2, 3), functions=bases, progress=False)
print(found)

# %%
# Fit
# ---
# The linear model is listed as well: the difference is what the functions contribute.
model = dc.sysid.DecoupledStateSpace(2, bases).fit(u, y, n_starts=3, progress=False)
for row in model.starts:
    errors = f"training {row.training:.3%}, validation {row.validation:.3%}"
    print(f"{row.start:10} {errors}")
print(model, "->", model.canonical().n_parameters, "in canonical form")

# %%
# How good is it?
# ---------------
# A simulation of a record that was not used for fitting, and a test of the residuals.
simulated = model.simulate(u_test, y_test[:50])
print("percent fit", dc.sysid.percent_fit(y_test, simulated))
print(dc.sysid.residual_tests(u_test, y_test - simulated).in_words())
figure = model.plot_response(u_test, y_test)

# %%
# What it has found
# -----------------
# One step as a network: a spring and friction.
figure = model.plot()
