import json
from dataclasses import replace

import pytest

from cgf.approx import fit
from cgf.errors import UserError
from cgf.plan.choose import candidates_for, choose, feasible, plan_with
from cgf.plan.plan import Plan, statistics_levels, stretched
from cgf.plan.request import Request

MASKED = {"mask": "causal"}


def test_auto_takes_the_least_levels_and_holds_the_tolerance():
    plan = choose(Request((-9.0, 0.0), (-10.0, 0.0), 1e-3, **MASKED))
    assert plan.exponential.method == "chain" and feasible(plan)
    assert plan.levels == 2 + plan.exponential.levels and plan.ct_mults == plan.exponential.ct_mults
    assert fit.chain(-10, 0, plan.exponential.levels - 1).fit.max_error > 1e-3


def test_json_round_trip():
    plan = replace(choose(Request((-9.0, 0.0), (-10.0, 0.0), **MASKED), method="limit", k=5), share_outside=0.25)
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan
    for broken in (None, {}, {**plan.to_json(), "rows": "some"}, {**plan.to_json(), "range": [1]}):
        with pytest.raises(UserError):
            Plan.from_json(broken)


def test_by_hand_is_taken_whatever_its_error():
    plan = choose(Request((-30, 0), (-32, 0), 1e-9), method="chebyshev", k=0)
    assert plan.exponential.k == 0 and plan.exponential.fit.max_error > 1e-9 and not feasible(plan)


def test_a_chain_whose_search_ends_at_a_negative_factor_is_planned():
    plan = choose(Request((-128, 0), (-128, 0)), method="chain", k=3)  # a circuit takes the root of the factor
    assert plan.levels == 4 and plan.exponential.a == pytest.approx(0.02338, rel=1e-3)


def test_a_domain_so_low_that_taylor_has_no_coefficients_is_planned():
    plan = choose(Request((-2000, 0), (-2000, 0), mask="full"), degree=15, k=8)
    assert plan.exponential.method in ("chebyshev", "fitted") and feasible(plan)
    taylor = candidates_for(Request((-2000, 0), (-2000, 0)), "taylor", 2, None)[0].make()
    assert taylor.fit.max_error == pytest.approx(1, rel=1e-6)


def test_by_hand_what_overflows_is_refused():
    with pytest.raises(UserError, match=r"approx=limit with k=8 overflows on \[-100000, 0\]"):
        choose(Request((-100000, 0), (-100000, 0)), method="limit", k=8)


def test_nothing_feasible_says_what_there_is():
    with pytest.raises(UserError, match=r"best error is .*limit"):
        choose(Request((-30, 0), (-32, 0), 1e-6), method="limit")
    with pytest.raises(UserError, match="guard"):
        choose(Request((-3000, 0), (-32, 0)), method="chebyshev")


def test_guard_must_hold_the_range():
    narrow, wide = (choose(Request((lo, 0), (-16, 0)), method="chebyshev") for lo in (-16, -45))
    assert wide.exponential.fit.guard[0] <= -45 and wide.levels > narrow.levels
    assert narrow.exponential.fit.guard[0] > -45


def test_folding_saves_a_level_on_full_rows_only():
    limit, chebyshev = fit.limit(-8, 0, 4), fit.chebyshev(-8, 0)
    assert [statistics_levels(r, e) for r in ("full", "masked") for e in (limit, chebyshev)] == [1, 1, 2, 2]
    assert choose(Request(None, (-8, 0)), method="limit", k=4).levels == 5


def test_the_candidates_of_a_method_cost_what_their_plans_do():
    request = Request((-9, 0), (-10, 0), **MASKED)
    plans = [plan_with(request, spec.make()) for spec in candidates_for(request, "limit", None, None)]
    assert len(plans) == 10 and [p.levels for p in plans] == list(range(3, 13))


@pytest.mark.parametrize(
    "options", [{"method": "spline"}, {"mask": "half"}, {"tolerance": 0.0}, {"degree": 0}, {"range": (0, -1)}]
)
def test_bad_input(options):
    with pytest.raises(UserError):
        by = {key: options[key] for key in options if key in ("method", "degree")}
        choose(
            Request(**{"range": (-9, 0), "domain": (-10, 0), **{k: v for k, v in options.items() if k not in by}}), **by
        )


def test_room_around_a_calibrated_range():
    assert stretched((-40.0, 8.0), 1.25) == (-50.0, 10.0)
    assert stretched((-40.0, 8.0), [2.5, 1]) == (-100.0, 8.0)
    for margin in (0.9, [2.0, 0.5], [1.1], [1, 2, 3], "wide", float("nan"), [1.1, float("inf")], None):
        with pytest.raises(UserError, match=r"a number of at least 1 or two, \[below, above\], and is"):
            stretched((-40.0, 8.0), margin)


def test_a_range_whose_exponential_no_ciphertext_holds_is_refused_before_anything_is_fitted(monkeypatch):
    monkeypatch.setattr(fit, "_fitted", None)
    with pytest.raises(UserError, match=r"up to y = 35, and a guard of 2\^18 holds it up to 12.5: less range"):
        choose(Request((-60, 35), (-60, 35)))
    with pytest.raises(UserError, match=r"a guard of 2\^10 holds it up to 6.93"):
        choose(Request((-16, 8), (-16, 8), bound=2.0**10))
    assert not feasible(choose(Request((-60, 35), (-60, 35)), method="limit", k=8))  # by hand it is taken as it is


def test_a_guard_that_falls_short_is_widened_before_a_level_is_spent():
    """Six squarings hold [-120, 0] at 1e-4 where they are fitted on more than the [-50, 0.5] that accuracy asks for."""
    from cgf.approx import fit

    narrow = fit.chain(-50.0, 0.5, 6).fit
    assert narrow is not None and narrow.guard[0] > -120.0
    plan = choose(Request((-120.0, 0.5), (-50.0, 0.5)), method="chain")
    known = plan.exponential.fit
    assert known is not None and plan.exponential.levels == 6 and feasible(plan)
    assert known.guard[0] <= -120.0 and known.domain[0] < -50.0 and known.max_error <= 1e-4
