import importlib.util
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cgf.approx.exponential_json import exponential_from_json
from cgf.approx.polynomial import Polynomial
from cgf.errors import UserError

spec = importlib.util.spec_from_file_location("counting", Path(__file__).with_name("counting.py"))
counting = importlib.util.module_from_spec(spec)
spec.loader.exec_module(counting)

number = st.one_of(st.just(0.0), st.just(1.0), st.floats(-2, 2).filter(lambda c: abs(c) > 1e-3))


@pytest.mark.parametrize("degree", range(1, 32))
def test_full_polynomials_take_the_least_depth(degree):
    p = Polynomial("chebyshev", 1.0, 0.0, tuple(0.11 * (i + 2) for i in range(degree + 1)), k=2)
    value, levels, mults = counting.run(p, 0.7)
    assert (levels, mults) == (p.levels, p.ct_mults)
    assert levels == math.ceil(math.log2(degree + 1)) + 2
    assert value == pytest.approx(np.polynomial.polynomial.polyval(0.7, p.coefficients) ** 4, rel=1e-12)


@pytest.mark.parametrize(("degree", "mults"), [(1, 0), (2, 1), (3, 2), (5, 3), (7, 5), (15, 8), (31, 13)])
def test_multiplications(degree, mults):
    assert Polynomial("fitted", 1.0, 0.0, (0.5,) * (degree + 1)).ct_mults == mults


def test_sparse_polynomials_cost_less():
    even = Polynomial("fitted", 1.0, 0.0, (0.5, 0.0, 0.3, 0.0, 0.2))
    assert even.ct_mults == 2 and even.levels == 3
    monic = Polynomial("fitted", 1.0, 0.0, (0.0, 0.0, 1.0))
    assert counting.run(monic, 3.0) == (9.0, 1, 1) and (monic.levels, monic.ct_mults) == (1, 1)
    padded = Polynomial("fitted", 1.0, 0.0, (0.5, 0.3, 0.0, 0.0))
    assert (padded.levels, padded.ct_mults) == (1, 0)


@settings(max_examples=60, deadline=None)
@given(st.lists(number, min_size=2, max_size=17).filter(lambda c: any(c[1:])), st.integers(0, 2), st.floats(-1, 1))
def test_levels_and_values_of_any_pattern(coefficients, k, u):
    p = Polynomial("fitted", 1.0, 0.0, tuple(coefficients), k)
    value, levels, mults = counting.run(p, u)
    assert (levels, mults) == (p.levels, p.ct_mults)
    assert levels <= math.ceil(math.log2(p.degree + 1)) + k
    assert value == pytest.approx(np.polynomial.polynomial.polyval(u, coefficients) ** 2**k, rel=1e-9, abs=1e-9)
    assert exponential_from_json(json.loads(json.dumps(p.to_json()))) == p


def test_arrays_and_floats_agree_and_intermediates_end_in_the_value():
    p = Polynomial("fitted", 0.5, 0.25, (0.3, -0.2, 0.7, 0.11), 2)
    y = np.linspace(-2, 2, 9)
    assert p(y) == pytest.approx([p(float(v)) for v in y])
    seen = p.intermediates(y)
    assert np.array_equal(seen[0], 0.5 * y + 0.25) and np.array_equal(seen[-1], p(y))


def test_powers_of_scaled_y_are_the_same_polynomial():
    p = Polynomial("fitted", 0.25, 1.0, (0.3, -0.2, 0.7, 0.11), 1)
    q = np.polynomial.Polynomial(p.in_powers_of_scaled_y())
    assert q(-3.0 / 2) ** 2 == pytest.approx(p(-3.0))


@pytest.mark.parametrize("coefficients", [(), (1.0,), (1.0, 0.0), (1.0, math.nan)])
def test_bad_coefficients(coefficients):
    with pytest.raises(UserError):
        Polynomial("fitted", 1.0, 0.0, coefficients)
