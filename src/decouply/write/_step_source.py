"""Dynamic models as source code with a function that carries the state from one sample to the next.

For C99, ``void step(double *state, const double *u, double *y)``: it computes the outputs y of this sample and
overwrites the state; an S-function or a C Caller block of Simulink can call it. For MATLAB and Octave, ``[state, y] =
step(state, u)``, which fits a MATLAB Function block.
"""

from __future__ import annotations

from ..model._decoupling import Decoupling
from ._formula import formula
from ._function_names import Language


def state_space_source(step: Decoupling, n_states: int, language: Language, name: str) -> str:
    """Of a map (x, u) -> (x+, y); the state is x."""
    n, m, p = n_states, step.n_inputs - n_states, step.n_outputs - n_states
    if language == "matlab":
        lines = ["v = f([state(:); u(:)]);", f"state = v(1:{n});", f"y = v({n + 1}:{n + p});"]
        return _matlab(step, name, lines, f"state: {n} numbers; u: {m}; y: {p}")
    lines = [
        f"double in[{n + m}], out[{n + p}];",
        f"for (int i = 0; i < {n}; i++) in[i] = state[i];",
        f"for (int i = 0; i < {m}; i++) in[{n} + i] = u[i];",
        "f(in, out);",
        f"for (int i = 0; i < {n}; i++) state[i] = out[i];",
        f"for (int i = 0; i < {p}; i++) y[i] = out[{n} + i];",
    ]
    return _c(step, name, lines, f"state: {n} numbers; u: {m}; y: {p}")


def narx_source(model: Decoupling, n_u: int, n_y: int, n_inputs: int, language: Language, name: str) -> str:
    """Of a map (u(t), ..., u(t - n_u), y(t - 1), ..., y(t - n_y)) -> y(t); the state is all but u(t)."""
    p, of_u = model.n_outputs, n_u * n_inputs
    size = of_u + n_y * p
    what = f"state: {size} numbers, u(t-1), ..., u(t-{n_u}), y(t-1), ..., y(t-{n_y}); u: {n_inputs}; y: {p}"
    if language == "matlab":
        lines = ["v = [u(:); state(:)];", "y = f(v);"]
        lines += [f"state = [v(1:{of_u}); y; v({n_inputs + of_u + 1}:{n_inputs + size - p})];"]
        return _matlab(model, name, lines, what)
    lines = [
        f"double in[{n_inputs + size}];",
        f"for (int i = 0; i < {n_inputs}; i++) in[i] = u[i];",
        f"for (int i = 0; i < {size}; i++) in[{n_inputs} + i] = state[i];",
        "f(in, y);",
        f"for (int i = 0; i < {of_u}; i++) state[i] = in[i];",
        f"for (int i = {size - 1}; i >= {of_u + p}; i--) state[i] = state[i - {p}];",
        f"for (int i = 0; i < {p if n_y else 0}; i++) state[{of_u} + i] = y[i];",
    ]
    return _c(model, name, lines, what)


def _c(model: Decoupling, name: str, lines: list[str], what: str) -> str:
    source = formula(model, "c").replace("void f(", "static void f(")
    head = ["", f"/* One sample. {what}. */", f"void {name}(double *state, const double *u, double *y)", "{"]
    return source + "\n".join([*head, *(f"    {line}" for line in lines), "}"]) + "\n"


def _matlab(model: Decoupling, name: str, lines: list[str], what: str) -> str:
    head = [f"function [state, y] = {name}(state, u)", f"% One sample. {what}."]
    return "\n".join([*head, *lines, "end", "", formula(model, "matlab")])
