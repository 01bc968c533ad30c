"""The paper's propositions about exact CGF-softmax: P1 to P4, the relative error, the Berry-Esseen bound."""

import math

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from laws import C, exponential, laplace, normal, two_points, uniform

from cgf.softmax.base import ExponentialSoftmax
from cgf.softmax.cgf import CGF
from cgf.softmax.exact import Exact

WIDE = st.lists(st.tuples(st.floats(-30, 30), st.booleans()), min_size=1, max_size=48)
ORDERS = st.sampled_from([2, 3, 4])


def weights_of(softmax, rows, valid=None):
    """float64 weights (..., n) of rows (..., n)."""
    rows = torch.from_numpy(np.atleast_2d(np.asarray(rows, dtype=np.float64)))
    return softmax.weights(rows, None if valid is None else torch.from_numpy(valid)[None]).numpy()


def split(entries):
    """(row, mask with at least one valid entry) of drawn pairs."""
    x, keep = np.array([e[0] for e in entries]), np.array([e[1] for e in entries])
    return x, keep if keep.any() else ~keep


class Knows(ExponentialSoftmax):
    """CGF-softmax by Eq. (3), with K = ln E exp X of a law that is known, in place of the row's own moments."""

    name = "knows"

    def __init__(self, K):
        super().__init__()
        self.K = K

    def exponent(self, x):
        return (x - self.K).minus_log_count()


def relative_error(rows, softmax):
    """eta of each row: the distance of the weights from those of the softmax, in the largest norm."""
    exact, own = weights_of(Exact(), rows), weights_of(softmax, rows)
    return np.abs(exact - own).max(-1) / exact.max(-1)


# -- P1 to P4 -------------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(WIDE, st.floats(-200, 200), st.integers(0, 12))
def test_p1_to_p4_on_wide_masked_rows(entries, shift, k):
    """Positivity; order and ratios; shift invariance; domain scaling. Variances up to 900, junk where masked."""
    x, keep = split(entries)
    w = weights_of(CGF(), x, keep)[0]
    assert (w[keep] > 0).all() and (w[~keep] == 0).all()
    gaps, own = np.subtract.outer(x[keep], x[keep]), w[keep]
    np.testing.assert_allclose(np.divide.outer(own, own), np.exp(gaps), rtol=1e-9)
    assert (np.greater.outer(own, own) == (gaps > 0))[np.abs(gaps) > 1e-9].all()
    soft = weights_of(Exact(), x, keep)[0][keep]
    np.testing.assert_allclose(np.divide.outer(own, own), np.divide.outer(soft, soft), rtol=1e-9)
    np.testing.assert_allclose(weights_of(CGF(), x - shift, keep)[0], w, rtol=1e-8)
    scaled = CGF()
    scaled.exponential = lambda y: squarings((y * 2.0**-k).exp(), k)
    np.testing.assert_allclose(weights_of(scaled, x, keep)[0], w, rtol=1e-8)


def squarings(value, k):
    for _ in range(k):
        value = value.square()
    return value


def test_p1_ends_where_float32_does():
    """Positivity is one of real numbers: below y = -104 a weight in float32 is zero, and positive in float64."""
    row = torch.tensor([[16.0, -16.0] * 4], dtype=torch.float64)
    assert (CGF().weights(row) > 0).all() and (CGF().weights(row.float()) == 0).all()


@pytest.mark.parametrize("p, c, row", [(3, 5.0, [2.0, -5.5]), (5, 0.0, [1.0, -1.0])])
def test_a_power_with_too_small_a_shift_loses_p1(p, c, row):
    from cgf.softmax.bpmax import BPMax

    weights = weights_of(BPMax(p=p, c=c), np.array(row)[None, None])[0, 0]
    assert weights[0] > 0 > weights[1]


def test_an_odd_power_keeps_the_order_and_loses_ratios_and_shift():
    from cgf.softmax.bpmax import BPMax

    x = np.linspace(-4, 4, 33)
    w, moved = (weights_of(BPMax(), row[None, None])[0, 0] for row in (x, x + 1))
    assert (np.diff(w) > 0).all()
    assert w[-1] / w[-2] == pytest.approx((9 / 8.75) ** 5) and w[-1] / w[-2] < math.exp(0.25) - 0.1
    assert not np.allclose(moved / moved.sum(), w / w.sum(), rtol=0.05)


