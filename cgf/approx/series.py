"""Polynomials in the Chebyshev basis, for degrees at which powers lose too many digits; minimax fits of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

import numpy as np
from scipy.optimize import linprog

from cgf.approx.approximation import Approximation, X
from cgf.approx.exponential import A, Interval, square
from cgf.errors import UserError

GRID = 20_000  # points on which max_error is measured
ZERO = 1e-300  # coefficients up to this are none


@dataclass(frozen=True)
class Series(Approximation):
    """f(x) ~ sum of coefficients[i] T_i(a x + b) on domain; T_i the Chebyshev polynomials.

    max_error   largest relative error |series / f - 1| (of absolute fits |series - f|) on a grid of the domain that
                it was not fitted on
    Levels of the core: ceil(log2(degree + 1)). Products of two values: log2 of the degree for the T of powers
    of two, and one for each split of the series (15: 10, 31: 19 in all at most; sparse series take fewer);
    ``levels`` and ``ct_mults`` are counted on the core itself. Guard: ``guard``, of u and all that the core holds.
    Splits p = q T_g + r at the largest power of two g <= degree, after Paterson and Stockmeyer 1973 in the
    Chebyshev basis: coefficients stay of the size of f where those of powers grow like 2.4^degree.
    Raises UserError unless all numbers are finite, lo < hi and some coefficient of degree 1 or more is not zero.
    """

    a: float
    b: float
    coefficients: tuple[float, ...]
    domain: Interval
    max_error: float

    def __post_init__(self) -> None:
        (lo, hi), numbers = self.domain, (self.a, self.b, *self.coefficients)
        if not np.isfinite((*numbers, lo, hi)).all() or not lo < hi:
            raise UserError(f"a series needs finite numbers and a domain lo < hi, and has {numbers} on [{lo}, {hi}]")
        if not (np.abs(self.coefficients[1:]) > ZERO).any():
            raise UserError(f"a series needs a coefficient of degree 1 or more, and has only {self.coefficients}")

    @property
    def degree(self) -> int:
        """Of the last coefficient that is not zero."""
        return max(i for i, c in enumerate(self.coefficients) if abs(c) > ZERO)

    def scaled(self, factor: float) -> Series:
        """factor times this series: a public constant that costs nothing."""
        return Series(self.a, self.b, tuple(c * factor for c in self.coefficients), self.domain, self.max_error)

    def core(self, u: A) -> A:
        """The sum for u = a x + b: a float, array, tensor or ciphertext."""
        # 1. T_1 = u, and T_{2g} = 2 T_g^2 - 1: the T of powers of two, one level and one product each
        chebyshev, g, degree = {1: u}, 1, self.degree
        while 2 * g <= degree:
            chebyshev[2 * g] = square(chebyshev[g]) * 2 + (-1.0)
            g *= 2
        # 2. the sum from these alone; a constant is refused when the series is made
        return cast(A, _sum(np.asarray(self.coefficients), chebyshev))

    def __call__(self, x: A) -> A:
        return self.core(x * self.a + self.b)

    def circuit(self, x: X, value: Callable[[X], A]) -> A:
        """The core of a x + b."""
        return self.core(value(x * self.a + self.b))


def _sum(coefficients: np.ndarray, chebyshev: dict[int, A]) -> A | float:
    """The series of these coefficients from the T of powers of two; a float where it is constant."""
    used = np.flatnonzero(np.abs(coefficients) > ZERO)
    degree = int(used[-1]) if len(used) else 0
    if degree == 0:
        return float(coefficients[0])
    # p = q T_g + r at the largest power of two g <= degree: both q and r are shorter than g
    g = 1 << (degree.bit_length() - 1)
    quotient, rest = np.polynomial.chebyshev.chebdiv(coefficients[: degree + 1], [0.0] * g + [1.0])
    high, low = _sum(quotient, chebyshev), _sum(rest, chebyshev)
    top = chebyshev[g] * high
    return top if isinstance(low, float) and low == 0.0 else top + low


def minimax(f: Callable[[np.ndarray], np.ndarray], lo: float, hi: float, degree: int, absolute: bool = False) -> Series:
    """The series of least largest relative error to a positive f on [lo, hi], by one linear program.

    f maps (n,) to (n,). absolute: of least largest absolute error, for an f of any sign. Raises UserError unless
    0 < degree <= 255 and lo < hi, and where the program finds no solution.
    """
    if not (np.isfinite([lo, hi]).all() and lo < hi) or not 0 < degree <= 255:
        raise UserError(f"a minimax fit needs lo < hi and a degree from 1 to 255, and has [{lo}, {hi}], {degree}")
    # 1. Points that stand for the interval: at each |p(x) - f(x)| <= t unit(x), linear in the coefficients and t.
    x = _points(lo, hi, 12 * degree + 60, absolute)
    unit = np.ones_like(x) if absolute else f(x)  # what the error is measured in
    target = f(x) / unit
    # 2. The columns T_i / unit are nearly dependent: the program is posed in their orthonormal basis.
    orthonormal, triangle = np.linalg.qr(_basis(x, lo, hi, degree) / unit[:, None])
    # 3. Minimise t over (coordinates, t).
    ones = np.ones((len(x), 1))
    solved = linprog(
        np.append(np.zeros(degree + 1), 1.0),
        A_ub=np.block([[orthonormal, -ones], [-orthonormal, -ones]]),
        b_ub=np.concatenate([target, -target]),
        bounds=[(None, None)] * (degree + 1) + [(0, None)],
        method="highs",
    )
    if solved.status != 0:
        raise UserError(f"no minimax series of degree {degree} was found on [{lo}, {hi}]: {solved.message}")
    # 4. Back to the coefficients, and their error on a grid that they were not fitted on.
    coefficients = np.linalg.solve(triangle, solved.x[:-1])
    fine = _points(lo, hi, GRID, absolute)
    difference = np.abs(_basis(fine, lo, hi, degree) @ coefficients - f(fine))
    error = (difference if absolute else difference / f(fine)).max()
    return Series(2 / (hi - lo), -(hi + lo) / (hi - lo), tuple(map(float, coefficients)), (lo, hi), float(error))


def _basis(x: np.ndarray, lo: float, hi: float, degree: int) -> np.ndarray:
    return np.polynomial.chebyshev.chebvander((2 * x - lo - hi) / (hi - lo), degree)


def _points(lo: float, hi: float, count: int, kink: bool = False) -> np.ndarray:
    """Chebyshev nodes and, on a positive interval, as many that are even in log x, where 1 / x varies.

    kink: also around 0, even in log |x|, where a function of any sign may bend within less than a node's distance.
    """
    nodes = (lo + hi) / 2 + (hi - lo) / 2 * np.cos(np.pi * (np.arange(count) + 0.5) / count)
    parts = [nodes, np.array([lo, hi])]
    if lo > 0:
        parts.append(np.geomspace(lo, hi, count)[1:-1])
    if kink and lo < 0 < hi:
        near = np.geomspace(1e-6 * (hi - lo), min(-lo, hi), count // 4)
        parts += [near, -near, np.zeros(1)]
    return np.unique(np.clip(np.concatenate(parts), lo, hi))


@lru_cache(maxsize=64)
def inverse_sqrt(lo: float, hi: float, degree: int) -> Series:
    """1 / sqrt(x) on [lo, hi], lo > 0, of least relative error.

    The error falls like ((r - 1) / (r + 1))^degree with r = sqrt(hi / lo).
    """
    _positive(lo)
    return minimax(lambda x: 1.0 / np.sqrt(x), lo, hi, degree)


@lru_cache(maxsize=64)
def inverse(lo: float, hi: float, degree: int) -> Series:
    """1 / x on [lo, hi], lo > 0, of least relative error; it falls as for inverse_sqrt."""
    _positive(lo)
    return minimax(lambda x: 1.0 / x, lo, hi, degree)


@lru_cache(maxsize=64)
def square_root(lo: float, hi: float, degree: int) -> Series:
    """sqrt(x) on [lo, hi], lo > 0, of least relative error."""
    _positive(lo)
    return minimax(np.sqrt, lo, hi, degree)


@lru_cache(maxsize=64)
def relu(lo: float, hi: float, degree: int) -> Series:
    """max(x, 0) on [lo, hi] of least absolute error; on [-R, R] about 0.14 R / degree, the kink's price."""
    return minimax(lambda x: np.maximum(x, 0.0), lo, hi, degree, absolute=True)


@lru_cache(maxsize=64)
def relu_cubed(lo: float, hi: float, degree: int) -> Series:
    """max(x / 2 + 1, 0)^3 on [lo, hi] of least absolute error; twice differentiable, so a low degree serves."""
    return minimax(lambda x: np.maximum(x / 2 + 1, 0.0) ** 3, lo, hi, degree, absolute=True)


@lru_cache(maxsize=64)
def sigmoid(lo: float, hi: float, degree: int) -> Series:
    """1 / (1 + exp(-x)) on [lo, hi] of least absolute error; on [-R, R] it falls like (1 + pi / R)^-degree."""
    return minimax(lambda x: 0.5 + 0.5 * np.tanh(x / 2), lo, hi, degree, absolute=True)


def _positive(lo: float) -> None:
    if not lo > 0:
        raise UserError(f"an inverse or a root needs an interval above zero, and it starts at {lo}")
