"""A guard that is stated too wide, or is too narrow, at one end alone."""

import pytest
from test_verified import LIMIT, changed, written

from cgf.approx import fit
from cgf.errors import UserError
from cgf.plan.choose import feasible, plan_with
from cgf.plan.friendly import _covers
from cgf.plan.plan import Plan
from cgf.plan.request import Request


@pytest.mark.parametrize("end", [0, 1], ids=["below", "above"])
def test_a_guard_wider_at_one_end_alone_is_refused(end):
    guard = list(LIMIT.exponential.fit.guard)
    guard[end] += (-1.0, 1.0)[end]
    with pytest.raises(UserError, match=r"states a guard of .*, and its numbers hold"):
        Plan.from_json(changed(written(LIMIT, guard=guard), guard=guard))


def test_a_guard_must_hold_the_range_above_too():
    limit = fit.limit(-10.0, 0.0, 5)  # (1 + y / 32)^32 passes 2^18 at y = 15.26
    plans = [plan_with(Request((-9.0, high), (-10.0, 0.0), 0.1), limit) for high in (15.0, 16.0)]
    assert [feasible(plan) for plan in plans] == [True, False]


def test_a_plan_covers_where_its_domain_and_its_guard_hold_at_both_ends():
    plan = plan_with(Request(None, (-9.0, 1.0)), fit.limit(-9.0, 1.0, 5))
    (low, high), (left, right) = plan.exponential.fit.domain, plan.exponential.fit.guard
    assert _covers(plan, (low, high), (left, right))
    assert not _covers(plan, (low - 1, high), (left, right)) and not _covers(plan, (low, high + 1), (left, right))
    assert not _covers(plan, (low, high), (left - 1, right)) and not _covers(plan, (low, high), (left, right + 1))
