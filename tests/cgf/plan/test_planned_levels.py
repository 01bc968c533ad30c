"""The levels that a plan states are those of the softmax's own circuit, for every softmax that has an exponential."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from hydra.utils import instantiate
from omegaconf import OmegaConf

from cgf.approx import fit
from cgf.approx.head_chain import HeadChain
from cgf.errors import UserError
from cgf.he.dryrun import depth
from cgf.plan.calibration import Calibration
from cgf.plan.choose import plan_with
from cgf.plan.cost import levels_of, mask_rows, needs_of, with_exponential
from cgf.plan.friendly import Budget, assess
from cgf.plan.load import read_plan, select
from cgf.plan.plan import Plan, by_layer, statistics_levels
from cgf.plan.planner import content, levels_told
from cgf.plan.request import Request
from cgf.softmax.base import ExponentialSoftmax
from cgf.softmax.bpmax import BPMax
from cgf.softmax.cgf import CGF
from cgf.softmax.published.gaussian import GaussianKernel

CONFIGS = sorted((Path(__file__).parents[3] / "configs" / "softmax").glob("*.yaml"))
LIMIT = fit.limit(-8.0, 0.5, 5)
EXPONENTIALS = (LIMIT, fit.chebyshev(-24.0, 3.0, 15, 1), fit.taylor(3, -1.0, -3.0, 1.0))


@dataclass(eq=False)
class Centred(ExponentialSoftmax):
    """A definition of one's own: exp(x - mean), whose mean is a level where rows are masked."""

    name: ClassVar[str] = "centred"

    def exponent(self, x):
        return x.centred()


def softmaxes():
    """Every yaml with an exponential, and a definition that no list knows."""
    made = [(path.stem, instantiate(OmegaConf.load(path))) for path in CONFIGS]
    return [(name, s) for name, s in made if isinstance(s, ExponentialSoftmax)] + [("own", Centred())]


@pytest.mark.parametrize("mask", ["full", "causal", "padding"])
@pytest.mark.parametrize("softmax", [s for _, s in softmaxes()], ids=[name for name, _ in softmaxes()])
def test_planned_levels_are_the_counted_ones(softmax, mask):
    request = Request(None, (-8.0, 0.5), rows=64, columns=32, mask=mask, softmax=softmax)
    for exponential in EXPONENTIALS:
        counted = depth(with_exponential(softmax, exponential), mask_rows(mask, 64, 32), 32).levels
        assert plan_with(request, exponential).levels == counted
    (needs,) = needs_of(LIMIT, mask, 64, 32, softmax=softmax)
    assert needs.levels == plan_with(request, LIMIT).levels


@pytest.mark.parametrize("rows, columns", [(3444, 41), (64, 33), (64, 32), (8192, 17)])
@pytest.mark.parametrize("softmax", [CGF(), CGF(order=3), GaussianKernel()], ids=["cgf", "cgf3", "gaussian"])
def test_a_packing_says_the_levels_of_its_own_circuits(softmax, rows, columns):
    """Full rows beside padding columns take the masked circuit: for CGF-softmax a level more than the plan's."""
    request = Request(None, (-8.0, 0.5), rows=rows, columns=columns, softmax=softmax)
    plan, blocks = plan_with(request, LIMIT), needs_of(LIMIT, "full", rows, columns, softmax=softmax)
    stated = content(plan, request)
    assert stated["packing"]["levels"] == max(needs.levels for needs in blocks)
    assert stated["packing"]["padding_columns"] == max(needs.layout.padding_columns for needs in blocks)
    more, padded = stated["packing"]["levels"] - plan.levels, stated["packing"]["padding_columns"] > 0
    assert stated["levels"] == plan.levels and (more > 0) == (padded and softmax.name != "gaussian")
    assert Plan.from_json(json.loads(json.dumps(stated))) == plan


def test_levels_are_told_with_those_of_the_packing_where_they_differ():
    told = {}
    for columns in (32, 33):
        request = Request(None, (-8.0, 0.5), rows=64, columns=columns)
        plan = plan_with(request, LIMIT)
        told[columns] = levels_told(plan, content(plan, request))
    assert told == {32: "6 levels", 33: "6 levels (7 as 64 rows of 33 are packed, with 31 padding columns)"}


