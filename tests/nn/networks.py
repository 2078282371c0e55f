"""Small trained networks for the tests."""

import dataclasses

import numpy as np
import torch
from torch import nn

import decouply as dc


def compress(network, parts, data, ranks="auto", degrees=4, **options):
    """`dc.nn.compress` with options by name, each put into the object that has it."""
    grouped = {}
    for name, kind in (("fitting", dc.nn.Fitting), ("training", dc.nn.Training), ("evaluation", dc.nn.Evaluation)):
        own = [field.name for field in dataclasses.fields(kind)]
        grouped[name] = kind(**{key: options.pop(key) for key in own if key in options})
    return dc.nn.compress(network, parts, data, ranks, degrees, **grouped, **options)


def blobs(n=600, seed=0):
    """Three classes in eight dimensions."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, n)
    centres = np.random.default_rng(1).normal(size=(3, 8)) * 1.5
    X = centres[labels] + rng.normal(size=(n, 8))
    return X.astype(np.float32), labels


def train(net, X, labels, steps=200):
    torch.manual_seed(0)
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-2)
    inputs, wanted = torch.tensor(X), torch.tensor(labels)
    for _ in range(steps):
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(inputs), wanted).backward()
        optimiser.step()
    return net


def sequential(seed=0, final=()):
    torch.manual_seed(seed)
    layers = [nn.Linear(8, 12), nn.ReLU(), nn.Linear(12, 30), nn.ReLU(), nn.Linear(30, 20), nn.ReLU(), nn.Linear(20, 3)]
    return nn.Sequential(*layers, *final)


class Own(nn.Module):
    """A forward method of its own, with functions between the modules."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.fc1, self.fc2, self.fc3, self.fc4 = (
            nn.Linear(8, 12),
            nn.Linear(12, 30),
            nn.Linear(30, 20),
            nn.Linear(20, 3),
        )
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        x = torch.relu(self.fc1(x))
        x = self.drop(torch.relu(self.fc2(x)))
        return torch.log_softmax(self.fc4(torch.relu(self.fc3(x))), dim=1)
