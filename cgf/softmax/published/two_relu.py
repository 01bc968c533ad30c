"""2ReLU: the exponential of softmax replaced by ReLU, the division kept."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from cgf.approx import series
from cgf.approx.series import Series
from cgf.checks import is_whole
from cgf.errors import UserError
from cgf.softmax.published.base import ReLUQuotient
from cgf.softmax.value import C, V


@dataclass(eq=False)
class TwoReLU(ReLUQuotient):
    """(relu(x) + eps / n) / (sum relu(x) + eps): rows sum to 1, and one without a positive score is uniform.

    Under CKKS relu is a minimax polynomial of ``degree`` on [-bound, bound], and the division is Goldschmidt's on
    [least, most], the interval of the denominators; eps is left out there, so that a row whose positive scores sum to
    less than ``least`` is not served. Keeps the order of the scores weakly. Levels: ceil(log2(degree + 1)) +
    iterations (one more for masked rows). Raises UserError for an eps, a bound or an n that is not
    positive. Source: MPCFormer, Li et al. 2023.
    """

    name: ClassVar[str] = "two_relu"
    label: ClassVar[str] = "2ReLU"
    source: ClassVar[str] = "MPCFormer, Li et al. 2023 (2ReLU)"
    eps: float = 1e-12
    degree: int = 30

    def __post_init__(self) -> None:
        if self.eps <= 0 or self.bound <= 0 or self.n < 1 or not is_whole(self.degree):
            raise UserError(
                f"two_relu needs eps > 0, bound > 0, n >= 1 and a whole degree, and has {self.eps}, "
                f"{self.bound}, {self.n}, {self.degree!r}"
            )
        self.divider  # noqa: B018

    @cached_property
    def polynomial(self) -> Series:
        """relu(x), times the divider's public scale."""
        return series.relu(-self.bound, self.bound, self.degree).scaled(self.divider.scale)

    def error_bound(self) -> float:
        """For rows of at most n entries whose denominators lie in [least, most], by relu and by its polynomial."""
        part = (1 + self.n) * self.polynomial.max_error / self.least  # a weight of relu itself is at most 1
        return part + (1 + part) * self.divider.max_error

    def definition(self, x: C) -> C:
        """(relu(x) + eps / n) / (sum relu(x) + eps)."""
        active = x.relu().at_invalid(0.0)
        share = (active * 0 + self.eps).times_count(-1.0)  # eps / n
        return (active + share) * (active.row_sum() + self.eps).reciprocal()

    def formula(self, x: V) -> V:
        """relu(x) / sum relu(x), relu by its polynomial."""
        e = self.polynomial.core(x + self.polynomial.b).at_invalid(0.0)
        return self.divider.divide(e, e.row_sum())
