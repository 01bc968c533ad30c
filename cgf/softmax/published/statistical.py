"""Softmax with a maximum estimated from the row's mean and variance: ARION's fit, and a bound for Tricycle."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from cgf.approx import fit, series
from cgf.approx.inverse import Goldschmidt, Newton
from cgf.approx.polynomial import Polynomial
from cgf.errors import UserError
from cgf.softmax.published.base import Published, centred, check_floats, check_interval, scaled_variance
from cgf.softmax.published.standard import relative_error, scaled
from cgf.softmax.value import V

if TYPE_CHECKING:
    import numpy as np

    from cgf.approx.exponential import Interval


@dataclass(eq=False)
class Arion(Published):
    """exp(x - m) / sum exp(x - m), m = mean + 2.08 (1.25 + 0.1 variance): ARION's statistical maximum.

    exp: Chebyshev series of ``degree`` on [low, high]; 1 / sum: series of ``inverse_degree`` on [least, most]
    and ``newton`` steps. m is a fit to BERT's scores; it underestimates wide rows (N(0, 3^2), n = 128: true
    mean maximum 7.8, m 4.5). Source: ARION, Yang et al. 2025 (constants as in its published code). Raises UserError for
    an empty interval, of scores or of sums.
    """

    name: ClassVar[str] = "arion"
    label: ClassVar[str] = "ARION"
    maximum: ClassVar[str] = "bound"
    adaptive: ClassVar[bool] = True
    amplification: ClassVar[float] = 50.0  # degrees of 63 and 255: 5e-3 (tests/cgf/he/test_published.py)
    source: ClassVar[str] = "ARION, Yang et al. 2025"
    n: int = 128
    low: float = -60.0
    high: float = 15.0
    degree: int = 63
    least: float = 0.02
    most: float = 400.0
    inverse_degree: int = 255
    newton: int = 2

    def __post_init__(self) -> None:
        check_interval(self.name, self.low, self.high)
        if not 0 < self.least < self.most < math.inf:
            raise UserError(f"arion needs sums in an interval 0 < least < most, and has [{self.least}, {self.most}]")

    @property
    def domain(self) -> Interval:
        """[low, high] of x - m, not of x."""
        return self.low, self.high

    @cached_property
    def exp(self) -> series.Series:
        """exp with a small absolute error below 1: a relative one is out of reach of degree 63 on 75."""
        return least_squares_exp(self.low, self.high, self.degree)

    @cached_property
    def inverse(self) -> Newton:
        """1 / sum on [least, most]."""
        return Newton(series.inverse(self.least, self.most, self.inverse_degree), self.newton)

    def error_bound(self) -> float:
        """Of exp, n times over the least sum, and of the inverse."""
        return self.n * self.exp.max_error / self.least + self.inverse.max_error

    def public_scale(self, count: int | None) -> float:
        """That of exp's argument, and 1 / n where all rows have one n, so that the mean takes no level."""
        return self.exp.a / (count or 1)

    def first_polynomial(self, value: np.ndarray) -> np.ndarray:
        """exp of x - m."""
        return self.exp(value)

    def argument(self, x: V) -> V:
        """x - m."""
        return (self._shifted(x * self.public_scale(x.count)) + -self.exp.b) * (1 / self.exp.a)

    def _shifted(self, x: V) -> V:
        """a (x - m) + b of scaled scores."""
        a, shifted = self.exp.a, centred(x)
        return shifted - scaled_variance(shifted, 0.208 / a) + (self.exp.b - a * 2.6)

    def formula(self, x: V) -> V:
        """exp(x - m) / sum exp(x - m)."""
        e = self.exp.core(self._shifted(x)).at_invalid(0.0)
        total = e.row_sum().refresh(self.inverse.levels + 2, self.most)
        guess = self.inverse.guess
        return e * self.inverse.inverse(total, total * guess.a + guess.b)


