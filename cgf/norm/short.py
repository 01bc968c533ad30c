"""A norm whose inverse square root is a polynomial: each token by its own variance, in a few levels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.polynomial import chebyshev
from torch import Tensor

from cgf.checks import positive, whole
from cgf.errors import UserError
from cgf.norm.base import Norm, NormPlace, NormVariant

GRID = 4001  # points of the variance range that the error is measured on


class ShortNorm(Norm):
    """y = weight * (x - mean) * p(v) + bias, v the token's variance (without a mean its mean square) in [low, high].

    p is a polynomial in v of ``degree`` d that approximates v^(-1/2) with the least relative error in the mean over
    [low, high], on a scale of log v; ``error`` is its largest relative error there. In training v is cut off at the
    interval's ends, and penalty.inputs keeps log v inside; an evaluation never cuts, as a ciphertext could not.
    Levels: 1 for the square of x - mean (whose mean over features is a sum and a public factor), ceil(log2(d + 1)) for
    p, 1 for the product, ``levels`` in all.
    low, high  buffers (): start as the variances seen on the training data, widened by ``margin``
    series  (d + 1,) in float64: p in Chebyshev's basis on [low, high], lowest order first
    Source: polynomial inverse square roots under CKKS, as in NEXUS and THOR, here on a range that training keeps.
    """

    variant: ClassVar[str] = "short"
    low: Tensor
    high: Tensor
    series: Tensor

    def __init__(self, place: NormPlace, degree: int = 7, margin: float = 2.0) -> None:
        super().__init__(place)
        self.degree, self.margin = degree, margin
        self.register_buffer("low", torch.tensor(0.1))
        self.register_buffer("high", torch.tensor(10.0))
        self.register_buffer("series", torch.zeros(degree + 1, dtype=torch.float64))  # in Chebyshev's basis
        self._fit()

    @property
    def levels(self) -> int:
        """Levels that it takes under CKKS."""
        return 2 + math.ceil(math.log2(self.degree + 1))

    @property
    def error(self) -> float:
        """The largest relative error of p against v^(-1/2) on [low, high]."""
        if self.low.is_meta:
            return math.nan
        low, high = float(self.low), float(self.high)
        v = np.geomspace(low, high, GRID)
        return float(np.abs(chebyshev.chebval(_unit(v, low, high), self.series.cpu().numpy()) * np.sqrt(v) - 1).max())

    @torch.no_grad()
    def _fit(self) -> None:
        """Least squares of p(v) sqrt(v) to 1, points even in log v: relative errors, small variances as well served."""
        if self.low.is_meta:
            return
        low, high = float(self.low), float(self.high)
        v = np.geomspace(low, high, GRID)
        columns = chebyshev.chebvander(_unit(v, low, high), self.degree) * np.sqrt(v)[:, None]
        self.series.copy_(torch.from_numpy(np.linalg.lstsq(columns, np.ones(GRID), rcond=None)[0]))

    def inverse_root(self, v: Tensor) -> Tensor:
        """p(v) for variances v of any shape."""
        x = (2 * v - (self.high + self.low)) / (self.high - self.low)
        series = self.series.to(v.dtype)
        before, now, total = torch.ones_like(x), x, series[0] + series[1] * x
        for order in range(2, self.degree + 1):
            before, now = now, 2 * x * now - before
            total = total + series[order] * now
        return total

    def normalise(self, x: Tensor) -> Tensor:
        """x (..., features) by each token's own variance."""
        x = x - x.mean(-1, keepdim=True) if self.host.centred else x
        v = x.square().mean(-1, keepdim=True) + self.host.eps
        if self.training:
            low, high = float(self.low), float(self.high)
            if self.observers:
                self.observe(self.tokens.rows(v, self.place).log(), (math.log(low), math.log(high)))
            v = v.clamp(low, high)
        return x * self.inverse_root(v) * self.weight + self.bias

    def start(self, rows: Tensor) -> None:
        """The range of the rows' variances, widened by the margin; scale and shift stay the host's own."""
        x = rows - rows.mean(-1, keepdim=True) if self.host.centred else rows
        v = x.square().mean(-1) + self.host.eps
        self.low.copy_(v.min().clamp_min(1e-12) / self.margin)
        self.high.copy_(v.max().clamp_min(2e-12) * self.margin)
        self._fit()


def _unit(v: np.ndarray, low: float, high: float) -> np.ndarray:
    return (2 * v - (high + low)) / (high - low)


@dataclass(frozen=True, kw_only=True)
class ShortNorms(NormVariant):
    """A short inverse square root at every norm; see configs/norm/short.yaml for the settings."""

    name: ClassVar[str] = "short"
    degree: int = 7
    margin: float = 2.0

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("norm.degree", self.degree, 1, 63)
        if positive("norm.margin", self.margin) < 1 or self.margin > 1e3:
            raise UserError(f"norm.margin must be a factor from 1 to 1000, and is {self.margin!r}")

    def make(self, place: NormPlace) -> ShortNorm:
        """A ShortNorm for this place."""
        return ShortNorm(place, self.degree, float(self.margin))
