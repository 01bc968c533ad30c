"""Inverses, roots and series: guards, counts against the simulator, measured errors, JSON bit for bit."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cgf.approx import series
from cgf.approx.approximation_json import approximation_from_json
from cgf.approx.fit import GUARD_BOUND
from cgf.approx.inverse import Goldschmidt, GoldschmidtRoot, Newton, NewtonRoot
from cgf.errors import UserError

spec = importlib.util.spec_from_file_location("simulated", Path(__file__).with_name("simulated.py"))
simulated = importlib.util.module_from_spec(spec)
spec.loader.exec_module(simulated)

GUESS, ROOT_GUESS = series.inverse(0.02, 4.0, 7), series.inverse_sqrt(0.02, 4.0, 7)
CASES = [  # approximation, levels, products of two ciphertexts, public factor of the circuit's result
    (GUESS, 3, 5, 1.0),
    (series.inverse_sqrt(0.05, 1.0, 15), 4, 10, 1.0),
    (series.inverse_sqrt(0.1, 3.0, 2), 2, 1, 1.0),
    (Goldschmidt(0.05, 3.0, 6), 6, 10, None),
    (Goldschmidt(0.5, 64.0, 9, recentre=False), 9, 16, None),
    (Newton(GUESS, 3), 3 + 2 * 3, 5 + 2 * 3, 1.0),
    (NewtonRoot(ROOT_GUESS, 2), 3 + 3 * 2, 5 + 3 * 2, 1.0),
    (GoldschmidtRoot(ROOT_GUESS, 1), 3 + 3, 5 + 3, 1.0),
    (GoldschmidtRoot(ROOT_GUESS, 3), 3 + 1 + 2 * 3, 5 + 9, 1.0),
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
    survives_json(g)


@settings(max_examples=15, deadline=None)
@given(ends, st.integers(5, 9), st.integers(1, 3))
def test_measured_errors_of_roots_and_newton_stay_within_the_formula(domain, degree, n):
    x = np.geomspace(*domain, 7_777).clip(*domain)
    root, inverse = series.inverse_sqrt(*domain, degree), series.inverse(*domain, degree)
    made = [kind(root, n) for kind in (NewtonRoot, GoldschmidtRoot) if root.max_error < 0.73]
    made += [Newton(inverse, n)] if inverse.max_error < 0.95 else []
    for a in made:
        own = np.abs(a(x) * x**-a.power - 1).max()
        assert max(own, a.measured_error) <= 1.01 * a.max_error + 1e-12  # the guess's error is of a grid too
        assert a.measured_error == pytest.approx(a.max_error, rel=0.05, abs=1e-12)
        survives_json(a)


def test_goldschmidts_root_is_newtons_in_fewer_levels():
    x = np.geomspace(0.02, 4.0, 2001)
    newton, coupled = NewtonRoot(ROOT_GUESS, 3), GoldschmidtRoot(ROOT_GUESS, 3)
    np.testing.assert_allclose(coupled(x), newton(x), rtol=1e-12)
    assert coupled.max_error == newton.max_error and coupled.ct_mults == newton.ct_mults
    assert coupled.levels == newton.levels - 2
    u = x * ROOT_GUESS.a + ROOT_GUESS.b
    np.testing.assert_allclose(coupled.square_root(x, u), np.sqrt(x), rtol=coupled.max_error + 1e-12)


def survives_json(approximation):
    text = json.dumps(approximation.to_json())
    again = approximation_from_json(json.loads(text))
    assert again == approximation and type(again) is type(approximation) and json.dumps(again.to_json()) == text


@pytest.mark.parametrize("approximation", [c[0] for c in CASES])
def test_json_keeps_every_bit(approximation):
    survives_json(approximation)
    data = approximation.to_json()
    assert data["guard"] == list(approximation.guard) and data["guard_bound"] == GUARD_BOUND
    assert (data["levels"], data["ct_mults"]) == (approximation.levels, approximation.ct_mults)


@settings(max_examples=30, deadline=None)
@given(st.floats(-2, 2), st.lists(st.floats(-3, 3), max_size=20), st.floats(1e-6, 3))
def test_json_keeps_every_bit_of_any_series(b, coefficients, last):
    survives_json(series.Series(0.7, b, (*coefficients, 0.1, last), (-1.0, 2.0), 0.3))


@pytest.mark.parametrize(
    "broken",
    [
        None,
        [],
        {},
        {"method": ["series"]},
        {"method": "spline"},
        {"method": "series", "a": 1.0, "b": 0.0},
        {"method": "goldschmidt", "low": 0.1, "high": 1.0},
        {"method": "goldschmidt", "low": 0.1, "high": "x"},
        {"method": "goldschmidt", "low": 0.1, "high": 1.0, "iterations": 3, "recentre": 1},
        {"method": "newton", "iterations": 2},
        {"method": "newton", "guess": {"method": "newton"}, "iterations": 2},
        {**Newton(GUESS, 1).to_json(), "iterations": 1.0},
    ],
)
def test_malformed_json(broken):
    with pytest.raises(UserError):
        approximation_from_json(broken)
