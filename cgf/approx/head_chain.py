"""A square chain for every head: the same squarings, constants that differ by head."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cgf.approx import recording
from cgf.approx.chain import SquareChain
from cgf.approx.exponential import A, Fit, plus_public, square
from cgf.errors import UserError
from cgf.types import Json


@dataclass(frozen=True)
class HeadChain:
    """exp(y) ~ z_k with z_0 = a y + b[h] and z_{i+1} = z_i^2 + constants[h][i] for the entries of head h.

    y is (..., heads, queries, keys) or a Packed value of such rows; chains[h] is head h's SquareChain, all of
    one a and one k. Domain and error: ``fit``, the worst head. Levels and multiplications are those of one
    chain: a constant that differs by head is a public vector instead of a public number, and adding either
    is free. Raises UserError for chains that do not go together.
    """

    method: str
    chains: tuple[SquareChain, ...]
    fit: Fit | None = None

    def __post_init__(self) -> None:
        if len({(c.a, c.k) for c in self.chains}) != 1:
            raise UserError(
                "the chains of the heads need one alpha and one count of squarings, and have "
                f"{sorted({(c.a, c.k) for c in self.chains})}"
            )

    @property
    def a(self) -> float:
        """The factor of y that all heads share."""
        return self.chains[0].a

    @property
    def b(self) -> np.ndarray:
        """beta of each head, (heads, 1, 1)."""
        return self.by_head([c.b for c in self.chains])

    @property
    def k(self) -> int:
        """The count of squarings of every head."""
        return self.chains[0].k

    @property
    def levels(self) -> int:
        """One a squaring, as for one chain."""
        return self.k

    @property
    def ct_mults(self) -> int:
        """One a squaring, as for one chain."""
        return self.k

    def core(self, u: A) -> A:
        """z_k from z_0 = u, for an array (..., heads, queries, keys) or anything with ``plus_public``."""
        value = u
        for constants in zip(*(c.constants for c in self.chains), strict=True):
            value = square(value)
            if any(constants):
                value = plus_public(value, self.by_head(list(constants)))
        return value

    def __call__(self, y: A) -> A:
        return self.core(plus_public(y * self.a, self.b))

    def intermediates(self, y: np.ndarray) -> list[np.ndarray]:
        """Those of every head, one after the other: an interval that guards them all guards each."""
        return [values for chain in self.chains for values in chain.intermediates(y)]

    def stating(self, fit: Fit | None) -> HeadChain:
        """The same chains with this fit, of the worst head, attached."""
        return replace(self, fit=fit)

    def to_json(self) -> Json:
        """alpha, and beta and constants by head, as exact decimals; the fit."""
        return {
            **recording.common(self),
            "k": self.k,
            "alpha": self.a,
            "beta": [c.b for c in self.chains],
            "constants": [list(c.constants) for c in self.chains],
        }

    @staticmethod
    def by_head(numbers: list[float]) -> np.ndarray:
        """(heads,) -> (heads, 1, 1)."""
        return np.array(numbers, dtype=np.float64).reshape(-1, 1, 1)
