"""The one list of exponentials that every planner chooses from, at a cost known before any of them is fitted."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np
from scipy.special import ive

from cgf.approx import fit, tree
from cgf.approx.exponential import Exponential, Interval
from cgf.checks import is_whole, whole
from cgf.errors import UserError

Fitting = Callable[[float, float, int], Exponential]  # of lo, hi and k
METHODS = ("chain", "limit", "chebyshev", "fitted", "taylor")
DEGREES = {"chebyshev": (7, 15, 31), "fitted": (3, 5, 7, 15), "taylor": (1, 2, 3, 5, 7, 15, 31)}
SQUARINGS = range(1, 11)  # of limit and chain; polynomials take what their interval can use
TAKEN = {
    "chain": range(1, 13),
    "limit": range(1, 21),
    "chebyshev": range(21),
    "fitted": range(13),
    "taylor": range(1),
}  # k that their fits take
MOST = {"chebyshev": tree.MAX_DEGREE, "fitted": 31, "taylor": tree.MAX_DEGREE}  # degree that theirs do


@dataclass(frozen=True)
class Spec:
    """A candidate before its fit: what the core costs is known, its error and guard are not.

    levels and ct_mults are exact but where the fit makes a coefficient zero or one: then they are upper bounds.
    on  makes the fit on an interval
    """

    method: str
    degree: int | None
    k: int
    levels: int
    ct_mults: int
    domain: Interval
    on: Callable[[Interval], Exponential]

    def make(self) -> Exponential:
        """The fit on its domain: up to 20 s."""
        return self.on(self.domain)

    def over(self, domain: Interval) -> Spec:
        """The same candidate fitted on another interval, at the same cost."""
        return replace(self, domain=domain)

    @property
    def family(self) -> tuple[str, int | None]:
        """(method, degree): candidates that differ in their squarings alone."""
        return self.method, self.degree

    @property
    def whole_degree(self) -> int:
        """Degree in y, squarings included."""
        degree: int = (self.degree or 1) * 2**self.k
        return degree


def specs(
    domain: Interval,
    methods: tuple[str, ...] = METHODS,
    degree: int | None = None,
    k: int | None = None,
    tolerance: float = 1e-4,
) -> list[Spec]:
    """Candidates over methods, degrees and squarings, fewest levels first within a family.

    degree and k fix those of all; of several methods, those whose fits do not take them are left out. A fitted
    polynomial starts at the k that leaves it 4 (degree + 1) of the domain: with fewer squarings the error stays
    above 1e-4, so that only a wider ``tolerance`` asks for them. Raises UserError for an unknown method, a degree
    that is no whole number from 1 to 63, a k that is none, and where no method takes both.
    """
    # 1. what cannot be asked for of any method
    if unknown := [m for m in methods if m not in METHODS]:
        raise UserError(f"approx.method must be auto or one of {', '.join(METHODS)}, and is {unknown[0]!r}")
    if degree is not None:
        whole("degree", degree, 1, tree.MAX_DEGREE)
    if k is not None and not is_whole(k):
        raise UserError(f"k must be a whole number, and is {k!r}")
    # 2. of several methods, those that can have this degree and k; one alone says itself that it cannot
    if len(methods) > 1:
        methods = tuple(m for m in methods if (k is None or k in TAKEN[m]) and (degree or 0) <= MOST.get(m, 63))
    # 3. every degree and k of each
    listed = [spec for method in methods for spec in _of_method(domain, method, degree, k, tolerance)]
    if not listed:
        raise UserError(f"no method takes degree {degree} and k {k}")
    return listed


def _of_method(domain: Interval, method: str, degree: int | None, k: int | None, tolerance: float) -> Iterator[Spec]:
    if method in ("chain", "limit"):
        squares: Fitting = fit.chain if method == "chain" else fit.limit
        for n in [k] if k is not None else SQUARINGS:
            yield Spec(method, None, n, n, n, domain, partial(_squares, squares, n))
        return
    for d in [degree] if degree is not None else DEGREES[method]:
        yield from _polynomials(domain, method, d, k, tolerance)


def _polynomials(domain: Interval, method: str, degree: int, k: int | None, tolerance: float) -> Iterator[Spec]:
    shape = tree.least_depth((tree.ANY,) * (degree + 1))
    for n in [k] if k is not None else _squarings(domain, method, degree, tolerance):
        if method == "taylor" and n != 0:
            raise UserError(f"a Taylor polynomial is not squared: k must be 0, and is {n!r}")
        on = partial(_taylor, degree) if method == "taylor" else partial(_polynomial, method, degree, n)
        yield Spec(method, degree, n, shape.depth + n, shape.products + n, domain, on)


def _squares(fitting: Fitting, k: int, domain: Interval) -> Exponential:
    return fitting(*domain, k)


def _taylor(degree: int, domain: Interval) -> Exponential:
    return fit.taylor(degree, max(sum(domain) / 2, -fit.MOST_X0), *domain)  # which serves no domain that low


def _polynomial(method: str, degree: int, k: int, domain: Interval) -> Exponential:
    return (fit.chebyshev if method == "chebyshev" else fit.fitted)(*domain, degree, k)


def _squarings(domain: Interval, method: str, degree: int, tolerance: float) -> range:
    width = domain[1] - domain[0]
    most = min(TAKEN[method][-1], max(0, math.ceil(math.log2(width / 2))))  # of 2 wide: more gains nothing
    strict = method == "fitted" and tolerance <= 1e-4
    least = max(0, math.ceil(math.log2(width / (4 * (degree + 1))))) if strict else 0
    return range(min(least, most), most + 1)


@lru_cache(maxsize=1024)
def least_error(domain: Interval, degree: int) -> float:
    """What the error (``Fit.max_error``) of no polynomial of at most this degree in y falls below on domain.

    With exp = sum of a_n T_n on [lo, hi], hi <= 0, that is sqrt(sum over n > degree of a_n^2 / 2): a root mean
    square is at most the maximum. a_n = 2 exp((lo + hi) / 2) I_n((hi - lo) / 2). Where hi > 0 the bound is that
    of [lo, 0], where lo >= 0 it is 0. The best polynomial has about twice as much.
    """
    lo, hi = domain[0], min(domain[1], 0.0)
    if lo >= hi:
        return 0.0
    terms = ive(np.arange(degree + 1, degree + 201), (hi - lo) / 2)  # exp(-x) I_n(x)
    return float(math.exp(hi) * np.sqrt(2 * np.sum(terms**2)))
