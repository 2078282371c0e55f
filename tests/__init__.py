"""The run-time checker of annotations: array shapes and types are checked during tests.

Every function is checked at its first calls. All calls of all functions would take as long as the tests themselves, and
the ten-thousandth step of a solver has the shapes of the tenth.
"""

import functools
import inspect

import jaxtyping
from beartype import BeartypeConf, beartype

_CHECKED_CALLS = 100  # of every function, in every process of the tests
_every_call = jaxtyping.jaxtyped

# A whole number is welcome where a float is asked for, as everywhere in Python.
typechecked = beartype(conf=BeartypeConf(is_pep484_tower=True))


def _first_calls(*function, **options):
    """`jaxtyping.jaxtyped` for the first calls of a function; classes are checked whenever they are built."""
    if not function:
        return functools.partial(_first_calls, **options)
    plain, checked = function[0], _every_call(*function, **options)
    if not inspect.isfunction(plain):
        return checked
    left = _CHECKED_CALLS

    @functools.wraps(plain)
    def call(*args, **kwargs):
        nonlocal left
        if left <= 0:
            return plain(*args, **kwargs)
        left -= 1
        return checked(*args, **kwargs)

    return call


jaxtyping.jaxtyped = _first_calls  # what the import hook of `--jaxtyping-packages` puts in front of every function
