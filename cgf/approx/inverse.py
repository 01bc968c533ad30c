"""Division by iteration: Goldschmidt, plain and recentred, and Newton, as arithmetic on any value."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from cgf.approx.approximation import MAX_STEPS, Circuit, Iteration, X, check_steps
from cgf.approx.exponential import A, Interval, square
from cgf.approx.series import Series
from cgf.errors import UserError


@dataclass(frozen=True)
class Goldschmidt(Iteration):
    """N / D for D in [low, high] by ``iterations`` steps of one level each.

    With b = D / high in [eps, 1] and e_i = 1 - k_i b_i: b_{i+1} = 1 - e_i^2 and N / D ~ (N / high) * product of
    k_i (1 + e_i). recentre False keeps k_i = 1 after the first step (Goldschmidt 1964); True takes
    k_i = 2 / (1 + eps_i) with eps_i the least b_i still possible, which puts b_i around 1 again (successive
    over-relaxation, as THOR, Moon et al. 2024): 8 steps instead of 14 from eps = 2^-11 to 1 %.

    The factors k_i never cost a level: f_i = c_i e_i with c_{i-1}^2 = c_i k_i, so that f_{i+1} = f_i^2 + constant
    and each factor is c_i + f_i; the last c is free and takes what is left of the public factors.
    max_error: largest relative error of N / D, for exact arithmetic; all of it makes the result too small.
    guard, ct_mults and intermediates are those of ``inverse``; ``division`` has them for ``divide``.
    Raises UserError unless 0 < low < high and iterations is a whole number from 1 to 60.
    """

    low: float
    high: float
    iterations: int
    recentre: bool = True

    def __post_init__(self) -> None:
        if not 0 < self.low < self.high < math.inf:
            raise UserError(f"a division needs 0 < low < high for its denominator, and has [{self.low}, {self.high}]")
        check_steps("a division", self.iterations, 1)

    @property
    def domain(self) -> Interval:
        """[low, high], the interval of the denominator."""
        return self.low, self.high

    @property
    def levels(self) -> int:
        """Of ``divide``, and of ``inverse`` for two steps and more: one step's inverse takes none."""
        return self.iterations

    def steps(self) -> tuple[list[float], float]:
        """(k_0 .. k_{n-1}, largest relative error that is left after the last step)."""
        least, factors = self.low / self.high, []
        for i in range(self.iterations):
            # 1. k_i centres the interval [least, 1] of b_i around 1, where the step takes most off
            factors.append(2.0 / (1.0 + least) if self.recentre or i == 0 else 1.0)
            # 2. the largest |e_i| = |1 - k_i b_i| stands at one of its ends
            left = max(abs(1.0 - factors[-1] * least), abs(1.0 - factors[-1]))
            # 3. b_{i+1} = 1 - e_i^2: its least follows from the largest |e_i|, and its most is 1
            least = 1.0 - left * left
        return factors, left * left

    @property
    def max_error(self) -> float:
        """Largest relative error of N / D, for exact arithmetic."""
        return self.steps()[1]

    def constants(self) -> list[float]:
        """c_0 .. c_{n-1}, such that all public factors multiply to one for a denominator scaled by ``scale``."""
        # 1. In logarithms c_{i-1}^2 = c_i k_i reads 2 ln c_{i-1} = ln c_i + ln k_i: a linear recurrence from the last
        #    constant down, so that every ln c_i is slope_i T + offset_i with the one unknown T = ln c_{n-1}.
        k, n = [math.log(factor) for factor in self.steps()[0]], self.iterations
        slope, offset = [0.0] * n, [0.0] * n
        slope[-1] = 1.0
        for i in range(n - 1, 0, -1):
            slope[i - 1], offset[i - 1] = slope[i] / 2, (offset[i] + k[i]) / 2
        # 2. N enters as scale N with scale = c_0 k_0 / high, and meets the factors c_i (1 + e_i) in place of
        #    k_i (1 + e_i): nothing public is left over where ln c_0 + ln k_0 + sum ln c_i = sum ln k_i. Solve for T.
        last = (sum(k) - sum(offset) - offset[0] - k[0]) / (sum(slope) + slope[0])
        # 3. Back from T to the constants.
        return [math.exp(s * last + o) for s, o in zip(slope, offset, strict=True)]

    @property
    def scale(self) -> float:
        """The public factor that numerator and denominator must carry (fold it into what made them)."""
        return self.constants()[0] * self.steps()[0][0] / self.high

    def _factors(self, scaled: A) -> list[A]:
        """c_i + f_i = c_i (1 + e_i), i = 0 .. n-1, from scale * D."""
        c, (k, _) = self.constants(), self.steps()
        # 1. f_0 = c_0 e_0 = c_0 (1 - k_0 D / high) = c_0 - scale D
        f = scaled * -1 + c[0]
        factors = [f + c[0]]
        for i in range(1, self.iterations):
            # 2. f_i = c_i e_i = c_i (1 - k_i) + c_i k_i e_{i-1}^2, and c_i k_i e_{i-1}^2 = (c_{i-1} e_{i-1})^2
            f = square(f) + c[i] * (1.0 - k[i])
            factors.append(f + c[i])
        return factors

    def divide(self, numerator: A, denominator: A) -> A:
        """N / D of scale * N and scale * D; n levels, n products of N and n - 1 squares of D's size."""
        for factor in self._factors(denominator):
            numerator = numerator * factor
        return numerator

    def inverse(self, denominator: A) -> A:
        """1 / (scale D) of scale * D; n levels, n - 1 products and as many squares."""
        first, *rest = self._factors(denominator)
        for factor in rest:
            first = first * factor
        return first

    def circuit(self, x: X, value: Callable[[X], A]) -> A:
        """``inverse`` of scale * x: 1 / x up to the factor ``scale``."""
        return self.inverse(value(x * self.scale))

    def __call__(self, x: A) -> A:
        return super().__call__(x) * self.scale

    @property
    def division(self) -> Circuit:
        """``divide`` of a numerator as large as its denominator, the largest in a softmax: 2 n - 1 products."""

        def run(x: X, value: Callable[[X], A]) -> A:
            return self.divide(value(x * self.scale), value(x * self.scale))

        return Circuit(run)


