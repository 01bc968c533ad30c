"""CGF-softmax whose rows sum to one without a division."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cgf.softmax.cgf import CGF
from cgf.softmax.chain_cgf import ChainCGF
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


@dataclass(eq=False)
class UnitCGF(UnitSums, CGF):
    """CGF-softmax with unit row sums: exp(y) + (1 - sum exp(y)) / n, y the exponent of ``CGF``.

    Fields, shapes and UserErrors as of ``CGF``. Source: ``CGF``; the row sums are this repository's.
    """

    name: ClassVar[str] = "cgf_unit"
    label: ClassVar[str] = "CGF-softmax, unit row sums"
    source: ClassVar[str] = "this repository"


@dataclass(eq=False)
class UnitChainCGF(UnitSums, ChainCGF):
    """A chain in the loop with unit row sums: e(y) + (1 - sum e(y)) / n, e the chain of ``ChainCGF``.

    Fields, shapes and UserErrors as of ``ChainCGF``. Source: this repository.
    """

    name: ClassVar[str] = "cgf_chain_unit"
    label: ClassVar[str] = "chain of {k} in the loop, unit row sums"
    source: ClassVar[str] = "this repository"
