"""Public factors and constants of a circuit, moved where they cost no level: into a core, or behind decryption."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from cgf.approx.chain import SquareChain
from cgf.approx.exponential import A, Exponential, plus_public, square
from cgf.approx.head_chain import HeadChain
from cgf.approx.polynomial import Polynomial
from cgf.errors import UserError
from cgf.he.score_rows import Rows

# squarings whose factor of y, about 2^-k, whole numbers up to 512 come near to for every count of keys
MOST_FOLDED = 10
MOST_LOG = 30.0  # of what a factor becomes in the core's constants: e^30, far from what a float holds


def square_part(n: int) -> tuple[int, int]:
    """(q, m) with n = q^2 m and m square-free."""
    q = max(q for q in range(1, math.isqrt(n) + 1) if n % (q * q) == 0)
    return q, n // (q * q)


def fold_integers(e: Exponential, n: int, most: int = 512, slack: float = 0.05) -> tuple[int, int, float]:
    """(M1, M2, p) with M1^2 / (2 n M2) = p a and |ln p| * degree of the core at most ``slack`` if possible.

    M2 multiplies the noise of S, so the smallest that serves is taken.
    """
    # 1. p multiplies the argument of a core of this degree: its constants take p^degree
    degree = 2**e.levels
    best = (1, 1, math.inf)
    for m2 in range(1, most + 1):
        # 2. the whole number M1 that brings p nearest to 1 for this M2
        m1 = max(1, round(math.sqrt(2 * n * m2 * e.a)))
        p = m1 * m1 / (2 * n * m2) / e.a
        if not math.isfinite(best[2]) or abs(math.log(p)) < abs(math.log(best[2])):
            best = (m1, m2, p)
        # 3. the end: near enough, and a larger M2 would multiply the noise of S more
        if degree * abs(math.log(best[2])) <= slack:
            break
    return best


def far_apart(e: Exponential, n: int) -> bool:
    """Whether no whole numbers come so near to a chain's factor of y that what they leave can move through the chain.

    Its constants take p^(2^k): with more than MOST_FOLDED squarings the factor is so small that this may be no float.
    """
    if not isinstance(e, SquareChain | HeadChain):
        return False
    _, _, p = fold_integers(e, n)
    return float(2**e.k * abs(math.log(p))) > MOST_LOG


def rescaled(e: Exponential, p: float) -> tuple[Exponential, float]:
    """(e', s) with s * e'.core(p u) = e.core(u): a public factor moved through the core, exactly."""
    if isinstance(e, SquareChain):
        return _rescaled_chain(e, p), p ** -(2**e.k)
    if isinstance(e, HeadChain):
        return replace(e, chains=tuple(_rescaled_chain(chain, p) for chain in e.chains)), p ** -(2**e.k)
    if isinstance(e, Polynomial):
        return replace(e, coefficients=tuple(c / p**i for i, c in enumerate(e.coefficients))), 1.0
    raise UserError(f"{type(e).__name__} cannot be rescaled: use he.circuit=paper")


@dataclass(frozen=True)
class RowChain:
    """The core of a square chain whose constants differ by row: each broadcasts to (B, H, Q, 1)."""

    constants: tuple[np.ndarray, ...]

    def core(self, u: A) -> A:
        """z_k from z_0 = u, for anything with ``plus_public``."""
        value = u
        for constant in self.constants:
            value = square(value)
            if np.any(constant):
                value = plus_public(value, constant)
        return value


def rescaled_by_row(e: Exponential, p: np.ndarray) -> tuple[RowChain, np.ndarray]:
    """As ``rescaled`` for a factor p (B, H, 1, 1) by row; of chains alone. UserError for another exponential."""
    if isinstance(e, SquareChain):
        constants = tuple(np.array(c) for c in e.constants)
    elif isinstance(e, HeadChain):
        constants = tuple(e.by_head(list(c)) for c in zip(*(chain.constants for chain in e.chains), strict=True))
    else:
        raise UserError(f"{type(e).__name__} has no constants by row: samples of one length alone share a set")
    return RowChain(tuple(c * p ** (2.0 ** (i + 1)) for i, c in enumerate(constants))), p ** -(2.0**e.k)


def _rescaled_chain(chain: SquareChain, p: float) -> SquareChain:
    return replace(chain, constants=tuple(c * p ** (2 ** (i + 1)) for i, c in enumerate(chain.constants)))


def without_last_constant(e: Exponential, rows: Rows) -> tuple[Exponential, float | np.ndarray]:
    """(e', offset) with e'.core(u) + offset = e.core(u): a chain's last constant is public, and is added at the end.

    Under encryption it would be an addition, and it makes the product with i that two results share a
    decryption by (cgf.he.delivery) four times as long.
    """
    if isinstance(e, SquareChain):
        return replace(e, constants=(*e.constants[:-1], 0.0)), e.constants[-1]
    if isinstance(e, HeadChain):
        chains = tuple(replace(c, constants=(*c.constants[:-1], 0.0)) for c in e.chains)
        return replace(e, chains=chains), rows.part(e.by_head([c.constants[-1] for c in e.chains]), 1)
    return e, 0.0
