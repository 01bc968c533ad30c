"""Numbers too many to keep: their range, mean, deviation and histogram, gathered in parts."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from cgf.errors import UserError
from cgf.types import Json

SHARES = (1e-4, 1e-3, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999)  # the quantiles that files name


@dataclass
class Histogram:
    """Running statistics of finite numbers; parts merge to what all numbers at once would give.

    width  of the histogram's bins: quantiles and shares are exact to it; limits: ends of the histogram,
           numbers beyond count in its last bins. Count, minimum, maximum, mean and deviation are exact.
    """

    width: float = 1 / 32
    limits: tuple[float, float] = (-4096.0, 256.0)
    count: int = 0
    low: float = float("inf")
    high: float = float("-inf")
    mean: float = 0.0
    squares: float = 0.0  # sum of squared deviations from the mean
    first: int = 0  # bins[0] begins at limits[0] + first * width
    bins: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def add(self, values: ArrayLike) -> None:
        """Numbers of any shape, possibly none. Raises UserError where one is not finite."""
        values = np.asarray(values, dtype=np.float64).ravel()
        if not values.size:
            return
        if not np.isfinite(values).all():
            raise UserError("statistics need finite numbers, and NaN or an infinity was among them")
        last = round((self.limits[1] - self.limits[0]) / self.width) - 1
        places = np.clip(np.floor((values - self.limits[0]) / self.width), 0, last).astype(np.int64)
        mean = float(values.mean())
        first = int(places.min())
        self._join(
            count=values.size,
            low=float(values.min()),
            high=float(values.max()),
            mean=mean,
            squares=float(((values - mean) ** 2).sum()),
            first=first,
            bins=np.bincount(places - first),
        )

    def merge(self, other: Histogram) -> None:
        """Takes in what another has seen. Raises UserError for bins of another width or other limits."""
        if (self.width, self.limits) != (other.width, other.limits):
            raise UserError(
                f"spreads merge with equal bins, and have {self.width} from {self.limits} and "
                f"{other.width} from {other.limits}"
            )
        if other.count:
            names = ("count", "low", "high", "mean", "squares", "first", "bins")
            self._join(**{name: getattr(other, name) for name in names})

    def _join(
        self, *, count: int, low: float, high: float, mean: float, squares: float, first: int, bins: np.ndarray
    ) -> None:
        total, apart = self.count + count, mean - self.mean
        self.squares += squares + apart**2 * self.count * count / total
        self.mean += apart * count / total
        if not self.count:
            self.first, self.bins = first, bins.astype(np.int64)
        else:
            begin = min(self.first, first)
            grown = np.zeros(max(self.first + len(self.bins), first + len(bins)) - begin, dtype=np.int64)
            for start, part in ((self.first, self.bins), (first, bins)):
                grown[start - begin : start - begin + len(part)] += part
            self.first, self.bins = begin, grown
        self.count, self.low, self.high = total, min(self.low, low), max(self.high, high)

    @property
    def std(self) -> float:
        """Of the numbers themselves (population), 0 where there are none."""
        return math.sqrt(self.squares / self.count) if self.count else 0.0

    def quantile(self, share: float) -> float:
        """The lower edge of its bin, so that at most ``share`` lie below; the minimum for 0, or below the limits."""
        if share <= 0 or not self.count:
            return self.low
        reached = np.cumsum(self.bins) > share * self.count
        # where rounding leaves no bin beyond the share, argmax would name the first
        place = int(np.argmax(reached)) if reached.any() else len(self.bins) - 1
        if self.first + place == 0:  # the bin of all that lies beyond the limit has no lower edge
            return self.low
        edge = self.limits[0] + self.width * (self.first + place)
        return min(max(self.low, edge), self.high)

    def outside(self, interval: tuple[float, float]) -> float:
        """Share of the numbers outside [lo, hi]: exact to a bin, never too small; 0 where it holds the range."""
        lo, hi = interval
        if not self.count or (lo <= self.low and self.high <= hi):
            return 0.0
        edges = self.limits[0] + self.width * (self.first + np.arange(len(self.bins) + 1))
        if self.first == 0:  # the bins at the limits reach on
            edges[0] = -math.inf
        if edges[-1] >= self.limits[1]:
            edges[-1] = math.inf
        below, above = edges[:-1] < lo, edges[1:] > hi
        below &= lo > self.low
        above &= hi < self.high
        return float(self.bins[below | above].sum() / self.count)

    def coarse(self, lo: float, hi: float, bins: int) -> Json:
        """{low, width, counts, beyond} of about ``bins`` equal bins over [lo, hi], for a plot; each of them
        is made of whole own bins. beyond: how many numbers lie outside."""
        start = math.floor((lo - self.limits[0]) / self.width) - self.first
        group = max(1, math.ceil((hi - lo) / self.width / bins))
        count = max(1, math.ceil(((hi - self.limits[0]) / self.width - self.first - start) / group))
        picked = np.zeros(group * count, dtype=np.int64)
        source = np.arange(start, start + group * count)
        there = (source >= 0) & (source < len(self.bins))
        picked[there] = self.bins[source[there]]
        return {
            "low": self.limits[0] + self.width * (self.first + start),
            "width": self.width * group,
            "counts": picked.reshape(count, group).sum(1).tolist(),
            "beyond": int(self.count - picked.sum()),
        }

    def to_json(self) -> Json | None:
        """None where nothing was seen."""
        if not self.count:
            return None
        return {
            "count": self.count,
            "range": [self.low, self.high],
            "mean": self.mean,
            "std": self.std,
            "quantiles": {str(q): self.quantile(q) for q in SHARES},
        }
