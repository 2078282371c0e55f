"""A loop over time as Python code on floats: compiled once per shape of a model, with its numbers as arguments.

A recursion cannot be vectorised over time, so each of its steps must be cheap. Straight-line arithmetic on Python
floats is about ten times as fast per step as NumPy on arrays of five numbers. A shape is the bases of the functions,
what they do outside their domains, and which weights are 0 and stay 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from ...bases import AbstractAlgebra
from ...write._equations import function
from ...write._source import compiled
from ._step import StepArrays

_SHAPES_KEPT = 128  # compiled loops: a scan over sizes has some tens
_DEEPEST_BRACKETS = 40  # before a part of a polynomial gets a name: Python refuses to parse some hundred

compiled_loop = lru_cache(maxsize=_SHAPES_KEPT)(compiled)


class Recursion:
    """The simulation of all models of one shape.

    Parameters
    ----------
    step
        A model of this shape.
    n
        The number of states.
    free
        Entries of `step` that may move: a mask by the name of a part, as in `FreeParameters`. If nothing moves, a
        weight that is 0 is left out.
    """

    def __init__(self, step: StepArrays, n: int, free: dict[str, Bool[ndarray, "..."]]) -> None:
        self._n = n
        self._used = [_rows_used(W, free.get(f"W{l}")) for l, W in enumerate(step.W)]
        self._used[-1] = self._used[-1][:n]
        self._linear = _rows_used(step.linear, free.get("linear"))[:n]
        for l in range(step.n_layers, 0, -1):  # functions that nothing listens to are not computed
            heard = {j for row in self._used[l] if row is not None for j in row}
            self._used[l - 1] = [row if j in heard else None for j, row in enumerate(self._used[l - 1])]
        self._loop: Callable[..., list[tuple[float, ...]]] | None = None
        if n and all(basis.writable for layer in step.layers for basis in layer.bases):
            self._loop = compiled_loop(self._source(step))

    def states(self, step: StepArrays, inputs: list[Any], x0: list[float]) -> Float[ndarray, "_ n"]:
        """The states before every step; fewer than inputs if the model cannot be computed any more."""
        n = self._n
        if self._loop is not None:
            lines = _Lines()  # of which the numbers are taken
            self._next_states(step, lines)
            rows = self._loop(inputs, x0, lines.numbers)
            return np.fromiter(chain.from_iterable(rows), float, n * len(rows)).reshape(-1, n)
        states, x = np.empty((len(inputs), n)), np.array(x0)
        for t, v in enumerate(inputs if n else ()):
            states[t] = x
            x = step.values(np.append(x, v)[None])[0, :n]
        return states

    def _next_states(self, step: StepArrays, lines: _Lines) -> list[str]:
        """Write x+ as lines of code on x0, x1, ..., the states and the inputs."""
        z = [f"x{i}" for i in range(step.n_inputs)]
        entering = z
        for W, g, used in zip(step.W, step.g, self._used, strict=False):
            C, middle, half = g.C, g.middle.tolist(), g.half_width.tolist()
            after: list[str] = []
            for j, (basis, columns) in enumerate(zip(g.layer.bases, used, strict=True)):
                if columns is None:
                    after.append("")
                    continue
                u = lines.weighted_sum([(W[j, i], entering[i]) for i in columns])
                t = lines.on_window(u, middle[j], half[j])
                after.append(function(lines, basis, t, C[j, : 1 + basis.size], g.outside))
            entering = after
        W = step.W[-1]
        return [
            lines.weighted_sum(
                [(W[i, j], entering[j]) for j in self._used[-1][i] or ()]
                + [(step.linear[i, j], z[j]) for j in self._linear[i] or ()],
                step.offset[i],
            )
            for i in range(self._n)
        ]

    def _source(self, step: StepArrays) -> str:
        """A function f(inputs, state, numbers) that returns the states before every step."""
        n, lines = self._n, _Lines()
        after, z = self._next_states(step, lines), [f"x{i}" for i in range(step.n_inputs)]
        states, entering = ", ".join(z[:n]) + ",", ", ".join(z[n:])
        numbers = ", ".join(f"k{i}" for i in range(len(lines.numbers)))
        called = sorted(lines.called)
        return "\n".join(
            [
                *([f"from math import {', '.join(called)}"] if called else []),
                "def f(inputs, state, numbers):",
                f"    {numbers}, = numbers" if numbers else "    pass",
                "    rows = []",
                "    keep = rows.append",
                f"    {states} = state",
                "    try:",
                f"        for {entering} in inputs:",
                f"            keep(({states}))",
                *(f"            {line}" for line in lines.lines),
                f"            {states} = {', '.join(after)},",
                "    except (ArithmeticError, ValueError):",
                "        pass",
                "    return rows",
                "",
            ]
        )


def _rows_used(W: Float[ndarray, "r k"], free: Bool[ndarray, "r k"] | None) -> list[list[int] | None]:
    """For every row the columns that are not 0, or may move."""
    used = (W != 0.0) if free is None else (W != 0.0) | free
    return [np.flatnonzero(row).tolist() for row in used]


class _Lines(AbstractAlgebra[str]):
    """Expressions are names of variables, operations are lines, and every number is an argument k0, k1, ..."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.called: set[str] = set()
        self.numbers: list[float] = []

    def number(self, value: Any) -> str:
        self.numbers.append(float(value))
        return f"k{len(self.numbers) - 1}"

    def sum(self, terms: Sequence[str]) -> str:
        return self._named(" + ".join(terms))

    def product(self, factors: Sequence[str]) -> str:
        return self._named("*".join(factors))

    def apply(self, function: str, argument: str) -> str:
        if function == "reciprocal":
            return self._named(f"1.0/{argument}")
        self.called |= {function} - {"abs"}
        return self._named(f"{function}({argument})")

    def clip(self, argument: str, low: float, high: float) -> str:
        text = argument
        for end, beyond in ((high, ">"), (low, "<")):
            text = f"{end!r} if {argument} {beyond} {end!r} else {text}" if np.isfinite(end) else text
        return self._named(text)

    def polynomial(self, coefficients: Sequence[Any], argument: str) -> str:
        value = self.number(coefficients[-1])
        for depth, a in enumerate(reversed(coefficients[:-1]), start=1):
            value = f"({self.number(a)} + {argument}*{value})"
            value = self._named(value) if depth % _DEEPEST_BRACKETS == 0 else value
        return self._named(value)

    def weighted_sum(self, terms: list[tuple[float, str]], constant: float | None = None) -> str:
        parts = [f"{self.number(w)}*{name}" for w, name in terms]
        parts += [] if constant is None else [self.number(constant)]
        return self._named(" + ".join(parts) or "0.0")

    def on_window(self, u: str, middle: float, half: float) -> str:
        return self._named(f"({u} - {self.number(middle)})/{self.number(half)}")

    def _named(self, text: str) -> str:
        self.lines.append(f"v{len(self.lines)} = {text}")
        return f"v{len(self.lines) - 1}"
