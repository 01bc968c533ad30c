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

spec = importlib.util.spec_from_file_location("counting", Path(__file__).with_name("counting.py"))
counting = importlib.util.module_from_spec(spec)
spec.loader.exec_module(counting)

numbers = st.floats(-3, 3)


@settings(max_examples=50, deadline=None)
@given(numbers, numbers, st.lists(numbers, min_size=1, max_size=8), st.floats(allow_nan=False, allow_infinity=False))
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
        {"method": "chain", "alpha": 1.0, "beta": float("nan"), "constants": [0.0]},
        {"method": "chain", "alpha": 1.0, "beta": 1.0, "constants": [0.0], "domain": [1.0]},
        {"method": "chebyshev", "a": 1.0, "b": 1.0, "coefficients": [0.0, 1.0], "k": 1.5},
    ],
)
def test_malformed_json(broken):
    with pytest.raises(UserError):
        exponential_from_json(broken)
