"""Range control: keeps the exponent inside an interval that few levels can serve."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from cgf.errors import UserError


@dataclass
class RangePenalty:
    """weight * sum over layers of [mean r(-y - 0.85 B)^2 / B + mean r(y - high + 0.5)^2 + worst * (largest of each)].

    r = relu, y = x - K - ln n over the entries that count, B = bound. The mean moves the bulk, the worst
    entry moves the outlier that would ruin a ciphertext. The margins (15 % and 0.5) leave room to the
    interval's ends. Not in the CGF-softmax paper; training without it leaves ranges of hundreds.
    """

    weight: float = 0.0
    bound: float = 32.0
    high: float = 1.0
    worst: float = 0.02
    _terms: list[Tensor] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        finite = all(map(math.isfinite, (self.weight, self.bound, self.high, self.worst)))
        if not finite or self.weight < 0 or self.bound <= 0 or self.worst < 0:
            raise UserError("the penalty needs finite numbers, weight >= 0, bound > 0 and worst >= 0, and has "
                            f"{self.weight}, {self.bound}, {self.worst} (high {self.high})")

    def watch(self, softmaxes: list[Any]) -> None:
        """Listens to the exponents of these softmaxes; UserError for one that has none."""
        if not self.weight:
            return
        for softmax in softmaxes:
            if not softmax.uses_exponential:
                raise UserError(f"penalty.weight needs a softmax with an exponent, and '{softmax.name}' has none")
            softmax.observers.append(self._observe)

    def _observe(self, softmax: Any, y: Tensor, weights: Tensor, valid: Tensor | None) -> None:
        if not softmax.training:
            return
        low, high = torch.relu(-y - 0.85 * self.bound), torch.relu(y - self.high + 0.5)
        if valid is not None:
            keep = valid.to(y.dtype).expand(y.shape)
            low, high, count = low * keep, high * keep, keep.sum().clamp(min=1)
        else:
            count = y.new_tensor(float(y.numel()))
        mean = low.square().sum() / count / self.bound + high.square().sum() / count
        self._terms.append(mean + self.worst * (low.amax() / self.bound + high.amax()))

    def take(self) -> Tensor | None:
        """The penalty of the forward pass just made, or None; the next pass starts afresh."""
        terms, self._terms = self._terms, []
        return self.weight * torch.stack(terms).sum() if terms else None
