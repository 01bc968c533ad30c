"""The standard softmax as exponential and division, without a maximum, and with a fixed one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from cgf.approx import fit
from cgf.approx.inverse import Goldschmidt
from cgf.approx.polynomial import Polynomial
from cgf.checks import whole
from cgf.softmax.published.base import Published, check_floats, check_interval, check_switches
from cgf.softmax.value import V

if TYPE_CHECKING:
    import numpy as np

    from cgf.approx.exponential import Interval

MOST_R = 30  # squarings of a limit that are still floats
TOUCHING = -1.6  # the chord from u = 0 touches (1 + u / 2^r)^(2^r), drawn over exp(u), at -1.594 or above


@dataclass(eq=False)
class Standard(Published):
    """exp(x) / sum exp(x): p(x)^(2^k) of least squares on [low, high], Goldschmidt for the division.

    least, most: the interval of sum exp(x) (None: what rows of ``n`` entries in [low, high] can reach, which
    is wide; a row of fewer entries may have a smaller sum, and needs ``least``). mean: x is the score less ln of the
    row's count of entries, which is public, so that sum exp(x) is a mean; rows of one entry and of many divide by
    numbers that lie nearer, and a ciphertext's noise counts less. Weights are the same. Noise: a sum D is off by
    most / D times what one product adds (5e-9 in 16,384 slots). Levels: ceil(log2(degree + 1)) + k + iterations; the
    paper counts one more for scaling, which here rides on the encoding.
    Raises UserError for an empty interval.
    Source: Goldschmidt 1964; CGF-softmax paper, appendix 'Noise Analysis'.
    """

    name: ClassVar[str] = "standard"
    label: ClassVar[str] = "standard, Goldschmidt"
    source: ClassVar[str] = "Goldschmidt 1964; CGF-softmax paper, appendix Noise Analysis"
    low: float = -7.0
    high: float = 1.0
    n: int = 128
    degree: int = 15
    k: int = 1
    iterations: int = 12
    recentre: bool = True
    least: float | None = None
    most: float | None = None
    mean: bool = False

    def __post_init__(self) -> None:
        check_floats(self.name, self.low, self.high)
        check_switches(self.name, recentre=self.recentre, mean=self.mean)
        self.divider  # noqa: B018  (bad numbers are refused when the softmax is built)

    @property
    def domain(self) -> Interval:
        """[low, high] of the scores, less ln of their count where ``mean`` is set."""
        return self.low, self.high

    @property
    def denominators(self) -> Interval:
        """[least, most], or what rows of n entries in the domain can reach."""
        least = self.n * math.exp(self.low) if self.least is None else self.least
        return least, self.n * math.exp(self.high) if self.most is None else self.most

    @cached_property
    def divider(self) -> Goldschmidt:
        """The division, on ``denominators``."""
        return Goldschmidt(*self.denominators, self.iterations, self.recentre)

    @cached_property
    def numerator(self) -> Polynomial:
        """exp times the divider's public scale, on [low, high]."""
        return scaled(fit.chebyshev(self.low, self.high, self.degree, self.k), self.divider.scale)

    def error_bound(self) -> float:
        """The relative errors of exp and of the division: a weight is at most 1."""
        return relative_error(self.numerator, self.divider.scale, self.domain) + self.divider.max_error

    def first_polynomial(self, value: np.ndarray) -> np.ndarray:
        """exp of the scores."""
        return self.numerator(value)

    def public_scale(self, count: int | None) -> float:
        """That of exp's argument."""
        return self.numerator.a

    def argument(self, x: V) -> V:
        """The scores, less ln of their count where ``mean`` is set."""
        return x.minus_log_count() if self.mean else x

    def formula(self, x: V) -> V:
        """exp(x) / sum exp(x)."""
        argument = x.minus_log_count(self.numerator.a) if self.mean else x
        e = self.numerator.core(argument + self.numerator.b).at_invalid(0.0)
        return self.divider.divide(e, e.row_sum())


def scaled(polynomial: Polynomial, factor: float) -> Polynomial:
    """factor * p(u)^(2^k), the factor inside the coefficients; no fit is attached."""
    root = factor ** (2.0**-polynomial.k)
    return Polynomial(
        polynomial.method, polynomial.a, polynomial.b, tuple(c * root for c in polynomial.coefficients), polynomial.k
    )


def relative_error(polynomial: Polynomial, factor: float, domain: Interval) -> float:
    """Largest |p / (factor exp) - 1| on a grid of the domain."""
    y = np.linspace(*domain, 20_001)
    return float(np.abs(polynomial(y) / (factor * np.exp(y)) - 1.0).max())


