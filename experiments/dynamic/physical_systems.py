"""Ten physical systems with parameters drawn afresh, simulated by SciPy: records for `systems`.

An input is a random-phase multisine that is held between samples. Every system has units in which its input has about
unit size, and its nonlinearity shows at that size: a linear model leaves between 3 and 100 % of the output.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.integrate import odeint

State = Sequence[float]


@dataclass(frozen=True)
class PhysicalSystem:
    """One system: dx/dt = slope(x, u), y = output(x).

    Attributes
    ----------
    slope, output
        As above; `u` is one number.
    start
        The state at rest.
    dt
        Time between samples.
    band
        The highest frequency of the input, in cycles per sample.
    size, offset
        Standard deviation and mean of the input.
    least
        The input is cut off below this, as that of a pump is.
    """

    slope: Callable[[State, float], list[float]]
    output: Callable[[State], float]
    start: tuple[float, ...]
    dt: float
    band: float = 0.05
    size: float = 1.0
    offset: float = 0.0
    least: float = -math.inf

    def record(
        self, n: int, rng: np.random.Generator, *, amplitude: float = 1.0
    ) -> tuple[Float[ndarray, " n"], Float[ndarray, " n"]]:
        """An input with deviations from its mean scaled by `amplitude`, and the output without noise."""
        u = np.maximum(self.offset + amplitude * self.size * multisine(n, self.band, rng), self.least)
        x, y = np.array(self.start), np.empty(n)
        for t in range(n):
            y[t] = self.output(x.tolist())
            x = self._after_one_step(x, u[t])
        return u, y

    def _after_one_step(self, x: Float[ndarray, " k"], v: float) -> Float[ndarray, " k"]:
        def slope(x: Float[ndarray, " k"], _: float) -> Float[ndarray, " k"]:
            return np.asarray(self.slope(x.tolist(), v))

        times = np.array([0.0, self.dt])
        return odeint(slope, x, times, rtol=1e-7, atol=1e-9)[1]


def multisine(n: int, band: float, rng: np.random.Generator) -> Float[ndarray, " n"]:
    """Equal amplitudes up to a frequency, random phases, unit variance."""
    spectrum = np.zeros(n // 2 + 1, dtype=complex)
    count = max(3, round(band * n))
    spectrum[1 : 1 + count] = np.exp(2j * np.pi * rng.uniform(size=count))
    u = np.fft.irfft(spectrum, n)
    return u / u.std()


def duffing_with_friction(rng: np.random.Generator) -> PhysicalSystem:
    """A hardening spring, and Coulomb friction."""
    c, k3, f = rng.uniform(0.1, 0.3), rng.uniform(0.3, 1.0), rng.uniform(0.05, 0.2)
    return PhysicalSystem(
        lambda x, u: [x[1], u - c * x[1] - x[0] - k3 * x[0] ** 3 - f * math.tanh(x[1] / 0.05)],
        lambda x: x[0], (0.0, 0.0), dt=0.3, band=rng.uniform(0.06, 0.1),
    )  # fmt: skip


def hysteresis(rng: np.random.Generator) -> PhysicalSystem:
    """Bouc-Wen: an oscillator with a force that remembers where the motion turned around."""
    c, a, b, g = rng.uniform(0.1, 0.3), rng.uniform(0.5, 1.0), rng.uniform(0.5, 1.2), rng.uniform(0.1, 0.5)

    def slope(x: State, u: float) -> list[float]:
        _, v, z = x
        return [v, u - c * v - 0.6 * x[0] - z, a * v - b * abs(v) * z - g * v * abs(z)]

    return PhysicalSystem(slope, lambda x: x[0], (0.0, 0.0, 0.0), dt=0.3, band=rng.uniform(0.06, 0.1))


def two_tanks(rng: np.random.Generator) -> PhysicalSystem:
    """A pump fills the upper tank, which empties into the lower one; both overflow. The lower level is measured."""
    k, a, b, share = rng.uniform(0.9, 1.1), rng.uniform(0.9, 1.1), rng.uniform(0.9, 1.1), rng.uniform(0.3, 0.7)
    full = rng.uniform(1.9, 2.2)

    def slope(x: State, u: float) -> list[float]:
        between = a * math.sqrt(max(x[0], 0.0))
        first = k * u - between
        over = max(first, 0.0) * _smooth_step((x[0] - full) / 0.02)
        second = between + share * over - b * math.sqrt(max(x[1], 0.0))
        second -= max(second, 0.0) * _smooth_step((x[1] - full) / 0.02)
        return [first - over, second]

    return PhysicalSystem(
        slope, lambda x: x[1], (1.0, 1.0), dt=0.5, band=rng.uniform(0.03, 0.05), size=0.55, offset=1.1, least=0.0
    )


def rotating_pendulum(rng: np.random.Generator) -> PhysicalSystem:
    """A pendulum with a brake that a torque turns over the top; its angle counts revolutions."""
    c, m = rng.uniform(1.2, 1.6), rng.uniform(0.8, 1.2)
    return PhysicalSystem(
        lambda x, u: [x[1], u - c * x[1] - m * math.sin(x[0])],
        lambda x: x[0], (0.0, 0.0), dt=0.3, band=rng.uniform(0.03, 0.05), size=1.6,
    )  # fmt: skip


def swinging_pendulum(rng: np.random.Generator) -> PhysicalSystem:
    """A pendulum that swings to about 100 degrees, and farther in the test with the larger input."""
    c, m = rng.uniform(0.2, 0.4), rng.uniform(0.9, 1.1)
    return PhysicalSystem(
        lambda x, u: [x[1], u - c * x[1] - m * math.sin(x[0])],
        lambda x: x[0], (0.0, 0.0), dt=0.3, band=rng.uniform(0.08, 0.12), size=rng.uniform(0.3, 0.4),
    )  # fmt: skip


def motor(rng: np.random.Generator) -> PhysicalSystem:
    """An amplifier that saturates, a motor and Coulomb friction; the speed is measured."""
    c, f, limit = rng.uniform(0.3, 0.5), rng.uniform(0.2, 0.4), rng.uniform(1.0, 1.5)
    lag = rng.uniform(1.0, 2.0)
    return PhysicalSystem(
        lambda x, u: [lag * (limit * math.tanh(u / limit) - x[0]), x[0] - c * x[1] - f * math.tanh(x[1] / 0.05)],
        lambda x: x[1], (0.0, 0.0), dt=0.3, band=rng.uniform(0.04, 0.08),
    )  # fmt: skip


def heat_exchanger(rng: np.random.Generator) -> PhysicalSystem:
    """The flow is the input and multiplies temperatures: bilinear. The outlet temperature is measured."""
    h, loss = rng.uniform(0.4, 0.6), rng.uniform(0.2, 0.4)

    def slope(x: State, u: float) -> list[float]:
        return [u * (1.0 - x[0]) - h * (x[0] - x[1]), 0.5 * u * (x[0] - x[1]) + h * (x[0] - x[1]) - loss * x[1]]

    return PhysicalSystem(
        slope, lambda x: x[1], (0.7, 0.5), dt=0.5, band=rng.uniform(0.04, 0.06), size=0.35, offset=0.8, least=0.02
    )


def saturated_sensor(rng: np.random.Generator) -> PhysicalSystem:
    """Wiener: linear dynamics, then a sensor that saturates on one side sooner than on the other."""
    w, z, p, shift = rng.uniform(0.8, 1.2), rng.uniform(0.3, 0.6), rng.uniform(0.4, 0.8), rng.uniform(0.2, 0.5)
    return PhysicalSystem(
        lambda x, u: [x[1], w * w * (x[2] - x[0]) - 2.0 * z * w * x[1], p * (u - x[2])],
        lambda x: math.tanh(1.2 * x[0] + shift), (0.0, 0.0, 0.0), dt=0.4, band=rng.uniform(0.05, 0.08), size=1.2,
    )  # fmt: skip


def valve(rng: np.random.Generator) -> PhysicalSystem:
    """Hammerstein: a valve with a dead zone and a curved characteristic, then linear dynamics."""
    zone, bend, w, z = rng.uniform(0.2, 0.4), rng.uniform(0.1, 0.3), rng.uniform(0.6, 1.0), rng.uniform(0.4, 0.8)

    def slope(x: State, u: float) -> list[float]:
        opened = max(u - zone, 0.0) + min(u + zone, 0.0)
        return [x[1], w * w * (opened + bend * opened * abs(opened) - x[0]) - 2.0 * z * w * x[1]]

    return PhysicalSystem(slope, lambda x: x[0], (0.0, 0.0), dt=0.4, band=rng.uniform(0.05, 0.08))


def suspension(rng: np.random.Generator) -> PhysicalSystem:
    """Two masses, a spring that hardens, and a damper that is harder in rebound; the upper one is measured."""
    k3, soft, hard, ratio = rng.uniform(0.5, 1.5), rng.uniform(0.1, 0.2), rng.uniform(0.5, 0.8), rng.uniform(3.0, 5.0)

    def slope(x: State, u: float) -> list[float]:
        stretch, rate = x[0] - x[2], x[1] - x[3]
        force = stretch + k3 * stretch**3 + (hard if rate > 0.0 else soft) * rate
        return [x[1], -force, x[3], ratio * (force + 5.0 * (u - x[2]) - 0.3 * x[3])]

    return PhysicalSystem(
        slope, lambda x: x[0], (0.0, 0.0, 0.0, 0.0), dt=0.35, band=rng.uniform(0.06, 0.1), size=rng.uniform(0.6, 0.8)
    )


def _smooth_step(x: float) -> float:
    return 0.5 * (1.0 + math.tanh(x))


SYSTEMS: dict[str, Callable[[np.random.Generator], PhysicalSystem]] = {
    "Duffing with friction": duffing_with_friction,
    "Bouc-Wen hysteresis": hysteresis,
    "two tanks with overflow": two_tanks,
    "rotating pendulum": rotating_pendulum,
    "swinging pendulum": swinging_pendulum,
    "motor with friction": motor,
    "heat exchanger": heat_exchanger,
    "saturated sensor": saturated_sensor,
    "valve with a dead zone": valve,
    "suspension": suspension,
}
