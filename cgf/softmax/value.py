"""What a softmax formula may do with its scores: operators, row operations, and places for polynomials and levels.

A formula is generic in ``V``, so that what it returns is what it was given: ``TensorRows`` (tensor.py; autograd, any
batch shape) or ``Packed`` (cgf/he/packed.py; ciphertexts). What only tensors can do is ``ClearValue``, which a
definition may use and a circuit may not. Formulas can be read without torch: this file loads none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

from cgf.approx.exponential import Arithmetic

if TYPE_CHECKING:  # formulas need no torch, and CPython 3.10, which OpenFHE's wheel is for, has no Self
    from typing import Self

    import numpy as np
    from torch import Tensor

    Public = float | np.ndarray | Tensor  # numbers that everyone may see


class Value(Arithmetic, Protocol):
    """Rows of scores, or one number a row, as a value with operators.

    A row has n_i valid entries; n_i and the place of the valid entries are public. ``entries`` carry one
    number for each valid entry, ``row values`` (what row_sum returns) one number a row; they combine by
    broadcasting along the row. What stands at invalid entries is unspecified after an addition: row_sum
    leaves it out, and at_invalid fixes it.
    """

    @property
    def count(self) -> int | None:
        """The n_i that all rows share, or None; public."""

    @property
    def queries(self) -> int:
        """The count of query positions Q of the scores (..., Q, K); public."""

    def __add__(self, other: Self | float, /) -> Self:
        """Sum with a value or a public number; no level."""

    def __sub__(self, other: Self | float, /) -> Self:
        """Difference to a value or a public number; no level."""

    def __mul__(self, other: Self | float, /) -> Self:
        """Product with a value or a public number; one level, with an int none."""

    def square(self) -> Self:
        """self * self; one level."""

    def row_sum(self) -> Self:
        """Sum of the row's valid entries, as a row value."""

    def row_mean(self) -> Self:
        """row_sum divided by the row's own count n_i."""

    def centred(self) -> Self:
        """self - row_mean, without what float32 loses of the mean of a row that lies far from zero."""

    def minus_log_count(self, factor: float = 1.0) -> Self:
        """self - factor * ln n_i; no level."""

    def plus_count(self, power: float) -> Self:
        """self + n_i^power; no level."""

    def times_count(self, power: float) -> Self:
        """self * n_i^power."""

    def at_invalid(self, point: float) -> Self:
        """The same entries with ``point`` at the invalid ones: a safe place to enter a polynomial."""

    def plus_public(self, array: Public) -> Self:
        """Sum with public numbers that broadcast to (..., heads, queries, keys)."""

    def times_public(self, array: Public) -> Self:
        """Product with public numbers that broadcast to (..., heads, queries, keys)."""

    def row_fold(self, combine: Callable[[Self, Self], Self]) -> Self:
        """The row's entries combined in pairs, pairs of pairs and so on, as a row value.

        combine is commutative, associative and idempotent (a maximum): entries may enter more than once. A
        row of one entry is that entry. Invalid entries take part: give them a harmless value first.
        """

    def refresh(self, levels: int, most: float = 1.0) -> Self:
        """The same value with at least ``levels`` levels to spend, by a bootstrap if there is one and need be.

        Slots within [-most, most]; above 1 that takes a level of those that are left. In the clear, and on engines
        that cannot bootstrap, it does nothing.
        """

    def exp(self) -> Self:
        """The true exponential; a ciphertext refuses it."""

    def clamp(self, low: float, high: float) -> Self:
        """Entries cut off at both ends; a ciphertext refuses it."""


class ClearValue(Value, Protocol):
    """A value in the clear, with what no ciphertext can do: for ``Softmax.definition``, never for a formula."""

    def __pow__(self, exponent: int, /) -> Self:
        """Every entry to a whole power."""

    def reciprocal(self) -> Self:
        """1 / self."""

    def relu(self) -> Self:
        """max(x, 0) of every entry."""

    def sigmoid(self) -> Self:
        """1 / (1 + exp(-x)) of every entry."""

    def row_abs_max(self) -> Self:
        """The largest absolute value of the row, whatever stands at invalid entries included, as a row value."""

    def one_where_zero(self) -> Self:
        """The same entries with 1 where one is 0, or too small to have a reciprocal."""


V = TypeVar("V", bound=Value)
C = TypeVar("C", bound=ClearValue)
