r"""
A tensor, and what is behind it
===============================

Some data are a tensor from the start: for every person a matrix of answers, for every time a table of trade. ParaTuck-2
writes each slice with the same few factors, weighted slice by slice:

.. math:: J_s = W_2\, D_2^{(s)}\, W_1\, D_1^{(s)}\, W_0.

Here forty slices of 5 by 4 numbers are decomposed, without any functions.
"""

# %%
# A tensor with hidden factors
# ----------------------------
import matplotlib.pyplot as plt
import numpy as np

import decouply as dc

rng = np.random.default_rng(0)
W = (rng.normal(size=(3, 4)), rng.normal(size=(2, 3)), rng.normal(size=(5, 2)))
time = np.linspace(0, 1, 40)
waves = 1.5 + np.sin(np.outer(time, [3, 7, 11, 17, 23]) + np.arange(5))
G = (waves[:, :3], waves[:, 3:])
hidden = dc.ParaTuck(W, G)
J = hidden.to_tensor()
print(
    "tensor:",
    J.shape,
    "so",
    J.size,
    "numbers from",
    sum(factor.size for factor in (*W, *G)),
)

# %%
# Decompose it
# ------------
# Two eigenvalue problems find the factors. No start is random.
fit = dc.paratuck(J, ranks=(3, 2))
print(fit)

# %%
# The factors, found again
# ------------------------
# Components can be permuted and scaled without changing the tensor, and every slice can move a factor between the two
# weights. Products of two weights, each relative to the first slice, are free of that choice.
figure, axes = plt.subplots(2, 3, figsize=(9, 4), sharex=True, layout="constrained")
found = fit.paratuck.G


def product(G, i, j):
    values = G[0][:, i] * G[1][:, j]
    return values / values[0]


for j in range(2):
    for i in range(3):
        pairs = [(a, b) for a in range(3) for b in range(2)]
        true = product(G, i, j)
        best = min(pairs, key=lambda pair: np.abs(product(found, *pair) - true).max())
        axes[j, i].plot(time, true, color="0.7", linewidth=5, label="hidden")
        axes[j, i].plot(time, product(found, *best), color="#0072B2", label="found")
        axes[j, i].set_title(f"component {i + 1} with {j + 1}")
axes[0, 0].legend(frameon=False)
figure.supxlabel("time")
figure.show()
