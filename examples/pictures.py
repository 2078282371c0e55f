"""The pictures of docs/pictures.md: a noisy system, decoupled once by the default solver and once in two stages.

Run it with `python examples/pictures.py docs/pictures`.
"""

import sys
from pathlib import Path

import numpy as np

import decouply as dc


def f(X):
    """Two outputs of three inputs, through a saturation, a square and a cubic."""
    a, b, c = X @ [1.0, 0.5, 0.0], X @ [0.0, 1.0, -1.0], X @ [1.0, 0.0, 1.5]
    return np.stack([np.tanh(2 * a) + 0.6 * b**2, 0.4 * b**2 - 0.3 * c**3], axis=1)


folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
folder.mkdir(parents=True, exist_ok=True)
rng = np.random.default_rng(0)
clean = dc.Samples.from_function(f, rng.uniform(-1, 1, (60, 3)), jac="central")
F = clean.F + 0.2 * rng.normal(size=clean.F.shape)
samples = dc.Samples(clean.X, F=F, J=clean.J + 1.0 * rng.normal(size=clean.J.shape))
names = {"inputs": ["pressure", "temperature", "valve"], "outputs": ["flow", "level"]}

result = dc.decouple(samples, ranks=3, degrees=5)
stages = dc.decouple(
    samples, 3, 5, solver=dc.TwoStage(dc.Constr(stopping=dc.solvers.Stopping(max_steps=100)), beta=10), n_starts=16
)
pictures = {
    "network": result.plot(**names),
    "network-dark": result.plot(**names, dark=True),
    "functions": result.plot_functions(),
    "fit": result.plot_fit(outputs=names["outputs"]),
    "history": stages.plot_history(),
    "starts": stages.plot_starts(),
}
for name, figure in pictures.items():
    figure.savefig(folder / f"{name}.png", dpi=100)
