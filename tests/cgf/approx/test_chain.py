import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cgf.approx.chain import SquareChain
from cgf.approx.exponential import Fit
from cgf.approx.exponential_json import exponential_from_json
from cgf.errors import UserError
from cgf.he.folding import fold_integers

spec = importlib.util.spec_from_file_location("counting", Path(__file__).with_name("counting.py"))
counting = importlib.util.module_from_spec(spec)
spec.loader.exec_module(counting)

numbers = st.floats(-3, 3)


@settings(max_examples=50, deadline=None)
@given(
    numbers.filter(bool),
    numbers,
    st.lists(numbers, min_size=1, max_size=8),
    st.floats(allow_nan=False, allow_infinity=False),
)
def test_costs_and_json(a, b, constants, error):
    chain = SquareChain("chain", a, b, tuple(constants), Fit((-1.0, error), (-2.0, 2.0), 8.0, error))
    assert exponential_from_json(json.loads(json.dumps(chain.to_json()))) == chain
    _, levels, mults = counting.run(chain, 0.1)
    assert levels == mults == chain.levels == chain.ct_mults == len(constants)


def test_zero_constants_are_the_limit_and_are_not_added():
    limit = SquareChain("limit", 2.0**-5, 1.0, (0.0,) * 5)
    y = np.linspace(-30, 2, 50)
    assert limit(y) == pytest.approx((1 + y / 32) ** 32)
    assert len(limit.intermediates(y)) == 6


def test_recursion():
    assert SquareChain("chain", 2.0, 1.0, (3.0, -1.0))(0.5) == (2.0**2 + 3) ** 2 - 1


@pytest.mark.parametrize("constants", [(0.5, -0.25), (0.0, 0.0, 0.125)])
def test_a_chain_of_a_negative_factor_is_the_equal_one_that_circuits_take(constants):
    # the search on [-128, 0] with 3 squarings ends at a = -0.023, and circuits take the root of a
    given, kept = (SquareChain("chain", sign * 0.0234, sign * 1.526, constants) for sign in (-1.0, 1.0))
    assert given == kept and given.a > 0
    y = np.linspace(-20, 2, 45)
    by_hand = -0.0234 * y - 1.526
    for constant in constants:
        by_hand = by_hand**2 + constant
    assert np.array_equal(given(y), by_hand)
    m1, m2, p = fold_integers(given, 16)
    assert m1**2 / (2 * 16 * m2) == pytest.approx(p * given.a)


@pytest.mark.parametrize(
    "broken",
    [
        None,
        [],
        {},
        {"method": "spline"},
        {"method": "chain", "alpha": 1.0, "beta": "x", "constants": [1.0]},
        {"method": "chain", "alpha": 1.0, "beta": 1.0, "constants": []},
        {"method": "chain", "alpha": 1.0, "beta": 1.0, "constants": 3},
        {"method": "chain", "alpha": 0.0, "beta": 1.0, "constants": [0.0]},
        {"method": "taylor", "a": -1.0, "b": 1.0, "coefficients": [0.0, 1.0]},
        {"method": "chain", "alpha": 1.0, "beta": float("nan"), "constants": [0.0]},
        {"method": "chain", "alpha": 1.0, "beta": 1.0, "constants": [0.0], "domain": [1.0]},
        {"method": "chebyshev", "a": 1.0, "b": 1.0, "coefficients": [0.0, 1.0], "k": 1.5},
    ],
)
def test_malformed_json(broken):
    with pytest.raises(UserError):
        exponential_from_json(broken)