def least_squares_exp(lo: float, hi: float, degree: int) -> series.Series:
    """exp on [lo, hi] by Chebyshev interpolation; max_error is the largest absolute error for exp <= 1."""
    u = np.cos(np.pi * (np.arange(1024) + 0.5) / 1024)
    coefficients = np.polynomial.chebyshev.chebfit(u, np.exp((lo + hi) / 2 + (hi - lo) / 2 * u), degree)
    y = np.linspace(lo, hi, series.GRID)
    value = np.polynomial.chebyshev.chebval((2 * y - lo - hi) / (hi - lo), coefficients)
    error = np.abs(value - np.exp(y)) / np.maximum(np.exp(y), 1.0)
    return series.Series(
        2 / (hi - lo), -(hi + lo) / (hi - lo), tuple(map(float, coefficients)), (lo, hi), float(error.max())
    )


@dataclass(eq=False)
class Tricycle(Published):
    """exp(x - m) / sum exp(x - m), m = mean + sqrt(2 ln n variance): a bound on the expected maximum.

    sqrt: series of ``root_degree`` on variances [least_variance, most_variance]. exp: p^(2^k) of degree 15 on
    [low, high] of x - m. Division: Goldschmidt on [least, n exp(high)]. Tricycle (Lim et al. 2025) bounds the
    expected maximum by mean and variance in 17 levels; its formula is not public, and this standard bound for
    sub-Gaussian rows is ours. Raises UserError for an empty interval, and for one whose exponentials are no floats.
    """

    name: ClassVar[str] = "tricycle"
    label: ClassVar[str] = "Tricycle (our bound)"
    maximum: ClassVar[str] = "bound"
    adaptive: ClassVar[bool] = True
    source: ClassVar[str] = "Tricycle, Lim et al. 2025"
    stand_in: ClassVar[str] = "the bound mean + sd sqrt(2 ln n) and all degrees are ours: the publication gives none"
    n: int = 128
    low: float = -16.0
    high: float = 2.0
    k: int = 1
    least_variance: float = 0.05
    most_variance: float = 16.0
    root_degree: int = 15
    iterations: int = 9
    least: float = 0.2

    def __post_init__(self) -> None:
        check_floats(self.name, self.low, self.high)
        self.divider  # noqa: B018

    @property
    def domain(self) -> Interval:
        """[low, high] of x - m, not of x."""
        return self.low, self.high

    @cached_property
    def divider(self) -> Goldschmidt:
        """The division, on [least, n exp(high)]."""
        return Goldschmidt(self.least, self.n * math.exp(self.high), self.iterations)

    @cached_property
    def root(self) -> series.Series:
        """sqrt of the variance."""
        return series.square_root(self.least_variance, self.most_variance, self.root_degree)

    @cached_property
    def numerator(self) -> Polynomial:
        """exp of x - m, times the divider's public scale."""
        return scaled(fit.chebyshev(self.low, self.high, 15, self.k), self.divider.scale)

    def error_bound(self) -> float:
        """Of the weights; the root's error moves the shift alone, which every weight of a row shares."""
        return relative_error(self.numerator, self.divider.scale, self.domain) + self.divider.max_error

    def public_scale(self, count: int | None) -> float:
        """That of exp's argument, and 1 / n where all rows have one n, so that the mean takes no level."""
        return self.numerator.a / (count or 1)

    def first_polynomial(self, value: np.ndarray) -> np.ndarray:
        """exp of x - m."""
        return self.numerator(value)

    def argument(self, x: V) -> V:
        """x - m, m by the polynomial that stands for the root: where that explodes, so does this."""
        return (self._shifted(x * self.public_scale(x.count)) + -self.numerator.b) * (1 / self.numerator.a)

    def _shifted(self, x: V) -> V:
        """a (x - m) + b of scaled scores."""
        p, root, shifted = self.numerator, self.root, centred(x)
        u = scaled_variance(shifted, root.a / p.a**2) + root.b
        bound = root.scaled(p.a * math.sqrt(2 * math.log(self.n))).core(u)
        return shifted - bound + p.b

    def formula(self, x: V) -> V:
        """exp(x - m) / sum exp(x - m)."""
        e = self.numerator.core(self._shifted(x)).at_invalid(0.0)
        return self.divider.divide(e, e.row_sum())
