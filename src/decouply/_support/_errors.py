"""Exceptions and warnings of the package, each also a built-in kind.

Every message names the argument, the rule, what was received and the way out, in that order.
"""


class DecouplingError(Exception):
    """Base of every error raised on purpose by this package."""


class InputError(DecouplingError, ValueError):
    """An argument breaks a rule that is stated in the message."""


class ModelFileError(DecouplingError, ValueError):
    """A file cannot be read as a model."""


class SampleFileError(DecouplingError, ValueError):
    """A file cannot be read as samples."""


class DataError(DecouplingError, RuntimeError):
    """A data set is not there, cannot be downloaded, or is damaged."""


class MissingExtraError(DecouplingError, ImportError):
    """A package is needed that only an extra installs; the message names the command."""


class SolverError(DecouplingError, RuntimeError):
    """No start of a solver gave a usable answer."""


class DecouplingWarning(UserWarning):
    """Something the user should know, although a result is returned."""
