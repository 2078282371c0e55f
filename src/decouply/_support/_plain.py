"""Numbers and arrays as what JSON has."""

from __future__ import annotations

import math
from typing import Any


def plain(content: Any) -> Any:
    """Only what JSON has: arrays become lists, NaN and infinity become null."""
    if isinstance(content, dict):
        return {str(key): plain(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [plain(value) for value in content]
    if isinstance(content, float):
        return content if math.isfinite(content) else None
    return plain(content.tolist()) if hasattr(content, "tolist") else content
