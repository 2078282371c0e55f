"""The run-time checker of annotations: array shapes and types are checked at every call during tests."""

from beartype import BeartypeConf, beartype

# A whole number is welcome where a float is asked for, as everywhere in Python.
typechecked = beartype(conf=BeartypeConf(is_pep484_tower=True))
