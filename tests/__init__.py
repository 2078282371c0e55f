"""The run-time checker of annotations: array shapes and types are checked during tests.

Every function, and every record when it is built, is checked at its first calls. All calls of all functions would take
as long as the tests themselves, and the ten-thousandth step of a solver has the shapes of the tenth. What checks a
function is made when it is called first, and not again for those that are defined within others at every call.
"""

import dataclasses
import functools
import inspect
from collections import defaultdict

import jaxtyping
from beartype import BeartypeConf, beartype

_CHECKED_CALLS = 100  # of every function, in every process of the tests
_calls = defaultdict(int)  # that were checked, by module and name
_every_call = jaxtyping.jaxtyped

# A whole number is welcome where a float is asked for, as everywhere in Python.
typechecked = beartype(conf=BeartypeConf(is_pep484_tower=True))


def _first_calls(*function, **options):
    """`jaxtyping.jaxtyped` for the first calls of a function, and of the `__init__` of a dataclass."""
    if not function:
        return functools.partial(_first_calls, **options)
    (plain,) = function
    if inspect.isclass(plain):
        if dataclasses.is_dataclass(plain) and "__init__" in vars(plain):
            plain.__init__ = _first_calls(plain.__init__, **options)
        return plain
    if not inspect.isfunction(plain):
        return _every_call(plain, **options)
    name = plain.__module__, plain.__qualname__
    if _calls[name] >= _CHECKED_CALLS:
        return plain
    checked = None

    @functools.wraps(plain)
    def call(*args, **kwargs):
        nonlocal checked
        if _calls[name] >= _CHECKED_CALLS:
            return plain(*args, **kwargs)
        _calls[name] += 1
        if checked is None:
            checked = _every_call(plain, **options)
        return checked(*args, **kwargs)

    return call


jaxtyping.jaxtyped = _first_calls  # what the import hook of `--jaxtyping-packages` puts in front of every function
