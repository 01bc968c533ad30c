import json
import math

import numpy as np
import pytest

from cgf.errors import UserError
from cgf.plan import friendly
from cgf.plan.calibration import Calibration, merged
from cgf.plan.choose import choose
from cgf.plan.friendly import Budget, assess, judge, kappas, rounded_out
from cgf.plan.request import Request


def seen(low, high=0.0, sums=1.0, padding=None):
    """A calibration of rows from low to high; padding: what one more row of a padding token shows."""
    c = Calibration()
    y = np.linspace(low, high, 60).reshape(6, 10)
    real = None
    if padding is not None:
        y, real = np.vstack([y, np.full(10, padding)]), np.arange(7) < 6
    c.add(y, np.full(len(y), sums), real=real)
    return c


def test_a_wider_range_takes_more_levels():
    levels = [assess(seen(low), Budget("full", tolerance=1e-2)).plan.levels for low in (-6, -30, -130)]
    assert levels == sorted(set(levels))
    masked = assess(seen(-6), Budget("masked", tolerance=1e-2)).plan
    assert masked.levels == levels[0] + 1


def test_the_plan_holds_tolerance_domain_and_every_slot():
    budget = Budget("full", tolerance=1e-2)
    found = assess(seen(-9.3, 1.1, padding=-40.0), budget)
    fit = found.plan.exponential.fit
    assert fit.max_error <= 1e-2 and fit.domain[0] <= -9.3 and fit.domain[1] >= 1.1
    assert fit.guard[0] <= -40 * 1.1 and found.domain == (-9.3, 1.1) and not found.fails
    assert "friendly" in found.verdict() and "levels" in found.verdict()


def nothing_serves(*_, **__):
    raise UserError("no exponential")


def test_what_fails_is_said(monkeypatch):
    few = assess(seen(-30.0), Budget("full", tolerance=1e-2, levels=4))
    assert few.plan.levels > 4 and f"takes {few.plan.levels} levels, more than 4" in few.verdict()
    monkeypatch.setattr(friendly, "choose", nothing_serves)  # searching in vain takes half a minute
    high = assess(seen(-6.0, 60.0), Budget("full", tolerance=1e-2))
    assert high.plan is None and "no exponential" in high.verdict() and "exp(60.0)" in high.verdict()
    padded = assess(seen(-6.0, padding=60.0), Budget("full", tolerance=1e-2))
    assert padded.plan is None and "rows of padding tokens" in padded.verdict()
    assert padded.to_json()["levels"] is None and not padded.to_json()["friendly"]


def test_no_guard_holds_a_weight_beyond_its_bound():
    with pytest.raises(UserError, match="guard"):
        choose(Request(None, (-1.0, 14.0), 1e-2), method="chebyshev")
    assert assess(seen(-1.0, 14.0), Budget("full", tolerance=1e-2)).plan is None  # said without a search


def test_a_plan_of_another_layer_is_taken_where_it_covers_in_fewer_levels():
    wide = assess(seen(-60.0), Budget("full", tolerance=1e-2)).plan
    strict = Budget("full", tolerance=1e-2, domain=[-10, 0])
    own = assess(seen(-9.0), strict).plan
    assert own.levels < wide.levels and assess(seen(-9.0), strict, [wide]).plan == own
    cheap = assess(seen(-9.0), Budget("full", tolerance=0.5)).plan  # of another tolerance: only its cost counts here
    assert assess(seen(-5.0), Budget("full", tolerance=1e-3), [cheap]).plan == cheap
    assert assess(seen(-30.0), Budget("full", tolerance=1e-2), [cheap]).plan != cheap  # does not cover


def test_share_outside_a_given_domain():
    c, budget = seen(-9.0, 0.0), Budget("full", tolerance=1e-2, domain=[-4.0, 0.0])
    y = np.linspace(-9, 0, 60)
    assert assess(c, budget).outside == pytest.approx((y < -4).mean(), abs=1 / 60)
    own = Budget("full", tolerance=1e-2, outside=0.1)
    found = assess(c, own)
    assert found.domain[0] > -9 and found.outside <= 0.1


