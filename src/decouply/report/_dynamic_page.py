"""The page and the pictures of a dynamic model: response, functions, linear part, residuals, how it was found."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Complex, Float
from markupsafe import Markup
from matplotlib.figure import Figure
from numpy import ndarray

from .._support._atomic_files import write_text
from ..fit.quality._quality import Grade
from ..model._decoupling import Decoupling
from ..model._names import label
from ._figures import plot_functions
from ._page import render_page
from ._style import house_style, new_figure

_ZOOM = 200  # samples around the largest output
_MOST_DRAWN = 24  # signals of a layer: more cannot be read
_MOST_SAMPLES = 4000  # of a line
_AROUND = 2.0  # half the height of a panel of correlations over that of its band, at least
_AT_ONCE = 1e-6  # size of a pole that is over within a sample
_MOST_STEPPED = 3  # inputs and outputs with a step response
_SETTLED, _SHORTEST, _LONGEST = 5.0, 20, 2000  # time constants of the slowest pole, within these numbers of samples
_AUTO = (("auto", 1, "autocorrelation"),)  # attribute, first lag, title
_CROSS = (("cross", 0, "correlation with past input"),)


@dataclass(frozen=True, eq=False)
class Dynamics:
    """What is shown of a dynamic model on one record.

    Attributes
    ----------
    y, y_hat, y_linear : (T, outputs)
        Measured outputs, the simulation of the model, and that of the linear model with as many states.
    step, points
        One step (x, u) -> (x+, y), and points (x, u) along the training records.
    poles, moving
        Poles of the linear part, and of the model linearised at many points of its run.
    auto, cross, band
        Correlations of the residuals, and half the width of the band around 0.
    facts
        (label, value) of the table of numbers.
    starts
        (name, training error in percent, validation error in percent, steps, whether it was chosen).
    sampling_time
        Seconds between samples, if the model knows them: the page then tells of seconds and Hz.
    steps_per_sample
        How many times `step` is made from one sample to the next.
    grade
        What the badge of the page says: the name of a `Grade` in small letters.
    """

    names: tuple[str, ...]
    y: Float[ndarray, "T outputs"]
    y_hat: Float[ndarray, "T outputs"]
    y_linear: Float[ndarray, "T outputs"]
    step: Decoupling
    points: Float[ndarray, "k m"]
    poles: Complex[ndarray, " n"]
    moving: Complex[ndarray, "places n"]
    auto: Float[ndarray, "lags outputs"]
    cross: Float[ndarray, "more outputs inputs"]
    band: float
    facts: Sequence[tuple[str, str]]
    starts: Sequence[tuple[str, float, float, int, bool]]
    grade: str
    verdict: str
    sentences: Sequence[str]
    how: str
    sampling_time: float | None = None
    steps_per_sample: int = 1

    @property
    def time_of_step(self) -> float:
        """From one step to the next: seconds, or samples if their time is not known."""
        return (self.sampling_time or 1.0) / self.steps_per_sample


def plot_response(shown: Dynamics, *, dark: bool = False) -> Figure:
    """Measured and simulated outputs, whole and around the largest output, with the error below."""
    return _response(shown, (slice(None), _zoom(shown)), dark=dark)


def _zoom(shown: Dynamics) -> slice:
    peak = int(np.nanargmax(np.abs(shown.y[:, 0] - shown.y[:, 0].mean())))
    begin = int(np.clip(peak - _ZOOM // 2, 0, max(0, len(shown.y) - _ZOOM)))
    return slice(begin, begin + _ZOOM)


def _response(shown: Dynamics, parts: Sequence[slice], *, dark: bool = False) -> Figure:
    """Parts of the record, side by side."""
    p = shown.y.shape[1]
    with house_style(dark=dark) as look:
        figure = new_figure(4.0 * len(parts), 2.6 * p + 0.4)
        axes = figure.subplots(2 * p, len(parts), squeeze=False, height_ratios=[2, 1] * p, sharex="col")
        for o in range(p):
            for column, part in enumerate(parts):
                t = np.arange(len(shown.y))[part]
                thin = slice(None, None, max(1, len(t) // _MOST_SAMPLES))
                y, y_hat, y_linear = (a[part, o] for a in (shown.y, shown.y_hat, shown.y_linear))
                above, below = axes[2 * o, column], axes[2 * o + 1, column]
                above.plot(t[thin], y[thin], color=look.ink, linewidth=1.2, label="measured")
                above.plot(t[thin], y_hat[thin], "--", color=look.colours[1], linewidth=1.0, label="model, simulated")
                below.plot(t[thin], (y - y_linear)[thin], color=look.faint, linewidth=0.7, label="linear model")
                below.plot(t[thin], (y - y_hat)[thin], color=look.colours[1], linewidth=0.8, label="model")
                if column == 0:
                    above.set_ylabel(label(shown.names[o]), parse_math=False)
                    below.set_ylabel("error")
                if o == 0 and part != slice(None):
                    above.legend(frameon=False, fontsize=7)
                    below.legend(frameon=False, fontsize=7)
        for ax in axes[-1]:
            ax.set_xlabel("sample")
    return figure


def _plot_spectra(shown: Dynamics) -> Figure:
    """Spectra of the output and of the errors of the model and of the linear model."""
    p = shown.y.shape[1]
    with house_style() as look:
        figure = new_figure(6.0, 2.4 * p)
        axes = figure.subplots(p, 1, squeeze=False)[:, 0]
        for o, ax in enumerate(axes):
            for signal, colour, what in (
                (shown.y, look.ink, "output"),
                (shown.y - shown.y_linear, look.faint, "error of the linear model"),
                (shown.y - shown.y_hat, look.colours[1], "error of the model"),
            ):
                frequency, size = _spectrum(signal[:, o])
                ax.semilogy(frequency / (shown.sampling_time or 1.0), size, color=colour, linewidth=0.9, label=what)
            ax.set_ylabel(label(shown.names[o]), parse_math=False)
        axes[0].legend(frameon=False, fontsize=7)
        axes[-1].set_xlabel("frequency (Hz)" if shown.sampling_time else "cycles per sample")
    return figure


def _spectrum(signal: Float[ndarray, " T"]) -> tuple[ndarray, ndarray]:
    """Root mean square per band of equal width, from the finite beginning of a signal."""
    whole = signal[: len(signal) if np.isfinite(signal).all() else int(np.argmin(np.isfinite(signal)))]
    window = np.hanning(len(whole))
    size = np.abs(np.fft.rfft((whole - whole.mean()) * window)) ** 2 / max(np.sum(window**2), 1e-300)
    bands = np.array_split(size, min(200, len(size)))
    return np.linspace(0.0, 0.5, len(bands)), np.sqrt([max(float(b.mean()), 1e-300) for b in bands])


def _plot_poles(shown: Dynamics) -> Figure:
    """Poles of the linear part, and of the model linearised along its run, inside the unit circle."""
    with house_style() as look:
        figure = new_figure(3.6, 3.4)
        ax = figure.subplots()
        angle = np.linspace(0.0, 2.0 * np.pi, 200)
        ax.plot(np.cos(angle), np.sin(angle), color=look.faint, linewidth=0.8)
        ax.plot(
            shown.moving.real.ravel(), shown.moving.imag.ravel(), ".", color=look.colours[0], markersize=2, alpha=0.4
        )
        ax.plot(shown.poles.real, shown.poles.imag, "x", color=look.colours[1], markersize=8)
        ax.set_aspect("equal")
        ax.set_xlabel("real part")
        ax.set_ylabel("imaginary part")
    return figure


def _modes(poles: Complex[ndarray, " n"], time_of_step: float = 1.0) -> list[dict[str, float]]:
    """Real poles and pairs: frequency without damping, the share of damping, and the time to 1/e."""
    found: list[dict[str, float]] = []
    for z in poles[poles.imag >= 0.0].tolist():
        s = np.log(max(abs(z), _AT_ONCE)) + 1j * np.angle(z)
        damping = -s.real / abs(s) if s else 1.0
        constant = np.inf if s.real == 0.0 else -1.0 / s.real if abs(z) > _AT_ONCE else 0.0
        found.append(
            {
                "real": float(z.real),
                "imag": float(z.imag),
                "frequency": float(abs(s) / (2.0 * np.pi) / time_of_step),
                "damping": float(damping),
                "constant": float(constant * time_of_step),
            }
        )
    return found


def _plot_step(shown: Dynamics) -> Figure:
    """Changes of the outputs after every input has risen by its standard deviation, from rest at its mean."""
    n, U = len(shown.poles), shown.points[:, len(shown.poles) :]
    slowest = max(-np.log(np.clip(np.abs(shown.poles), 1e-9, 1.0 - 1e-9)).min(initial=1.0), 1e-9)
    T = int(np.clip(_SETTLED / slowest, _SHORTEST, _LONGEST))
    columns, rows = min(U.shape[1], _MOST_STEPPED), min(len(shown.names), _MOST_STEPPED)
    with house_style() as look:
        figure = new_figure(3.2 * columns + 0.4, 1.9 * rows + 0.3)
        axes = figure.subplots(rows, columns, squeeze=False, sharex=True)
        for i in range(columns):
            x, found = shown.points[:, :n].mean(axis=0), []
            for t in range(-T, T):
                u = U.mean(axis=0) + (t >= 0) * U.std(axis=0) * (np.arange(U.shape[1]) == i)
                z = shown.step.values(np.concatenate([x, u])[None])[0]
                if not np.isfinite(z).all():
                    break
                x = z[:n]
                found.append(z[n:])
            after = np.array(found[T - 1 :])
            times = (np.arange(len(after)) - 1) * shown.time_of_step
            for o, ax in enumerate(axes[:, i]):
                if len(after):
                    ax.plot(times, after[:, o] - after[0, o], color=look.colours[0], linewidth=1.2)
                if i == 0:
                    ax.set_ylabel(f"change of {label(shown.names[o])}", parse_math=False)
            name = label(shown.step.inputs[n + i]) if shown.step.inputs else f"u{i + 1}" if U.shape[1] > 1 else "u"
            axes[0, i].set_title(f"{name} rises by {U[:, i].std():.3g}", fontsize=8, parse_math=False)
            axes[-1, i].set_xlabel("seconds after the step" if shown.sampling_time else "samples after the step")
    return figure


def plot_residuals(shown: Dynamics, *, dark: bool = False) -> Figure:
    """Correlations of the residuals with themselves and with the inputs; a perfect model stays within the band."""
    return _correlations(shown, _AUTO + _CROSS, dark=dark)


def _correlations(shown: Dynamics, which: Sequence[tuple[str, int, str]], *, dark: bool = False) -> Figure:
    with house_style(dark=dark) as look:
        figure = new_figure(3.5 * len(which), 2.2)
        for ax, (name, first, title) in zip(
            figure.subplots(1, len(which), sharey=True, squeeze=False)[0], which, strict=True
        ):
            values = getattr(shown, name).reshape(len(getattr(shown, name)), -1)
            lags = np.arange(first, first + len(values))
            ax.axhspan(-shown.band, shown.band, color=look.faint, alpha=0.3, linewidth=0)
            for k, column in enumerate(values.T):
                ax.plot(lags, column, "o-", color=look.colours[k % len(look.colours)], markersize=2.5, linewidth=0.8)
            ax.set_title(f"residuals: {title}", fontsize=8)
            # A band that fills the panel would look like a chart that is switched off.
            low, high = ax.get_ylim()
            ax.set_ylim(min(low, -_AROUND * shown.band), max(high, _AROUND * shown.band))
            ax.set_xlabel("lag")
    return figure


def write_dynamic_report(
    shown: Dynamics, path: str | os.PathLike[str], *, title: str, formula: str, command: str | None = None
) -> None:
    """Render the page and put it at `path`: one file, no scripts, no network."""
    # Linear trends of the curves of one layer belong to the linear part.
    curved = shown.step.net_of_linear(shown.points) if shown.step.n_layers == 1 else shown.step
    functions = plot_functions(curved, shown.points)
    content = {
        "grade": Grade[shown.grade.upper()].value,
        "modes": _modes(shown.poles, shown.time_of_step),
        "step": _svg(_plot_step(shown)) if shown.step.n_inputs > len(shown.poles) else None,
        "network": _svg(shown.step.plot(shown.points)) if _is_small(shown.step) else None,
        "zoomed": min(_ZOOM, len(shown.y)),
        "shown": shown,
        "formula": formula,
        "command": command,
        "response": _svg(_response(shown, [slice(None)])),
        "zoom": _svg(_response(shown, [_zoom(shown)])),
        "spectra": _svg(_plot_spectra(shown)),
        "functions": _svg(functions),
        "poles": _svg(_plot_poles(shown)),
        "residuals": [_svg(_correlations(shown, which)) for which in (_AUTO, _CROSS)],
    }
    write_text(path, render_page("dynamic.html.j2", title, content))


def _is_small(step: Decoupling) -> bool:
    return max(step.n_inputs, *step.ranks, step.n_outputs) <= _MOST_DRAWN


def _svg(figure: Figure) -> Markup:
    stream = io.StringIO()
    with house_style():
        figure.savefig(stream, format="svg")
    text = stream.getvalue()
    return Markup(text[text.index("<svg") :])
