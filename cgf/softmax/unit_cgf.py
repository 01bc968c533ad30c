"""CGF-softmax whose rows sum to one without a division."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cgf.softmax.cgf import CGF
from cgf.softmax.chain_cgf import ChainCGF
from cgf.softmax.unit_sums import UnitSums


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
    label: ClassVar[str] = "chain of {k}, unit row sums"
    source: ClassVar[str] = "this repository"
