"""THE-X's softmax: the score itself times a learned reciprocal of a cubed ReLU's row sum."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from cgf.approx import series
from cgf.approx.series import Series
from cgf.errors import UserError
from cgf.softmax.published.base import ReLUQuotient
from cgf.softmax.value import C, V


@dataclass(eq=False)
class TheX(ReLUQuotient):
    """x / (eps + sum relu(x / 2 + 1)^3).

    THE-X computes the reciprocal with a small network T trained for it; here it is the division, by Goldschmidt
    on [least, most] under CKKS, and eps stands for T's boundedness. relu(x / 2 + 1)^3 is a minimax polynomial of
    ``degree`` on [-bound, bound]. Weights take the sign of their score. Levels: ceil(log2(degree + 1)) + iterations
    (one more for masked rows). Raises UserError for eps <= 0, bound <= 2 or n < 1.
    Source: THE-X, Chen et al. 2022; numerator as quoted from it at second hand.
    """

    name: ClassVar[str] = "the_x"
    label: ClassVar[str] = "THE-X"
    source: ClassVar[str] = "THE-X, Chen et al., Findings of ACL 2022"
    stand_in: ClassVar[str] = "the reciprocal is a division with eps, not the publication's trained network"
    most: float = 4096.0

    def __post_init__(self) -> None:
        if self.eps <= 0 or self.bound <= 2 or self.n < 1:
            raise UserError(f"the_x needs eps > 0, bound > 2 and n >= 1, and has {self.eps}, {self.bound}, {self.n}")
        self.divider  # noqa: B018

    @cached_property
    def polynomial(self) -> Series:
        """relu(x / 2 + 1)^3, times the divider's public scale."""
        return series.relu_cubed(-self.bound, self.bound, self.degree).scaled(self.divider.scale)

    def error_bound(self) -> float:
        """For rows of at most n entries with eps + sum in [least, most]; infinite where the sum's error reaches it."""
        relative = self.n * self.polynomial.max_error / self.least
        if relative >= 1:
            return math.inf
        return self.bound / self.least * (relative / (1 - relative) + self.divider.max_error)

    def definition(self, x: C) -> C:
        """x / (eps + sum relu(x / 2 + 1)^3)."""
        cubes = (x * 0.5 + 1).relu() ** 3
        return x * (cubes.row_sum() + self.eps).reciprocal()

    def formula(self, x: V) -> V:
        """The same, the cubed ReLU by its polynomial and the division by Goldschmidt."""
        cubes = self.polynomial.core(x + self.polynomial.b).at_invalid(0.0)
        denominator = cubes.row_sum() + self.eps * self.divider.scale
        return self.divider.divide(x * (self.divider.scale / self.polynomial.a), denominator)
