"""A polynomial, then squarings: exp(y) ~ p(a y + b)^(2^k)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cgf.approx import recording
from cgf.approx.exponential import Fit, square
from cgf.approx.tree import ANY, ONE, ZERO, Node, Tree, plan
from cgf.errors import UserError


@dataclass(frozen=True)
class Polynomial:
    """exp(y) ~ p(u)^(2^k) with u = a y + b and p(u) the sum of coefficients[i] u^i, lowest first.

    Domain and error: ``fit``. Levels of the core: ceil(log2(degree + 1)) + k, multiplications with
    coefficients included (fewer only for a leading coefficient of 1). Multiplications of ciphertexts: those
    of the cheapest tree of that depth (tree.py) + k: 2, 3, 5 and 8 for degree 3, 5, 7 and 15; zero
    coefficients cost nothing and odd, even or sparse polynomials cost less.
    Source: CGF-softmax paper, appendix 'Approximation of the Exponential Function' (Chebyshev with
    exp(x) = exp(x / 2^k)^(2^k)); trees after Paterson and Stockmeyer 1973, at least depth.
    """

    method: str
    a: float
    b: float
    coefficients: tuple[float, ...]
    k: int = 0
    fit: Fit | None = None

    def __post_init__(self) -> None:
        numbers = (self.a, self.b, *self.coefficients)
        if not np.isfinite(numbers).all():
            raise UserError(f"a polynomial needs finite a, b and coefficients, and has {numbers}")
        if self.k < 0 or not any(self.coefficients[1:]):
            raise UserError(
                f"a polynomial needs k >= 0 and a coefficient of degree 1 or more, and has k={self.k} "
                f"and coefficients {self.coefficients}"
            )

    @property
    def degree(self) -> int:
        return max(i for i, c in enumerate(self.coefficients) if c != 0.0)

    @property
    def tree(self) -> Tree:
        return plan(tuple(ZERO if c == 0.0 else ONE if c == 1.0 else ANY for c in self.coefficients))

    @property
    def levels(self) -> int:
        return self.tree.depth + self.k

    @property
    def ct_mults(self) -> int:
        return self.tree.products + self.k

    def core(self, u: Any) -> Any:
        """p(u)^(2^k) for a float, array, tensor or ciphertext u."""
        tree = self.tree
        powers = {1: u}
        for e, a, b in tree.powers:
            powers[e] = square(powers[a]) if a == b else powers[a] * powers[b]
        value = self._sum(tree.root, powers)
        for _ in range(self.k):
            value = square(value)
        return value

    def _sum(self, node: Node, powers: dict[int, Any]) -> Any:
        if node.high is None:
            return self.coefficients[node.at]
        high = self._sum(node.high, powers)
        power = powers[node.power]
        top = power if isinstance(high, float) and high == 1.0 else power * high
        return top if node.low is None else top + self._sum(node.low, powers)

    def __call__(self, y: Any) -> Any:
        return self.core(y * self.a + self.b)

    def intermediates(self, y: np.ndarray) -> list[np.ndarray]:
        return recording.intermediates(self, y)

    def in_powers_of_scaled_y(self) -> tuple[float, ...]:
        """Coefficients of q with q(y / 2^k)^(2^k) the same polynomial, lowest first (for printing; rounds)."""
        line = np.polynomial.Polynomial([self.b, self.a * 2.0**self.k])
        full = np.polynomial.Polynomial(self.coefficients[: self.degree + 1])(line)
        return tuple(float(c) for c in full.coef)

    def to_json(self) -> dict[str, Any]:
        return {
            **recording.common(self),
            "degree": self.degree,
            "k": self.k,
            "a": self.a,
            "b": self.b,
            "coefficients": list(self.coefficients),
        }
