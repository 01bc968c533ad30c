"""What stand-ins for exp keep of positivity, order, ratios, shift invariance and domain scaling, and what they lose.

Rows are drawn so that y stays in DOMAIN, where the fits are made; each loss is a counterexample that is computed.
"""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cgf.approx.chain import SquareChain
from cgf.approx.fit import chain, chebyshev, fitted, limit, taylor
from cgf.approx.polynomial import Polynomial
from cgf.softmax.cgf import CGF

DOMAIN = LO, HI = -16.0, 2.0
FITS = {
    "chebyshev": chebyshev(LO, HI, 15),
    "chebyshev, degree 7": chebyshev(LO, HI, 7, 3),
    "limit": limit(LO, HI, 6),
    "chain": chain(LO, HI, 5),
    "short chain": chain(LO, HI, 4),
    "fitted": fitted(LO, HI, 3, 4),
    "fitted, few levels": fitted(LO, HI, 7, 1),
    "fitted, no squaring": fitted(LO, HI, 7, 0),
    "chebyshev, no squaring": chebyshev(LO, HI, 15, 0),
    "taylor": taylor(15, -4.0, LO, HI),
}
KEEP_ORDER = ("chebyshev", "chebyshev, degree 7", "limit", "fitted", "taylor")  # on the whole of DOMAIN
SQUARES = ("chebyshev", "chebyshev, degree 7", "limit", "fitted", "fitted, few levels")
ROWS = st.lists(st.floats(-3, 3), min_size=2, max_size=16)
ANY = st.sampled_from(sorted(FITS))
GRID = np.linspace(LO, HI, 200_001)


def rows_of(row, name=None):
    """(x, y, weights) of one row, with the named stand-in for exp or exp itself."""
    softmax, seen = CGF(), []
    softmax.exponential = FITS[name] if isinstance(name, str) else name
    softmax.observers.append(lambda softmax, y, weights, valid: seen.append(y))
    weights = softmax.weights(torch.tensor(row, dtype=torch.float64)[None])[0].numpy()
    y = seen[0][0].numpy()
    assert y.min() >= LO and y.max() <= HI
    return np.array(row), y, weights


def tolerance(name, y):
    """Largest error of the weights at y, and a rounding: relative above 0, absolute below."""
    return FITS[name].fit.max_error * np.maximum(1, np.exp(y)) * (1 + 1e-6) + 1e-12


# -- what all keep --------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(ROWS, ANY, st.floats(-50, 50))
def test_shift_invariance_is_kept_by_all(row, name, shift):
    """A stand-in sees y alone, and y does not move."""
    np.testing.assert_allclose(rows_of(np.array(row) + shift, name)[2], rows_of(row, name)[2], rtol=1e-8, atol=1e-10)


@settings(max_examples=200, deadline=None)
@given(ROWS, ANY)
def test_positivity_and_order_fail_by_no_more_than_the_error(row, name):
    """Weights are above -max_error, and two keep their order once the true ones differ by both errors."""
    _, y, w = rows_of(row, name)
    true, slack = np.exp(y), tolerance(name, y)
    assert (w >= -slack).all()
    apart = np.subtract.outer(true, true) > np.add.outer(slack, slack)
    assert (np.subtract.outer(w, w) > 0)[apart].all()


@settings(max_examples=200, deadline=None)
@given(ROWS, st.sampled_from(SQUARES))
def test_ratios_are_off_by_no_more_than_the_relative_errors(row, name):
    """w_i / w_j = exp(x_i - x_j) (1 + e_i) / (1 + e_j), e the relative error at y: exact where e is even."""
    x, y, w = rows_of(row, name)
    relative = FITS[name](y) / np.exp(y)
    usable = relative > 1e-6
    ratios = np.divide.outer(w[usable], w[usable])
    wanted = np.exp(np.subtract.outer(x, x)) * np.divide.outer(relative, np.maximum(relative, 1e-6))
    np.testing.assert_allclose(ratios, wanted[np.ix_(usable, usable)], rtol=1e-6)


