"""Softmax with the row's maximum found by comparisons (HETAL, Lee et al. 2023)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeVar

import numpy as np

from cgf.approx import fit
from cgf.approx.exponential import Arithmetic, square
from cgf.approx.inverse import Goldschmidt
from cgf.approx.polynomial import Polynomial
from cgf.errors import UserError
from cgf.softmax.published.base import REACH_BITS, Published
from cgf.softmax.published.standard import scaled
from cgf.softmax.value import V
from cgf.types import Operand

if TYPE_CHECKING:
    from typing import Self

    from cgf.approx.exponential import Interval

# odd polynomials that push [-1, 1] towards its ends, f flat there, g steep at zero (Cheon et al. 2020), times u
F = (35 / 16, -35 / 16, 21 / 16, -5 / 16)
G = (4589 / 1024, -16577 / 1024, 25614 / 1024, -12860 / 1024)

SPARE = 1.1  # factor by which a sum may lie above n, and a little more than that by which it may lie below 1


class Differences(Arithmetic, Protocol):
    """A value that has differences too: a number, an array, or rows of scores."""

    def __sub__(self, other: Operand, /) -> Self: ...


D = TypeVar("D", bound=Differences)


@dataclass(eq=False)
class Comparison(Published):
    """exp(x - max) / sum exp(x - max) for scores in [-R, R], R = radius 2^extensions / 2.

    max(a, b) = (a + b + (a - b) s) / 2 with s = f(..f(g(..g(a - b)))), ``fs`` times f and ``gs`` times g, log2 n
    rounds of it; domain extension x <- x - 4 x^3 / (27 r^2 4^i), i = extensions - 1 .. 0, then its correction of
    degree 5; exp of degree 8 on [-radius, 0] / 8, squared three times; Goldschmidt on [1, n]. Scores far below
    the maximum end near -radius, so weights below about exp(-radius) come out as that. Bootstraps where levels
    run out. Raises UserError for numbers out of range, such as R above 2^40. Source: HETAL, Lee et al., ICML 2023;
    comparison: Cheon et al., Asiacrypt 2020.
    """

    name: ClassVar[str] = "hetal"
    label: ClassVar[str] = "HETAL"
    maximum: ClassVar[str] = "comparison"
    adaptive: ClassVar[bool] = True
    amplification: ClassVar[float] = 10.0  # bootstraps, as those of NormalizeSquare
    source: ClassVar[str] = "HETAL, Lee et al., ICML 2023"
    radius: float = 8.0
    extensions: int = 5
    gs: int = 8
    fs: int = 3
    n: int = 128
    iterations: int = 8

    def __post_init__(self) -> None:
        if not self.radius > 0 or self.extensions < 0 or self.gs < 0 or self.fs < 1 or self.n < 1:
            raise UserError(
                f"hetal needs radius > 0, extensions >= 0, gs >= 0, fs >= 1 and n >= 1, and has "
                f"{self.radius}, {self.extensions}, {self.gs}, {self.fs}, {self.n}"
            )
        # in this order: the last of them overflows where one of the others holds
        if self.radius > 2**REACH_BITS or self.extensions > 2 * REACH_BITS or self.half_width > 2**REACH_BITS:
            raise UserError(
                f"hetal needs scores within 2^{REACH_BITS}, radius 2^extensions / 2, and has radius {self.radius} and "
                f"{self.extensions} extensions"
            )
        self.divider  # noqa: B018  # refused here where its numbers give none

    @property
    def half_width(self) -> float:
        """R = radius 2^extensions / 2."""
        return float(self.radius * 2**self.extensions / 2)

    @property
    def domain(self) -> Interval:
        """[-R, R] of the scores."""
        return -self.half_width, self.half_width

    @cached_property
    def guard(self) -> Interval:
        """The domain itself: two scores that differ by more than 2 R are compared the wrong way round."""
        return self.domain

    @cached_property
    def divider(self) -> Goldschmidt:
        """The division, on [1, n] with a margin of a tenth."""
        return Goldschmidt(0.9, SPARE * self.n, self.iterations)

    @cached_property
    def numerator(self) -> Polynomial:
        """exp on [-radius, 0] with a margin of 1/2, times the divider's public scale."""
        return scaled(fit.chebyshev(-self.radius - 0.5, 0.5, 8, 3), self.divider.scale)

    def error_bound(self) -> float:
        """e of a numerator and n e of the sum, e the largest error of exp(x - max), and the division's.

        Entries far below the maximum make most of e: they are left near exp(-radius), not at zero. A maximum that is
        found too low or too high by m is a common factor of a row, which cancels, as long as exp and the division hold
        it; infinite where the comparisons leave more.
        """
        m = self.missed()
        if not m <= math.log(SPARE):
            return math.inf
        x = np.linspace(-1.0, m / (2 * self.half_width), 20_001)
        p = fit.chebyshev(-self.radius - 0.5, 0.5, 8, 3)
        e = p(extend_domain(x, self.extensions) * self.radius) - np.exp(2 * self.half_width * x)
        return (self.n + 1) * float(np.abs(e).max()) + self.divider.max_error

    def missed(self) -> float:
        """The most by which the found maximum differs from the row's: ceil(log2 n) comparisons, the worst in each."""
        difference = s = np.geomspace(1e-18, 1.0, 20_001)  # in units of 2 R
        with np.errstate(over="ignore", invalid="ignore"):  # numbers of iterations that do not converge
            for odd in (G,) * self.gs + (F,) * self.fs:
                q = s * s
                s = s * (odd[0] + q * (odd[1] + q * (odd[2] + q * odd[3])))
            return 2 * self.half_width * math.ceil(math.log2(self.n)) * float(np.abs(difference * (1 - s) / 2).max())

    def public_scale(self, count: int | None) -> float:
        """Scores in [-1/2, 1/2], so that differences lie in [-1, 1]."""
        return 0.5 / self.half_width

    def formula(self, x: V) -> V:
        """exp(x - max) / sum exp(x - max)."""
        # 1. the maximum, by comparisons in pairs; x - max lies in [-1, 0], where 1 stands for 2 R
        x = x.at_invalid(-0.5)
        shifted = x - x.row_fold(self.greater)
        # 2. domain extension: small differences stay, large ones end near -radius, where exp has its polynomial
        p = self.numerator
        u = extend_domain(shifted, self.extensions) * (p.a * self.radius) + p.b
        # 3. exp, and the division by the row's sum
        e = p.core(u.refresh(p.levels)).at_invalid(0.0)
        e = e.refresh(self.divider.levels + 1)
        return self.divider.divide(e, e.row_sum())

    def greater(self, a: V, b: V) -> V:
        """max(a, b) of values in [-1/2, 1/2]."""
        difference = s = a - b
        half = tuple(c / 2 for c in F)  # the last step gives s / 2, so that nothing is left to scale
        for odd in (G,) * self.gs + (F,) * (self.fs - 1) + (half,):
            s = apply_odd(odd, s.refresh(4))
        return ((a + b) * 0.5 + difference.refresh(2) * s.refresh(2)).refresh(3)


