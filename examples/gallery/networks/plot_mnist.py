r"""
MNIST: most of a network as ten curves
======================================

A network of fully connected layers, 784-80-60-40-10, reads handwritten digits. Everything behind its first hidden layer
is replaced by ten functions of one variable, found from unlabelled images.
"""

# %%
# The network
# -----------
# The images are downloaded once, or read from the folder that ``DECOUPLY_DATA`` names.
import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import nn

import decouply as dc

torch.manual_seed(0)
data = dc.data.mnist()


def pixels(images):
    return torch.tensor(images.reshape(len(images), -1) / np.float32(255))


X, labels = pixels(data.train.images), torch.tensor(np.array(data.train.labels)).long()
X_test, test_labels = (
    pixels(data.test.images),
    torch.tensor(np.array(data.test.labels)).long(),
)
net = nn.Sequential(
    nn.Linear(784, 80),
    nn.ReLU(),
    nn.Linear(80, 60),
    nn.ReLU(),
    nn.Linear(60, 40),
    nn.ReLU(),
    nn.Linear(40, 10),
)
optimiser = torch.optim.Adam(net.parameters(), lr=1e-3)
for _ in range(2):
    for rows in torch.split(torch.randperm(len(X)), 128):
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(X[rows]), labels[rows]).backward()
        optimiser.step()


def accuracy(network):
    with torch.no_grad():
        return float((network(X_test).argmax(1) == test_labels).double().mean())


print(f"accuracy on the test images: {accuracy(net):.4f}")

# %%
# Replace modules 2 to 6
# ----------------------
# Five thousand images without their labels are enough. The score is used for the report only.
out = dc.nn.compress(
    net,
    parts=("2", "6"),
    data=X[:5000],
    ranks=10,
    degrees=4,
    task="classification",
    evaluation=dc.nn.Evaluation(score=accuracy),
    rng=0,
    progress=False,
)
print(out.report)

# %%
# The curves
# ----------
# 80 features go in, 10 scores come out; only the most important inputs are shown.
figure = out.decoupling.plot(
    out.result.samples.X, outputs=[f"digit {k}" for k in range(10)]
)

# %%
# The images whose class changed
# ------------------------------
# The first sixteen of them. Some are hard to read for people, too.
with torch.no_grad():
    before, after = net(X_test).argmax(1), out.model(X_test).argmax(1)
changed = torch.nonzero(before != after)[:, 0]
print(f"{len(changed)} of {len(X_test)} test images changed their class")
figure, axes = plt.subplots(2, 8, figsize=(8, 2.6), layout="constrained")
for ax in axes.ravel():
    ax.set_axis_off()
for ax, k in zip(axes.ravel(), changed[:16], strict=False):
    ax.imshow(data.test.images[int(k)], cmap="gray_r")
    ax.set_title(f"{before[k]} → {after[k]}, is {test_labels[k]}", fontsize=7)
