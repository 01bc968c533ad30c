"""Row-sum penalty: CGF-softmax's rows need not sum to 1, and the excess upsets whatever normalises later."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from cgf.distill.penalty import finite
from cgf.errors import UserError

SMALL = 1e-3  # of low: below it the logarithm of a sum of weights is taken from the exponent instead


@dataclass
class RowSumPenalty:
    """Of one layer: sum over batch and heads of w^2 / #(w > 0), w = the largest o of a head's rows in a sample.

    o = relu(ln r - ln high) + relu(ln low - ln r), r the sum of a row's weights; with low = 1/2 and high = 2
    that is relu(|ln r| - ln 2). The worst row speaks for its head and heads without one do not dilute it: a
    mean over all rows would hide the few that matter. Rows of padding tokens count, since what they hold
    enters the layers after them; rows without a valid entry do not. Layers are averaged, then multiplied by
    weight. Not in the CGF-softmax paper; after the penalty of Franken (desilo), which uses 0.7 for ln 2.
    Raises UserError unless weight >= 0 and 0 < low <= 1 <= high.
    """

    weight: float = 0.0
    low: float = 0.5
    high: float = 2.0

    def __post_init__(self) -> None:
        if not finite(self.weight, self.low, self.high) or self.weight < 0 or not 0 < self.low <= 1 <= self.high:
            raise UserError(
                "penalty.row_sum needs finite numbers, weight >= 0 and 0 < low <= 1 <= high, and has "
                f"weight {self.weight}, low {self.low}, high {self.high}"
            )

    def term(self, y: Tensor, weights: Tensor, valid: Tensor | None) -> Tensor:
        """The penalty of one layer without the weight: y and weights (..., Q, K), all before Q counts as heads."""
        logs, present = self._log_sums(y, weights, valid)
        outside = torch.relu(logs - math.log(self.high)) + torch.relu(math.log(self.low) - logs)
        worst = torch.where(present, outside, 0.0).amax(-1)
        return worst.square().sum() / (worst > 0).sum().clamp(min=1)

    def _log_sums(self, y: Tensor, weights: Tensor, valid: Tensor | None) -> tuple[Tensor, Tensor]:
        """(ln r, whether the row has a valid entry), both (..., Q).

        Where the weights underflow, or a stand-in for exp is negative, r has no logarithm to descend on:
        there ln sum exp(y) stands in, which for exp itself is the same number.
        """
        sums = row_sums(weights, valid)
        keep = torch.ones_like(y, dtype=torch.bool) if valid is None else valid.expand(y.shape)
        exact = torch.where(keep, y, -math.inf).logsumexp(-1)
        small = SMALL * self.low
        return torch.where(sums > small, sums.clamp(min=small).log().to(exact.dtype), exact), keep.any(-1)


def row_sums(weights: Tensor, valid: Tensor | None) -> Tensor:
    """r (..., Q) of weights (..., Q, K) over the valid entries."""
    return (weights if valid is None else torch.where(valid, weights, 0.0)).sum(-1)
