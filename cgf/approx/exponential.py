"""What every replacement of exp has in common: an affine map into a core, and what is known of the pair.

A reading of exp under CKKS is ``core(a * y + b)``: the affine map is one scalar multiplication that a
circuit may fold into the row statistics, the core is additions and multiplications of values alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

V = TypeVar("V")
Interval = tuple[float, float]


def square(value: V) -> V:
    """value^2, by the value's own ``square`` where it has one (torch tensors, packed ciphertexts)."""
    own = getattr(value, "square", None)
    return own() if own is not None else value * value  # type: ignore[operator]


def plus_public(value: V, public: float | np.ndarray) -> V:
    """value + public, by the value's own ``plus_public`` where public is an array: heads differ, say."""
    own = getattr(value, "plus_public", None) if isinstance(public, np.ndarray) else None
    return own(public) if own is not None else value + public  # type: ignore[operator, return-value]


@dataclass(frozen=True)
class Fit:
    """What is known of a replacement of exp, measured on a grid that it was not fitted on.

    domain      [lo, hi] on which max_error holds (the accuracy domain), in units of y
    guard       [lo, hi] on which every intermediate stays at most ``guard_bound`` in absolute value
    max_error   largest |core(a y + b) - exp(y)| on the part of domain with y <= 0 and largest
                |core(a y + b) / exp(y) - 1| on the part with y > 0, the greater of the two
    """

    domain: tuple[float, float]
    guard: tuple[float, float]
    guard_bound: float
    max_error: float


class Exponential(Protocol):
    """exp, or a stand-in for it, as arithmetic on whatever it is given.

    Implementations: ``Polynomial`` (poly.py), ``SquareChain`` (chain.py) and ``HeadChain`` (head_chain.py).
    All are immutable and hashable, import no torch, and survive
    ``from_json(json.loads(json.dumps(to_json())))`` bit for bit.
    """

    @property
    def method(self) -> str:
        """ "chebyshev", "limit", "chain", "head_chain", "taylor" or "fitted"."""

    @property
    def a(self) -> float: ...

    @property
    def b(self) -> Any:
        """A float; (heads, 1, 1) floats where heads differ."""

    @property
    def fit(self) -> Fit | None: ...

    @property
    def levels(self) -> int:
        """Levels of the core, not counting the affine map."""

    @property
    def ct_mults(self) -> int:
        """Ciphertext-ciphertext multiplications (squarings included) of the core."""

    def core(self, u: Any) -> Any: ...

    def __call__(self, y: Any) -> Any: ...

    def intermediates(self, y: np.ndarray) -> list[np.ndarray]:
        """Every value that a circuit would hold on the way, for the guard."""

    def to_json(self) -> dict[str, Any]: ...
