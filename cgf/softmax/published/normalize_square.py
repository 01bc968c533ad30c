"""Normalize and square: softmax by repeated squaring of a softmax of smaller scores (Cho et al. 2024, THOR)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from cgf.approx import fit, series
from cgf.approx.inverse import Goldschmidt, iterations_for
from cgf.approx.polynomial import Polynomial
from cgf.checks import whole
from cgf.errors import UserError
from cgf.softmax.published.base import REACH_BITS, Published, check_interval
from cgf.softmax.published.standard import relative_error, scaled
from cgf.softmax.value import V

if TYPE_CHECKING:
    import numpy as np

    from cgf.approx.exponential import Interval

SMALL = 4  # keeps y of a row that one entry has all the weight of below 1, as a bootstrap needs it


@dataclass(eq=False)
class NormalizeSquare(Published):
    """softmax(x / 2^(j-1)) = softmax(x / 2^j)^2 / sum of them, from x / 2^k down to x, scores in [high - bound, high].

    Once high is subtracted from x: y = exp(x / 2^k) / sqrt(n); k rounds of L = sum y^2, z ~ 1 / sqrt(L),
    y <- (y z)^2; then twice y <- y (2 - sum y).
    An error of z only scales its row, which the next round and the last two steps repair. exp: degree 15 on
    [-bound, 0] / 2^k; z: ``degrees``, one a round, minimax in the relative error on the interval that L can
    reach. A row of c entries starts at L >= c / n exp(-2 bound / 2^k), and ``fewest`` is the least c (None: n): a
    shorter row of low scores lies outside the first interval. k None: ceil(log2 bound - log2 ln n). All public
    factors are folded: 4 levels for exp, 3 and those of z a round, 2 at the end. Bootstraps where a round needs
    more levels than are left.
    Raises UserError for bound <= 0 or above 2^40, n < 2, fewest outside 1 to n, more than 40 rounds (their fits would
    take minutes), or degrees that are not one a round.
    Source: Cho et al., CCS 2024; intervals and coefficients are fitted here.
    """

    name: ClassVar[str] = "cho"
    label: ClassVar[str] = "Cho et al."
    maximum: ClassVar[str] = "fixed"
    amplification: ClassVar[float] = 10.0  # bootstraps: results/bench/softmax.json has 1.0e-3 of it
    source: ClassVar[str] = "Cho et al., CCS 2024"
    bound: float = 128.0
    high: float = 0.0
    n: int = 256
    k: int | None = None
    degrees: tuple[int, ...] | None = None
    fewest: int | None = None

    def __post_init__(self) -> None:
        if not (self.bound > 0 and self.n >= 2):
            raise UserError(f"{self.name} needs bound > 0 and n >= 2, and has {self.bound} and {self.n}")
        if self.fewest is not None and not 1 <= self.fewest <= self.n:
            raise UserError(f"{self.name} needs fewest entries of 1 to n = {self.n}, and has {self.fewest}")
        if self.bound > 2**REACH_BITS or (self.k or 0) > REACH_BITS:
            raise UserError(
                f"{self.name} needs scores within 2^{REACH_BITS} of each other and at most {REACH_BITS} rounds, and "
                f"has bound {self.bound} and k {self.k}"
            )
        if self.k is not None:
            whole(f"softmax.k of {self.name}", self.k, 1)
        if self.k is None:
            self.k = max(1, math.ceil(math.log2(self.bound) - math.log2(math.log(self.n))))
        if self.degrees is None:
            self.degrees = (*(63, 31, *(15,) * self.k)[: self.k - 1], 31)
        if not isinstance(self.degrees, Sequence):
            raise UserError(f"{self.name} needs its degrees as a list, one a round, and has {self.degrees!r}")
        self.degrees = tuple(self.degrees)
        if len(self.degrees) != self.k:
            raise UserError(f"{self.name} needs one degree a round, {self.k}, and has {list(self.degrees)}")

    @property
    def domain(self) -> Interval:
        """[high - bound, high] of the scores."""
        return self.high - self.bound, self.high

    @cached_property
    def roots(self) -> list[series.Series]:
        """1 / sqrt on what L can reach: an error e of z scales y by (1 + e)^2, and the next L by its square."""
        assert self.k is not None and self.degrees is not None
        share = 1.0 if self.fewest is None else self.fewest / self.n
        low, high, result = share * math.exp(-2 * self.bound / 2**self.k), 1.0, []
        for degree in self.degrees:
            result.append(series.inverse_sqrt(low, high, degree))
            e = result[-1].max_error
            low, high = (1 - e) ** 4 / self.n, (1 + e) ** 4
        return result

    @cached_property
    def start(self) -> Polynomial:
        """exp((x - high) / 2^k) / sqrt(n), of the argument a (x - high) + b, with the factor that z asks for."""
        assert self.k is not None
        narrow = fit.chebyshev(-self.bound / 2**self.k, 0.0, 15, 0)
        root = math.sqrt(self.roots[0].a / self.n) / SMALL  # so that L enters its series without a level
        return Polynomial(narrow.method, narrow.a / 2**self.k, narrow.b, tuple(c * root for c in narrow.coefficients))

    def error_bound(self) -> float:
        """Of exp, squared k times, and of the row's factor after the last two steps, e -> e^4."""
        assert self.k is not None
        last = (1 + self.roots[-1].max_error) ** 2 - 1
        narrow = fit.chebyshev(-self.bound / 2**self.k, 0.0, 15, 0)
        return float(last**4 + 2**self.k * relative_error(narrow, 1.0, (-self.bound / 2**self.k, 0.0)))

    def first_polynomial(self, value: np.ndarray) -> np.ndarray:
        """exp squared, as it enters the first 1 / sqrt."""
        squares: np.ndarray = self.start(value) ** 2
        return squares

    def public_scale(self, count: int | None) -> float:
        """That of exp's argument."""
        return self.start.a

    def formula(self, x: V) -> V:
        """y of the class's docstring after k rounds and the two last steps."""
        # 1. exp((x - high) / 2^k) / sqrt(n), zero where an entry does not count
        y = self.start.core(x + (self.start.b - self.start.a * self.high)).at_invalid(0.0)
        factors = [root.a for root in self.roots[1:]] + [1.0]
        # 2. k rounds: y <- (y / sqrt(sum y^2))^2, all public factors in z's coefficients
        for i, (root, following) in enumerate(zip(self.roots, factors, strict=True)):
            y = y.refresh(root.levels + 3 + (2 if i == len(factors) - 1 else 0))
            # y carries sqrt(root.a) / SMALL; it leaves with sqrt(following) / SMALL, after the last round with 1
            leave = following**0.25 * (math.sqrt(SMALL) if i < len(factors) - 1 else SMALL)
            z = root.scaled(leave / math.sqrt(root.a)).core(y.square().row_sum() * SMALL**2 + root.b)
            y = (y * z).square()
        # 3. twice y <- y (2 - sum y): what the last root was off by, e, becomes e^4
        for _ in range(2):
            y = y * (y.row_sum() * -1 + 2.0)
        return y


