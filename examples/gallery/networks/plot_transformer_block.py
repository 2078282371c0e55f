"""
The curves inside a transformer block
=====================================

A small transformer reads handwritten digits as sixteen patches. The two MLPs in its blocks, which treat every token
alike, are replaced by a few functions of one variable each, which are then drawn. Attention stays as it is.
"""

# %%
# Train
# -----
# Digits of 8 x 8 pixels from scikit-learn, as sixteen tokens of 2 x 2 pixels. A third of them is kept for the test.
import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

import decouply as dc

torch.manual_seed(0)
images, labels = load_digits(return_X_y=True)
tokens = torch.tensor(images / 8.0 - 1.0, dtype=torch.float32)
tokens = tokens.reshape(-1, 4, 2, 4, 2).transpose(2, 3).reshape(-1, 16, 4)
order = torch.randperm(len(tokens))
train, test = order[:1200], order[1200:]
classes = torch.tensor(labels)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        z = self.before(x)
        x = x + self.attention(z, z, z, need_weights=False)[0]
        return x + self.mlp(self.between(x))


class Digits(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.patch, self.place = (
            nn.Linear(4, width),
            nn.Parameter(0.1 * torch.randn(16, width)),
        )
        self.blocks = nn.Sequential(Block(width), Block(width))
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        return self.head(self.blocks(self.patch(x) + self.place).mean(dim=1))


net = Digits()
optimiser = torch.optim.Adam(net.parameters(), lr=4e-3)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, 900)
for _ in range(900):
    some = train[torch.randint(len(train), (64,))]
    optimiser.zero_grad()
    nn.functional.cross_entropy(net(tokens[some]), classes[some]).backward()
    optimiser.step()
    schedule.step()


def accuracy(network):
    with torch.no_grad():
        return float((network(tokens[test]).argmax(1) == classes[test]).float().mean())


print(f"accuracy on new digits: {accuracy(net.eval()):.3f}")

# %%
# Compress
# --------
# A quarter of the parameters of both MLPs is kept, divided between the two by how sensitive the network is to each.
# Labels are not needed. This is one network, and the degree was chosen after a look at these scores: a comparison with
# narrow, pruned and rounded networks over fresh seeds is in :doc:`/benchmarks/networks`.
out = dc.nn.compress(
    net,
    parts=["blocks.*.mlp"],
    data=tokens[train],
    budget=dc.nn.Budget(parameters=0.25),
    degrees=5,
    task="classification",
    fitting=dc.nn.Fitting(start="random"),
    training=dc.nn.Training(
        refine=dc.nn.Distil(max_steps=1500),
        joint=dc.nn.Distil(max_steps=800, rate=5e-3, batch_size=64),
    ),
    progress=False,
)
print(out.report)
print(f"accuracy: {accuracy(net):.3f} before, {accuracy(out.model):.3f} after")

# %%
# The learned curves
# ------------------
# Every function reads one direction of a token. GELU has one bend, always the same; these have found their own. Below
# each curve is how often tokens of new digits visit it. A curve means nothing in places without tokens.
rows = []
for name, layer in out.layers.items():
    with layer.record_inputs() as seen, torch.no_grad():
        out.model(tokens[test])
    rows.append((name, layer.to_decoupling(), torch.cat(seen).double().numpy()))
columns = 8
heights = [-(-model.ranks[0] // columns) for _, model, _ in rows]
figure, axes = plt.subplots(
    sum(heights),
    columns,
    figsize=(8, 1.1 * sum(heights)),
    layout="constrained",
    squeeze=False,
)
for ax in axes.flat:
    ax.set(xticks=[], yticks=[], ylim=(-0.05, 1.05))
    ax.set_axis_off()
for (name, model, u), first in zip(rows, np.cumsum([0, *heights]), strict=False):
    g = model.g[0]
    reach = np.linalg.norm(model.W[1], axis=0) * g(u).std(
        axis=0
    )  # how much a function does to the token
    for ax, j in zip(axes[first:].flat, np.argsort(-reach), strict=False):
        grid = np.linspace(*np.quantile(u[:, j], [0.002, 0.998]), 200)
        curve = g(np.tile(grid[:, None], (1, g.rank)))[:, j]
        size = max(np.ptp(curve), 1e-12)
        ax.plot(grid, (curve - curve.min()) / size, color="#0072B2")
        ax.hist(
            u[:, j], bins=grid[::8], weights=np.full(len(u), 1.5 / len(u)), color="0.85"
        )
        ax.set_axis_on()
    axes[first, 0].set_ylabel(name)

# %%
# What a function does
# --------------------
# The strongest one of the first block, on four digits: how far each patch pushes its token along this function.
name, model, _ = rows[0]
four = test[:4]
with out.layers[name].record_inputs() as seen, torch.no_grad():
    out.model(tokens[four])
values = model.g[0](torch.cat(seen).double().numpy())
strongest = int(np.argmax(np.linalg.norm(model.W[1], axis=0) * values.std(axis=0)))
figure, axes = plt.subplots(2, 4, figsize=(7, 3.6), layout="constrained")
for k, (above, below) in enumerate(axes.T):
    above.imshow(images[four[k]].reshape(8, 8), cmap="gray_r")
    below.imshow(values[16 * k : 16 * (k + 1), strongest].reshape(4, 4), cmap="PuOr")
    for ax in (above, below):
        ax.set(xticks=[], yticks=[])
axes[0, 0].set_ylabel("digit")
axes[1, 0].set_ylabel(f"function {strongest + 1}")
