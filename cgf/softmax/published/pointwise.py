"""Attention without any row operation: a function of each score alone, over a power of the row's length."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from cgf.approx import series
from cgf.approx.series import Series
from cgf.checks import is_whole
from cgf.errors import UserError
from cgf.softmax.inheritance import age
from cgf.softmax.published.base import Replacement
from cgf.softmax.value import C, V

if TYPE_CHECKING:
    import numpy as np

    from cgf.approx.exponential import Interval


@dataclass(eq=False)
class ScaledReLU(Replacement):
    """relu(x) / n^scale, scale = 1/2: scaled-sigma attention with ReLU.

    Under CKKS a minimax polynomial of ``degree`` on [-bound, bound], least in absolute error; rows of one
    length carry 1 / n^scale in its coefficients, and of others it waits for decryption. Levels: ceil(log2(degree + 1)).
    Keeps the order of the scores, weakly: below zero all weigh nothing. Rows do not
    sum to one. Raises UserError for bound <= 0, scale < 0 or a degree that is not whole.
    Source: Zimerman et al. 2024, 'Converting transformers to polynomial form' (S(L) = sqrt(L)).
    """

    name: ClassVar[str] = "relu"
    label: ClassVar[str] = "scaled ReLU"
    division: ClassVar[bool] = False
    source: ClassVar[str] = "Zimerman et al. 2024, scaled-sigma attention"
    scale: float = 0.5
    bound: float = 8.0
    degree: int = 30

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        if age(cls, "activation") < age(cls, "polynomial"):
            raise TypeError(
                f"{cls.__name__} changes activation and keeps a polynomial, which an encrypted run "
                "computes, of another: it must give polynomial too"
            )

    def __post_init__(self) -> None:
        if self.bound <= 0 or self.scale < 0 or not is_whole(self.degree):
            raise UserError(
                f"{self.name} needs bound > 0, scale >= 0 and a whole degree, and has {self.bound}, "
                f"{self.scale}, {self.degree!r}"
            )

    @property
    def domain(self) -> Interval:
        """[-bound, bound] of the scores."""
        return -self.bound, self.bound

    @cached_property
    def polynomial(self) -> Series:
        """The activation on the domain."""
        return series.relu(-self.bound, self.bound, self.degree)

    def error_bound(self) -> float:
        """Of rows of one entry; longer ones divide it by n^scale."""
        return self.polynomial.max_error

    def first_polynomial(self, value: np.ndarray) -> np.ndarray:
        """The minimax polynomial."""
        return self.polynomial(value)

    def activation(self, x: C) -> C:
        """The function of each score; a subclass that changes it gives its ``polynomial`` too."""
        return x.relu()

    def definition(self, x: C) -> C:
        """activation(x) / n^scale."""
        return self.activation(x).times_count(-self.scale)

    def public_scale(self, count: int | None) -> float:
        """The polynomial's own, of its argument."""
        return self.polynomial.a

    def formula(self, x: V) -> V:
        """The polynomial of x, 1 / n^scale in its coefficients where all rows have one n."""
        if x.count is None:
            return self.without_last(x).times_count(-self.scale)
        return self.polynomial.scaled(x.count**-self.scale).core(x + self.polynomial.b)

    @property
    def last_power(self) -> float:
        """-scale."""
        return -self.scale

    def without_last(self, x: V) -> V:
        """The polynomial of x."""
        return self.polynomial.core(x + self.polynomial.b)


@dataclass(eq=False)
class ScaledSigmoid(ScaledReLU):
    """1 / (1 + exp(-x)) / n^scale: as ScaledReLU, with the logistic function. Order kept strictly, weights positive."""

    name: ClassVar[str] = "sigmoid"
    label: ClassVar[str] = "scaled sigmoid"
    bound: float = 12.0
    degree: int = 31

    @cached_property
    def polynomial(self) -> Series:
        """The logistic function on the domain."""
        return series.sigmoid(-self.bound, self.bound, self.degree)

    def activation(self, x: C) -> C:
        """1 / (1 + exp(-x))."""
        return x.sigmoid()
