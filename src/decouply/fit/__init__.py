"""From samples to a model: `decouple`, `select`, and the records of what they return."""

from ._classification import ClassQuality
from ._result import Alternative
from ._settings import Settings
from ._simplification import AblationRow, Change, Simplified
from .interpret._importances import Importances
from .interpret._recognise import NamedCurve, RecognisedFunction, Recognition
from .quality._quality import Grade, Quality, Verdict
from .select._selection import Selection

__all__ = [
    "AblationRow",
    "Alternative",
    "Change",
    "ClassQuality",
    "Grade",
    "Importances",
    "NamedCurve",
    "Quality",
    "RecognisedFunction",
    "Recognition",
    "Selection",
    "Settings",
    "Simplified",
    "Verdict",
]
