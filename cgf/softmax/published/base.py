"""What the published approximations of softmax have in common: the definition, and the polynomials that stand in."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from cgf.approx.fit import MOST_X0
from cgf.approx.inverse import Goldschmidt
from cgf.approx.series import Series
from cgf.errors import UserError
from cgf.softmax.base import Softmax
from cgf.softmax.exact import Exact
from cgf.softmax.inheritance import age
from cgf.softmax.value import C, V

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from cgf.approx.exponential import Interval

REACH_BITS = 40  # scores beyond 2^40 come from weights that were ruined before: nothing is encrypted of them
TWICE = 2.0  # beyond twice its largest size on the domain a polynomial grows as its degree says, and no result holds


@dataclass(eq=False)
class Published(Softmax):
    """A published way to compute softmax itself under CKKS.

    ``weights`` are exact softmax, so that a model trains with what the approximation approximates; ``reading``
    and every encrypted run use ``formula``, with the polynomials in place. ``domain`` is the interval of scores (or
    of scores less the estimated maximum, where the class says so) on which ``error_bound`` holds, for exact
    arithmetic and denominators within the stated interval: the largest absolute error of a weight.
    """

    weights_follow: ClassVar[tuple[str, ...]] = ("formula",)  # not computed by it: it approximates them
    division: ClassVar[bool] = True

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        if age(cls, "weights") < age(cls, "formula") and cls.formula is not Softmax.formula:
            raise TypeError(
                f"{cls.__name__} changes weights and keeps a formula, which an encrypted run computes, of "
                "others: it must give formula too"
            )

    @property
    def domain(self) -> Interval:
        """[low, high] of ``argument`` on which ``error_bound`` holds."""
        raise NotImplementedError

    def error_bound(self) -> float:
        """The largest absolute error of a weight on the domain, for exact arithmetic."""
        raise NotImplementedError

    def first_polynomial(self, value: np.ndarray) -> np.ndarray:
        """The first polynomial of the formula at values of ``argument``, up to a factor: what explodes first."""
        raise NotImplementedError

    @cached_property
    def guard(self) -> Interval:
        """The interval around the domain where ``first_polynomial`` stays within TWICE its largest size on it."""
        (low, high), way = self.domain, np.geomspace(1e-4, 64.0, 4000) * (self.domain[1] - self.domain[0])
        with np.errstate(all="ignore"):
            most = TWICE * np.abs(self.first_polynomial(np.linspace(low, high, 20_001))).max()
            below, above = (np.abs(self.first_polynomial(ends)) <= most for ends in (low - way, high + way))
        left, right = (
            float(way[: len(way) if fine.all() else int(np.argmin(fine))].max(initial=0.0)) for fine in (below, above)
        )
        return low - left, high + right

    def intervals(self) -> tuple[Interval, Interval] | None:
        """``domain`` and ``guard``, of ``argument``."""
        return self.domain, self.guard

    def reference(self, scores: Tensor, valid: Tensor | None = None) -> tuple[Tensor, float] | None:
        """The weights in the clear, and ``error_bound``."""
        return self.weights(scores, valid), self._stated_error

    @cached_property
    def _stated_error(self) -> float:
        return self.error_bound()

    def weights(self, scores: Tensor, valid: Tensor | None = None) -> Tensor:
        """Exact softmax, shapes and dtypes as for ``Softmax.weights``."""
        return Exact().weights(scores, valid)

    def reading(self, scores: Tensor, valid: Tensor | None = None) -> Tensor:
        """The formula on the scores, in float64."""
        return self.by_formula(scores, valid)


@dataclass(eq=False)
class Replacement(Published):
    """A published function in place of softmax: ``definition`` is what it means, ``formula`` what CKKS computes."""

    weights_follow: ClassVar[tuple[str, ...]] = ("definition",)

    def definition(self, x: C) -> C:
        """Weights of the scaled scores x, without any polynomial."""
        raise NotImplementedError

    def weights(self, scores: Tensor, valid: Tensor | None = None) -> Tensor:
        """The definition, shapes and dtypes as for ``Softmax.weights``."""
        return Softmax.weights(self, scores, valid)


@dataclass(eq=False)
class ReLUQuotient(Replacement):
    """Something over the row sum of a ReLU: a minimax polynomial on [-bound, bound], divided by Goldschmidt.

    least, most: the interval of the denominators. ``polynomial`` carries the divider's public scale.
    """

    eps: float = 1.0
    bound: float = 8.0
    degree: int = 15
    n: int = 128
    least: float = 8.0
    most: float = 1024.0
    iterations: int = 8

    @property
    def polynomial(self) -> Series:
        """The minimax polynomial of the rectified score, times the divider's public scale."""
        raise NotImplementedError

    @property
    def domain(self) -> Interval:
        """[-bound, bound] of the scores."""
        return -self.bound, self.bound

    @cached_property
    def divider(self) -> Goldschmidt:
        """The division, on [least, most]."""
        return Goldschmidt(self.least, self.most, self.iterations)

    def first_polynomial(self, value: np.ndarray) -> np.ndarray:
        """The minimax polynomial."""
        return self.polynomial(value)

    def public_scale(self, count: int | None) -> float:
        """The polynomial's own, of its argument."""
        return self.polynomial.a


def centred(x: V) -> V:
    """x - mean; rows of one count n carry 1 / n already, so that n x - rowsum(x) takes no level."""
    return x - x.row_mean() if x.count is None else x * x.count - x.row_sum()


def scaled_variance(centred_: V, factor: float) -> V:
    """factor * mean of the squares: two levels on rows of one count."""
    squares, n = centred_.square(), centred_.count
    return squares.row_mean() * factor if n is None else squares.row_sum() * (factor / n)


def check_interval(name: str, low: float, high: float) -> None:
    """UserError unless [low, high] is an interval of finite numbers."""
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise UserError(f"{name} needs scores in an interval low < high, and has [{low}, {high}]")


def check_floats(name: str, low: float, high: float) -> None:
    """UserError unless [low, high] is an interval whose exponentials are floats."""
    check_interval(name, low, high)
    if high > MOST_X0:
        raise UserError(f"{name} takes exp of its scores, which is a float up to {MOST_X0:g}, and has high {high}")


def check_switches(name: str, **switches: object) -> None:
    """UserError for a switch that is neither true nor false: the word 'no' would count as true."""
    for key, value in switches.items():
        if not isinstance(value, bool):
            raise UserError(f"softmax.{key} of {name} must be true or false, and is {value!r}")
