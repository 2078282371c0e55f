"""Dynamic models as source code with a function that carries the state from one sample to the next.

For C99, ``void step(double *state, const double *u, double *y)``: it computes the outputs y of this sample and
overwrites the state; an S-function or a C Caller block of Simulink can call it. For MATLAB and Octave, ``[state, y] =
step(state, u)``, which fits a MATLAB Function block.
"""

from __future__ import annotations

from ..model._decoupling import Decoupling
from ..model._names import as_c_comment
from ._formula import formula
from ._function_names import Language


def step_source(step: Decoupling, n_states: int, language: Language, name: str) -> str:
    """Source of a map (x, u) -> (x+, y); the state is x."""
    n, m, p = n_states, step.n_inputs - n_states, step.n_outputs - n_states
    states = f", {', '.join(step.inputs[:n])}" if n and step.inputs is not None else ""
    what = f"One sample. state: {n} numbers{as_c_comment(states)}; u: {m}; y: {p}."
    if language == "matlab":
        lines = [
            f"function [state, y] = {name}(state, u)",
            f"% {what}",
            "v = f([state(:); u(:)]);",
            f"state = v(1:{n});",
            f"y = v({n + 1}:{n + p});",
            "end",
            "",
        ]
        return "\n".join([*lines, formula(step, "matlab")])
    lines = [
        "",
        f"/* {what} */",
        f"void {name}(double *state, const double *u, double *y)",
        "{",
        f"    double in[{n + m}], out[{n + p}];",
        f"    for (int i = 0; i < {n}; i++) in[i] = state[i];",
        f"    for (int i = 0; i < {m}; i++) in[{n} + i] = u[i];",
        "    f(in, out);",
        f"    for (int i = 0; i < {n}; i++) state[i] = out[i];",
        f"    for (int i = 0; i < {p}; i++) y[i] = out[{n} + i];",
        "}",
    ]
    return formula(step, "c").replace("void f(", "static void f(") + "\n".join(lines) + "\n"
