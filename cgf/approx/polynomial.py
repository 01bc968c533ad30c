"""A polynomial, then squarings: exp(y) ~ p(a y + b)^(2^k)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cgf.approx import recording
from cgf.approx.exponential import A, Fit, square
from cgf.approx.tree import ANY, ONE, ZERO, Node, Tree, least_depth
from cgf.errors import UserError
from cgf.types import Json


@dataclass(frozen=True)
class Polynomial:
    """exp(y) ~ p(u)^(2^k) with u = a y + b and p(u) the sum of coefficients[i] u^i, lowest first.

    Domain and error: ``fit``. Levels of the core: ceil(log2(degree + 1)) + k, multiplications with
    coefficients included (fewer only for a leading coefficient of 1). Multiplications of ciphertexts: those
    of the cheapest tree of that depth (tree.py) + k: 2, 3, 5 and 8 for degree 3, 5, 7 and 15; zero
    coefficients cost nothing and odd, even or sparse polynomials cost less.
    Source: CGF-softmax paper, appendix 'Approximation of the Exponential Function' (Chebyshev with
    exp(x) = exp(x / 2^k)^(2^k)); trees after Paterson and Stockmeyer 1973, at least depth. Raises UserError for
    numbers that are not finite, a negative k, or no coefficient of degree 1 or more.
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
        """The degree of p: the index of the last coefficient that is not zero."""
        return max(i for i, c in enumerate(self.coefficients) if c != 0.0)

    @property
    def tree(self) -> Tree:
        """The order in which p is evaluated, which its zero and unit coefficients decide."""
        return least_depth(tuple(ZERO if c == 0.0 else ONE if c == 1.0 else ANY for c in self.coefficients))

    @property
    def levels(self) -> int:
        """The tree's depth and one a squaring."""
        return self.tree.depth + self.k

    @property
    def ct_mults(self) -> int:
        """The tree's products of two values and one a squaring."""
        return self.tree.products + self.k

    def core(self, u: A) -> A:
        """p(u)^(2^k) for a float, array, tensor or ciphertext u."""
        tree = self.tree
        powers = {1: u}
        for e, a, b in tree.powers:
            powers[e] = square(powers[a]) if a == b else powers[a] * powers[b]
        value = self._sum(tree.root, powers)
        for _ in range(self.k):
            value = square(value)
        return value

    def _sum(self, node: Node, powers: dict[int, A]) -> A:
        """low + u^power * high, either of which may be a coefficient; the node itself is none."""
        power, high, low = powers[node.power], node.high, node.low
        assert high is not None
        if high.high is not None:
            top = power * self._sum(high, powers)
        else:
            coefficient = self.coefficients[high.at]
            top = power if coefficient == 1.0 else power * coefficient
        if low is None:
            return top
        return top + (self.coefficients[low.at] if low.high is None else self._sum(low, powers))

    def __call__(self, y: A) -> A:
        return self.core(y * self.a + self.b)

    def intermediates(self, y: np.ndarray) -> list[np.ndarray]:
        """u, its powers, and every sum and product of the tree and the squarings, each of the shape of y."""
        return recording.intermediates(self, y)

    def stating(self, fit: Fit | None) -> Polynomial:
        """The same polynomial with this fit attached."""
        return replace(self, fit=fit)

    def in_powers_of_scaled_y(self) -> tuple[float, ...]:
        """Coefficients of q with q(y / 2^k)^(2^k) the same polynomial, lowest first (for printing; rounds)."""
        line = np.polynomial.Polynomial([self.b, self.a * 2.0**self.k])
        full = np.polynomial.Polynomial(self.coefficients[: self.degree + 1])(line)
        return tuple(float(c) for c in full.coef)

    def to_json(self) -> Json:
        """a, b, k and the coefficients as exact decimals, and the fit."""
        return {
            **recording.common(self),
            "degree": self.degree,
            "k": self.k,
            "a": self.a,
            "b": self.b,
            "coefficients": list(self.coefficients),
        }
