"""Where the exponent of a model lies, layer by layer: what a plan is made from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

LOW, HIGH, WIDTH = -4096.0, 256.0, 1 / 32  # of the histogram that quantiles are read from


@dataclass
class Calibration:
    """Running range, histogram and row-sum range of y = x - K - ln n in one layer.

    Quantiles are exact to the histogram's width, 1/32; minimum and maximum are exact.
    """

    entries: int = 0
    low: float = float("inf")
    high: float = float("-inf")
    row_sum_low: float = float("inf")
    row_sum_high: float = float("-inf")
    masked: bool = False
    histogram: np.ndarray = field(default_factory=lambda: np.zeros(int((HIGH - LOW) / WIDTH), dtype=np.int64))

    def add(self, y: np.ndarray, row_sums: np.ndarray, masked: bool) -> None:
        """y: the entries that count, any shape; row_sums: of the rows; masked: some entries did not count."""
        y = np.asarray(y, dtype=np.float64).ravel()
        self.entries += y.size
        self.low, self.high = min(self.low, float(y.min())), max(self.high, float(y.max()))
        self.row_sum_low = min(self.row_sum_low, float(row_sums.min()))
        self.row_sum_high = max(self.row_sum_high, float(row_sums.max()))
        self.masked |= masked
        bins = np.clip(((y - LOW) / WIDTH).astype(np.int64), 0, len(self.histogram) - 1)
        self.histogram += np.bincount(bins, minlength=len(self.histogram))

    def quantile(self, share: float) -> float:
        """The value below which ``share`` of the entries lie; the minimum for 0."""
        if share <= 0:
            return self.low
        reached = np.cumsum(self.histogram) > share * self.entries
        return max(self.low, LOW + WIDTH * int(np.argmax(reached)))

    def to_json(self) -> dict[str, Any]:
        quantiles = {str(q): self.quantile(q) for q in (1e-4, 1e-3, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999)}
        return {"entries": self.entries, "range": [self.low, self.high], "quantiles": quantiles,
                "row_sum": [self.row_sum_low, self.row_sum_high], "masked": self.masked}


def union(layers: list[Calibration], outside: float = 0.0) -> tuple[tuple[float, float], tuple[float, float]]:
    """(calibrated range, accuracy domain) over all layers.

    The domain may leave ``outside`` of a layer's entries below its lower end, never one above the upper:
    large weights are what an attention is about. Both reach at least to 0.
    """
    low, high = min(c.low for c in layers), max(0.0, *(c.high for c in layers))
    return (low, high), (min(c.quantile(outside) for c in layers), high)
