"""Only squarings: the limit approximation with a free constant after each square."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cgf.approx import recording
from cgf.approx.exponential import A, Fit, square
from cgf.errors import UserError
from cgf.types import Json


@dataclass(frozen=True)
class SquareChain:
    """exp(y) ~ z_k with z_0 = a y + b and z_{i+1} = z_i^2 + constants[i], i = 0 .. k-1.

    Domain and error: ``fit``. Levels and multiplications of the core: k squarings, nothing else, since
    adding a public constant is free; a zero constant is not added at all. With all constants zero, a =
    2^-k and b = 1 it is the limit approximation (1 + y / 2^k)^(2^k) of the CGF-softmax paper (appendix
    'Approximation of the Exponential Function'), named ``limit``. z_0 and -z_0 have one square: a chain given with a
    negative a is kept as the equal one of -a and -b, since circuits take the root of a. Raises UserError for no
    constants, for an a of 0, or for numbers that are not finite.
    """

    method: str
    a: float
    b: float
    constants: tuple[float, ...]
    fit: Fit | None = None

    def __post_init__(self) -> None:
        if not self.constants or self.a == 0 or not np.isfinite((self.a, self.b, *self.constants)).all():
            raise UserError(
                "a square chain needs at least one constant, finite numbers and an alpha other than 0, and has alpha "
                f"{self.a}, beta {self.b}, constants {self.constants}"
            )
        if self.a < 0:  # a search ends at either sign
            object.__setattr__(self, "a", -self.a)
            object.__setattr__(self, "b", -self.b)

    @property
    def k(self) -> int:
        """The count of squarings."""
        return len(self.constants)

    @property
    def alpha(self) -> float:
        """The factor of y, by its name in softmax.json."""
        return self.a

    @property
    def beta(self) -> float:
        """The constant beside it, by its name in softmax.json."""
        return self.b

    @property
    def levels(self) -> int:
        """One a squaring; constants are added in the clear."""
        return self.k

    @property
    def ct_mults(self) -> int:
        """One a squaring."""
        return self.k

    def core(self, u: A) -> A:
        """z_k from z_0 = u, for a float, array, tensor or ciphertext u."""
        value = u
        for constant in self.constants:
            value = square(value)
            if constant != 0.0:
                value = value + constant
        return value

    def __call__(self, y: A) -> A:
        return self.core(y * self.a + self.b)

    def intermediates(self, y: np.ndarray) -> list[np.ndarray]:
        """z_0 .. z_k and the squares before their constants, each of the shape of y."""
        return recording.intermediates(self, y)

    def stating(self, fit: Fit | None) -> SquareChain:
        """The same chain with this fit attached."""
        return replace(self, fit=fit)

    def to_json(self) -> Json:
        """alpha, beta and constants as exact decimals, and the fit."""
        return {
            **recording.common(self),
            "k": self.k,
            "alpha": self.a,
            "beta": self.b,
            "constants": list(self.constants),
        }
