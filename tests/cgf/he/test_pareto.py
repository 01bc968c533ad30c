"""The Pareto set by its definition, the pick, and that no candidate is left out wrongly."""

from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgf.errors import UserError
from cgf.plan import pareto
from cgf.plan.calibration import Calibration
from cgf.plan.candidates import METHODS, specs
from cgf.plan.choose import choose, feasible
from cgf.plan.cost import needs_of
from cgf.plan.fit_cache import FitCache
from cgf.plan.friendly import Budget, assess
from cgf.plan.op_times import KINDS, OpTimes, table_of
from cgf.plan.pareto import costed_of_least_levels, costed_plans, dominates, least_levels, pareto_front, pick
from cgf.plan.request import Request

RANGE = (-8.0, 0.0)


def made_up(product_ms=10.0):
    """Times that grow with the level; products of ciphertexts are dear."""
    dear = ("square", "cmult", "relinearize", "rotate")
    size = {
        str(m): {
            "slots": slots,
            "key_bytes": {"relinearize": m << 20, "rotate": m << 20, "public": 1},
            "ms": {
                kind: {str(x): (product_ms if kind in dear else 1.0) * (x + 1) for x in range(m + 1)} for kind in KINDS
            },
        }
        for m, slots in ((2, 4096), (4, 8192), (7, 8192), (9, 16384), (17, 16384), (24, 32768))
    }
    return OpTimes.from_json({"sizes": size})


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    request = Request(RANGE, RANGE, 1e-3, 64, 64, "full")
    return costed_plans(request, specs(RANGE), made_up(), FitCache(tmp_path_factory.mktemp("fits")))


def test_no_row_of_the_set_is_dominated_and_every_other_is(found):
    best = pareto_front(found)
    assert 1 < len(best) < len(found)
    assert not any(dominates(a, b) for a, b in product(found, best))
    costs = {row.objectives for row in best}
    for row in found:
        assert row.objectives in costs or any(dominates(other, row) for other in best)
    assert len(costs) == len(best)


def test_the_pick_is_of_the_set_and_best(found):
    by_levels, by_seconds = pick(found), pick(found, "seconds")
    assert by_levels in pareto_front(found) and by_seconds in pareto_front(found)
    assert by_levels.levels == min(row.levels for row in found)
    assert by_seconds.predicted.total_s == min(row.predicted.total_s for row in found)
    with pytest.raises(UserError, match="levels or seconds"):
        pick(found, "error")


def test_rows_keep_their_promises(found):
    assert {row.plan.exponential.method for row in found} >= {"chain", "chebyshev", "fitted"}
    for row in found:
        fit, told = row.plan.exponential.fit, row.to_json()
        assert fit.max_error <= 1e-3 and fit.guard[0] <= -8 and fit.guard[1] >= 0
        assert row.levels == row.plan.levels == 1 + row.plan.exponential.levels  # full rows fold
        assert told["us_per_entry"] == pytest.approx(told["seconds"] / 64**2 * 1e6)


def test_what_is_skipped_is_dominated(found, monkeypatch):
    """Every candidate fitted, none skipped: the Pareto set is the same."""
    monkeypatch.setattr(pareto, "FLOOR", 0.0)
    request, some = Request(RANGE, RANGE, 1e-3, 64, 64, "full"), ("chain", "chebyshev")
    every = costed_plans(request, [s for s in specs(RANGE, some) if s.k <= 6], made_up())
    monkeypatch.undo()
    known = [row for row in found if row.plan.exponential.method in some and row.plan.exponential.k <= 6]
    assert len(every) > len(known)
    assert {row.objectives for row in pareto_front(every)} == {row.objectives for row in pareto_front(known)}


def test_without_a_table_the_set_is_of_levels_products_and_error():
    request = Request(RANGE, RANGE, 1e-2, 16, 16, "causal")
    found = costed_plans(request, specs(RANGE, ("limit", "chebyshev"), degree=7), None)
    assert all(row.predicted is None and row.to_json()["seconds"] is None for row in found)
    assert pick(found).levels == min(row.levels for row in found) == 2 + found[0].plan.exponential.levels
    with pytest.raises(UserError, match=r"op_times.py"):
        pick(found, "seconds")


@dataclass(frozen=True)
class Made:
    objectives: tuple
    error: float
    levels: int = 0
    predicted: None = None
    cmults: int = 0


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=20))
def test_the_set_by_its_definition(points):
    best = {row.objectives for row in pareto_front([Made(p, 0.0) for p in points])}
    minimal = {p for p in points if not any(q != p and all(x <= y for x, y in zip(q, p, strict=True)) for q in points)}
    assert best == minimal


def test_least_levels_is_the_least_of_the_rows(found, tmp_path):
    request = Request(RANGE, RANGE, 1e-3, 64, 64, "full")
    plan = least_levels(request, specs(RANGE), FitCache(tmp_path))
    assert plan.levels == min(row.levels for row in found)
    assert plan.ct_mults == min(row.plan.ct_mults for row in found if row.levels == plan.levels)
    assert pick(costed_of_least_levels(request, specs(RANGE), made_up(), FitCache(tmp_path))).plan == pick(found).plan


