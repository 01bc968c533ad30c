"""The standard softmax: the teacher, and the yardstick of every other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from cgf.softmax.base import Softmax

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(eq=False)
class Exact(Softmax):
    """softmax(x)_i = exp(x_i - max x) / sum_j exp(x_j - max x) over the valid entries.

    Source: Eq. (1) of the CGF-softmax paper. Its maximum and division have no short circuit.
    """

    name: ClassVar[str] = "exact"
    encryptable: ClassVar[bool] = False
    why_not_encryptable: ClassVar[str] = "it needs a maximum and a division"

    def weights(self, scores: Tensor, valid: Tensor | None = None) -> Tensor:
        """As ``Softmax.weights``, by torch's own softmax."""
        import torch

        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        if valid is None:
            return scores.softmax(-1)
        weights = scores.masked_fill(~valid, torch.finfo(scores.dtype).min).softmax(-1)
        return torch.where(valid, weights, weights.new_zeros(()))
