"""What a softmax formula may do with its scores: the four operators and two row operations.

The same formula runs on ``TensorRows`` (tensor.py; autograd, any batch shape) and on ``Packed``
(cgf/he/packed.py; ciphertexts). This file imports nothing, so that formulas can be read without torch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class Value(Protocol):
    """Rows of scores, or one number a row, as a value with operators.

    A row has n_i valid entries; n_i and the place of the valid entries are public. ``entries`` carry one
    number for each valid entry, ``row values`` (what row_sum returns) one number a row; they combine by
    broadcasting along the row. What stands at invalid entries is unspecified after an addition: row_sum
    leaves it out, and at_invalid fixes it.
    """

    @property
    def count(self) -> int | None:
        """The n_i that all rows share, or None; public."""

    def __add__(self, other: Any) -> Value: ...

    def __sub__(self, other: Any) -> Value: ...

    def __mul__(self, other: Any) -> Value: ...

    def square(self) -> Value: ...

    def row_sum(self) -> Value:
        """Sum of the row's valid entries, as a row value."""

    def row_mean(self) -> Value:
        """row_sum divided by the row's own count n_i."""

    def centred(self) -> Value:
        """self - row_mean, without what float32 loses of the mean of a row that lies far from zero."""

    def minus_log_count(self) -> Value:
        """self - ln n_i."""

    def times_count(self, power: float) -> Value:
        """self * n_i^power."""

    def at_invalid(self, point: float) -> Value:
        """The same entries with ``point`` at the invalid ones: a safe place to enter a polynomial."""

    def times_public(self, array: Any) -> Value:
        """Product with public numbers that broadcast to (..., heads, queries, keys)."""

    def row_fold(self, combine: Callable[[Value, Value], Value]) -> Value:
        """The row's entries combined in pairs, pairs of pairs and so on, as a row value.

        combine is commutative, associative and idempotent (a maximum): entries may enter more than once. A
        row of one entry is that entry. Invalid entries take part: give them a harmless value first.
        """

    def refresh(self, levels: int, most: float = 1.0) -> Value:
        """The same value with at least ``levels`` levels to spend, by a bootstrap if there is one and need be.

        Slots within [-most, most]; above 1 that takes a level of those that are left. In the clear, and on engines
        that cannot bootstrap, it does nothing.
        """

    def reciprocal(self) -> Value:
        """1 / self; only readings in the clear have it."""

    def plus_public(self, array: Any) -> Value:
        """Sum with public numbers that broadcast to (..., heads, queries, keys)."""

    def exp(self) -> Value:
        """The true exponential; only readings in the clear have it."""

    def clamp(self, low: float, high: float) -> Value:
        """Entries cut off at both ends; only readings in the clear have it."""
