"""Replacements of the exponential that keep the division: Power-softmax, its stable form, and 2Quad."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from cgf.approx.inverse import Goldschmidt
from cgf.checks import is_whole
from cgf.errors import UserError
from cgf.softmax.bpmax import power
from cgf.softmax.published.base import Replacement
from cgf.softmax.value import C, V

if TYPE_CHECKING:
    import numpy as np

    from cgf.approx.exponential import Interval


@dataclass(eq=False)
class Power(Replacement):
    """(x + c)^p / (eps + sum (x + c)^p), p even: Power-softmax (c = 0) and 2Quad (p = 2, c = 5, eps = 0).

    Division: Goldschmidt on [least, most], the interval of the denominators; its scale rides on the encoding.
    Keeps neither the order of the scores (x and -2 c - x weigh alike) nor their shift; weights are positive and
    sum to 1 (up to eps). Levels: ceil(log2 p) + iterations. Raises UserError for a p that is not even and positive, or
    eps < 0. Sources: Zimerman et al. 2024 (Power-softmax, p = 4,
    eps about 1e-3); MPCFormer, Li et al. 2023, and SecFormer, Luo et al. 2024 (2Quad).
    """

    name: ClassVar[str] = "power"
    label: ClassVar[str] = "Power-softmax, p = {p}"
    source: ClassVar[str] = "Zimerman et al. 2024 (Power-softmax); Li et al. 2023 (2Quad)"
    p: int = 4
    c: float = 0.0
    eps: float = 1e-3
    least: float = 1.0
    most: float = 4096.0
    iterations: int = 10

    def __post_init__(self) -> None:
        if not is_whole(self.p) or self.p < 2 or self.p % 2 or self.eps < 0:
            raise UserError(f"{self.name} needs a positive even power p and eps >= 0, and has {self.p} and {self.eps}")
        self.divider  # noqa: B018

    @property
    def domain(self) -> Interval:
        """Scores that alone reach the greatest denominator; the bound needs denominators in [least, most]."""
        return -(self.most ** (1 / self.p)) - self.c, self.most ** (1 / self.p) - self.c

    @cached_property
    def divider(self) -> Goldschmidt:
        """The division, on [least, most]."""
        return Goldschmidt(self.least, self.most, self.iterations)

    def error_bound(self) -> float:
        """The division's alone: the power is exact."""
        return self.divider.max_error

    def first_polynomial(self, value: np.ndarray) -> np.ndarray:
        """(x + c)^p."""
        powers: np.ndarray = (value + self.c) ** self.p
        return powers

    def definition(self, x: C) -> C:
        """(x + c)^p / (eps + sum (x + c)^p); about zero where the sum is too small for a reciprocal, no number where
        a power is beyond the floats."""
        e = power(x + self.c, self.p).at_invalid(0.0)
        return e * (e.row_sum() + self.eps).one_where_zero().reciprocal()

    def public_scale(self, count: int | None) -> float:
        """The p-th root of the divider's, so that the powers carry the divider's."""
        return float(self.divider.scale ** (1 / self.p))

    def formula(self, x: V) -> V:
        """The same, the division by Goldschmidt."""
        e = power(x + self.c * self.public_scale(None), self.p).at_invalid(0.0)
        return self.divider.divide(e, e.row_sum() + self.eps * self.divider.scale)


@dataclass(eq=False)
class Quad(Power):
    """2Quad: (x + 5)^2 / sum (x + 5)^2."""

    name: ClassVar[str] = "quad"
    label: ClassVar[str] = "2Quad"
    p: int = 2
    c: float = 5.0
    eps: float = 0.0
    least: float = 32.0
    most: float = 16384.0


@dataclass(eq=False)
class StablePower(Power):
    """z^p / (eps + sum z^p) with z = (x + c) / (max |x + c| + delta): Power-softmax as it is trained stably.

    A row divided by its own largest entry cannot overflow in half precision, and the denominator lies in [1, n].
    Power-softmax does not change when a row is scaled, so under CKKS the maximum is left out: the circuit is
    that of Power with eps = 0, and eps is a relative error of at most about eps. Levels: as Power. Source:
    Zimerman et al. 2024 (arXiv 2410.09457), stable form for training, length-agnostic form for encryption.
    """

    name: ClassVar[str] = "power_stable"
    label: ClassVar[str] = "stable Power, p = {p}"
    delta: float = 1e-6

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.delta <= 0:
            raise UserError(f"power_stable needs delta > 0, and has {self.delta}")

    def error_bound(self) -> float:
        """The division's, and what leaving eps out changes."""
        # eps (M + delta)^p / D of a row, M its largest |x + c|: M^p is at most its sum D, and D at least ``least``
        largest = self.delta * self.least ** (-1 / self.p)
        return self.divider.max_error + self.eps * float((1 + largest) ** self.p)

    def definition(self, x: C) -> C:
        """z^p / (eps + sum z^p), z = (x + c) / (max |x + c| + delta)."""
        shifted = (x + self.c).at_invalid(0.0)
        z = shifted * (shifted.row_abs_max() + self.delta).reciprocal()
        e = power(z, self.p)
        return e * (e.row_sum() + self.eps).one_where_zero().reciprocal()

    def formula(self, x: V) -> V:
        """(x + c)^p / sum (x + c)^p: a row's own factor cancels."""
        e = power(x + self.c * self.public_scale(None), self.p).at_invalid(0.0)
        return self.divider.divide(e, e.row_sum())
