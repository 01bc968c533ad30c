"""Gaussian-kernel attention: one exponential of a squared distance, and no normalisation at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from cgf.softmax.base import ExponentialSoftmax
from cgf.softmax.value import V

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(eq=False)
class GaussianKernel(ExponentialSoftmax):
    """exp(-|q - k|^2 scaling / 2), scaling = 1 / sqrt(d): the score is the negative half squared distance.

    Scores are at most 0, weights in (0, 1], rows not normalised; order of the scores kept. ``scores`` takes
    the norms of queries and keys along; they are linear layers' outputs as the dot products are, so what is
    encrypted is the score as ever. Under CKKS the exponential alone is left: its core's levels and no more.
    Source: Rho et al., 'Encryption-friendly LLM architecture', ICLR 2025.
    """

    name: ClassVar[str] = "gaussian"
    label: ClassVar[str] = "Gaussian kernel"
    source: ClassVar[str] = "Rho et al., Encryption-friendly LLM architecture, ICLR 2025"

    def scores(self, query: Tensor, key: Tensor, scaling: float) -> Tensor:
        """-(|q|^2 + |k|^2 - 2 q k) scaling / 2 in float32 or better: distances cancel in half precision."""
        import torch

        dtype = torch.promote_types(query.dtype, torch.float32)
        with torch.autocast(query.device.type, enabled=False):
            q, k = query.to(dtype), key.to(dtype)
            norms = q.square().sum(-1, keepdim=True) + k.square().sum(-1)[..., None, :]
            return (q @ k.transpose(-2, -1) - norms / 2) * scaling

    def exponent(self, x: V) -> V:
        """The score itself."""
        return x
