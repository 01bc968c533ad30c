"""Observers of a softmax: they see the exponent and the weights of every row, and change nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from cgf.approx.calibrate import Calibration


def entries_that_count(y: Tensor, valid: Tensor | None) -> Tensor:
    """The valid entries of y (..., Q, K), flat."""
    return y.flatten() if valid is None else y[valid.expand(y.shape)]


@dataclass
class Calibrator:
    """Feeds a Calibration a layer; attach to softmaxes that have an exponent."""

    layers: dict[int, Calibration] = field(default_factory=dict)

    def __call__(self, softmax: Any, y: Tensor, weights: Tensor, valid: Tensor | None) -> None:
        masked = valid is not None and not bool(valid.all())
        sums = weights.sum(-1)
        if valid is not None:  # a row without valid entries has no sum to speak of
            sums = sums[valid.expand(y.shape).any(-1)]
        layer = self.layers.setdefault(softmax.layer, Calibration())
        layer.add(entries_that_count(y, valid).detach().cpu().numpy(), sums.detach().cpu().numpy(), masked)


@dataclass
class Watch:
    """Counts entries outside an accuracy domain and beyond a guard, and keeps the range seen.

    domain and guard None: those of each softmax's own exponential, where it has them.
    """

    domain: tuple[float, float] | None = None
    guard: tuple[float, float] | None = None
    entries: int = 0
    outside: int = 0
    beyond: int = 0
    has_domain: bool = False
    has_guard: bool = False
    low: float = float("inf")
    high: float = float("-inf")
    row_sums: list[Tensor] = field(default_factory=list)

    def __call__(self, softmax: Any, y: Tensor, weights: Tensor, valid: Tensor | None) -> None:
        entries = entries_that_count(y, valid)
        self.entries += entries.numel()
        self.low, self.high = min(self.low, float(entries.min())), max(self.high, float(entries.max()))
        fit = getattr(softmax.exponential, "fit", None)
        domain = self.domain if self.domain or fit is None else fit.domain
        guard = self.guard if self.guard or fit is None else fit.guard
        self.has_domain, self.has_guard = self.has_domain or domain is not None, self.has_guard or guard is not None
        self.outside += beyond(entries, domain)
        self.beyond += beyond(entries, guard)
        sums = weights.sum(-1).flatten()
        self.row_sums.append(torch.stack([sums.min(), sums.median(), sums.max()]).detach().cpu())

    def summary(self) -> dict[str, Any]:
        """Metrics of a result file; nothing was seen where a softmax has no exponent."""
        if not self.entries:
            return {"outside_domain": None, "beyond_guard": None, "range": None, "row_sum": None}
        sums = torch.stack(self.row_sums)
        return {
            "outside_domain": self.outside / self.entries if self.has_domain else None,
            "beyond_guard": self.beyond if self.has_guard else None,
            "range": [self.low, self.high],
            "row_sum": {"min": float(sums[:, 0].min()), "median": float(sums[:, 1].median()),
                        "max": float(sums[:, 2].max())},
        }


def beyond(y: Tensor, interval: tuple[float, float] | None) -> int:
    """How many values lie outside an interval; none if there is no interval."""
    return 0 if interval is None else int(((y < interval[0]) | (y > interval[1])).sum())
