"""What people ask of a model that rooms above this one answer: names of its functions, formulas, pictures, files.

Every method is one call up, so that it is found on the object in one's hands.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from .._support._arguments import as_some_points

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class AbstractModelFacade:
    """The methods of a `Decoupling` that call up."""

    # What its functions are

    def recognise(
        self: Any,
        X: object,
        *,
        curves: Sequence[str] | None = None,
        tolerance: float | None = None,
        max_seconds: float | None = None,
        progress: bool | Callable[..., None] = True,
    ) -> Any:
        r"""Name the internal functions: for each the simplest curve that the data cannot distinguish from it.

        Polynomials up to degree 5, tanh, saturation, dead zone, \|u\|, ReLU, leaky ReLU, friction, sine, exponential,
        logarithm, Gaussian and a rational function compete. Misfit and number of parameters rank them. A sigmoid is a
        tanh. Names that are no better than a smooth curve of any shape are not given.

        Parameters
        ----------
        X : (S, m), or `Samples`
            The points where the functions are looked at. With samples that hold values or Jacobians these are what
            curves are compared with, and the noise in them is what curves may be off by. With points, the functions
            themselves.
        curves : sequence of str, optional
            Names to choose from. All of them by default.
        tolerance : float, optional
            What a curve may be off by at single points whatever the samples say, as a share of the standard deviation
            of the function: 0.002 by default, and 0.02 if there are points only.
        max_seconds : float, optional
            After about so long no more kinds are tried. Functions that were not reached have no name. None is no limit.
        progress : bool or callable
            As in `decouple`.

        Returns
        -------
        Recognition
            A table of names with the evidence for them. ``recognition[1, 2].best`` is the curve of g_1,2.

        Notes
        -----
        With a linear part and a single layer, straight lines can move between the functions and the linear part. Then
        \|u\| and ReLU, or saturation and dead zone, are the same, and the first of each is named.

        Examples
        --------
        >>> import decouply as dc, numpy as np
        >>> g = dc.Functions(dc.bases.Saturation(), [[0.0, 1.0]], domain=(-1.4, 1.4))
        >>> model = dc.Decoupling([[[1.0, 0.5]], [[2.0]]], [g])
        >>> model.recognise(np.random.default_rng(0).uniform(-1, 1, (200, 2))).sentences()
        ('g_1 is a saturation at u = ±0.7',)
        """
        from ..fit.interpret._recognise import recognise

        return recognise(self, X, curves=curves, tolerance=tolerance, max_seconds=max_seconds, progress=progress)

    def ablation(
        self: Any, samples: Any, *, max_seconds: float = 20.0, progress: bool | Callable[..., None] = True
    ) -> tuple[Any, ...]:
        """What every function is worth: the error of the model without it.

        Sizes of contributions mislead if these cancel each other. Here the other functions of the layer, of the same
        arguments, and all that follows are fitted again. Returns one row per function, layer by layer, with `layer`,
        `index` (from 1), `error`, `error_without` (both in percent) and `refitted`: whether the time was enough for
        that.

        Parameters
        ----------
        samples : Samples
            What the model was fitted to.
        max_seconds : float
            Time for all functions together.
        progress : bool or callable
            As for `dc.decouple`.
        """
        from ..fit._simplification import ablation

        return ablation(self, samples, max_seconds=max_seconds, progress=progress)

    def simplified(
        self: Any,
        X: object,
        *,
        curves: Mapping[tuple[int, int], str] | Sequence[str] | None = None,
        prune: bool = True,
        tolerance: float | None = None,
        max_seconds: float | None = None,
        progress: bool | Callable[..., None] = True,
    ) -> Any:
        """Put curves that have names in place of functions, drop and merge functions, and refit the rest.

        Parameters
        ----------
        X : (S, m), or `Samples`
            What the simpler model is fitted to: values and Jacobians of the samples, or this model at the points.
        curves : dict or sequence of str, optional
            Which function becomes what, such as ``{(1, 2): "saturation"}`` for g_1,2; or names to choose from. By
            default every function becomes what `recognise` calls it, and one without a name stays as it is.
        prune : bool
            Whether functions that do nothing are dropped and functions that double each other merged, if that is
            worth the parameters that it saves.
        tolerance : float, optional
            As in `recognise`.
        max_seconds : float, optional
            After about so long nothing more is tried, and the best so far is returned. None is no limit but one minute
            for every fit.
        progress : bool or callable
            As in `decouple`.

        Returns
        -------
        Simplified
            The simpler model with its `Result`, and what every step did to the error.

        Examples
        --------
        >>> import decouply as dc, numpy as np
        >>> X = np.random.default_rng(0).uniform(-1, 1, (200, 2))
        >>> F = np.clip(X @ [[1.0], [0.5]], -0.7, 0.7)
        >>> result = dc.decouple(dc.Samples(X, F=F), ranks=1, basis=dc.Spline(16))
        >>> simpler = result.decoupling.simplified(result.samples).decoupling
        >>> simpler.g[0].basis, simpler.n_parameters
        (Saturation(), 5)
        """
        from ..fit._simplification import simplified

        return simplified(
            self, X, curves=curves, prune=prune, tolerance=tolerance, max_seconds=max_seconds, progress=progress
        )

    # Files and screens

    def formula(
        self: Any,
        kind: Literal["text", "html", "latex", "python", "c", "matlab", "sympy"] = "text",
        *,
        inputs: Collection[str] | None = None,
        outputs: Collection[str] | None = None,
        digits: int | None = None,
        exact: bool = False,
    ) -> Any:
        """The model written out, layer by layer.

        Parameters
        ----------
        kind : "text", "html", "latex", "python", "c", "matlab" or "sympy"
            "text", "html" and "latex" for reading, "sympy" for a tuple of expressions. The others are source code with
            the Jacobian in closed form. With "python", functions f and f_jacobian of the inputs take numbers or arrays
            and return a tuple, of rows for the Jacobian. With "c", ``void f(const double *x, double *y)`` and
            ``void f_jacobian(const double *x, double *J)`` in C99, with J row by row. With "matlab", ``[y, J] = f(x)``
            of a vector, for MATLAB and Octave. The sources compute functions by the recurrence of their basis, so that
            high degrees lose no digits.
        inputs, outputs : sequence of str, optional
            Names of the variables. By default those of the model, and x1, x2, ... and y1, y2, ... if it has none.
            For "python" and "sympy" they must be Python names. Names of the model are changed into such.
        digits : int, optional
            Significant digits of the coefficients. By default 4 for reading, and all of them otherwise. Arguments
            whose domain is far from 0 get as many more as that distance takes.
        exact : bool
            For reading, the numbers that the model holds, with every digit. By default signs and scales are easy to
            read. The largest weight of a function is positive, and that of its argument is 1 if numbers stay near 1.
            Polynomials are powers of u, or of u minus the middle of the domain if their terms would cancel. Terms that
            the digits do not show are left out.

        Examples
        --------
        >>> import decouply as dc
        >>> square = dc.Functions(dc.Monomial(2), [[0.0, 0.5, 1.0]])
        >>> print(dc.Decoupling([[[1.0, 2.0]], [[3.0]]], [square]).formula())
        u1 = x1 + 2 x2
        y1 = 1.5 u1 + 3 u1^2
        >>> square = dc.Functions(dc.Monomial(2), [[0.0, 0.5, 1.0]], domain=(300.0, 302.0), outside="linear")
        >>> model = dc.Decoupling([[[1.0, 2.0]], [[3.0]]], [square], linear=[[0.0, 0.2]], offset=[4.0])
        >>> print(model.formula(inputs=["a", "b"]))
        u1 = a + 2 b - 301
        z1 = 1.5 u1 + 3 u1^2  for -1 <= u1 <= 1, its tangents beyond
        y1 = z1 + 0.2 b + 4
        """
        from ..write._formula import formula

        return formula(self, kind, inputs=inputs, outputs=outputs, digits=digits, exact=exact)

    def plot(
        self: Any,
        X: object,
        *,
        inputs: Collection[str] | None = None,
        outputs: Collection[str] | None = None,
        dark: bool = False,
    ) -> Figure:
        """Draw the network as a block diagram, with its functions over the range that the points X visit.

        It is `Result.plot` for a model without a result, and so without bands.

        Parameters
        ----------
        X : array (S, m)
            Points.
        inputs, outputs : collection of str, optional
            Names of the variables; by default those of the model.
        dark : bool
            Light lines on a dark ground.

        Returns
        -------
        matplotlib.figure.Figure

        Examples
        --------
        >>> import decouply as dc, numpy as np
        >>> model, X = dc.systems.f1(), np.random.default_rng(0).uniform(-1, 1, (20, 2))
        >>> len(model.plot(X).axes)
        1
        """
        from ..report import Layout, draw_diagram

        return draw_diagram(Layout.of(self, X, inputs=inputs, outputs=outputs), dark=dark)

    def plot_functions(self: Any, X: object, *, dark: bool = False) -> Figure:
        """Draw the internal functions over the range that the points X visit; ticks mark the points.

        Parameters
        ----------
        X : array (S, m)
            Points.
        dark : bool
            Light lines on a dark ground.

        Returns
        -------
        matplotlib.figure.Figure
            One panel per function.

        Examples
        --------
        >>> import decouply as dc, numpy as np
        >>> model, X = dc.systems.f1(), np.random.default_rng(0).uniform(-1, 1, (20, 2))
        >>> len(model.plot_functions(X).axes)
        4
        """
        from ..report import plot_functions

        return plot_functions(self, as_some_points("X", X, self.n_inputs), dark=dark)

    def save(self: Any, path: str | os.PathLike[str]) -> None:
        """Write a .safetensors file: arrays and a short description, no pickle."""
        from ..write._model_file import save_model

        save_model(self, path)

    def save_onnx(
        self: Any,
        path: str | os.PathLike[str],
        *,
        dtype: Literal["float32", "float64"] = "float32",
        input_name: str = "x",
        output_name: str = "y",
        jacobian_name: str | None = None,
        opset: int | None = None,
    ) -> None:
        """Write an ONNX file of MatMul, Mul and Add, for any number of points.

        Cos, Sin, Tanh and activations come in if a basis needs them, Clip if functions are not extended beyond their
        domains, and Concat if a layer has several bases. Functions are computed by the recurrence of their basis.

        Parameters
        ----------
        dtype : "float32" or "float64"
            Type of input, output and arithmetic.
        input_name, output_name : str
            What the points (S, m) and the values (S, n) are called in the graph.
        jacobian_name : str, optional
            What the Jacobians (S, n, m) are called, as a second output. Without a name the graph does not compute them.
        opset : int, optional
            Version of the operators: by default 17, or 20 if the model has GELUs, which are operators from there on.
            Name it if a program asks for another one.

        Examples
        --------
        >>> import decouply as dc
        >>> dc.systems.f1().save_onnx("f1.onnx", dtype="float64")  # doctest: +SKIP
        """
        from ..write._onnx import save_onnx

        save_onnx(
            self,
            path,
            dtype=dtype,
            input_name=input_name,
            output_name=output_name,
            jacobian_name=jacobian_name,
            opset=opset,
        )

    def save_fmu(self: Any, path: str | os.PathLike[str]) -> None:
        """Write an FMU, which Simulink, Modelica tools and FMPy import: FMI 2.0, co-simulation and model exchange.

        It holds the C sources, the Jacobian as directional derivatives, and a binary for this platform if there is a C
        compiler. Names such as "speed [rpm]" become a name and a unit. Inputs start in the middle of the range that the
        model was fitted to.

        Examples
        --------
        >>> import decouply as dc
        >>> dc.systems.f1().save_fmu("f1.fmu")  # doctest: +SKIP
        """
        from ..write._fmu import save_fmu

        save_fmu(self, path)

    def _repr_html_(self: Any) -> str:
        from ..write._notebook import decoupling_html

        return decoupling_html(self)
