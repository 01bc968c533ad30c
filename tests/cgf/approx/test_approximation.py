"""Inverses and series: guards, counts against the simulator, measured errors."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cgf.approx import series
from cgf.approx.fit import GUARD_BOUND
from cgf.approx.inverse import Goldschmidt, Newton

spec = importlib.util.spec_from_file_location("simulated", Path(__file__).with_name("simulated.py"))
simulated = importlib.util.module_from_spec(spec)
spec.loader.exec_module(simulated)

GUESS = series.inverse(0.02, 4.0, 7)
CASES = [  # approximation, levels, products of two ciphertexts, public factor of the circuit's result
    (GUESS, 3, 5, 1.0),
    (series.inverse_sqrt(0.05, 1.0, 15), 4, 10, 1.0),
    (series.inverse_sqrt(0.1, 3.0, 2), 2, 1, 1.0),
    (Goldschmidt(0.05, 3.0, 6), 6, 10, None),
    (Goldschmidt(0.5, 64.0, 9, recentre=False), 9, 16, None),
    (Newton(GUESS, 3), 3 + 2 * 3, 5 + 2 * 3, 1.0),
]


@pytest.mark.parametrize("approximation, levels, products, factor", CASES)
def test_levels_and_products_are_those_of_the_simulator(approximation, levels, products, factor):
    x = np.linspace(*approximation.domain, 60)
    values, used, counted = simulated.simulate(approximation.circuit, x)
    assert (used, counted) == (approximation.levels, approximation.ct_mults) == (levels, products)
    scale = approximation.scale if factor is None else factor
    np.testing.assert_allclose(values * scale, approximation(x), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_the_division_and_the_inverse_of_goldschmidt_are_counted_apart(n):
    g, x = Goldschmidt(0.2, 3.0, n), np.linspace(0.2, 3.0, 40)
    values, used, counted = simulated.simulate(g.division.run, x)
    assert (used, counted) == g.division.cost == (g.levels, 2 * n - 1)
    np.testing.assert_allclose(values, x * g(x), rtol=1e-9)
    assert simulated.simulate(g.circuit, x)[1:] == (n if n > 1 else 0, 2 * n - 2)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from([0.0, 0.5, -0.3, 0.07, 1.0, 2.0]), min_size=2, max_size=40).filter(lambda c: any(c[1:]))
)
def test_any_series_counts_what_the_simulator_counts(coefficients):
    s = series.Series(0.5, 0.25, tuple(coefficients), (-2.5, 1.5), 0.1)
    x = np.linspace(-2.5, 1.5, 9)
    values, used, counted = simulated.simulate(s.circuit, x)
    assert (used, counted) == (s.levels, s.ct_mults) and s.levels <= s.degree.bit_length()
    np.testing.assert_allclose(values, np.polynomial.chebyshev.chebval(0.5 * x + 0.25, coefficients), atol=1e-9)


def peak(circuit, x):
    with np.errstate(all="ignore"):
        seen = np.abs(circuit.intermediates(np.atleast_1d(np.asarray(x, dtype=float))))
    return np.nan_to_num(seen, nan=np.inf).max()


@pytest.mark.parametrize("approximation", [c[0] for c in CASES])
@pytest.mark.parametrize("bound", [GUARD_BOUND, 1000.0])
def test_guard_ends_are_the_last_that_hold(approximation, bound):
    ends_hold(approximation, approximation.domain, approximation.guard_interval(bound), bound)


@pytest.mark.parametrize("g", [Goldschmidt(0.05, 3.0, 6), Goldschmidt(2.0**-18, 1.0, 11)])
def test_guards_of_divisions(g):
    ends_hold(g.division, g.domain, g.division.guard(g.domain), GUARD_BOUND)


def ends_hold(circuit, domain, guard, bound):
    (lo, hi), step = guard, 1e-6 * (domain[1] - domain[0]) + 2e-9 * max(map(abs, guard))
    assert lo <= domain[0] and hi >= domain[1]
    assert peak(circuit, np.linspace(lo, hi, 50_000)) <= bound
    assert bound < min(peak(circuit, lo - step), peak(circuit, hi + step))


def test_a_guard_knows_of_a_domain_that_breaks_it():
    """1 / D near 0 is more than the bound; the division of a softmax never leaves a few units."""
    g = Goldschmidt(2.0**-20, 1.0, 12)
    lo, hi = g.guard
    assert lo > g.low and hi > 0.9 and peak(g, [lo, hi]) <= GUARD_BOUND < peak(g, g.low)
    assert g.division.guard(g.domain)[0] < g.low and peak(g.division, np.linspace(g.low, 1.0, 10_000)) < 8
    assert g.guard == g.guard_interval(GUARD_BOUND)


ends = st.tuples(st.floats(1e-3, 10.0), st.floats(1.5, 300.0)).map(lambda pair: (pair[0], pair[0] * pair[1]))


@settings(max_examples=40, deadline=None)
@given(ends, st.integers(1, 12), st.booleans())
def test_measured_errors_of_goldschmidt_stay_within_the_formula(domain, n, recentre):
    g = Goldschmidt(*domain, n, recentre)
    x = np.geomspace(*domain, 7_777).clip(*domain)
    own = np.abs(g(x) * x - 1).max()
    assert max(own, g.measured_error) <= g.max_error + 1e-11
    assert g.measured_error == pytest.approx(g.max_error, rel=1e-2, abs=1e-11)


@settings(max_examples=15, deadline=None)
@given(ends, st.integers(5, 9), st.integers(1, 3))
def test_measured_errors_of_newton_stay_within_the_formula(domain, degree, n):
    x = np.geomspace(*domain, 7_777).clip(*domain)
    guess = series.inverse(*domain, degree)
    assume(guess.max_error < 0.95)
    newton = Newton(guess, n)
    error = np.abs(newton(x) * x - 1).max()
    assert max(error, newton.measured_error) <= 1.01 * newton.max_error + 1e-12  # the guess's error is of a grid too
    assert newton.measured_error == pytest.approx(newton.max_error, rel=0.05, abs=1e-12)