@pytest.mark.parametrize(
    "name, worst", [("chebyshev", 5e-11), ("chebyshev, degree 7", 3e-5), ("fitted", 0.8), ("limit", 0.95)]
)
def test_how_far_ratios_are_off_on_the_whole_domain(name, worst):
    """Measured: 2e-11, 1e-5, 0.75, 0.91: a small absolute error says little about the ratios of small weights."""
    relative = np.abs(FITS[name](GRID) / np.exp(GRID) - 1).max()
    assert worst / 4 < relative < worst


# -- squares: positivity --------------------------------------------------------------------------------


@settings(max_examples=300, deadline=None)
@given(st.floats(-2000, 400), st.sampled_from(SQUARES))
def test_whatever_ends_in_a_square_is_never_negative(y, name):
    with np.errstate(over="ignore"):
        assert FITS[name](y) >= 0


@pytest.mark.parametrize("name", sorted({*SQUARES} & {*KEEP_ORDER}))
def test_squares_that_follow_exp_closely_are_positive_on_the_domain(name):
    assert (FITS[name](GRID) > 0).all()


@pytest.mark.parametrize("name", ["fitted, no squaring", "chebyshev, no squaring", "chain", "short chain"])
def test_without_a_last_square_positivity_is_lost_on_the_domain_itself(name):
    """A plain polynomial swings about exp, and a chain adds a constant after its last square."""
    fit, values = FITS[name], FITS[name](GRID)
    assert values.min() < 0 and values.min() >= -fit.fit.max_error * (1 + 1e-6)
    if fit.method == "chain":
        assert fit.constants[-1] < 0 and values.min() >= fit.constants[-1]
    at = GRID[values.argmin()]  # a row of two whose lesser weight has that exponent: y_2 = -t - t^2 / 2 - ln 2
    t = -1 + math.sqrt(1 - 2 * (at + math.log(2)))
    _, y, w = rows_of([t, -t], name)
    assert y[1] == pytest.approx(at) and w[1] < 0 < w[0]


def test_a_positive_last_constant_mends_positivity_and_not_order():
    fit = FITS["short chain"]
    mended = SquareChain("chain", fit.a, fit.b, (*fit.constants[:-1], 0.001))
    assert mended(np.linspace(-100, 5, 100_001)).min() >= 0.001
    assert (np.diff(mended(GRID)) < 0).any()


# -- order ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KEEP_ORDER)
def test_order_is_kept_on_the_domain_by_those_that_follow_exp_closely(name):
    assert (np.diff(FITS[name](GRID)) > 0).all()


@pytest.mark.parametrize("name", sorted(set(FITS) - set(KEEP_ORDER)))
def test_order_is_lost_where_exp_is_smaller_than_the_error(name):
    """The lesser of two scores gets the greater weight; there both are small."""
    values = FITS[name](GRID)
    turned = GRID[:-1][np.diff(values) < 0]
    assert np.exp(turned).max() < 2 * FITS[name].fit.max_error

    def weights(t):  # y of the last two differs by 0.01, and falls with t through the domain
        return rows_of([t, -t, 0.01 - t], name)[2]

    lost = [t for t in np.linspace(2.0, 5.0, 600) if weights(t)[1] > weights(t)[2]]
    assert lost, "no row of three turns round"


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 6), st.floats(-1, 3), st.floats(0.001, 1))
def test_the_limit_keeps_the_order_exactly_while_its_base_is_not_negative(k, base, step):
    """(1 + y / 2^k)^(2^k) rises where 1 + y / 2^k > 0; below it mirrors."""
    e, y = limit(-2.0, 0.0, k), (base - 1) * 2.0**k
    higher = e(y + step * 2.0**k)
    if base >= 0:
        assert higher > e(y)
    elif base + step <= 0:
        assert higher < e(y)
    assert e(y) == pytest.approx(e(-(2.0 ** (k + 1)) - y), rel=1e-9)


def test_a_limit_with_too_few_squarings_gives_the_least_score_the_greatest_weight():
    _, y, w = rows_of([2.8, 2.8, -2.8], limit(LO, HI, 2))
    assert y[2] < -8 and w[2] > w[0] == pytest.approx(w[1]) and w[2] > 1


