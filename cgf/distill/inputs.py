"""Penalty on what goes into replaced norms and activations: it stays inside the range that a polynomial serves."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from cgf.distill.penalty import finite
from cgf.errors import UserError


@dataclass
class InputPenalty:
    """Of one place: mean e^2 + worst * max e, with e = relu(|v - middle| / half - 0.85) over its values v.

    middle and half are of the place's interval. Places are summed and multiplied by weight; 0: off.
    """

    weight: float = 0.0
    worst: float = 0.02

    def __post_init__(self) -> None:
        if not finite(self.weight, self.worst) or min(self.weight, self.worst) < 0:
            raise UserError(
                "penalty.inputs.weight and penalty.inputs.worst must be numbers of at least 0, and "
                f"{self.weight!r} and {self.worst!r} were given"
            )

    def term(self, values: Tensor, interval: tuple[float, float]) -> Tensor:
        """The sum above for the values of one place, without the weight."""
        low, high = interval
        excess = torch.relu((values - (low + high) / 2).abs() / ((high - low) / 2) - 0.85)
        return excess.square().mean() + self.worst * excess.amax()
