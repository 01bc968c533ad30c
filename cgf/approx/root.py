"""1 / sqrt(D) by iteration from a first guess: Newton's, and Goldschmidt's coupled one, as arithmetic on any value."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from cgf.approx.approximation import Iteration, whole_steps
from cgf.approx.exponential import square
from cgf.approx.series import Series
from cgf.errors import UserError

WIDEST = math.sqrt(3.0) - 1.0  # a guess that is larger by as much goes to zero in one step, and beyond it diverges


def root_error(error: float, steps: int) -> float:
    """Largest relative error after steps y <- y (3 - D y^2) / 2 from a guess of relative error at most ``error``.

    A step takes e to -(3/2 e^2 + 1/2 e^3). The first e may have either sign, every later one makes the result too
    small.
    """
    for i in range(steps):
        error = 1.5 * error**2 + (0.5 if i == 0 else -0.5) * error**3
    return error


def check_guess(name: str, guess: Series, iterations: int, least: int, limit: float = WIDEST) -> None:
    """UserError unless the steps from this guess are at least ``least``, converge, and stay above zero."""
    whole_steps(name, iterations, least)
    if not guess.domain[0] > 0:
        raise UserError(f"{name} needs a guess on an interval above zero, and it starts at {guess.domain[0]}")
    if iterations and not guess.max_error < limit:
        raise UserError(
            f"{name} needs a guess with a relative error below {limit:.3g}, and it is off by up to "
            f"{guess.max_error:.3g}"
        )


@dataclass(frozen=True)
class Root(Iteration):
    """1 / sqrt(D) from a first guess, by steps whose error is ``root_error``.

    guess: a Series for 1 / sqrt(D), whose domain is this one's too. told: name for messages, and the least iterations.
    """

    power: ClassVar[float] = -0.5
    told: ClassVar[tuple[str, int]]

    guess: Series
    iterations: int

    def __post_init__(self) -> None:
        name, least = self.told
        check_guess(name, self.guess, self.iterations, least)

    @property
    def domain(self) -> tuple[float, float]:
        return self.guess.domain

    @property
    def max_error(self) -> float:
        """Largest relative error, for exact arithmetic."""
        return root_error(self.guess.max_error, self.iterations)

    def inverse_sqrt(self, denominator: Any, u: Any) -> Any:
        """1 / sqrt(D) of D and of u = a D + b, the guess's own argument, of one shape."""
        raise NotImplementedError

    def circuit(self, x: Any, value: Callable[[Any], Any]) -> Any:
        return self.inverse_sqrt(value(x), value(x * self.guess.a + self.guess.b))

    def to_json(self) -> dict[str, Any]:
        return {**self.facts(), "iterations": self.iterations, "guess": self.guess.to_json()}


@dataclass(frozen=True)
class NewtonRoot(Root):
    """1 / sqrt(D) from a first guess by ``iterations`` steps y <- y (3 - D y^2) / 2, three levels each.

    guess: a Series for 1 / sqrt(D), whose domain is this one's too. max_error: about 1.5 e^2 a step from the guess's
    e, see ``root_error``. Products of two values: the guess's and 3 a step. Raises UserError for iterations outside
    0 to 60 and for a guess that diverges (e of 0.732 or more) or reaches zero. Source: Newton's method.
    """

    method: ClassVar[str] = "newton_root"
    told: ClassVar[tuple[str, int]] = ("a Newton root", 0)

    def inverse_sqrt(self, denominator: Any, u: Any) -> Any:
        """1 / sqrt(D) of D and of u = a D + b, the guess's own argument, of one shape."""
        y = self.guess.core(u)
        for _ in range(self.iterations):
            y = (y * 0.5) * (denominator * square(y) * -1 + 3.0)
        return y


@dataclass(frozen=True)
class GoldschmidtRoot(Root):
    """1 / sqrt(D), or sqrt(D), by the coupled steps r = 1/2 - g h, g <- g + g r, h <- h + h r, two levels each.

    g = D y and h = y / 2 of the guess y go to sqrt(D) and 1 / (2 sqrt(D)), with the same error as y by Newton's
    steps (``root_error``), but g h takes one level where D y^2 takes two. Levels: the guess's, 1 for D y and 2 a
    step; the factor 1 / 2 is in the guess's coefficients. Products of two values: the guess's and 3 a step, for
    the last step makes only the one that is asked for. Unlike Newton's, the steps see D only once: noise on g
    and h stays. guess: a Series for 1 / sqrt(D), whose domain is this one's too.
    Raises UserError for iterations outside 1 to 60 and for a guess that diverges (e of 0.732 or more) or reaches zero.
    Source: Goldschmidt 1964 (Applications of Division by Convergence); in this form Markstein 2004 (Software Division
    and Square Root Using Goldschmidt's Algorithms).
    """

    method: ClassVar[str] = "goldschmidt_root"
    told: ClassVar[tuple[str, int]] = ("a Goldschmidt root", 1)

    def _coupled(self, denominator: Any, u: Any) -> tuple[Any, Any, Any]:
        """(g, h, 1 + r) of the last step."""
        h = self.guess.scaled(0.5).core(u)
        g = denominator * h * 2
        for _ in range(self.iterations - 1):
            factor = g * h * -1 + 1.5
            g, h = g * factor, h * factor
        return g, h, g * h * -1 + 1.5

    def inverse_sqrt(self, denominator: Any, u: Any) -> Any:
        """1 / sqrt(D) of D and of u = a D + b, the guess's own argument, of one shape."""
        _, h, factor = self._coupled(denominator, u)
        return h * factor * 2

    def square_root(self, denominator: Any, u: Any) -> Any:
        """sqrt(D) of the same, for as many levels and products."""
        g, _, factor = self._coupled(denominator, u)
        return g * factor