# -- the relative error ---------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(st.lists(st.floats(-5, 5), min_size=1, max_size=40), ORDERS, st.floats(-3, 3))
@example([5.0, -5.0, -5.0], 3, 0.0)  # the series is so large that the weights nearly vanish, and eta is nearly 1
@example([-5.0] + [5.0] * 39, 3, 0.0)
def test_the_relative_error_is_one_number_a_row(row, order, K):
    """softmax_CGF / softmax - 1 = mean exp(x) / exp(K) - 1 at every entry, for any K; its size is eta."""
    x = np.array(row)
    m2, m3, m4 = (((x - x.mean()) ** j).mean() for j in (2, 3, 4))
    series = x.mean() + m2 / 2 + (m3 / 6 if order > 2 else 0) + ((m4 - 3 * m2 * m2) / 24 if order > 3 else 0)
    for softmax, own in ((CGF(order=order), series), (Knows(K), K)):
        ratio = np.exp(np.log(np.exp(x).mean()) - own)  # relative to itself: 1 + (ratio - 1) would cancel near 0
        ratios = weights_of(softmax, x)[0] / weights_of(Exact(), x)[0]
        np.testing.assert_allclose(ratios, ratio, rtol=1e-9)
        assert relative_error(x, softmax)[0] == pytest.approx(abs(ratio - 1), rel=1e-8, abs=1e-12)
        np.testing.assert_allclose(weights_of(softmax, x)[0].sum(), ratio, rtol=1e-9)


# -- Berry and Esseen -----------------------------------------------------------------------------------


LAWS = {
    "normal, s = 0.5": (normal(0.7, 0.5), 64),
    "normal, s = 1": (normal(-1.0, 1.0), 400),
    "uniform": (uniform(1.5), 32),
    "Laplace": (laplace(0.15), 64),
    "exponential from -3": (exponential(8.0, -3.0), 100),
}
SAMPLES = 6000


@pytest.mark.parametrize("name", LAWS)
def test_the_moments_of_exp_x_are_those_of_the_law(name):
    law, moments = LAWS[name][0], LAWS[name][0].moments()
    y = np.exp(law.draw(np.random.default_rng(1), 2_000_000))
    assert moments.mean == pytest.approx(y.mean(), rel=0.01) and moments.sd == pytest.approx(y.std(), rel=0.02)
    assert moments.third == pytest.approx((np.abs(y - moments.mean) ** 3).mean(), rel=0.1)


