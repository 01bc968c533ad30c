"""Trained polynomials in the place of an activation: a square, higher degrees, and a gate that is a product."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.polynomial import chebyshev
from torch import Tensor, nn

from cgf.activation.base import Activation, ActivationVariant, least_squares, standard
from cgf.checks import whole
from cgf.errors import UserError


class Square(Activation):
    """y = a u^2 + b u + c for each feature: one level, as the square is completed and scales go into the weights.

    |a| is held at ``least`` at least (by ``hold``, and at the start of every training pass): completing the square
    divides by a. It starts as the least-squares fit of the host's activation to the values seen.
    Source: HE-friendly quadratic activations as in Franken and Zimerman et al. 2023, here trained by feature.
    """

    variant: ClassVar[str] = "square"

    def __init__(self, features: int, least: float = 0.05) -> None:
        super().__init__(features)
        self.least = least
        self.a = nn.Parameter(torch.full((features,), 0.25))
        self.b = nn.Parameter(torch.full((features,), 0.5))
        self.c = nn.Parameter(torch.zeros(features))

    def coefficients(self) -> np.ndarray:
        """(3, features) in float64: c, b, a."""
        return np.stack([t.detach().cpu().double().numpy() for t in (self.c, self.b, self.a)])

    @torch.no_grad()
    def hold(self) -> None:
        """Puts |a| back to at least ``least``, its sign kept."""
        self.a.copy_(
            torch.where(self.a.abs() < self.least, torch.copysign(torch.full_like(self.a, self.least), self.a), self.a)
        )

    def polynomial(self, u: Tensor) -> Tensor:
        """a u^2 + b u + c."""
        if self.training:
            self.hold()
        return (self.a * u + self.b) * u + self.c

    def start_at(self, u: Tensor, y: Tensor) -> None:
        """The least-squares fit by feature; where its a is too small, that of b and c beside the least a."""
        mean, spread = standard(u)
        t = (u - mean) / spread  # u = mean + spread t
        a = least_squares(torch.stack([torch.ones_like(t), t, t**2], -1), y)[:, 2] / spread**2
        a = torch.where(a.abs() < self.least, torch.copysign(torch.full_like(a, self.least), a), a)
        level, slope = least_squares(torch.stack([torch.ones_like(t), t], -1), y - a * u**2).unbind(-1)
        self.a.copy_(a)
        self.b.copy_(slope / spread)
        self.c.copy_(level - slope * mean / spread)


class Polynomial(Activation):
    """y = sum over i of w_i T_i(u / bound) for each feature, T_i Chebyshev's polynomials: ceil(log2 degree) levels.

    In training u is cut off at +-bound (1 + above): a polynomial's slope beyond throws a run off its course. The
    evaluation never cuts, as a ciphertext could not; the penalty on inputs keeps u inside. It starts as the
    least-squares fit of the host's activation to the values seen.
    """

    variant: ClassVar[str] = "polynomial"

    def __init__(self, features: int, degree: int = 4, above: float = 0.1) -> None:
        super().__init__(features)
        self.degree, self.above = degree, above
        self.weight = nn.Parameter(torch.zeros(degree + 1, features))

    def coefficients(self) -> np.ndarray:
        """(degree + 1, features) in float64, of powers of u, lowest order first."""
        weights = self.weight.detach().cpu().double().numpy()
        powers = np.zeros_like(weights)
        for order in range(self.degree + 1):
            one = chebyshev.cheb2poly(np.eye(self.degree + 1)[order])
            powers[: len(one)] += one[:, None] * weights[order]
        return powers / float(self.bound) ** np.arange(self.degree + 1)[:, None]

    def polynomial(self, u: Tensor) -> Tensor:
        """The sum, by Chebyshev's recursion."""
        x = u / self.bound
        if self.training:
            x = x.clamp(-1 - self.above, 1 + self.above)
        before, now, total = torch.ones_like(x), x, self.weight[0] + self.weight[1] * x
        for order in range(2, self.degree + 1):
            before, now = now, 2 * x * now - before
            total = total + self.weight[order] * now
        return total

    def start_at(self, u: Tensor, y: Tensor) -> None:
        """The least-squares fit by feature, drawn to the one at 64 Chebyshev nodes where its values tell little."""
        angles = (torch.arange(64, dtype=torch.float64, device=u.device) + 0.5) * torch.pi / 64
        values = self.function(float(self.bound) * torch.cos(angles))
        orders = torch.arange(self.degree + 1, dtype=torch.float64, device=u.device)
        even = (values * torch.cos(orders[:, None] * angles)).mean(-1) * torch.where(orders == 0, 1.0, 2.0)
        columns = torch.cos(orders * torch.arccos((u / float(self.bound)).clamp(-1, 1))[..., None])
        self.weight.copy_(least_squares(columns, y, 1e-3, even).T)


class Linear(Activation):
    """y = b u + c for each feature, for the gate of a gated unit: the unit is then a product of two linear maps."""

    variant: ClassVar[str] = "product"

    def __init__(self, features: int) -> None:
        super().__init__(features)
        self.b = nn.Parameter(torch.full((features,), 0.5))
        self.c = nn.Parameter(torch.zeros(features))

    def coefficients(self) -> np.ndarray:
        """(2, features) in float64: c, b."""
        return np.stack([t.detach().cpu().double().numpy() for t in (self.c, self.b)])

    def polynomial(self, u: Tensor) -> Tensor:
        """b u + c."""
        return self.b * u + self.c

    def start_at(self, u: Tensor, y: Tensor) -> None:
        """The least-squares fit by feature."""
        mean, spread = standard(u)
        columns = torch.stack([torch.ones_like(u), (u - mean) / spread], -1)
        level, slope = least_squares(columns, y).unbind(-1)
        self.b.copy_(slope / spread)
        self.c.copy_(level - slope * mean / spread)


@dataclass(frozen=True, kw_only=True)
class Squares(ActivationVariant):
    """A trained square at every activation; see configs/activation/square.yaml."""

    name: ClassVar[str] = "square"
    least: float = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.least, int | float) or isinstance(self.least, bool) or not 0 < self.least <= 1:
            raise UserError(f"activation.least must be a number above 0 and at most 1, and is {self.least!r}")

    def of(self, features: int) -> Square:
        """See ActivationVariant."""
        return Square(features, float(self.least))


@dataclass(frozen=True, kw_only=True)
class Polynomials(ActivationVariant):
    """A trained polynomial at every activation; see configs/activation/polynomial.yaml."""

    name: ClassVar[str] = "polynomial"
    degree: int = 4
    above: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("activation.degree", self.degree, 2, 32)
        if not isinstance(self.above, int | float) or isinstance(self.above, bool) or not 0 <= self.above <= 1:
            raise UserError(f"activation.above must be a number from 0 to 1, and is {self.above!r}")

    def of(self, features: int) -> Polynomial:
        """See ActivationVariant."""
        return Polynomial(features, self.degree, float(self.above))


@dataclass(frozen=True, kw_only=True)
class Products(ActivationVariant):
    """Gated units as products of two linear maps; refused where an activation is no gate."""

    name: ClassVar[str] = "product"

    def of(self, features: int) -> Linear:
        """See ActivationVariant."""
        return Linear(features)
