"""Curves drawn into a rectangle: numbers to places, places to the text of SVG paths."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..write._curves import Curve


@dataclass(frozen=True)
class Frame:
    """A rectangle, y down, that shows the numbers u_low <= u <= u_high and v_low <= v <= v_high."""

    left: float
    top: float
    width: float
    height: float
    u_low: float
    u_high: float
    v_low: float
    v_high: float

    @classmethod
    def of(cls, curve: Curve, left: float, top: float, width: float, height: float) -> Frame:
        """A frame that holds the limits of the curve, with a little room above and below."""
        low, high = curve.limits
        room = 0.08 * (high - low)
        return cls(left, top, width, height, float(curve.u[0]), float(curve.u[-1]), low - room, high + room)

    def x(self, u: Float[ndarray, " k"]) -> Float[ndarray, " k"]:
        return self.left + (u - self.u_low) / (self.u_high - self.u_low) * self.width

    def y(self, v: Float[ndarray, " k"]) -> Float[ndarray, " k"]:
        return self.top + (self.v_high - v) / (self.v_high - self.v_low) * self.height

    def line(self, curve: Curve) -> str:
        """The curve as a path."""
        return self.lines([(curve.u, curve.values)])

    def lines(self, pieces: Iterable[tuple[Float[ndarray, " _"], Float[ndarray, " _"]]]) -> str:
        """Pieces (u, v) of a curve as one path; empty without any."""
        return "".join("M" + "L".join(_points(self.x(u), self.y(v))) for u, v in pieces)

    def band(self, curve: Curve) -> str:
        """The band as a closed path, cut off at the frame; empty without one."""
        if curve.band is None:
            return ""
        x = np.concatenate([curve.u, curve.u[::-1]])
        v = np.concatenate([curve.values + curve.band, (curve.values - curve.band)[::-1]])
        return "M" + "L".join(_points(self.x(x), self.y(np.clip(v, self.v_low, self.v_high)))) + "Z"

    def rug(self, u: Float[ndarray, " S"], length: float) -> str:
        """Short strokes from the lower edge up, one for every sample at a separate place."""
        return self._upright(np.unique(np.round(self.x(u))), length)

    def strokes(self, u: Sequence[float], length: float) -> str:
        """Strokes from the lower edge up at these numbers."""
        return self._upright(self.x(np.asarray(u)), length)

    def line_of(self, u: Float[ndarray, " k"], v: Float[ndarray, " k"]) -> str:
        """A curve as a path, held at the edges if it leaves the frame."""
        return self.lines([(u, np.clip(v, self.v_low, self.v_high))])

    def _upright(self, x: Float[ndarray, " k"], length: float) -> str:
        bottom = self.top + self.height
        return "".join(f"M{place:.4g} {bottom:g}v{-length:g}" for place in x)

    def zero(self) -> float | None:
        """The place of v = 0, if it is inside."""
        return float(self.y(np.zeros(1))[0]) if self.v_low < 0.0 < self.v_high else None

    def u_ticks(self, *, whole: bool = False) -> list[tuple[float, str]]:
        """Places and labels; with `whole`, at whole numbers only."""
        ticks = _nice(self.u_low, self.u_high, whole=whole)
        return list(zip(self.x(ticks).tolist(), (written_number(t, 4) for t in ticks), strict=True))

    def v_ticks(self, *, powers: bool = False) -> list[tuple[float, str]]:
        """Places and labels; with `powers`, v is a logarithm to base 10."""
        ticks = _nice(self.v_low, self.v_high, whole=powers)
        labels = (written_number(10.0**t if powers else t, 4) for t in ticks)
        return list(zip(self.y(ticks).tolist(), labels, strict=True))

    def numbers(self) -> list[float]:
        """What a script needs to place a point."""
        return [self.left, self.top, self.width, self.height, self.u_low, self.u_high, self.v_low, self.v_high]


def _points(x: Float[ndarray, " k"], y: Float[ndarray, " k"]) -> list[str]:
    return [f"{a:.1f} {b:.1f}" for a, b in zip(x, y, strict=True)]


def _nice(low: float, high: float, *, whole: bool = False) -> Float[ndarray, " k"]:
    """Up to six round numbers in between."""
    rough = max((high - low) / 4, 1.0 if whole else 0.0)
    unit = 10.0 ** math.floor(math.log10(rough))
    step = unit * next(k for k in (1, 2, 5, 10) if k * unit >= 0.999 * rough)
    return step * np.arange(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1.0)


def written_number(value: float, digits: int) -> str:
    """A number for people: a true minus sign, and powers of ten as such, from 10⁵ on."""
    text = f"{value + 0.0:.{digits}g}"
    if "e+0" in text and abs(float(text)) < _PLAIN:
        text = f"{float(text):.0f}"
    mantissa, _, exponent = text.replace("-", "−").partition("e")
    if not exponent:
        return mantissa
    power = exponent.removeprefix("+").replace("−0", "−").lstrip("0").translate(_SUPERSCRIPTS)
    return f"{mantissa}·10{power}".replace("1·10", "10") if mantissa in ("1", "−1") else f"{mantissa}·10{power}"


_PLAIN = 1e5
_SUPERSCRIPTS = str.maketrans("0123456789−", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
