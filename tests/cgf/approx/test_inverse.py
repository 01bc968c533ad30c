"""Series and divisions against numpy: stated errors hold, levels are what they say, constants cost nothing."""

import importlib.util
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cgf.approx import series
from cgf.approx.inverse import Goldschmidt, Newton, iterations_for
from cgf.errors import UserError

spec = importlib.util.spec_from_file_location("simulated", Path(__file__).with_name("simulated.py"))
simulated = importlib.util.module_from_spec(spec)
spec.loader.exec_module(simulated)

TRUTH = {series.inverse: lambda x: 1 / x, series.inverse_sqrt: lambda x: x**-0.5, series.square_root: np.sqrt}
GUESS = series.inverse(0.02, 4.0, 7)


@pytest.mark.parametrize("fit", TRUTH)
@pytest.mark.parametrize("lo, hi, degree", [(0.01, 1.0, 7), (1 / 256, 1.0, 15), (0.5, 60.0, 31), (1 / 256, 1.0, 63)])
def test_minimax_series_keep_their_relative_error(fit, lo, hi, degree):
    s = fit(lo, hi, degree)
    x = np.geomspace(lo, hi, 12_345)
    error = np.abs(s(x) / TRUTH[fit](x) - 1)
    assert error.max() <= s.max_error * (1 + 1e-3)
    # the alternation of a best approximation: degree + 2 extrema of one height (two may fall between the points)
    signed = s(x) / TRUTH[fit](x) - 1
    turns = np.flatnonzero(np.diff(np.sign(np.diff(signed)))) + 1
    high = (np.abs(signed[turns]) > 0.9 * s.max_error).sum() + (np.abs(signed[[0, -1]]) > 0.9 * s.max_error).sum()
    assert high >= degree or s.max_error < 1e-9


def test_known_minimax_error_of_the_inverse():
    """Degree 1 on [1, 4]: x p(x) is a parabola that levels between 1 - e and 1 + e, e = q^2 / (2 - q^2), q = 3 / 5."""
    q = (4 - 1) / (4 + 1)
    assert series.inverse(1.0, 4.0, 1).max_error == pytest.approx(q**2 / (2 - q**2), rel=1e-4)


@pytest.mark.parametrize("degree, levels", [(1, 1), (3, 2), (7, 3), (15, 4), (16, 5), (31, 5), (63, 6)])
def test_a_series_takes_the_least_levels(degree, levels):
    s, x = series.inverse_sqrt(0.01, 1.0, degree), simulated.packed(np.linspace(0.01, 1.0, 100))
    got = s.core(x * s.a + s.b).relinearized()
    assert s.levels == levels and 60 - 1 - got.level == levels
    np.testing.assert_allclose(
        got.engine.engine is not None and got.cts[0].values[:100], s(np.linspace(0.01, 1.0, 100)), atol=1e-9
    )


@pytest.mark.parametrize("recentre", [False, True])
@pytest.mark.parametrize("low, high, n", [(1.0, 2.0, 3), (0.05, 3.0, 6), (2.0**-11, 1.0, 8), (0.5, 4096.0, 20)])
def test_goldschmidt_divides_within_its_stated_error(low, high, n, recentre):
    g = Goldschmidt(low, high, n, recentre)
    d, numerator = np.geomspace(low, high, 4001), np.random.default_rng(0).uniform(-3, 3, 4001)
    quotient, inverse = g.divide(g.scale * numerator, g.scale * d), g.inverse(g.scale * d) * g.scale
    for got, truth in ((quotient, numerator / d), (inverse, 1 / d)):
        ratio = got / truth
        assert (1 - ratio).max() == pytest.approx(g.max_error, rel=1e-3, abs=1e-12)
        assert (1 - ratio).min() > -1e-12  # always from below


def test_recentred_goldschmidt_takes_the_published_steps():
    """THOR's counts for 1 %: 8 steps from 2^-11, 11 from 2^-18, and plain Goldschmidt more."""
    assert [iterations_for(2.0**-e, 1.0, 0.01) for e in (11, 18)] == [8, 11]
    assert [iterations_for(2.0**-e, 1.0, 0.01, recentre=False) for e in (11, 18)] == [13, 20]


def test_goldschmidt_takes_one_level_an_iteration_and_no_products_with_numbers():
    g = Goldschmidt(0.1, 5.0, 7)
    d = simulated.packed(np.linspace(0.1, 5.0, 50) * g.scale)
    got = g.divide(d, d).relinearized()
    assert 60 - got.level == 7
    ops = got.engine.ops
    assert (ops["cmult"], ops["pmult"], ops["rotate"]) == (7 + 6, 0, 0)
    np.testing.assert_allclose(got.cts[0].values[:50], 1.0, atol=2 * g.max_error)


def test_newton_squares_the_error_of_its_guess():
    d = np.geomspace(0.02, 4.0, 3001)
    guess = series.inverse(0.02, 4.0, 15)
    n = Newton(guess, 2)
    assert np.abs(n.inverse(d, d * guess.a + guess.b) * d - 1).max() == pytest.approx(guess.max_error**4, rel=1e-2)


@pytest.mark.parametrize(
    "make, says",
    [
        (lambda: Goldschmidt(0.0, 1.0, 3), r"0 < low < high .*\[0.0, 1.0\]"),
        (lambda: Goldschmidt(0.5, 1.0, 0), "1 to 60 iterations, and 0"),
        (lambda: iterations_for(1e-300, 1.0, 1e-15), "60 Goldschmidt iterations"),
        (lambda: series.inverse(-1.0, 1.0, 3), "interval above zero, and it starts at -1"),
        (lambda: series.inverse(0.5, 1.0, 300), "degree from 1 to 255, and has .* 300"),
        (lambda: series.Series(1.0, 0.0, (1.0, 0.0), (0.0, 1.0), 0.1), "coefficient of degree 1 or more"),
        (lambda: series.Series(1.0, np.nan, (1.0, 1.0), (0.0, 1.0), 0.1), "needs finite numbers"),
        (lambda: series.Series(1.0, 0.0, (1.0, 1.0), (1.0, 1.0), 0.1), "domain lo < hi"),
        (lambda: Newton(GUESS, -1), "0 to 60 iterations, and -1"),
        (lambda: Newton(replace(GUESS, max_error=1.0), 2), "relative error below 1, and it is off by up to 1"),
        (lambda: Newton(GUESS, 1.5), "0 to 60 iterations, and 1.5"),
        (lambda: Newton(series.relu(-1.0, 1.0, 3), 2), "interval above zero, and it starts at -1"),
        (lambda: Newton(GUESS, 2).guard_interval(0.0), "bound must be a positive number, and is 0"),
    ],
)
def test_bad_numbers_are_named(make, says):
    with pytest.raises(UserError, match=says):
        make()
