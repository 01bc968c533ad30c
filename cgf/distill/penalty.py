"""Range penalty: keeps the exponent inside an interval that few levels can serve."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cgf.errors import UserError


def finite(*values: object) -> bool:
    """Whether all values are finite numbers, truth values not among them."""
    return all(isinstance(v, int | float) and not isinstance(v, bool) and math.isfinite(v) for v in values)


@dataclass
class RangePenalty:
    """Of one layer: mean r(-y - 0.85 B)^2 / B + mean r(y - high + 0.5)^2 + worst * (max r(.) / B + max r(.)).

    r = relu, y = x - K - ln n over the entries that count, B = bound, one for all layers or one a layer. The
    mean moves the bulk, the worst entry moves the outlier that would ruin a ciphertext. The margins (15 % and
    0.5) leave room to the interval's ends. Layers are summed and multiplied by weight. Not in the CGF-softmax
    paper; training without it leaves ranges of hundreds. Raises UserError for numbers that make no penalty.
    """

    weight: float = 0.0
    bound: float | Sequence[float] = 32.0
    high: float = 1.0
    worst: float = 0.02

    def __post_init__(self) -> None:
        if not isinstance(self.bound, int | float | str | None):
            self.bound = list(self.bound)
        bounds = self.bound if isinstance(self.bound, list) else [self.bound]
        numbers = finite(self.weight, self.high, self.worst, *bounds) and bool(bounds)
        # mypy: finite has just said that they are numbers
        if not numbers or self.weight < 0 or min(bounds) <= 0 or self.worst < 0:  # type: ignore[type-var, operator]
            raise UserError(
                "the penalty needs finite numbers, weight >= 0, bound > 0 (or a list of such, one a layer) "
                f"and worst >= 0, and has weight {self.weight}, bound {self.bound}, worst {self.worst}, "
                f"high {self.high}"
            )

    def bounds(self, layers: int) -> list[float]:
        """B of each layer; UserError where a list has another length."""
        if not isinstance(self.bound, list):
            return [float(self.bound)] * layers  # type: ignore[arg-type]  # no list, so one number
        if len(self.bound) != layers:
            raise UserError(
                f"penalty.bound needs one number, or one a layer ({layers} for this model), and has {len(self.bound)}"
            )
        return [float(b) for b in self.bound]

    def term(self, y: Tensor, valid: Tensor | None, bound: float) -> Tensor:
        """The sum above for the exponents y (..., Q, K) of one layer, without the weight."""
        low, high = torch.relu(-y - 0.85 * bound), torch.relu(y - self.high + 0.5)
        if valid is not None:
            keep = valid.to(y.dtype).expand(y.shape)
            low, high, count = low * keep, high * keep, keep.sum().clamp(min=1)
        else:
            count = y.new_tensor(float(y.numel()))
        mean = low.square().sum() / count / bound + high.square().sum() / count
        return mean + self.worst * (low.amax() / bound + high.amax())