@dataclass(eq=False)
class FixedMax(Published):
    """exp(x - c) by (1 + (x - c) / 2^r)^(2^r), a fixed c, Goldschmidt: a stand-in for EncryptedLLM.

    c is the fixed maximum (a high quantile of calibrated row maxima); least, most: the smallest and the largest
    denominator to be served (most None: n, what rows of n entries can reach); mean: as for ``Standard``. Levels:
    r + iterations. De Castro et al. 2025 fix the maximum from training data and report depths of 22 to 30; their
    degrees, counts and intervals are not public, so these are ours. Raises UserError for an empty
    interval.
    """

    name: ClassVar[str] = "fixed_max"
    label: ClassVar[str] = "EncryptedLLM (stand-in)"
    maximum: ClassVar[str] = "fixed"
    source: ClassVar[str] = "EncryptedLLM, De Castro et al., ICML 2025"
    stand_in: ClassVar[str] = "exponential, iterations and intervals are ours: the publication gives none"
    shift: float = 8.0
    low: float = -24.0
    n: int = 128
    r: int = 8
    iterations: int = 14
    least: float = 1e-3
    most: float | None = None
    mean: bool = False

    def __post_init__(self) -> None:
        check_interval(self.name, self.low, self.shift)
        whole("softmax.r of fixed_max", self.r, 0, MOST_R)
        check_switches(self.name, mean=self.mean)
        self.divider  # noqa: B018

    @property
    def domain(self) -> Interval:
        """[low, shift] of the scores, less ln of their count where ``mean`` is set."""
        return self.low, self.shift

    @cached_property
    def divider(self) -> Goldschmidt:
        """The division, on [least, most]."""
        return Goldschmidt(self.least, float(self.n) if self.most is None else self.most, self.iterations)

    def error_bound(self) -> float:
        """Of rows of at most n entries, sum exp(x - shift) at least ``least``.

        1. The limit keeps the share r(u) <= 1 of exp(u), less of it the farther u lies below 0.
        2. A weight grows by what the row's sum loses, at most. Of rows of one mean e of exp(u), the one that loses
        most lies on the lower convex hull of the curve e -> (1 + ln e / 2^r)^(2^r).
        3. The curve is convex up to e = exp(-1), and the hull leaves it before, for a chord to e = 1: at u between
        -1.6 and -1, whatever r is. Up to there rows of equal entries are the worst, above it mixed ones.
        4. The less e is, the more is lost: the bound is that of the least sum.
        """
        if self.shift - self.low > 2**self.r:  # beyond it (1 + u / 2^r)^(2^r) grows again
            return math.inf
        floor = self.low - self.shift  # no score lies lower
        u = max(floor, math.log(self.least / self.n))
        kept = float(self._limit(np.array(u)))
        if u > TOUCHING:
            v = np.linspace(max(floor, 2 * TOUCHING), -0.01, 10_001)
            kept = 1 - (1 - math.exp(u)) * float(((1 - self._limit(v)) / (1 - np.exp(v))).max())
        return math.exp(u) / kept - 1 + self.divider.max_error if kept > 0 else math.inf

    def _limit(self, u: np.ndarray) -> np.ndarray:
        """(1 + u / 2^r)^(2^r)."""
        powers: np.ndarray = (1.0 + u / 2**self.r) ** 2**self.r
        return powers

    def first_polynomial(self, value: np.ndarray) -> np.ndarray:
        """(1 + (x - shift) / 2^r)^(2^r)."""
        return self._limit(value - self.shift)

    def public_scale(self, count: int | None) -> float:
        """2^-r, and what makes the powers carry the divider's scale."""
        return float(self._root() / 2**self.r)

    def _root(self) -> float:
        """The 2^r-th root of the divider's public scale."""
        return float(self.divider.scale ** (2.0**-self.r))

    def argument(self, x: V) -> V:
        """The scores, less ln of their count where ``mean`` is set."""
        return x.minus_log_count() if self.mean else x

    def formula(self, x: V) -> V:
        """exp(x - shift) / sum exp(x - shift), exp by r squarings."""
        offset: float = self._root() * (1.0 - self.shift / 2**self.r)
        e = (x.minus_log_count(self.public_scale(x.count)) if self.mean else x) + offset
        for _ in range(self.r):
            e = e.square()
        e = e.at_invalid(0.0)
        return self.divider.divide(e, e.row_sum())
