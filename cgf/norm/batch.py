"""BatchNorm over the real tokens of a batch: affine in evaluation, so it folds into the next weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from cgf.checks import one_of, share
from cgf.errors import UserError
from cgf.norm.base import Norm, NormPlace, NormVariant

STARTS = ("fit", "gains")


class BatchNorm(Norm):
    """y = weight * (x - m) / sqrt(v + eps) + bias, m and v of each feature over samples and real tokens.

    In training m and v are those of the batch, and running values follow them; in evaluation they are the running
    ones, so that y is affine in x. frozen: training uses the running ones, too, in the last share of its steps.
    mean=False: m = 0 and v is the mean square, which is steadier where batches of texts differ in length and subject.
    Several processes, and the pieces of train.accumulate, take the statistics of their own share of a batch; running
    values are then averaged over processes. Padding counts nowhere.
    Sources: Ioffe and Szegedy 2015; PowerNorm, Shen et al. 2020, for the quadratic mean (here with the true gradient of
    batch statistics); Zimerman et al. 2023 for BatchNorm in transformers under encryption.
    """

    variant: ClassVar[str] = "batch"
    running_mean: Tensor
    running_var: Tensor

    def __init__(
        self, features: int, eps: float = 1e-5, *, mean: bool = True, momentum: float = 0.1, frozen: float = 0.0
    ) -> None:
        super().__init__(NormPlace(features, eps, mean))
        self.eps, self.mean, self.momentum, self.frozen = eps, mean, momentum, frozen
        self.fitted, self.still = True, False
        self.register_buffer("running_mean", torch.zeros(features))
        self.register_buffer("running_var", torch.ones(features))

    def affine(self) -> tuple[np.ndarray, np.ndarray]:
        """(scale, shift), each (features,) in float64: y = scale * x + shift in evaluation."""
        weight, bias, mean, var = (
            t.detach().cpu().double().numpy() for t in (self.weight, self.bias, self.running_mean, self.running_var)
        )
        scale = weight / np.sqrt(var + self.eps)
        return scale, bias - mean * scale

    def normalise(self, x: Tensor) -> Tensor:
        """x (..., features): by the batch in training, by the running statistics in evaluation.

        A batch of one row has no variance: it is normalised by the running statistics.
        """
        rows = self.tokens.rows(x, self.place) if self.training and not self.still else x[:0]
        if len(rows) > 1:
            mean, var = self._statistics(rows)
            if not self.again:
                self._follow(mean.detach(), var.detach())
        else:
            mean, var = self.running_mean, self.running_var
        scale = self.weight * (var + self.eps).rsqrt()
        return x * scale + (self.bias - mean * scale)

    def _statistics(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """(mean, variance) of each feature over rows (N, features), or (0, mean square)."""
        mean = rows.mean(0) if self.mean else torch.zeros_like(self.running_mean)
        return mean, (rows - mean).square().mean(0)

    @torch.no_grad()
    def _follow(self, mean: Tensor, var: Tensor) -> None:
        self.running_mean.lerp_(mean, self.momentum)
        self.running_var.lerp_(var, self.momentum)

    def see(self, rows: Tensor) -> None:
        """The running statistics follow, although nothing is computed by them yet."""
        if len(rows) > 1:
            self._follow(*self._statistics(rows))

    def start(self, rows: Tensor) -> None:
        """Running statistics of the rows, and the affine map of each feature that is nearest to the host's norm.

        That is linear regression of the host's output on the normalised input, feature by feature. Without ``fitted``
        scale and shift stay the host's own.
        """
        target = self.host_norm(rows)
        mean, var = self._statistics(rows)
        self.running_mean.copy_(mean)
        self.running_var.copy_(var)
        if not self.fitted:
            return
        normal = (rows - mean) * (var + self.eps).rsqrt()
        centre = normal.mean(0)
        slope = ((target - target.mean(0)) * (normal - centre)).mean(0) / (normal - centre).square().mean(0).clamp_min(
            1e-6
        )
        self.weight.copy_(slope)
        self.bias.copy_(target.mean(0) - slope * centre)

    def at(self, progress: float) -> None:
        """Running statistics in training from 1 - frozen of the steps on."""
        self.still = self.frozen > 0 and progress >= 1 - self.frozen

    def measured(self) -> list[Tensor]:
        """The running statistics."""
        return [self.running_mean, self.running_var]


@dataclass(frozen=True, kw_only=True)
class BatchNorms(NormVariant):
    """BatchNorm at every norm; see configs/norm/batch.yaml for the settings."""

    name: ClassVar[str] = "batch"
    mean: bool = True
    momentum: float = 0.1
    eps: float = 1e-5
    frozen: float = 0.0
    start: str = "fit"

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("norm.start", self.start, STARTS)
        share("norm.frozen", self.frozen, "the steps")
        for name, value, most in (("momentum", self.momentum, 1.0), ("eps", self.eps, 1.0)):
            if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= most:
                raise UserError(f"norm.{name} must be a number above 0 and at most {most:g}, and is {value!r}")

    def make(self, place: NormPlace) -> BatchNorm:
        """A BatchNorm for this place."""
        made = BatchNorm(place.features, self.eps, mean=self.mean, momentum=self.momentum, frozen=float(self.frozen))
        made.host, made.fitted = place, self.start == "fit"
        return made
