"""The call of `decouple` that gives a result again, as Python source."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

import decouply as dc

from ..bases import AbstractBasis
from ..fit._result import Result
from ..solvers import AbstractSolver, AbstractStart, Stopping, VarPro

_LONGEST_STATE = 400  # letters of the state of a generator
_SAVE = 'To keep them, write `result.samples.save("samples.npz")` in the program that made the result.'
_SAVE_VALIDATION = 'The validation samples are `result.settings.validation`, to be saved as "validation.npz".'
_IN_A_STORE = "They are in a store: open it again as you opened it before."


@dataclass(frozen=True)
class Again:
    """The source, and what the reader must know before running it, in sentences."""

    source: str
    remarks: tuple[str, ...]


def how_to_run_again(result: Result) -> Again:
    """Write down samples, settings and solver, and say what cannot be written down."""
    settings, samples = result.settings, result.samples
    writer = _Writer()
    names = ("ranks", "degrees", "basis", "linear", "solver", "as_given", "n_starts", "max_seconds", "shapes")
    arguments = {name: getattr(settings, name) for name in names} | {"solver": settings.solver or VarPro()}
    if settings.max_seconds is not None:  # what was left of a longer limit, to 16 digits
        arguments["max_seconds"] = round(settings.max_seconds, 2) or settings.max_seconds
    asked = {name: value for name, value in arguments.items() if value is not None and value is not False}
    call = [f"{name}={writer.source(value, name)}" for name, value in asked.items()]
    lines = ["import decouply as dc", ""]
    known = " and ".join(w for w, a in (("values", samples.has_values), ("Jacobians", samples.has_jacobians)) if a)
    stored = not samples.in_memory
    made = "..." if stored else 'dc.Samples.load("samples.npz")'
    lines.append(f"samples = {made}  # {samples.n_samples} points with {known}")
    if settings.validation is not None:
        points = settings.validation.n_samples
        lines.append(f'validation = dc.Samples.load("validation.npz")  # {points} points')
        call.append("validation=validation")
    seed, before, remark = _random(settings.rng)
    if before:
        lines.insert(0, "import numpy as np\n")
        lines += before
    call.append(f"rng={seed}")
    lines += ["result = dc.decouple(", "    samples,", *(f"    {item}," for item in call), ")"]
    where = _SAVE if not stored else _IN_A_STORE
    remarks = ["The samples are not in this page. " + where]
    if settings.validation is not None:
        remarks.append(_SAVE_VALIDATION)
    if writer.open:
        remarks.append(f"Your own part of it, which is not in this page either: {', '.join(writer.open)}.")
    if remark:
        remarks.append(remark)
    return Again("\n".join(lines) + "\n", tuple(remarks))


class _Writer:
    """Values as source; what cannot be written gets a name that is remembered in `open`."""

    def __init__(self) -> None:
        self.open: list[str] = []

    def source(self, value: Any, name: str) -> str:
        if value is None or isinstance(value, bool | str):
            return repr(value)
        if isinstance(value, Integral | Real):
            return repr(int(value) if isinstance(value, Integral) else float(value))
        if isinstance(value, tuple | list) or (isinstance(value, np.ndarray) and value.ndim == 1):
            items = [self.source(item, f"{name}{i + 1}") for i, item in enumerate(value)]
            return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
        if isinstance(value, dict):
            return "{" + ", ".join(f"{k!r}: {self.source(v, str(k))}" for k, v in value.items()) + "}"
        if isinstance(value, type):
            return self._class(value)
        if isinstance(value, AbstractBasis | AbstractSolver | AbstractStart | Stopping) and dataclasses.is_dataclass(
            value
        ):
            return f"{self._class(type(value))}({', '.join(self._fields(value))})"
        if name not in self.open:
            self.open.append(name)
        return name

    def _class(self, kind: type) -> str:
        for room, path in ((dc, "dc"), (dc.bases, "dc.bases"), (dc.solvers, "dc.solvers")):
            if getattr(room, kind.__name__, None) is kind:
                return f"{path}.{kind.__name__}"
        if kind.__name__ not in self.open:
            self.open.append(kind.__name__)
        return kind.__name__

    def _fields(self, value: Any) -> list[str]:
        """Arguments without a default by place, the others by name if they differ from it."""
        found = []
        for field in dataclasses.fields(value):
            given = getattr(value, field.name)
            if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
                found.append(self.source(given, field.name))
                continue
            usual = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
            if repr(given) != repr(usual):
                found.append(f"{field.name}={self.source(given, field.name)}")
        return found


def _random(rng: int | np.random.Generator) -> tuple[str, list[str], str]:
    """What to pass as rng, the lines before it, and a sentence if there is something to know."""
    if not isinstance(rng, np.random.Generator):
        return str(int(rng)), [], ""
    state = rng.bit_generator.state
    kind = type(rng.bit_generator).__name__
    if len(repr(state)) > _LONGEST_STATE:
        return (
            "rng",
            [],
            f"The random numbers came from a generator ({kind}), so there is no seed, and its state is "
            "too long to print. `result.settings.rng` holds it as it was; give a whole number as `rng` next time.",
        )
    before = [f"rng = np.random.Generator(np.random.{kind}())", f"rng.bit_generator.state = {state!r}"]
    return (
        "rng",
        before,
        "The random numbers came from a generator, so there is no seed: the state that the generator had "
        "before the run is written out instead.",
    )
