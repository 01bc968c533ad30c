"""The guard and the domain of a plan hold at both ends, and by layer."""

from contextlib import nullcontext
from functools import partial

import numpy as np
import pytest

from cgf.approx import fit
from cgf.errors import UserError
from cgf.plan.calibration import Calibration
from cgf.plan.choose import plan_with
from cgf.plan.fit_cache import FitCache
from cgf.plan.plan import by_layer
from cgf.plan.planner import Planner, _check_guard, share_outside
from cgf.plan.request import Request


def shown(*y):
    seen = Calibration()
    seen.add(np.array([y]), np.ones(1))
    return seen


@pytest.mark.parametrize(("low", "high", "held"), [(-79.0, 15.0, True), (-8.0, 16.0, False), (-80.0, 1.0, False)])
def test_the_guard_of_a_plan_by_hand_holds_what_a_layer_showed_at_both_ends(low, high, held):
    plan = plan_with(Request(None, (-9.0, 1.0)), fit.limit(-9.0, 1.0, 5))  # 2^18 at y = -79.3 and 15.3
    with nullcontext() if held else pytest.raises(UserError, match="guard of a plan must hold every calibrated entry"):
        _check_guard(plan, shown(low, high))


def test_the_share_outside_is_by_the_domain_of_each_layers_own_plan():
    plan = by_layer([plan_with(Request(None, (low, 1.0)), fit.limit(low, 1.0, 5)) for low in (-9.0, -4.0)])
    assert share_outside(plan, [shown(-8.0, -6.0, -3.0, 0.0)] * 2) == pytest.approx(2 / 8)


@pytest.mark.parametrize(("pareto", "k"), [(False, None), (True, 4)])
def test_a_plan_without_alternatives_keeps_its_fits_too(tmp_path, monkeypatch, pareto, k):
    planner = Planner("limit", None, k, pareto=pareto, cache=FitCache(tmp_path / "fits"))
    layers, requests = [shown(-4.0, 1.0)], partial(Request, tolerance=1e-1)
    first = planner.plan(layers, requests)[0]
    assert list((tmp_path / "fits").glob("*.json"))
    monkeypatch.setattr(fit, "limit", lambda *_: pytest.fail("fitted anew"))
    assert planner.plan(layers, requests)[0] == first
