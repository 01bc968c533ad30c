"""Fits of exp on an interval, each deterministic and cached; and what is known of them (``with_fit``).

Errors everywhere: absolute where y <= 0, relative where y > 0 (see ``Fit.max_error``).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TypeVar

import numpy as np

from cgf.approx import chain_search as search
from cgf.approx.chain import SquareChain
from cgf.approx.exponential import Exponential, Fit, Interval, WithIntermediates
from cgf.approx.minimax import Model, exchange, largest, least_squares
from cgf.approx.polynomial import Polynomial
from cgf.approx.tree import MAX_DEGREE
from cgf.approx.unit_size import of_unit_size
from cgf.checks import interval, positive, whole
from cgf.errors import UserError

GRID = 200_000  # points on which max_error is measured
FINE = 4096.0  # on a wider domain its steps pass over what lies near 0:
NEAR = 64.0  # so much below the upper end has a grid of its own
GUARD_BOUND = 2.0**18
MOST_X0 = 700.0  # exp of more, or of less than its negative, is no float
E = TypeVar("E", bound=Exponential)


def chebyshev(lo: float, hi: float, degree: int = 15, k: int | None = None) -> Polynomial:
    """exp(y) ~ p(y / 2^k)^(2^k), p the least squares fit of exp on [lo, hi] / 2^k at Chebyshev nodes.

    k None: the least with (hi - lo) / 2^k <= 8, the paper's interval. p is returned in powers of u in
    [-1, 1]. Levels: ceil(log2(degree + 1)) + k. Error: about 2^k times that of p (degree 15, width 8: 2e-10
    of p's greatest value). Raises UserError for an empty interval, a degree outside 1 to 63 and k outside 0 to 20.
    Source: CGF-softmax paper, appendix 'Approximation of the Exponential Function'.
    """
    lo, hi = _interval(lo, hi)
    if k is None:
        k = max(0, math.ceil(math.log2((hi - lo) / 8)))
    return _chebyshev(lo, hi, whole("degree", degree, 1, MAX_DEGREE), whole("k", k, 0, 20))


@lru_cache(maxsize=256)
def _chebyshev(lo: float, hi: float, degree: int, k: int) -> Polynomial:
    u = np.cos(np.pi * (np.arange(512) + 0.5) / 512)
    target = np.exp(((lo + hi) / 2 + (hi - lo) / 2 * u) / 2.0**k)
    coefficients = np.polynomial.chebyshev.chebfit(u, target, degree)
    return with_fit(_from_chebyshev("chebyshev", lo, hi, coefficients, k), (lo, hi))


def _from_chebyshev(method: str, lo: float, hi: float, coefficients: np.ndarray, k: int) -> Polynomial:
    powers = np.polynomial.chebyshev.cheb2poly(coefficients)
    return Polynomial(method, 2 / (hi - lo), -(hi + lo) / (hi - lo), tuple(float(c) for c in powers), k)


@lru_cache(maxsize=256)
def limit(lo: float, hi: float, k: int) -> SquareChain:
    """(1 + y / 2^k)^(2^k). Levels and multiplications: k. Error about 0.27 / 2^k while lo >= -2^k, then it grows,
    to 1 at -2^(k+1) and without end below.

    Raises UserError for an empty interval and k outside 1 to 20. Source: CGF-softmax paper, appendix 'Approximation
    of the Exponential Function', Limit Approximation.
    """
    lo, hi = _interval(lo, hi)
    k = whole("k", k, 1, 20)
    return with_fit(SquareChain("limit", 2.0**-k, 1.0, (0.0,) * k), (lo, hi))


@lru_cache(maxsize=256)
def taylor(degree: int, x0: float, lo: float | None = None, hi: float | None = None) -> Polynomial:
    """sum over i <= degree of exp(x0) / i! (y - x0)^i, u = y - x0: no scaling, no squarings.

    Levels: ceil(log2(degree + 1)). Accurate near x0 only; without lo and hi no error is attached. Raises
    UserError for a degree outside 1 to 63 and x0 outside [-700, 700]. Source: CGF-softmax paper, appendix 'Low-degree
    Variant'.
    """
    degree = whole("degree", degree, 1, MAX_DEGREE)
    if not abs(x0) <= MOST_X0:
        raise UserError(f"Taylor's x0 must lie within [-{MOST_X0:g}, {MOST_X0:g}], where exp is a float, and is {x0}")
    coefficients = tuple(math.exp(x0) / math.factorial(i) for i in range(degree + 1))
    result = Polynomial("taylor", 1.0, -float(x0), coefficients)
    return result if lo is None or hi is None else with_fit(result, _interval(lo, hi))


def fitted(lo: float, hi: float, degree: int, k: int) -> Polynomial:
    """The polynomial that minimises the largest error of p(u)^(2^k) itself, u in [-1, 1] on [lo, hi].

    Least squares gives the error of p no credit for the squarings, which forgive it wherever exp is small.
    Levels: ceil(log2(degree + 1)) + k. Error on [-128, 0] with degree 7 and k = 4: about 1e-9, where the
    least squares polynomial has 7e-3. A local optimum, from starts of several weightings. Raises UserError for an
    empty interval, a degree outside 1 to 31 and k outside 0 to 12.
    """
    lo, hi = _interval(lo, hi)
    return _fitted(lo, hi, whole("degree", degree, 1, 31), whole("k", k, 0, 12))


@lru_cache(maxsize=256)
def _fitted(lo: float, hi: float, degree: int, k: int) -> Polynomial:
    # 1. Points, and the error p(u)^(2^k) - exp(y) at them as a function of p's Chebyshev coefficients.
    count = min(2000, max(400, 20 * (degree + 1) * 2 ** (k // 2)))
    y = search.fit_points(lo, hi, count)
    model = _squared_model(y, lo, hi, degree, k)
    # 2. Starts: p ~ exp(y / 2^k) by linear least squares, with more and more weight where the squarings forgive less.
    basis = np.polynomial.chebyshev.chebvander((2 * y - lo - hi) / (hi - lo), degree)
    root = np.exp(y / 2.0**k)
    starts = []
    for share in (0.0, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0):
        weights = np.exp(share * np.minimum(y, 0.0) * (1 - 2.0**-k) - np.maximum(y, 0.0) * 2.0**-k)
        starts.append(np.linalg.lstsq(basis * weights[:, None], root * weights, rcond=1e-13)[0])
    # 3. Least squares of the squared error itself, from all starts at once and then one by one to full accuracy.
    params = least_squares(model, np.array(starts), steps=60)
    params = np.concatenate([params, [search.polish(model, start, 200) for start in params]])
    # 4. The four best, each made minimax; the best of these.
    params = params[np.argsort(largest(model, params), kind="stable")[:4]]
    best = min((exchange(model, start) for start in params), key=lambda pair: pair[1])[0]
    return with_fit(_from_chebyshev("fitted", lo, hi, best, k), (lo, hi))


def _squared_model(y: np.ndarray, lo: float, hi: float, degree: int, k: int) -> Model:
    """Weighted error of p(u)^(2^k) over Chebyshev coefficients (S, degree + 1)."""
    basis = np.polynomial.chebyshev.chebvander((2 * y - lo - hi) / (hi - lo), degree)
    target, weights = np.exp(y), search.error_weights(y)

    def model(params: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        with np.errstate(all="ignore"):
            value = params @ basis.T
            slope = np.broadcast_to(weights, value.shape)
            for _ in range(k):
                slope = slope * (2.0 * value)
                value = value * value
            return (value - target) * weights, slope[:, :, None] * basis

    return model


def chain(lo: float, hi: float, k: int, alpha: float | None = None, seed: int = 0) -> SquareChain:
    """The square chain with the least largest error found on [lo, hi]; levels and multiplications: k.

    alpha fixes the scale of y, where a circuit prescribes it. Largest error on [-16, 0]: k = 3 1.2e-2, k = 4
    2.7e-4, k = 5 1.2e-6; on [-32, 0]: k = 5 2.5e-5; on [-64, 0]: k = 5 6e-5; on [-128, 0]: k = 6 2e-6.
    The problem is not convex: the result is the best local optimum from many seeded starts (1 to 6 s).
    Raises UserError for an empty interval, an alpha that is not positive and k outside 1 to 12.
    Source: ``SquareChain``; for the search see chain_search.py.
    """
    lo, hi = _interval(lo, hi)
    alpha = None if alpha is None else float(positive("alpha", alpha))
    return _chain(lo, hi, whole("k", k, 1, 12), alpha, seed)


@lru_cache(maxsize=256)
def _chain(lo: float, hi: float, k: int, alpha: float | None, seed: int) -> SquareChain:
    a, b, *constants = (float(p) for p in search.best_chain(lo, hi, k, alpha, seed))
    return with_fit(SquareChain("chain", a, b, tuple(constants)), (lo, hi))


def max_error(exponential: Exponential, domain: Interval, points: int = GRID) -> float:
    """Largest error (as of ``Fit``) on an even grid of the domain; inf where the core overflows.

    On a domain wider than ``FINE`` the part of it within ``NEAR`` of its upper end has as many points of its own.
    """
    lo, hi = domain
    y = np.linspace(lo, hi, points)
    if hi - lo > FINE:
        y = np.concatenate([y, np.linspace(hi - NEAR, hi, points)])
    with np.errstate(all="ignore"):
        errors = np.abs(exponential(y) - np.exp(y)) * search.error_weights(y)
    return float(errors.max()) if np.isfinite(errors).all() else math.inf


def with_fit(exponential: E, domain: Interval, bound: float = GUARD_BOUND) -> E:
    """The same exponential with its Fit on domain, its guard for this bound, attached.

    The guard is that of what is encrypted, which has unit size (``of_unit_size``). Raises UserError for a domain that
    is empty, wider than 1e6 or that ends beyond 300.
    """
    domain = _interval(*domain)
    error = max_error(exponential, domain)
    encrypted, _ = of_unit_size(exponential.stating(Fit(domain, domain, bound, error)))
    return exponential.stating(Fit(domain, guard_interval(encrypted, bound, domain=domain), bound, error))


def guard_interval(
    circuit: WithIntermediates, bound: float = GUARD_BOUND, reach: float = 4096.0, *, domain: Interval
) -> Interval:
    """The largest interval around domain on which every intermediate stays at most bound in absolute value.

    Looks no further than reach beyond the domain. Where the domain itself breaks the bound, the interval grows from
    its safest point instead, so it does not cover the domain; it is a single point if even that one breaks it.
    Conservative: of the two sides of an end, to 1e-9, the safe one.
    """
    lo, hi = domain
    inside = np.linspace(lo, hi, 20_001)
    peaks = _peaks(circuit, inside)
    if (peaks <= bound).all():
        left, right = lo, hi
    else:
        left = right = float(inside[np.argmin(peaks)])
        if peaks.min() > bound:
            return left, right
    return (_grow(circuit, bound, left, lo - reach), _grow(circuit, bound, right, hi + reach))


def _peaks(circuit: WithIntermediates, y: np.ndarray) -> np.ndarray:
    """The largest absolute value that the circuit holds, at each of y (n,); inf where it is no number."""
    with np.errstate(all="ignore"):
        peaks: np.ndarray = np.nan_to_num(np.max(np.abs(circuit.intermediates(y)), axis=0), nan=np.inf)
    return peaks


def _grow(circuit: WithIntermediates, bound: float, safe: float, end: float) -> float:
    """The last safe point on the way from safe to end: a scan whose steps grow, then bisection."""
    # 1. Shares of the way: even near the safe point, geometric beyond, where an end is found more coarsely.
    way = np.concatenate([np.linspace(0, 0.05, 2000), np.geomspace(0.05, 1.0, 4000)[1:]])
    points = safe + (end - safe) * way
    broken = np.flatnonzero(_peaks(circuit, points) > bound)
    if not len(broken):
        return float(end)
    # 2. Between the last point before the first that breaks the bound and that one: bisection.
    good, bad = float(points[max(broken[0] - 1, 0)]), float(points[broken[0]])
    while abs(bad - good) > 1e-9 * max(1.0, abs(good)):
        middle = (good + bad) / 2
        if _peaks(circuit, np.array([middle]))[0] > bound:
            bad = middle
        else:
            good = middle
    return good


def _interval(lo: float, hi: float) -> tuple[float, float]:
    lo, hi = interval("an interval", (lo, hi))
    if hi > 300 or hi - lo > 1e6:
        raise UserError(f"an interval must end below 300 and be no wider than 1e6, and is [{lo}, {hi}]")
    if hi < -MOST_X0:
        raise UserError(f"an interval must reach above -{MOST_X0:g}, where exp is a float, and is [{lo:g}, {hi:g}]")
    return lo, hi