@pytest.mark.parametrize("name", LAWS)
def test_the_bound_holds_for_samples_of_a_law(name):
    """P(eta >= delta) over SAMPLES rows, at deltas of 0.75 to 3 standard errors, wherever the bound is below 1.

    What is seen stays near the normal tail, so a wrong scale of delta shows as well; the correction is not
    needed here to within sampling error, and the laws of two points below are what it is there for.
    """
    law, n = LAWS[name]
    moments, generator = law.moments(), np.random.default_rng(0)
    eta = np.concatenate(
        [relative_error(law.draw(generator, (1000, n)), Knows(moments.K)) for _ in range(SAMPLES // 1000)]
    )
    tried = 0
    for a in (0.75, 1.0, 1.5, 2.0, 3.0):
        delta = a * moments.sd / moments.mean / math.sqrt(n)
        bound, seen = moments.bound(delta, n), (eta >= delta).mean()
        if bound < 1:
            tried += 1
            assert seen <= bound + 4 * math.sqrt(bound * (1 - bound) / SAMPLES)
        assert abs(seen - moments.tail(delta, n)) < 0.05
    assert tried >= 3


def exceedances(a, p, m, n):
    """(delta, P(eta >= delta)) at every value that eta takes: the binomial law, no sampling."""
    moments = two_points(a, p, m)
    rows = np.where(np.arange(n)[None] < np.arange(n + 1)[:, None], m + a, m - a)
    eta = relative_error(rows, Knows(moments.K))
    chance = np.array([math.comb(n, j) * p**j * (1 - p) ** (n - j) for j in range(n + 1)])
    deltas = eta[eta > 1e-6] * (1 - 1e-9)  # a rounding error below the value itself
    return [(delta, chance[eta >= delta].sum()) for delta in deltas]


@settings(max_examples=60, deadline=None)
@given(st.floats(0.05, 3), st.floats(0.05, 0.95), st.floats(-3, 3), st.integers(2, 90))
def test_the_bound_holds_exactly_for_laws_of_two_points(a, p, m, n):
    moments = two_points(a, p, m)
    assert all(chance <= moments.bound(delta, n) for delta, chance in exceedances(a, p, m, n))


CASES = [(1.0, 0.5, -2.0, 101), (1.0, 0.5, 2.0, 101), (0.3, 0.42, -1.0, 51), (2.0, 0.3, 0.0, 60)]


def broken(rule):
    """Whether a rule (moments, delta, n) -> bound fails in one of CASES, where it and the true bound are below 1."""
    for a, p, m, n in CASES:
        moments = two_points(a, p, m)
        for delta, chance in exceedances(a, p, m, n):
            if moments.bound(delta, n) < 1 and chance > rule(moments, delta, n):
                return True
    return False


@pytest.mark.parametrize(
    "name, rule",
    [
        ("C / 20", lambda y, d, n: y.bound(d, n, C / 20)),
        ("C / 1.3", lambda y, d, n: y.bound(d, n, C / 1.3)),
        ("no correction", lambda y, d, n: y.tail(d, n)),
        ("one tail", lambda y, d, n: y.bound(d, n) - y.tail(d, n) / 2),
        ("variance for sd", lambda y, d, n: math.erfc(d * y.mean * math.sqrt(n / 2) / y.sd**2) + C * y.correction(n)),
        ("no mean", lambda y, d, n: math.erfc(d * math.sqrt(n / 2) / y.sd) + C * y.correction(n)),
        ("n for its root in the tail", lambda y, d, n: math.erfc(d * y.mean * n / y.sd / 2**0.5) + C * y.correction(n)),
        ("n for its root in the correction", lambda y, d, n: y.tail(d, n) + C * y.correction(n) / math.sqrt(n)),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_these_cases_would_find_a_wrong_bound(name, rule):
    assert broken(rule) and not broken(lambda y, d, n: y.bound(d, n))


def test_the_bound_is_within_a_fifth_of_its_correction_of_the_truth():
    """Fair coins, n = 101: 82 % of the correction is needed with the bound at 0.86, so it is not slack by much."""
    moments = two_points(1.0, 0.5, 0.0)
    needed = [
        (chance - moments.tail(d, 101)) / (C * moments.correction(101))
        for d, chance in exceedances(1.0, 0.5, 0.0, 101)
        if moments.bound(d, 101) < 1
    ]
    assert max(needed) == pytest.approx(0.8156, abs=1e-3)


# -- what two cumulants of the row itself change --------------------------------------------------------


def test_the_moments_of_the_row_itself_serve_normal_rows_better_than_those_of_the_law():
    """Sample mean and variance take along most of the fluctuation of the mean exponential."""
    law, n = normal(0.0, 1.0), 128
    rows = law.draw(np.random.default_rng(2), (4000, n))
    known, own = relative_error(rows, Knows(0.5)), relative_error(rows, CGF())
    assert np.sqrt((known**2).mean()) == pytest.approx(math.sqrt((math.e - 1) / n), rel=0.1)
    assert np.sqrt((own**2).mean()) < 0.5 * np.sqrt((known**2).mean())


@pytest.mark.parametrize("order, left", [(2, 0.0167), (3, 0.0042), (4, 0.0011)])
def test_cumulants_left_out_leave_an_error_that_no_length_removes(order, left):
    """X exponential of rate 3: K = ln 3/2, and 1/3 + 1/18 + 1/81 + ... cut off after ``order`` terms falls short."""
    series = sum(1 / j / 3**j for j in range(1, order + 1))
    assert 1.5 / math.exp(series) - 1 == pytest.approx(left, abs=1e-4)
    row = np.random.default_rng(3).exponential(1 / 3, 1_000_000)
    assert relative_error(row, Knows(math.log(1.5)))[0] < 1e-3
    assert relative_error(row, CGF(order=order))[0] == pytest.approx(left, abs=5e-4)