def iterations_for(low: float, high: float, error: float, recentre: bool = True) -> int:
    """The fewest Goldschmidt iterations on [low, high] with a relative error of at most ``error``.

    Raises UserError where 60 are too few.
    """
    for n in range(1, MAX_STEPS + 1):
        if Goldschmidt(low, high, n, recentre).max_error <= error:
            return n
    raise UserError(f"60 Goldschmidt iterations leave a relative error above {error:g} on [{low:g}, {high:g}]")


@dataclass(frozen=True)
class Newton(Iteration):
    """1 / D from a first guess by ``iterations`` steps y <- y (2 - D y), two levels each.

    guess: a Series for 1 / D, whose domain is this one's too; its relative error e becomes e^(2^iterations), which
    max_error states for exact arithmetic. Products of two values: the guess's and 2 a step.
    Raises UserError for iterations outside 0 to 60 and for a guess that diverges (e of 1 or more) or reaches zero.
    Source: Newton's method; ARION (Yang et al. 2025) takes a series of degree 255 on [0.02, 400] and two steps.
    """

    guess: Series
    iterations: int

    def __post_init__(self) -> None:
        check_steps("a Newton inverse", self.iterations, 0)
        if not self.guess.domain[0] > 0:
            raise UserError(
                f"a Newton inverse needs a guess on an interval above zero, and it starts at {self.guess.domain[0]}"
            )
        if self.iterations and not self.guess.max_error < 1.0:
            raise UserError(
                "a Newton inverse needs a guess with a relative error below 1, and it is off by up to "
                f"{self.guess.max_error:.3g}"
            )

    @property
    def domain(self) -> Interval:
        """The domain of the guess."""
        return self.guess.domain

    @property
    def max_error(self) -> float:
        """The guess's relative error to the power 2^iterations, for exact arithmetic."""
        return float(self.guess.max_error ** (2**self.iterations))

    def inverse(self, denominator: A, u: A) -> A:
        """1 / D of D and of u = a D + b, the guess's own argument, of one shape."""
        y = self.guess.core(u)
        for _ in range(self.iterations):
            y = y * (denominator * y * -1 + 2.0)
        return y

    def circuit(self, x: X, value: Callable[[X], A]) -> A:
        """``inverse`` of x and of the guess's own argument, two inputs."""
        return self.inverse(value(x), value(x * self.guess.a + self.guess.b))