@pytest.mark.parametrize(
    "name, y",
    [
        ("chebyshev", -80.0),
        ("chebyshev, degree 7", -120.0),
        ("fitted", -48.0),
        ("fitted, few levels", -20.0),
        ("limit", -200.0),
        ("chain", -24.0),
    ],
)
def test_far_below_the_domain_every_order_is_lost(name, y):
    """The core grows again: a score far below all others ends above exp(-16), most of them above 1."""
    assert FITS[name](y) > 1e-3 > math.exp(LO)


# -- the limit ------------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(-1.5, 1.5), min_size=2, max_size=16), st.integers(3, 12))
def test_the_limit_is_below_exp_and_sharpens_negative_exponents(row, k):
    """While 1 + y / 2^k >= 0: weights and row sums are at most CGF's; ratios of y < 0 are exaggerated."""
    _, y, w = rows_of(row, limit(LO, HI, k))
    if y.min() <= -(2.0**k):
        return
    true = np.exp(y)
    assert (w <= true * (1 + 1e-9)).all() and w.sum() <= true.sum() * (1 + 1e-9)
    negative = np.flatnonzero(y <= 0)
    order = negative[np.argsort(y[negative])]
    ratios, exact = w[order][1:] / w[order][:-1], true[order][1:] / true[order][:-1]
    assert (ratios >= exact * (1 - 1e-9)).all()


# -- Taylor ---------------------------------------------------------------------------------------------


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 5), st.floats(-12, 0), st.floats(-60, 60), st.floats(1e-3, 5))
def test_even_taylor_polynomials_are_positive_and_odd_ones_keep_the_order(half, x0, away, step):
    """Everywhere: the derivative of one is the one below, and even ones have no real root."""
    y = x0 + away
    if half:
        even = taylor(2 * half, x0)
        assert even(y) > 0
    odd = taylor(2 * half + 1, x0)
    assert odd(y + step) > odd(y)


@pytest.mark.parametrize("degree", [2, 4, 6, 1, 3, 5])
def test_even_taylor_polynomials_lose_the_order_and_odd_ones_positivity(degree):
    """Below the only minimum of an even one, and below the only root of an odd one."""
    e, y = taylor(degree, -3.0), np.linspace(-40, 2, 4201)
    values = e(y)
    if degree % 2:
        root = y[np.flatnonzero(values < 0)[-1]]
        assert (values[y > root + 0.02] > 0).all() and (values[y < root - 0.02] < 0).all() and -9 < root < -3.5
        _, at, w = rows_of([2.5, -2.5], taylor(degree, -1.0))
        assert at[1] < -6 and w[1] < 0 < w[0]
    else:
        bottom = y[values.argmin()]
        assert (np.diff(values[y < bottom]) < 0).all() and (np.diff(values[y > bottom]) > 0).all()
        _, at, w = rows_of([3.0, -2.9, -3.0], taylor(degree, -1.0))
        assert at[2] < at[1] < -6 and w[2] > w[1] > 0


# -- domain scaling -------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(ROWS, st.integers(1, 8))
def test_squarings_are_domain_scaling_by_construction(row, k):
    """Chebyshev with k squarings is its own p on DOMAIN / 2^k, squared k times; the limit is 1 + y / 2^k so."""
    cheap, (_, y, _) = chebyshev(LO, HI, 7, k), rows_of(row)
    plain = Polynomial("chebyshev", cheap.a * 2.0**k, cheap.b, cheap.coefficients)
    np.testing.assert_allclose(cheap(y), plain(y / 2.0**k) ** 2.0**k, rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(limit(LO, HI, k)(y), taylor(1, 0.0)(y / 2.0**k) ** 2.0**k, rtol=1e-9, atol=1e-30)


@pytest.mark.parametrize("name", ["taylor", "chebyshev, no squaring", "fitted, no squaring", "chain"])
def test_other_stand_ins_lose_domain_scaling(name):
    """e(y / 2)^2 is another function than e(y): two different answers to the same row."""
    fit, (_, y, w) = FITS[name], rows_of([1.5, 0.0, -1.5, -3.0], name)
    assert np.abs(fit(y / 2) ** 2 - w).max() > 1e-8
    exact = np.exp(y)
    np.testing.assert_allclose(np.exp(y / 2) ** 2, exact, rtol=1e-12)
