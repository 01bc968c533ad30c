"""The contract of a norm that stands where a host's LayerNorm or RMSNorm stood."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from cgf.replacement import Replacement, Variant, wide


@dataclass(frozen=True)
class NormPlace:
    """A norm of the host: features, eps, and whether it takes off the mean of a token (LayerNorm; RMSNorm does not)."""

    features: int
    eps: float
    centred: bool


class Norm(Replacement):
    """A norm over the last dimension with a scale ``weight`` and a shift ``bias`` (features,).

    Values (..., features) to values of the same shape and dtype, computed in float32 at least.
    """

    variant: ClassVar[str] = "norm"
    weight: nn.Parameter
    bias: nn.Parameter

    def __init__(self, place: NormPlace) -> None:
        super().__init__()
        self.host = place
        self.features = place.features
        self.weight = nn.Parameter(torch.ones(place.features))
        self.bias = nn.Parameter(torch.zeros(place.features))

    def take(self, weight: Tensor | None, bias: Tensor | None) -> None:
        """Starts from the scale and shift (features,) of the host's own norm; None: it has none."""
        with torch.no_grad():
            if weight is not None:
                self.weight.copy_(weight)
            if bias is not None:
                self.bias.copy_(bias)

    def host_norm(self, x: Tensor) -> Tensor:
        """What the host's own norm gives with this scale and shift: (x - mean) / sqrt(mean square + eps) by token."""
        x = x - x.mean(-1, keepdim=True) if self.host.centred else x
        return x * (x.square().mean(-1, keepdim=True) + self.host.eps).rsqrt() * self.weight + self.bias

    def forward(self, x: Tensor) -> Tensor:
        """x (..., features) to the same shape and dtype."""
        values = wide(x)
        if self.starting:
            with torch.no_grad():
                self.start(self.tokens.rows(values, self.place))
        if self.own:
            if self.training and not self.again:
                with torch.no_grad():
                    self.see(self.tokens.rows(values, self.place))
            return self.host_norm(values).to(x.dtype)
        return self.normalise(values).to(x.dtype)

    def normalise(self, x: Tensor) -> Tensor:
        """x (..., features), normalised, scaled and shifted."""
        raise NotImplementedError

    def start(self, rows: Tensor) -> None:
        """Takes its first constants from rows (N, features) of real tokens, so that it begins near the host's norm."""
        raise NotImplementedError

    def see(self, rows: Tensor) -> None:
        """Measures rows (N, features) while the host's own norm is computed in its place."""


@dataclass(frozen=True, kw_only=True)
class NormVariant(Variant):
    """What stands at the norms of a host; ``make`` gives one for a place."""

    def make(self, place: NormPlace) -> Norm:
        """A norm for this place, with a scale of 1 and a shift of 0."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class ExactNorms(NormVariant):
    """The host's own norms, untouched."""

    name: ClassVar[str] = "exact"
