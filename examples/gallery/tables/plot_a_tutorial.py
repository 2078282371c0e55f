"""
Tutorial: the curves behind the map of a pump
=============================================

From measurements to curves that can be drawn, judged, written down and used elsewhere, in ten minutes. The end of
this page has it as a notebook to download.
"""

# %%
# What was measured
# -----------------
# A centrifugal pump, at 120 points of its map: head and shaft power at 900 to 1500 rpm and 0 to 60 m³/h. The noise is
# 0.3 m and 0.05 kW. Samples are points X (S, m) with values F (S, n); names travel with them into every formula and
# picture. 40 more points are kept for the end.
import tempfile
from pathlib import Path

import numpy as np

import decouply as dc

rng = np.random.default_rng(0)
X = rng.uniform((900, 0), (1500, 60), (160, 2))
n, Q = X[:, 0] / 1450, X[:, 1]
head = 32 * n**2 + 0.06 * n * Q - 0.0052 * Q**2
power = 1.6 * n**3 + 0.072 * n**2 * Q - 0.00045 * n * Q**2
F = np.stack([head, power], axis=1) + rng.normal(size=(160, 2)) * (0.3, 0.05)
measured = dc.Samples(X, F=F, inputs=["speed", "flow"], outputs=["head", "power"])
samples, fresh = measured.take(np.arange(120)), measured.take(np.arange(120, 160))

# %%
# How many curves?
# ----------------
# ``dc.select`` fits several sizes and compares their errors in cross-validation.
choice = dc.select(
    samples, max_ranks=3, max_degrees=4, rng=0, max_seconds=20, progress=False
)
print(choice)

# %%
# The fit
# -------
# The recommended size again, with more starts. Head and power are sums of functions of one variable each. The first
# line is the verdict: what remains is noise. Thick lines contribute most, and dashed lines have negative weights.
result = dc.decouple(samples, choice.ranks, choice.degrees, rng=0, progress=False)
print(result)
figure = result.plot()
figure

# %%
# The note says that these parabolas can be mixed: other ones add up to the same head and power. So trust the sums,
# which the data determine, and do not interpret a single curve. :doc:`/understand/uniqueness` explains when curves are
# unique.

# %%
# Is it any good?
# ---------------
# The verdict asks whether the inputs could still predict the residuals. Here they cannot, so a larger model would not
# help. The errors on fresh points agree.
print(result.quality)
print("errors on fresh points, in %:", result.relative_rmse(fresh).round(2))
figure = result.plot_fit(fresh)
figure

# %%
# Which functions matter?
# -----------------------
# To see how much a function matters, remove it, fit the others again, and look at the error. The model needs all three.
for row in result.ablation(progress=False):
    print(f"without {row.index}: {row.error_without:.1f} %, with: {row.error:.1f} %")

# %%
# Written down
# ------------
# As text, LaTeX, Python, C or MATLAB, and as ONNX and safetensors files.
print(result.decoupling.formula())

# %%
# Used elsewhere
# --------------
# A file holds the model and how it was found. ``result.report("pump.html")`` writes a page with all of this for
# people who do not program.
file = Path(tempfile.mkdtemp()) / "pump.safetensors"
result.save(file)
model = dc.Decoupling.load(file)
print("head and power at 1200 rpm and 30 m³/h:", model([[1200, 30]]).round(2))

# %%
# Simulators such as Simulink, OpenModelica and FMPy import an FMU. Units in brackets become units of its variables.
model.with_names(["speed [rpm]", "flow [m3/h]"], ["head [m]", "power [kW]"]).save_fmu(
    file.with_suffix(".fmu")
)

# sphinx_gallery_thumbnail_number = 1
