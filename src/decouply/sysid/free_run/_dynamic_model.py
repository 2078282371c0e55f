"""What all models with memory have in common: formulas, source code, files and a page, from one step of the model."""

from __future__ import annotations

import abc
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..._support._errors import InputError, ModelFileError
from ...bases import AbstractBasis
from ...model._decoupling import Decoupling
from ...model._functions import Functions, Outside
from ...write._formula import Kind
from ...write._step_source import as_function_name, as_language, step_source
from ..signals._records import Signals
from ._report_data import PageContent, dynamics

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ...report import Dynamics

_ROUNDING_OF_DOMAIN = 1e-9  # of the width of a domain: what arguments may lie beyond it by rounding


class AbstractDynamicModel(abc.ABC):
    """A model with memory that is one step (x, u) -> (x+, y) after the other, and a decoupling inside.

    To add one, write a file with a class that derives from this one and has the members below, and add a line to
    `sysid/__init__.py`. Formulas, source code, ONNX, files, the page and both commands, `identify` apart, then know it.
    """

    kinds: ClassVar[list[type[AbstractDynamicModel]]] = []  # all classes of models that files may hold
    page_title: ClassVar[str]

    def __init_subclass__(cls) -> None:
        AbstractDynamicModel.kinds.append(cls)

    @property
    @abc.abstractmethod
    def n_states(self) -> int:
        """The number n of states of `step`."""

    @property
    @abc.abstractmethod
    def step(self) -> Decoupling:
        """One step (x, u) -> (x+, y), in measured units."""

    if TYPE_CHECKING:  # a property or a field, which would take an abstract property for its default

        @property
        def decoupling(self) -> Decoupling:
            """The map that formulas show and files hold: one step, or that from regressors to outputs."""

    @property
    @abc.abstractmethod
    def is_causal(self) -> bool:
        """Whether outputs depend on past and present inputs alone."""

    @property
    @abc.abstractmethod
    def training_records(self) -> Signals | None:
        """The records that the model was fitted to, if it keeps them."""

    @property
    @abc.abstractmethod
    def channel_names(self) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
        """Names of inputs and outputs, if the model keeps them."""

    @abc.abstractmethod
    def simulate(self, u: object, y_init: Any) -> ndarray:
        """Run freely from the state that the first outputs give."""

    @abc.abstractmethod
    def page_content(self, signals: Signals) -> PageContent:
        """What the page about a run on these records says of the model."""

    @abc.abstractmethod
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a .safetensors file; `dc.Decoupling.load` reads the same file as `decoupling`."""

    @classmethod
    @abc.abstractmethod
    def load(cls, path: str | os.PathLike[str], *, bases: Sequence[type[AbstractBasis]] = ()) -> Any:
        """Read a file written by `save`; name your own basis classes in `bases` if the model uses them."""

    # On paper and in other languages

    def formula(self, kind: Kind = "text", *, digits: int | None = None) -> Any:
        """`decoupling` written out, in measured units; see `Decoupling.formula`."""
        return self.decoupling.formula(kind, digits=digits)

    def step_source(self, language: str = "c", *, name: str = "step") -> str:
        """A function ``step(state, u)`` in C99 or MATLAB that runs the model sample by sample.

        C: ``void step(double *state, const double *u, double *y)``, which computes the outputs and overwrites the
        states; MATLAB and Octave: ``[state, y] = step(state, u)``. Simulink takes either. States are those of `step`:
        of a NARX model u(t-1), ..., u(t-n_u), y(t-1), ..., y(t-n_y). `name` is what the function is called: in MATLAB
        that of its file.
        """
        if not self.is_causal:
            raise InputError(
                "`oversample` must be 1 to run a model sample by sample: in between, inputs are interpolated from "
                "later ones. Got more."
            )
        written_in = as_language(language)
        return step_source(self.step, self.n_states, written_in, as_function_name(name, written_in))

    def save_onnx(self, path: str | os.PathLike[str], **options: Any) -> None:
        """Write `decoupling` as ONNX; options as for `Decoupling.save_onnx`."""
        self.decoupling.save_onnx(path, **options)

    # On a record

    def dynamics(self, u: object = None, y: object = None, n_init: int | None = None) -> Dynamics:
        """The free run over a record beside that of a linear model, with errors, residuals and a verdict.

        By default it is the first training record, if the model keeps it. The run begins with the first `n_init`
        outputs, by default 50 or a quarter of the record.
        """
        if (u is None) != (y is None):
            raise InputError("`u` and `y` must be given together, or both left out.")
        signals = self.training_records if u is None else Signals.read(u, y)
        if signals is None:
            raise InputError(
                f"`u` and `y` must be given: this {type(self).__name__} does not keep the records it was fitted to."
            )
        return dynamics(self.page_content(signals), signals, n_init)

    def plot_response(self, u: object = None, y: object = None, *, dark: bool = False) -> Figure:
        """Draw the free run against measured outputs, with a zoom and errors; records as for `dynamics`."""
        from ...report import plot_response

        return plot_response(self.dynamics(u, y), dark=dark)

    def report(
        self,
        path: str | os.PathLike[str],
        u: object = None,
        y: object = None,
        *,
        n_init: int | None = None,
        title: str | None = None,
        command: str | None = None,
    ) -> None:
        """Write a page about the free run on a record; `u`, `y` and `n_init` as for `dynamics`."""
        from ...report import write_dynamic_report

        shown = self.dynamics(u, y, n_init)
        write_dynamic_report(shown, path, title=title or self.page_title, formula=self.formula(), command=command)


def load_dynamic_model(path: str | os.PathLike[str]) -> AbstractDynamicModel | None:
    """The dynamic model that a file holds, of any kind; None if it holds something else."""
    for kind in AbstractDynamicModel.kinds:
        try:
            return kind.load(path)
        except ModelFileError:
            continue
    return None


def with_visited_domains(model: Decoupling, points: Float[ndarray, "S m"], outside: Outside) -> Decoupling:
    """The same model on the ranges that its functions visit at these points, and beyond them what `outside` says."""
    g = [_on_range(g, u, outside) for g, u in zip(model.g, model.arguments(points), strict=True)]
    return model.with_parts(g=g)


def _on_range(functions: Functions, u: Float[ndarray, "S r"], outside: Outside) -> Functions:
    low, high = u.min(axis=0), u.max(axis=0)
    slack = _ROUNDING_OF_DOMAIN * functions.half_width
    varies = high - low > slack
    domain = np.where(varies[:, None], np.stack([low, high], axis=1), functions.domain)
    try:
        functions = functions.on_domain(domain)
    except InputError as error:  # their basis is tied to the domain that it has
        beyond = varies & ((low < functions.domain[:, 0] - slack) | (high > functions.domain[:, 1] + slack))
        if outside != "extend" and beyond.any():
            j = int(np.flatnonzero(beyond)[0])
            raise InputError(
                f'`outside` must be "extend" for functions of {functions.layer.bases[j]!r} here. Got "{outside}": the '
                f"training regressors reach [{low[j]:.4g}, {high[j]:.4g}], beyond their domain "
                f"[{functions.domain[j, 0]:.4g}, {functions.domain[j, 1]:.4g}], which cannot be changed."
            ) from error
    return Functions(functions.layer.bases, functions.C, functions.domain, outside)
