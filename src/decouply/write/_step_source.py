"""Dynamic models as source code: a function that carries the state from one sample to the next.

For C99, ``void step(double *state, const double *u, double *y)``: it computes the outputs y of this sample and
overwrites the state. An S-function or a C Caller block of Simulink can call it. For MATLAB and Octave, ``[state, y] =
step(state, u)``, which fits a MATLAB Function block. Its name must not be a word of the language.
"""

from __future__ import annotations

import re
from typing import Literal

from .._support._arguments import is_word
from .._support._errors import InputError, short_repr
from ..model._decoupling import Decoupling
from ..model._names import as_c_comment
from ._formula import formula

Language = Literal["c", "matlab"]
LONGEST = 63  # letters that MATLAB tells apart
_NAME = re.compile(f"[A-Za-z][A-Za-z0-9_]{{0,{LONGEST - 1}}}")
_WORDS = {
    # C99, later editions, and C++, since headers are shared.
    "c": """alignas alignof asm auto bool break case catch char class const constexpr continue default delete do double
        else enum explicit export extern false final float for friend goto if inline int long main mutable namespace
        new noexcept nullptr operator override private protected public register restrict return short signed sizeof
        static static_assert struct switch template this thread_local throw true try typedef typeid typename typeof
        union unsigned using virtual void volatile wchar_t while""",
    # MATLAB and Octave.
    "matlab": """break case catch classdef continue do else elseif end end_try_catch end_unwind_protect endclassdef
        endenumeration endevents endfor endfunction endif endmethods endparfor endproperties endswitch endwhile
        enumeration events for function global if methods otherwise parfor persistent properties return spmd switch
        try until unwind_protect unwind_protect_cleanup while""",
}
_CALLED = {
    # All of math.h, which is included; those for float and long double have f or l behind.
    "c": """acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp10 exp2 expm1 fabs fdim
        floor fma fmax fmin fmod fpclassify frexp gamma hypot ilogb isfinite isinf isnan isnormal j0 j1 jn ldexp lgamma
        llrint llround log log10 log1p log2 logb lrint lround modf nan nearbyint nextafter nexttoward pow remainder
        remquo rint round scalbln scalbn signbit sin sinh sqrt tan tanh tgamma trunc y0 y1 yn""",
    "matlab": "abs clipped cos double exp log sin tanh",
}


def as_language(given: object) -> Language:
    """One of the languages that a step is written in."""
    if is_word(given, ("c", "matlab")):
        return "c" if given == "c" else "matlab"
    raise InputError(f'`language` must be "c" or "matlab". Got {short_repr(given)}.')


def as_function_name(given: object, language: Language) -> str:
    """A name that a function may have in a language."""
    wrong = what_is_wrong(given, language) if isinstance(given, str) else "it is no text"
    if wrong:
        raise InputError(
            f"`name` must begin with a letter, hold at most {LONGEST} letters, digits and underscores, and be no word "
            f"of the language, nor f or another function that is called. Got {short_repr(given)}: {wrong}."
        )
    return str(given)


def what_is_wrong(name: str, language: Language) -> str:
    """Why a function cannot have this name, as a sentence; empty if it can."""
    if not _NAME.fullmatch(name):
        return "it is no name"
    if name in _WORDS[language].split():
        return f"it is a word of {'C' if language == 'c' else 'MATLAB'}"
    stem = name[:-1] if language == "c" and name.endswith(("f", "l")) else name
    if name == "f" or {name, stem} & set(_CALLED[language].split()):
        return "a function of this name is called"
    return ""


def near_function_name(text: str, language: Language) -> str:
    """A name that a function may have, as near as possible to this text."""
    name = re.sub(r"\W", "_", text, flags=re.ASCII)[:LONGEST]
    return name if not what_is_wrong(name, language) else f"model_{name}"[:LONGEST]


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
        return "\n".join([*lines, formula(step, "matlab", jacobian=False)])
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
    return formula(step, "c", jacobian=False).replace("void f(", "static void f(") + "\n".join(lines) + "\n"
