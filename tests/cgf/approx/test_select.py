import json

import pytest

from cgf.approx import fit
from cgf.errors import UserError
from cgf.plan.choose import choose
from cgf.plan.load import read_plan, select
from cgf.plan.request import Request


@pytest.fixture
def planned(tmp_path):
    plan = choose(Request((-9.0, 0.5), (-8.0, 0.5)), method="limit", k=5)
    (tmp_path / "plan.json").write_text(json.dumps(plan.to_json()))
    return tmp_path, plan


def test_exact_needs_nothing(tmp_path):
    assert select({"method": "exact"}, tmp_path, "full") is None
    assert read_plan(tmp_path) is None


def test_the_plan_is_read_and_never_fitted(planned):
    folder, plan = planned
    assert select({"method": "plan"}, folder, "full") == plan


def test_by_hand_takes_its_range_then_the_calibrated_then_the_papers(planned, tmp_path_factory):
    folder, _ = planned
    empty = tmp_path_factory.mktemp("empty")
    chebyshev = {"method": "chebyshev", "degree": 7, "k": 2, "range": None}
    assert select({**chebyshev, "range": [-5, 1]}, folder, "full").exponential == fit.chebyshev(-5, 1, 7, 2)
    assert select(chebyshev, folder, "full").exponential == fit.chebyshev(-9.0, 0.5, 7, 2)
    assert select(chebyshev, empty, "full").exponential == fit.chebyshev(-32.0, 0.0, 7, 2)
    with pytest.raises(UserError, match="needs a range"):
        select({**chebyshev, "k": None}, empty, "full")


@pytest.mark.parametrize(
    ("method", "span", "most"), [("chebyshev", 8, 1e-6), ("fitted", 8, 1e-8), ("chain", 2, 2e-3), ("limit", 1, 0.02)]
)
def test_without_a_range_the_interval_is_one_that_the_squarings_serve(method, span, most, tmp_path):
    made = select({"method": method, "k": 4}, tmp_path, "full").exponential.fit
    assert made.domain == (-16.0 * span, 0.0) and made.max_error < most
    assert made.guard[0] < made.domain[0]


@pytest.mark.parametrize(
    "approx, says",
    [
        ({"method": "spline", "k": 2}, "spline"),
        ({"method": "limit", "k": "x"}, "whole number"),
        ({"method": "limit", "k": 2000}, "approx.k must be a whole number of at most 20, and 2000"),
        ({"method": "limit", "k": 2, "range": [1]}, "two numbers"),
        ({"method": "limit", "k": 2, "range": 3}, "two numbers"),
        ({"method": "chebyshev", "k": 3, "range": []}, "two numbers"),
        ({"method": "chebyshev", "k": 3, "range": 0}, "two numbers"),
        ({"method": "limit", "k": 2, "range": ["a", "b"]}, "two numbers"),
        ({"method": "plan"}, "plan.json"),
    ],
)
def test_bad_input(tmp_path, approx, says):
    with pytest.raises(UserError, match=says):
        select(approx, tmp_path, "full")
