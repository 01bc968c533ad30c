"""Division by iteration: Goldschmidt, plain and recentred, and Newton, as arithmetic on any value."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from cgf.approx.approximation import Circuit, Iteration, whole_steps
from cgf.approx.exponential import square
from cgf.approx.root import GoldschmidtRoot as GoldschmidtRoot
from cgf.approx.root import NewtonRoot as NewtonRoot
from cgf.approx.root import check_guess
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

    method: ClassVar[str] = "goldschmidt"
    power: ClassVar[float] = -1.0

    low: float
    high: float
    iterations: int
    recentre: bool = True

    def __post_init__(self) -> None:
        if not 0 < self.low < self.high < math.inf:
            raise UserError(f"a division needs 0 < low < high for its denominator, and has [{self.low}, {self.high}]")
        whole_steps("a division", self.iterations, 1)

    @property
    def domain(self) -> tuple[float, float]:
        return self.low, self.high

    @property
    def levels(self) -> int:
        """Of ``divide``, and of ``inverse`` for two steps and more: one step's inverse takes none."""
        return self.iterations

    def steps(self) -> tuple[list[float], float]:
        """(k_0 .. k_{n-1}, largest relative error left)."""
        least, factors = self.low / self.high, []
        for i in range(self.iterations):
            factors.append(2.0 / (1.0 + least) if self.recentre or i == 0 else 1.0)
            left = max(abs(1.0 - factors[-1] * least), abs(1.0 - factors[-1]))
            least = 1.0 - left * left
        return factors, left * left

    @property
    def max_error(self) -> float:
        return self.steps()[1]

    def constants(self) -> list[float]:
        """c_0 .. c_{n-1}, such that all public factors multiply to one for a denominator scaled by ``scale``."""
        k, n = [math.log(factor) for factor in self.steps()[0]], self.iterations
        slope, offset = [0.0] * n, [0.0] * n  # ln c_i = slope T + offset, with T = ln c_{n-1}
        slope[-1] = 1.0
        for i in range(n - 1, 0, -1):
            slope[i - 1], offset[i - 1] = slope[i] / 2, (offset[i] + k[i]) / 2
        last = (sum(k) - sum(offset) - offset[0] - k[0]) / (sum(slope) + slope[0])
        return [math.exp(s * last + o) for s, o in zip(slope, offset, strict=True)]

    @property
    def scale(self) -> float:
        """The public factor that numerator and denominator must carry (fold it into what made them)."""
        return self.constants()[0] * self.steps()[0][0] / self.high

    def _factors(self, scaled: Any) -> list[Any]:
        """c_i + f_i, i = 0 .. n-1, from scale * D."""
        c, (k, _) = self.constants(), self.steps()
        f = scaled * -1 + c[0]
        factors = [f + c[0]]
        for i in range(1, self.iterations):
            f = square(f) + c[i] * (1.0 - k[i])
            factors.append(f + c[i])
        return factors

    def divide(self, numerator: Any, denominator: Any) -> Any:
        """N / D of scale * N and scale * D; n levels, n products of N and n - 1 squares of D's size."""
        for factor in self._factors(denominator):
            numerator = numerator * factor
        return numerator

    def inverse(self, denominator: Any) -> Any:
        """1 / (scale D) of scale * D; n levels, n - 1 products and as many squares."""
        first, *rest = self._factors(denominator)
        for factor in rest:
            first = first * factor
        return first

    def circuit(self, x: Any, value: Callable[[Any], Any]) -> Any:
        return self.inverse(value(x * self.scale))

    def __call__(self, x: Any) -> Any:
        """1 / x of a float or an array."""
        return super().__call__(x) * self.scale

    @property
    def division(self) -> Circuit:
        """``divide`` of a numerator as large as its denominator, the largest in a softmax: 2 n - 1 products."""
        return Circuit(lambda x, value: self.divide(value(x * self.scale), value(x * self.scale)))

    def to_json(self) -> dict[str, Any]:
        """What defines it, and for the reader the coefficients k_i and c_i that follow, and what divide costs."""
        levels, products = self.division.cost
        division = {"levels": levels, "ct_mults": products, "guard": list(self.division.guard(self.domain))}
        return {
            **self.facts(),
            "low": float(self.low),
            "high": float(self.high),
            "iterations": self.iterations,
            "recentre": self.recentre,
            "factors": self.steps()[0],
            "constants": self.constants(),
            "division": division,
        }


def iterations_for(low: float, high: float, error: float, recentre: bool = True) -> int:
    """The fewest Goldschmidt iterations on [low, high] with a relative error of at most ``error``."""
    for n in range(1, 61):
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

    method: ClassVar[str] = "newton"
    power: ClassVar[float] = -1.0

    guess: Series
    iterations: int

    def __post_init__(self) -> None:
        check_guess("a Newton inverse", self.guess, self.iterations, 0, limit=1.0)

    @property
    def domain(self) -> tuple[float, float]:
        return self.guess.domain

    @property
    def max_error(self) -> float:
        return float(self.guess.max_error ** (2**self.iterations))

    def inverse(self, denominator: Any, u: Any) -> Any:
        """1 / D of D and of u = a D + b, the guess's own argument, of one shape."""
        y = self.guess.core(u)
        for _ in range(self.iterations):
            y = y * (denominator * y * -1 + 2.0)
        return y

    def circuit(self, x: Any, value: Callable[[Any], Any]) -> Any:
        return self.inverse(value(x), value(x * self.guess.a + self.guess.b))

    def to_json(self) -> dict[str, Any]:
        return {**self.facts(), "iterations": self.iterations, "guess": self.guess.to_json()}
