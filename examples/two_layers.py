"""The picture at the top of the README: f2 as a network of its internal functions, found from 60 samples.

Run it with `python examples/two_layers.py docs`. It writes two-layers.png and two-layers-dark.png, for white and for
black pages, without a ground of their own.
"""

import sys
from pathlib import Path

import numpy as np

import decouply as dc

system = dc.systems.f2()
X = np.random.default_rng(0).uniform(-1, 1, (60, 3))
samples = dc.Samples(X, F=system(X), J=system.jacobian(X))
result = dc.decouple(samples, ranks=(2, 2), degrees=(3, 3))
print(result, "match with the true factors:", round(dc.factor_match(result.decoupling, system), 12))
folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
for name, dark in (("two-layers", False), ("two-layers-dark", True)):
    result.plot(dark=dark).savefig(folder / f"{name}.png", dpi=150, facecolor="none")
