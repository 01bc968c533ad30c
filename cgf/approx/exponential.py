"""What every replacement of exp has in common: an affine map into a core, and what is known of the pair.

A reading of exp under CKKS is ``core(a * y + b)``: the affine map is one scalar multiplication that a
circuit may fold into the row statistics, the core is additions and multiplications of values alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np

from cgf.types import Json, Operand

if TYPE_CHECKING:  # CPython 3.10, which OpenFHE's wheel is for, has no Self
    from typing import Self

Interval = tuple[float, float]


class Arithmetic(Protocol):
    """A value with sums and products: a float, an array, a tensor, rows of scores, a ciphertext."""

    def __add__(self, other: Operand, /) -> Self:
        """Sum with a value of the same kind or a number; no level."""

    def __mul__(self, other: Operand, /) -> Self:
        """Product with a value of the same kind or a number; one level, with an int none."""


A = TypeVar("A", bound=Arithmetic)


def square(value: A) -> A:
    """value^2, by the value's own ``square`` where it has one (torch tensors, packed ciphertexts)."""
    method = getattr(value, "square", None)
    result: A = method() if method is not None else value * value
    return result


def plus_public(value: A, public: float | np.ndarray) -> A:
    """value + public, by the value's own ``plus_public`` where public is an array: heads differ, say."""
    method = getattr(value, "plus_public", None) if isinstance(public, np.ndarray) else None
    result: A = method(public) if method is not None else value + public
    return result


@dataclass(frozen=True)
class Fit:
    """What is known of a replacement of exp, measured on a grid that it was not fitted on.

    domain      [lo, hi] on which max_error holds (the accuracy domain), in units of y
    guard       [lo, hi] on which every intermediate stays at most ``guard_bound`` in absolute value
    max_error   largest |core(a y + b) - exp(y)| on the part of domain with y <= 0 and largest
                |core(a y + b) / exp(y) - 1| on the part with y > 0, the greater of the two
    """

    domain: Interval
    guard: Interval
    guard_bound: float
    max_error: float


class WithIntermediates(Protocol):
    """Whatever a guard interval can be measured of."""

    def intermediates(self, y: np.ndarray) -> list[np.ndarray]:
        """Every value that a circuit would hold on the way from y (n,), each (n,); overflow gives inf or nan."""


class Exponential(WithIntermediates, Protocol):
    """exp, or a stand-in for it, as arithmetic on whatever it is given.

    Implementations: ``Polynomial`` (polynomial.py), ``SquareChain`` (chain.py) and ``HeadChain`` (head_chain.py).
    All are immutable and hashable, import no torch, and survive
    ``exponential_from_json(json.loads(json.dumps(to_json())))`` bit for bit.
    """

    @property
    def method(self) -> str:
        """The kind of fit: "chebyshev", "limit", "chain", "head_chain", "taylor" or "fitted"."""

    @property
    def a(self) -> float:
        """The factor of y in the affine map."""

    @property
    def b(self) -> float | np.ndarray:
        """The constant of the affine map; (heads, 1, 1) floats where heads differ."""

    @property
    def fit(self) -> Fit | None:
        """Domain, guard and error; None where they were not measured."""

    @property
    def levels(self) -> int:
        """Levels of the core, not counting the affine map."""

    @property
    def ct_mults(self) -> int:
        """Ciphertext-ciphertext multiplications (squarings included) of the core."""

    def core(self, u: A) -> A:
        """exp(y) from u = a y + b."""

    def __call__(self, y: A) -> A:
        """exp(y), the affine map included."""

    def __hash__(self) -> int: ...

    def stating(self, fit: Fit | None) -> Self:
        """The same exponential with this fit attached."""

    def to_json(self) -> Json:
        """What ``exponential_from_json`` makes it from again, its levels and products beside it for the reader."""
