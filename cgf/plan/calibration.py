"""Where the exponent of a model lies, layer by layer and head by head: what a plan is made from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from cgf.approx.exponential import Interval as Interval
from cgf.plan.histogram import Histogram
from cgf.types import Json


def of_rows() -> Histogram:
    """For one number a row: finer bins than those of the exponent, and as many on either side of 0."""
    return Histogram(width=1 / 64, limits=(-2048.0, 2048.0))


@dataclass
class Calibration:
    """What was seen of y = x - K - ln n in one layer, or one head of it.

    y         entries that count: valid keys of the rows of real tokens
    slots     every entry that a circuit computes on: those, the rows of padding tokens (on their valid
              keys), and 0 for each key that is not valid
    row_sums  of the weights of real rows, where finite; overflows: rows whose sum is not
    skewness, kurtosis  m3 / m2^1.5 and m4 / m2^2 - 3 of a real row's valid scores (population moments),
              where the row has two entries or more that differ
    kappa     kappa_3 / 3! + kappa_4 / 4! of a real row of two valid entries or more: what the second-order
              cumulant generating function leaves out. Source: CGF-softmax paper, appendix on higher-order
              cumulants, figure 'Distribution of kappa_3/3! + kappa_4/4!'.
    masked    some key was not valid
    """

    y: Histogram = field(default_factory=Histogram)
    slots: Histogram = field(default_factory=Histogram)
    row_sums: Histogram = field(default_factory=of_rows)
    overflows: int = 0
    skewness: Histogram = field(default_factory=of_rows)
    kurtosis: Histogram = field(default_factory=of_rows)
    kappa: Histogram = field(default_factory=of_rows)
    masked: bool = False

    def add(
        self, y: np.ndarray, row_sums: np.ndarray, valid: np.ndarray | None = None, real: np.ndarray | None = None
    ) -> None:
        """Rows y (R, K) with their row sums (R,).

        valid  bool (R, K): keys that may be attended; None: all. real: bool (R,), rows of real tokens; None: all.
        A row without valid keys counts among the slots alone. Raises UserError for entries that are not finite.
        """
        y = np.asarray(y, dtype=np.float64)
        valid = np.ones(y.shape, dtype=bool) if valid is None else valid
        rows = valid.any(-1) if real is None else real & valid.any(-1)
        self.masked |= not valid.all()
        self.slots.add(np.where(valid, y, 0.0))
        y, valid, sums = y[rows], valid[rows], np.asarray(row_sums, dtype=np.float64)[rows]
        self.y.add(y[valid])
        finite = np.isfinite(sums)
        self.row_sums.add(sums[finite])
        self.overflows += int((~finite).sum())
        skewness, kurtosis, kappa = row_shape(y, valid)
        self.skewness.add(skewness[np.isfinite(skewness)])
        self.kurtosis.add(kurtosis[np.isfinite(kurtosis)])
        self.kappa.add(kappa[np.isfinite(kappa)])

    def merge(self, other: Calibration) -> None:
        """Takes in another part: other batches, or another head of the layer."""
        for name in ("y", "slots", "row_sums", "skewness", "kurtosis", "kappa"):
            getattr(self, name).merge(getattr(other, name))
        self.overflows += other.overflows
        self.masked |= other.masked

    @property
    def entries(self) -> int:
        """How many entries count."""
        return self.y.count

    @property
    def low(self) -> float:
        """The least y of the entries that count."""
        return self.y.low

    @property
    def high(self) -> float:
        """The greatest y of the entries that count."""
        return self.y.high

    def quantile(self, share: float) -> float:
        """The value below which ``share`` of the entries that count lie; the minimum for 0."""
        return self.y.quantile(share)

    def far(self) -> float:
        """Share of the real rows whose weights sum to less than 1/2 or more than 2; a softmax's sum to 1."""
        rows = self.row_sums.count + self.overflows
        return (self.row_sums.outside((0.5, 2.0)) * self.row_sums.count + self.overflows) / max(rows, 1)

    def domain(self, outside: float = 0.0) -> Interval:
        """The interval to be accurate on: up to ``outside`` of the entries below it, none above; reaches to 0."""
        return self.quantile(outside), max(0.0, self.high)

    def reach(self) -> Interval:
        """The interval of all slots, which the guard must hold; reaches to 0."""
        return min(self.slots.low, self.low), max(0.0, self.slots.high, self.high)

    def to_json(self) -> Json:
        """The figures of a layer or head in plan.json and in the report of ``friendly``."""
        y = self.y.to_json() or {}
        sums = [self.row_sums.low, self.row_sums.high] if self.row_sums.count else None
        return {
            "entries": self.entries,
            "range": y.get("range"),
            "quantiles": y.get("quantiles"),
            "row_sum": sums,
            "row_sum_mean": self.row_sums.mean,
            "row_sum_overflows": self.overflows,
            "row_sum_far": self.far(),
            "masked": self.masked,
            "slots": {
                "entries": self.slots.count,
                "range": [self.slots.low, self.slots.high],
                "quantiles": (self.slots.to_json() or {}).get("quantiles"),
            },
            "skewness": self.skewness.to_json(),
            "kurtosis": self.kurtosis.to_json(),
            "kappa": self.kappa.to_json(),
        }


def with_zero(range_: Interval) -> Interval:
    """What a guard must hold for entries of a range: 0 too, which is computed on for each key that is not there."""
    return min(range_[0], 0.0), max(range_[1], 0.0)


def row_shape(y: np.ndarray, valid: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(skewness, excess kurtosis, kappa_3 / 6 + kappa_4 / 24), each (R,), of the valid entries of rows (R, K).

    Population moments, unchanged by a shift of the row: those of y are those of the scores. NaN for rows of
    fewer than two valid entries, and for skewness and kurtosis of rows whose entries are equal to rounding.
    """
    n = valid.sum(-1)
    counts = np.maximum(n, 1)
    mean = np.where(valid, y, 0.0).sum(-1) / counts
    centred = np.where(valid, y - mean[:, None], 0.0)
    squared = centred * centred
    m2, m3, m4 = (powers.sum(-1) / counts for powers in (squared, squared * centred, squared * squared))
    # scores come in float32: a variance below its rounding is none
    flat = m2 <= (np.finfo(np.float32).eps * (1 + np.abs(mean))) ** 2
    safe = np.where(flat, 1.0, m2)
    missing = np.where(flat | (n < 2), np.nan, 0.0)
    kappa = m3 / 6 + (m4 - 3 * m2**2) / 24 + np.where(n < 2, np.nan, 0.0)
    return m3 / safe**1.5 + missing, m4 / safe**2 - 3 + missing, kappa


def merged(parts: Iterable[Calibration]) -> Calibration:
    """One calibration of several: a layer of its heads, a model of its layers."""
    whole = Calibration()
    for part in parts:
        whole.merge(part)
    return whole


def union(layers: list[Calibration], outside: float = 0.0) -> tuple[Interval, Interval]:
    """(calibrated range, accuracy domain) over all layers.

    The range holds every slot of the circuit, rows of padding tokens included: one beyond the guard ruins
    its ciphertext. The domain may leave ``outside`` of a layer's entries below its lower end, never one
    above the upper: large weights are what an attention is about. Both reach at least to 0.
    """
    reaches, domains = [c.reach() for c in layers], [c.domain(outside) for c in layers]
    return (
        (min(lo for lo, _ in reaches), max(hi for _, hi in reaches)),
        (min(lo for lo, _ in domains), max(hi for _, hi in domains)),
    )