def extend_domain(x: D, extensions: int) -> D:
    """x - max in units of 2 R -> in units of radius: nearly x where that is above -1/3, above -1 everywhere.

    Each step takes [-1, 0] in units of its own width to [-1, 0] in units of half of it, in two levels.
    """
    for _ in range(extensions):
        x = refresh_value(x, 3)
        x = (x - square(x) * (x * (16 / 27))) * 2
    if not extensions:
        return x
    c = 4 / 27 * (4.0**extensions - 1) / (4.0 ** (extensions - 1) * 3)
    x = refresh_value(x, 5)
    squared = square(x)
    return x + (x * c) * (squared - square(squared))


def refresh_value(x: D, levels: int) -> D:
    """x.refresh(levels) for a value; a number or an array as it is."""
    refresh = getattr(x, "refresh", None)
    result: D = x if refresh is None else refresh(levels)
    return result


def apply_odd(coefficients: tuple[float, ...], u: V) -> V:
    """u (c0 + c1 u^2 + c2 u^4 + c3 u^6) in 3 levels and 5 products: the coefficients join a factor u early."""
    c0, c1, c2, c3 = coefficients
    squared = u.square()
    fourth = squared.square()
    return (u * c0 + (u * c1) * squared) + fourth * (u * c2 + (u * c3) * squared)
