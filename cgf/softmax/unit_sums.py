"""Rows that sum to one without a division: the last step of a softmax, in the clear and on ciphertexts."""

from __future__ import annotations

from typing import ClassVar

from cgf.softmax.value import V


class UnitSums:
    """Weights p + (1 - s) / n, s the sum of a row's p: its n valid entries share alike what s misses of one.

    In the bases of a softmax before its ``ExponentialSoftmax``. Every row sums to one. Order and differences within a
    row stay, ratios do not. A weight is negative where p < (s - 1) / n. A row whose p vanish gives the mean of the
    values, in the place of zero. Linear in p, so that a circuit on full rows takes additions and integers and no
    level more. Observers and penalties have p, so that a row sum that strays is seen.
    """

    amplification: ClassVar[float] = 2.0  # noise of p, and of its row's mean

    def from_exponentials(self, p: V) -> V:
        """p - mean of the row's p + 1 / n."""
        return p.centred().plus_count(-1.0)
