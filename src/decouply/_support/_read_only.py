"""Arrays that stay read-only when their object is copied or pickled, which NumPy forgets."""

from __future__ import annotations

from typing import Any

from numpy import ndarray


class ReadOnlyArrays:
    """What a frozen dataclass with checked arrays derives from."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        for value in state.values():
            for array in value if isinstance(value, tuple) else (value,):
                if isinstance(array, ndarray):
                    array.flags.writeable = False
        self.__dict__.update(state)