@dataclass(eq=False)
class Thor(Published):
    """y = exp((x - high) / temperature), y <- (y / sum y)^2 log2(temperature) times, y / sum y; scores in [low, high].

    exp: degree 15 on [low, high] / temperature, squared ``squarings`` times. 1 / sum: recentred Goldschmidt down
    to ``accuracy``; first on [n eps, n], then on [1 / n, 1]. The defaults are THOR's: temperature 2, eps 2^-11, 1 %.
    That error scales the row; the last division leaves it. Bootstraps before each division where levels run out.
    Raises UserError for a temperature that is no power of two from 2 to 512.
    Source: THOR, Moon et al. 2024 (intervals and counts as in its published code).
    """

    name: ClassVar[str] = "thor"
    label: ClassVar[str] = "THOR"
    maximum: ClassVar[str] = "fixed"
    amplification: ClassVar[float] = 10.0  # bootstraps, as those of NormalizeSquare
    source: ClassVar[str] = "THOR, Moon et al. 2024"
    low: float = -27.25
    high: float = 21.73
    temperature: int = 2
    squarings: int = 1
    n: int = 128
    eps: float = 2.0**-11
    accuracy: float = 0.01

    def __post_init__(self) -> None:
        check_interval(self.name, self.low, self.high)
        whole("softmax.temperature of thor", self.temperature, 2, 512)
        if self.temperature & (self.temperature - 1):
            raise UserError(f"thor needs a temperature that is a power of two from 2, and has {self.temperature}")
        self.dividers  # noqa: B018  # refused here where its numbers give none

    @property
    def domain(self) -> Interval:
        """[low, high] of the scores."""
        return self.low, self.high

    @cached_property
    def dividers(self) -> list[Goldschmidt]:
        """The divisions in their order: of exp by its sum, then of each square by its sum."""
        ends = [(self.n * self.eps, float(self.n))] + [(0.9 / self.n, 1.1)] * (self.temperature.bit_length() - 1)
        return [Goldschmidt(*e, iterations_for(*e, self.accuracy)) for e in ends]

    @cached_property
    def numerator(self) -> Polynomial:
        """exp((x - high) / temperature), times the first divider's public scale."""
        width = (self.high - self.low) / self.temperature
        narrow = scaled(fit.chebyshev(-width, 0.0, 15, self.squarings), self.dividers[0].scale)
        a = narrow.a / self.temperature
        return Polynomial(narrow.method, a, narrow.b - a * self.high, narrow.coefficients, narrow.k)

    def error_bound(self) -> float:
        """Of exp over the least sum, squared, and of the row's factor: the last division's; earlier ones cancel."""
        width = (self.high - self.low) / self.temperature
        stated = fit.chebyshev(-width, 0.0, 15, self.squarings).fit
        assert stated is not None
        return self.temperature * stated.max_error / (self.n * self.eps) + self.dividers[-1].max_error

    def first_polynomial(self, value: np.ndarray) -> np.ndarray:
        """exp of the scores over the temperature."""
        return self.numerator(value)

    def public_scale(self, count: int | None) -> float:
        """That of exp's argument."""
        return self.numerator.a

    def formula(self, x: V) -> V:
        """exp, then divisions by the row's sum with a square between each and the next."""
        y = self.numerator.core(x + self.numerator.b).at_invalid(0.0)
        for divider, following in zip(self.dividers, [*self.dividers[1:], None], strict=True):
            y = y.refresh(divider.levels + 2)
            if divider is not self.dividers[0]:
                y = y * SMALL**2  # an integer: no level
            total = y.row_sum()  # y carries divider.scale, and so does its sum
            if following is None:
                return divider.divide(y, total)
            y = divider.divide(y, total)  # sums to 1
            y = (y * (math.sqrt(following.scale) / SMALL)).square()
        raise AssertionError("the last division returns")
