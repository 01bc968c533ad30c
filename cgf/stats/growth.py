"""Growth of what is measured in the course of a run, with an interval that neighbours' likeness does not narrow."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from cgf.errors import UserError

BLOCKS = 20  # means of so many stretches are fitted: samples beside each other say the same twice
LEVEL = 0.95


@dataclass(frozen=True)
class Growth:
    """Slope of the values by time and the ends of its 95 % interval, in units of both; samples that it rests on."""

    slope: float
    low: float
    high: float
    samples: int

    @property
    def is_none(self) -> bool:
        """Whether the interval holds 0."""
        return self.low <= 0.0 <= self.high


def growth(times: ArrayLike, values: ArrayLike, settled: float = 0.25) -> Growth:
    """The slope of ``values`` (S,) over ``times`` (S,), rising, without the first share ``settled`` of the time.

    A line is fitted to the means of ``BLOCKS`` stretches of equally many samples; the interval is Student's of
    its slope. UserError for fewer than three samples a stretch.
    """
    t, v = np.asarray(times, dtype=np.float64), np.asarray(values, dtype=np.float64)
    kept = t >= t[0] + settled * (t[-1] - t[0]) if len(t) else np.zeros(0, dtype=bool)
    if kept.sum() < 3 * BLOCKS:
        raise UserError(f"growth needs {3 * BLOCKS} samples after the start, and {int(kept.sum())} were given")
    means = np.array([[a.mean(), b.mean()] for a, b in _stretches(t[kept], v[kept])])
    if np.ptp(means[:, 1]) == 0.0:
        return Growth(0.0, 0.0, 0.0, int(kept.sum()))
    fit = stats.linregress(means[:, 0], means[:, 1])
    half = float(stats.t.ppf((1 + LEVEL) / 2, BLOCKS - 2) * fit.stderr)
    return Growth(float(fit.slope), float(fit.slope) - half, float(fit.slope) + half, int(kept.sum()))


def _stretches(times: np.ndarray, values: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    return list(zip(np.array_split(times, BLOCKS), np.array_split(values, BLOCKS), strict=True))