@pytest.mark.parametrize(
    "low, high, tolerance, kind",
    [(-2.0, 0.0, 1e-2, "full"), (-8.0, 1.0, 1e-3, "causal"), (-24.0, 2.0, 1e-2, "full"), (-16.0, 0.0, 1e-3, "full")],
)
def test_what_is_picked_by_levels_needs_the_rows_of_least_levels_alone(low, high, tolerance, kind):
    """Of the methods whose fits take no search, with the times of desilofhe, which break ties."""
    request = Request((low, high), (low, high), tolerance, 16, 16, kind)
    listed = specs((low, high), ("chebyshev", "limit", "taylor"), tolerance=tolerance)
    times = table_of(None, "desilo")
    few, every = (costing(request, listed, times) for costing in (costed_of_least_levels, costed_plans))
    assert pick(few).plan == pick(every).plan and len(few) < len(every)
    assert {row.levels for row in few} == {min(row.levels for row in every)}


def test_nothing_feasible_is_said():
    request = Request((-3000.0, 0.0), RANGE, 1e-3, 16, 16)
    for call in (lambda s: costed_plans(request, s, None), lambda s: least_levels(request, s, FitCache(None))):
        with pytest.raises(UserError, match="guard that holds"):
            call(specs(RANGE, ("chebyshev",), degree=7))


def test_bad_requests():
    for wrong in ({"range": (0, -1)}, {"domain": (0, 0)}, {"tolerance": 0.0}):
        with pytest.raises(UserError):
            Request(**{"range": RANGE, "domain": RANGE, "tolerance": 1e-3, "rows": 4, "columns": 4, **wrong})
    with pytest.raises(UserError, match="spline"):
        specs(RANGE, ("spline",))


def test_specs_know_the_cost_before_the_fit():
    for spec in specs((-16.0, 0.0), tuple(m for m in METHODS if m != "chain")):
        if spec.method != "fitted" or spec.k == 2:
            exponential = spec.make()
            assert exponential.levels <= spec.levels and exponential.ct_mults <= spec.ct_mults
            if spec.method == "limit" or exponential.degree == spec.degree:
                assert (exponential.levels, exponential.ct_mults) == (spec.levels, spec.ct_mults)


def test_a_cache_gives_back_the_very_fit(tmp_path):
    made = []

    def make():
        made.append(1)
        return specs(RANGE, ("limit",), k=4)[0].make()

    cache = FitCache(tmp_path)
    first, second = (cache.get(("limit", -8.0, 0.0, None, 4), make) for _ in range(2))
    assert first == second and len(made) == 1
    (file,) = tmp_path.iterdir()
    file.write_text(file.read_text()[:40])  # a damaged file is made again
    assert cache.get(("limit", -8.0, 0.0, None, 4), make) == first and len(made) == 2
    cache.get(("limit", -8.0, 0.0, None, 5), make)
    FitCache(None).get(("limit", -8.0, 0.0, None, 4), make)
    assert len(made) == 4


def test_a_wide_tolerance_asks_for_fitted_polynomials_of_fewer_squarings():
    def fewest(tolerance):
        return {d: min(s.k for s in specs((-64.0, 0.0), ("fitted",), degree=d, tolerance=tolerance)) for d in (3, 7)}

    assert fewest(1e-4) == {3: 2, 7: 1} and fewest(1e-2) == {3: 0, 7: 0}


@pytest.mark.parametrize(
    "low, tolerance, levels",
    [(-96.0, 1e-4, 5), (-64.0, 1e-5, 5), (-20.0, 1e-2, 4), (-10.0, 1e-4, 4), (-1.0, 1e-2, 1), (-1.0, 0.1, 1)],
)
def test_every_planner_takes_the_same_levels(low, tolerance, levels):
    """The core of plan.py pareto=false and of the friendliness report is that of the Pareto set's least levels."""
    domain = (low, 0.0)
    request = Request(domain, domain, tolerance, 16, 16, "full")
    plain = choose(request)
    assert plain == least_levels(request, specs(domain, METHODS, tolerance=tolerance), FitCache(None))
    assert plain.exponential.levels == levels and feasible(plain)
    (needs,) = needs_of(plain.exponential, "full", 16, 16)
    assert needs.levels == plain.levels == 1 + levels


def test_the_report_takes_the_levels_of_the_pareto_set():
    shown = Calibration()
    shown.add(np.linspace(-12.0, 0.0, 60).reshape(6, 10), np.ones(6))
    plan = assess(shown, Budget("masked", 1e-3)).plan
    request = Request(plan.range, plan.exponential.fit.domain, 1e-3, 16, 16, "causal")
    assert plan == least_levels(request, specs(request.domain, tolerance=1e-3), FitCache(None))