@pytest.mark.parametrize("low, high", [(-317.3, 2.6), (-9.0, 0.0), (-0.3, 0.0), (-1e-9, 0.0), (0.0, 0.0), (0.5, 0.7)])
def test_rounding_goes_outwards_and_not_far(low, high):
    lo, hi = rounded_out((low, high))
    assert lo <= low and high <= hi and lo < hi
    assert lo >= min(low * 1.13, low - 1.2) and hi <= high * 1.13 + 0.125


def test_judge_orders_layers_and_heads_and_covers_the_whole_model():
    heads = {(0, 0): seen(-5.0), (0, 1): seen(-20.0), (1, 0): seen(-3.0), (1, 1): seen(-4.0, sums=7.0)}
    plain, deep = (judge(heads, Budget("full", tolerance=1e-2), by_head) for by_head in (False, True))
    assert json.loads(json.dumps(plain))["range"] == [-20.0, 0.0] and plain["friendly"]
    assert [row["layer"] for row in plain["layers"]] == [0, 1]
    assert [len(row["heads"]) for row in plain["layers"]] == [2, 2] and plain["layers"][0]["range"] == [-20.0, 0.0]
    assert plain["levels_needed"] == max(row["levels"] for row in plain["layers"])
    assert "levels" not in plain["layers"][0]["heads"][0]
    assert deep["layers"][0]["heads"][0]["levels"] < deep["layers"][0]["heads"][1]["levels"]
    assert plain["layers"][0]["row_sum_far"] == 0 and plain["layers"][1]["row_sum_far"] == 0.5
    assert "50%" in plain["layers"][1]["verdict"] and "sum to" not in plain["layers"][0]["verdict"]


def test_kappa_histograms_share_an_interval_and_lose_no_row():
    rng, parts = np.random.default_rng(0), {"wide": Calibration(), "narrow": Calibration()}
    for name, scale in (("wide", 3.0), ("narrow", 1.0)):
        parts[name].add(rng.normal(0, scale, (4000, 16)), np.ones(4000))
    wide, narrow = kappas({name: [c] for name, c in parts.items()})
    assert (wide["name"], narrow["name"]) == ("wide", "narrow") and wide["std"] > 3 * narrow["std"]
    for k in (wide, narrow):
        bins = k["histogram"]
        assert sum(bins["counts"]) + bins["beyond"] == k["count"] == 4000 and bins["beyond"] < 0.2 * 4000
        assert (bins["low"], bins["width"]) == (wide["histogram"]["low"], wide["histogram"]["width"])
    assert kappas({"none": [Calibration()]}) == []
    assert wide["std"] == pytest.approx(merged([parts["wide"]]).kappa.std)


def test_kappas_far_below_all_bins_take_no_bins_of_their_own():
    far = Calibration()
    far.kappa.add(np.array([-2e9, *[-3000.0] * 10, *[0.0] * 90]))  # of a row with scores 0 and 600: -7e8
    (told,) = kappas({"far": [far]})
    counts = told["histogram"]["counts"]
    assert len(counts) <= 130 and sum(counts) + told["histogram"]["beyond"] == 101 and max(counts) >= 90


@pytest.mark.parametrize(
    "options, says",
    [
        ({"tolerance": 0.0}, "tolerance must be positive"),
        ({"tolerance": math.nan}, "tolerance"),
        ({"outside": 1.0}, "from 0 to below 1, and 1.0"),
        ({"margin": 0.9}, "by 1 or more, and 0.9"),
        ({"margin": [2, 1]}, "by 1 or more"),
        ({"levels": 0}, "levels must be a whole number of at least 1"),
        ({"levels": True}, "levels must be a whole number of at least 1, and is True"),
        ({"domain": 5}, "two numbers"),
        ({"domain": [0, -3]}, "finite lo < hi"),
        ({"row_kind": "half"}, "full or masked"),
    ],
)
def test_bad_budgets(options, says):
    with pytest.raises(UserError, match=says):
        Budget(**{"row_kind": "full", **options})
