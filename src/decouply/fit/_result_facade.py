"""What people ask of a result that rooms above this one answer: pictures, the page, formulas, files.

Every method is one call up, so that it is found on the object in one's hands.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Literal

from .._support._arguments import as_flag
from ..bases import AbstractBasis
from ..samples._samples import Samples

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class AbstractResultFacade:
    """The methods of a `Result` that call up."""

    # Formulas

    def formula(
        self: Any,
        kind: Literal["text", "html", "latex", "python", "c", "matlab", "sympy"] = "text",
        *,
        inputs: Collection[str] | None = None,
        outputs: Collection[str] | None = None,
        exact: bool = False,
    ) -> Any:
        """The model written out, for reading with as many digits as the samples can tell; see `Decoupling.formula`.

        Numbers are rounded, and terms left out, as long as that does not raise the error by more than 2 %. For reading,
        curves that have names take the place of splines, and other splines get fewer pieces, if the samples cannot tell
        the difference. With ``exact=True``, and in source code, the model is written as it is.

        Examples
        --------
        >>> import decouply as dc, numpy as np
        >>> X = np.random.default_rng(0).uniform(-1, 1, (100, 2))
        >>> print(dc.decouple(dc.Samples(X, F=(X @ [[1.0], [2.0]]) ** 3), progress=False).formula())
        u1 = x1 + 2 x2
        y1 = u1^3
        """
        from ..write._formula import result_formula

        return result_formula(self, kind, inputs=inputs, outputs=outputs, exact=exact)

    # Pictures, each on light or, with ``dark=True``, on dark paper

    def plot(
        self: Any,
        *,
        inputs: Collection[str] | None = None,
        outputs: Collection[str] | None = None,
        bands: bool = True,
        dark: bool = False,
    ) -> Figure:
        """Draw the network as a block diagram: inputs, W_0, functions, ..., W_L, outputs.

        Solid edges are positive weights and dashed ones negative; a thick line is a large contribution. Each function
        is a small curve over the range that the samples visit, dashed outside its domain; a linear part is a box below
        them. Of large layers the most important parts are shown.

        Parameters
        ----------
        inputs, outputs : sequence of str, optional
            Names of the variables; by default those of the samples, or x1, x2, ... and y1, y2, ...
        bands : bool
            Shade bands that hold a function at a place with 95 % probability, if the data determine it and the model is
            not very large. There are none with stored samples.
        dark : bool
            Light lines on black paper, here and in the other pictures.

        Returns
        -------
        matplotlib.figure.Figure
            Save it with `savefig`.

        Examples
        --------
        >>> import decouply as dc, numpy as np
        >>> X = np.random.default_rng(0).uniform(-1, 1, (60, 2))
        >>> samples = dc.Samples(X, F=(X @ [[1.0], [2.0]]) ** 3)
        >>> result = dc.decouple(samples, ranks=1, degrees=3)
        >>> figure = result.plot(inputs=["speed", "load"])
        >>> figure.savefig("network.pdf")  # doctest: +SKIP
        >>> len(figure.axes)
        1
        """
        from ..report import Layout, draw_diagram

        layout = Layout.of_result(self, inputs=inputs, outputs=outputs, bands=bands)
        return draw_diagram(layout, named=self.named_curves, dark=dark)

    def plot_functions(self: Any, *, bands: bool = True, dark: bool = False) -> Figure:
        """Draw the internal functions over the range that the samples visit, one panel each, with 95 % bands.

        A broad line is the curve that a function is recognised as. Ticks mark the samples. There are no bands with
        stored Jacobians, nor for very large models.

        Parameters
        ----------
        bands : bool
            Whether to draw 95 % bands.
        dark : bool
            Light lines on a dark ground.

        Returns
        -------
        matplotlib.figure.Figure

        Examples
        --------
        >>> import decouply as dc, numpy as np
        >>> X = np.random.default_rng(0).uniform(-1, 1, (60, 2))
        >>> result = dc.decouple(dc.Samples(X, F=(X @ [[1.0], [2.0]]) ** 3), ranks=1, degrees=3)
        >>> len(result.plot_functions().axes)
        1
        """
        from ..report import plot_functions

        known = self.bands() if as_flag("bands", bands) else None
        return plot_functions(self.decoupling, self.samples.shown.X, bands=known, named=self.named_curves, dark=dark)

    def plot_fit(
        self: Any, samples: Samples | None = None, *, outputs: Collection[str] | None = None, dark: bool = False
    ) -> Figure:
        """Draw measured against predicted values, and residuals below, on the given samples or on the fitted ones.

        Each output has two panels with its error; of more than twelve outputs the worst twelve are shown.

        Parameters
        ----------
        samples : Samples, optional
            Samples with values; by default the fitted ones.
        outputs : collection of str, optional
            Names of the outputs; by default those of the samples.
        dark : bool
            Light lines on a dark ground.

        Returns
        -------
        matplotlib.figure.Figure

        Examples
        --------
        >>> import decouply as dc, numpy as np
        >>> X = np.random.default_rng(0).uniform(-1, 1, (60, 2))
        >>> result = dc.decouple(dc.Samples(X, F=(X @ [[1.0], [2.0]]) ** 3), ranks=1, degrees=3)
        >>> len(result.plot_fit().axes)
        2
        """
        from ..report import plot_fit

        data = self._with_values(samples)
        return plot_fit(self.decoupling, data.shown, self.relative_rmse(data), outputs=outputs, dark=dark)

    def plot_history(self: Any, *, dark: bool = False) -> Figure:
        """Draw objective, Error(J) and Error(F) of the chosen start, iteration by iteration and for every lam in turn.

        `VarPro` looks at the objective only.

        Parameters
        ----------
        dark : bool
            Light lines on a dark ground.

        Returns
        -------
        matplotlib.figure.Figure

        Examples
        --------
        >>> import decouply as dc, numpy as np
        >>> X = np.random.default_rng(0).uniform(-1, 1, (60, 2))
        >>> result = dc.decouple(dc.Samples(X, F=(X @ [[1.0], [2.0]]) ** 3), ranks=1, degrees=3)
        >>> len(result.plot_history().axes)
        1
        """
        from ..report import plot_history

        return plot_history(self, dark=dark)

    def plot_starts(self: Any, *, dark: bool = False) -> Figure:
        """Draw how many starts reach which objective, one line per value of lam.

        Parameters
        ----------
        dark : bool
            Light lines on a dark ground.

        Returns
        -------
        matplotlib.figure.Figure

        Examples
        --------
        >>> import decouply as dc, numpy as np
        >>> X = np.random.default_rng(0).uniform(-1, 1, (60, 2))
        >>> result = dc.decouple(dc.Samples(X, F=(X @ [[1.0], [2.0]]) ** 3), ranks=1, degrees=3)
        >>> len(result.plot_starts().axes)
        1
        """
        from ..report import plot_starts

        return plot_starts(self, dark=dark)

    # The page, and files

    def report(
        self: Any,
        path: str | os.PathLike[str],
        *,
        title: str = "Decoupling report",
        inputs: Collection[str] | None = None,
        outputs: Collection[str] | None = None,
    ) -> None:
        """Write a page for people: one HTML file that needs no network.

        It has the verdict, the network with its functions, what matters, the formula, and the call to run it again.

        Parameters
        ----------
        inputs, outputs : sequence of str, optional
            Names of the variables. By default those of the samples, or x1, x2, ... and y1, y2, ...
        """
        from ..report import write_report

        write_report(self, path, title=title, inputs=inputs, outputs=outputs)

    def save(self: Any, path: str | os.PathLike[str], *, samples: bool = True) -> None:
        """Write the model with the record of its making to a .safetensors file.

        `Result.load` reads it again, and `Decoupling.load` the model alone. With ``samples=False`` the file is small,
        and the samples must be given to `Result.load`. Start values and solvers of your own are not kept.
        """
        from ..write._model_file import save_result

        save_result(self, path, samples=samples)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        samples: Samples | None = None,
        bases: Sequence[type[AbstractBasis]] = (),
    ) -> Any:
        """Read what `save` wrote; `samples` if they were not saved, `bases` for basis classes of your own."""
        from ..write._model_file import load_result

        return load_result(path, samples, bases)

    def _repr_html_(self: Any) -> str:
        from ..write._notebook import result_html

        return result_html(self)