@pytest.mark.parametrize(
    "softmax, full, masked",
    [(CGF(), 1, 2), (GaussianKernel(), 0, 0), (CGF(order=3), 6, 8), (CGF(order=4), 6, 8)],
    ids=["cgf", "gaussian", "cgf3", "cgf4"],
)
def test_levels_beside_the_core_by_name(softmax, full, masked):
    assert statistics_levels("full", LIMIT, softmax) == full and statistics_levels("masked", LIMIT, softmax) == masked
    assert softmax.exponential is None  # what is counted is a copy


def test_a_chain_by_head_takes_the_levels_of_one_head():
    heads = fit.with_fit(HeadChain("head_chain", (LIMIT, LIMIT)), (-8.0, 0.5))
    assert [levels_of(heads, row_kind) for row_kind in ("full", "masked")] == [6, 7]


def test_a_plan_says_for_which_softmax_it_counts_and_is_believed_for_no_other():
    plan = plan_with(Request(None, (-8.0, 0.5), softmax=GaussianKernel()), LIMIT)
    data = json.loads(json.dumps(plan.to_json()))
    assert data["softmax"] == {"variant": "gaussian"} and (plan.statistics_levels, plan.levels) == (0, 5)
    assert Plan.from_json(data) == plan
    with pytest.raises(
        UserError, match="a plan for softmax 'gaussian' needs 0 statistics_levels on full rows, and has 1"
    ):
        Plan.from_json({**data, "statistics_levels": 1})
    with pytest.raises(UserError, match="full with 1 or 2 statistics_levels"):
        Plan.from_json({k: v for k, v in data.items() if k != "softmax"})
    with pytest.raises(UserError, match="softmax 'bpmax' has no exponential to plan"):
        Plan.from_json({**data, "softmax": BPMax().to_json()})


def test_a_plan_of_before_is_counted_anew_for_the_softmax_in_place(tmp_path):
    """Plans of before counted CGF-softmax's statistics for each, and said nothing of schema and softmax."""
    plan = by_layer([plan_with(Request(None, (-8.0, 0.5)), fit.limit(-8.0, 0.5, k)) for k in (4, 5)])
    (tmp_path / "plan.json").write_text(json.dumps(plan.to_json()))
    assert "schema" not in plan.to_json() and "softmax" not in plan.to_json()
    assert read_plan(tmp_path) == select({"method": "plan"}, tmp_path, "full", softmax=CGF()) == plan
    other = select({"method": "plan"}, tmp_path, "full", softmax=GaussianKernel())
    assert other.levels == 5 and [own.levels for own in other.layers] == [4, 5]
    assert [own.exponential for own in other.layers] == [own.exponential for own in plan.layers]
    assert select({"method": "plan"}, tmp_path, "full", softmax=CGF(order=3)).levels == 11


def test_a_plan_of_a_later_schema_is_refused(tmp_path):
    plan = plan_with(Request(None, (-8.0, 0.5)), LIMIT)
    (tmp_path / "plan.json").write_text(json.dumps({"schema": 2, **plan.to_json()}))
    assert read_plan(tmp_path) == plan
    (tmp_path / "plan.json").write_text(json.dumps({"schema": 3, **plan.to_json()}))
    with pytest.raises(UserError, match="is of schema 3, and this version reads plans up to schema 2"):
        read_plan(tmp_path)


def test_a_polynomial_by_hand_states_the_levels_of_its_softmax(tmp_path):
    approx = {"method": "limit", "k": 5, "range": [-8.0, 0.5]}
    levels = [select(approx, tmp_path, "full", softmax=s).levels for s in (CGF(), GaussianKernel(), CGF(order=4))]
    assert levels == [6, 5, 11]


def test_the_friendliness_report_counts_the_softmax_that_it_looks_at():
    seen = Calibration()
    seen.add(np.linspace(-6.0, 0.0, 60).reshape(6, 10), np.ones(6))
    plans = [assess(seen, Budget("full", 1e-2, softmax=s)).plan for s in (CGF(), GaussianKernel())]
    assert plans[0].exponential == plans[1].exponential and plans[0].levels == 1 + plans[1].levels
