"""
Compressing a network, end to end
=================================

We train a small network on three spirals and replace most of it by five functions of one variable. Then we look at the
result: its size, its accuracy, and its functions.
"""

# %%
# Train
# -----
# Three interleaved spirals in the plane, seen through ten noisy sensors.
import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import nn

import decouply as dc

torch.manual_seed(0)
rng = np.random.default_rng(0)


def spirals(n, rng):
    """Points on three arms, in ten dimensions, with their arm."""
    arm = rng.integers(0, 3, n)
    t = rng.uniform(0.3, 2.2, n)
    angle = 2.2 * t + 2 * np.pi * arm / 3
    plane = np.stack(
        [t * np.cos(angle), t * np.sin(angle)], axis=1
    ) + 0.08 * rng.normal(size=(n, 2))
    sensors = np.random.default_rng(7).normal(size=(2, 10))
    return (
        plane,
        (plane @ sensors + 0.05 * rng.normal(size=(n, 10))).astype(np.float32),
        arm,
    )


plane, X, arms = spirals(3000, rng)
test_plane, X_test, test_arms = spirals(2000, rng)
net = nn.Sequential(
    nn.Linear(10, 16),
    nn.ReLU(),
    nn.Linear(16, 64),
    nn.ReLU(),
    nn.Linear(64, 32),
    nn.ReLU(),
    nn.Linear(32, 3),
)
optimiser = torch.optim.Adam(net.parameters(), lr=1e-2)
for _ in range(400):
    optimiser.zero_grad()
    nn.functional.cross_entropy(net(torch.tensor(X)), torch.tensor(arms)).backward()
    optimiser.step()


def accuracy(network):
    with torch.no_grad():
        return float(
            (network(torch.tensor(X_test)).argmax(1).numpy() == test_arms).mean()
        )


print(f"accuracy on new points: {accuracy(net):.3f}")

# %%
# Compress
# --------
# Everything behind the first hidden layer, modules 2 to 6, becomes one decoupling. The inputs need no labels. The
# network itself is not changed.
judged = dc.nn.Evaluation(score=accuracy)
out = dc.nn.compress(
    net,
    parts=("2", "6"),
    data=X,
    ranks=5,
    degrees=4,
    task="classification",
    evaluation=judged,
    progress=False,
)
print(out.report)

# %%
# The learned functions
# ---------------------
# This is all that is left of three layers: five directions, five curves, and how they add up to three scores.
figure = out.decoupling.plot(out.result.samples.X)

# %%
# The classes, before and after
# -----------------------------
with torch.no_grad():
    before, after = (
        network(torch.tensor(X_test)).argmax(1).numpy() for network in (net, out.model)
    )
colours = np.array(["#0072B2", "#D55E00", "#009E73"])
figure, axes = plt.subplots(1, 2, figsize=(8, 4), layout="constrained")
for ax, classes, title in zip(
    axes, (before, after), ("the network", "with the decoupling"), strict=True
):
    ax.scatter(*test_plane.T, s=4, c=colours[classes])
    ax.set(title=title, aspect="equal")
changed = before != after
axes[1].scatter(
    *test_plane[changed].T, s=25, facecolors="none", edgecolors="black", label="changed"
)
axes[1].legend(frameon=False)
print(f"{changed.sum()} of {len(changed)} points changed their class")

# %%
# Ship it
# -------
# The new part is a formula, an ONNX file that needs no PyTorch, or simply the module ``out.model``.
print("\n".join(out.decoupling.formula(digits=2).splitlines()[5:8]), "\n...")
