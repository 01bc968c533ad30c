"""What a plan or a checkpoint states of its exponential is computed again from the coefficients when it is read."""

import json

import pytest

from cgf.approx import fit
from cgf.approx.exponential_json import exponential_from_json
from cgf.approx.head_chain import HeadChain
from cgf.approx.verified import verified
from cgf.errors import UserError
from cgf.plan.choose import choose
from cgf.plan.load import read_plan, select
from cgf.plan.plan import Plan, by_layer
from cgf.plan.request import Request

LIMIT = choose(Request((-9.0, 0.5), (-8.0, 0.5)), method="limit", k=5)
CHAIN = fit.chain(-8.0, 0.5, 3)


def written(plan, **more):
    """The plan as scripts/plan.py writes it: what its exponential says stands at the top too."""
    known = plan.exponential.fit
    return json.loads(
        json.dumps(
            {
                **plan.to_json(),
                "method": plan.exponential.method,
                "domain": known.domain,
                "guard": known.guard,
                "max_error": known.max_error,
                **more,
            }
        )
    )


def changed(data, **exponential):
    return {**data, "exponential": {**data["exponential"], **exponential}}


def without(data, *keys):
    return {**data, "exponential": {k: v for k, v in data["exponential"].items() if k not in keys}}


def test_a_plan_as_it_was_made_is_believed():
    assert Plan.from_json(written(LIMIT)) == LIMIT


@pytest.mark.parametrize(
    "data, says",
    [
        (changed(written(LIMIT), guard=[-500.0, 40.0]), r"states a guard of \[-500, 40\], and its numbers hold"),
        (
            changed(written(LIMIT), domain=[-80.0, 0.5]),
            r"states an error of .* on \[-80, 0.5\], and its coefficients have",
        ),
        (changed(written(LIMIT), domain=[-300.0, 9.0], guard=[-300.0, 9.0]), "states an error of"),
        (changed(written(LIMIT), constants=[0.02, 0.0, 0.0, 0.0, 0.0]), "states an error of"),
        (changed(written(LIMIT), max_error=1e-9), "states an error of 1e-09"),
        (changed(written(LIMIT), guard_bound=2.0**40), "a ciphertext holds 262144 at most"),
        (without(written(LIMIT), "domain"), "needs the domain and the guard of its limit, and has none"),
        (without(written(LIMIT), "domain", "guard", "guard_bound", "max_error"), "needs the domain and the guard"),
        (without(written(LIMIT), "guard"), "'guard' must be a list"),
        (written(LIMIT, guard=[-500.0, 40.0]), r"states guard \[-500.0, 40.0\], and its exponential has"),
        (written(LIMIT, domain=[-30.0, 0.5]), "states domain"),
        (written(LIMIT, max_error=1e-9), "states max_error 1e-09"),
        (written(LIMIT, method="chain"), "states method chain, and its exponential has limit"),
        (written(LIMIT, levels=4), "states levels 4, and its exponential has 6"),
        (written(LIMIT, ct_mults=1), "states ct_mults 1, and its exponential has 5"),
        (changed(written(LIMIT), levels=4), "states levels 4"),
        (
            written(LIMIT, statistics_levels=1, rows="masked"),
            "rows full with 1 or 2 statistics_levels, or masked with 2",
        ),
        (written(LIMIT, statistics_levels=1.0, levels=60), "states levels 60"),
    ],
)
def test_a_plan_that_was_changed_by_hand_is_refused(data, says):
    with pytest.raises(UserError, match=says):
        Plan.from_json(data)


def test_a_guard_narrower_than_the_coefficients_hold_is_conservative():
    guard = LIMIT.exponential.fit.guard
    narrow = [guard[0] + 1.0, guard[1] - 1.0]
    assert Plan.from_json({**changed(written(LIMIT), guard=narrow), "guard": narrow}).exponential.fit.guard == (
        narrow[0],
        narrow[1],
    )


def test_the_plan_of_each_layer_is_held_against_its_own_coefficients():
    plan = by_layer([LIMIT, choose(Request((-9.0, 0.5), (-8.0, 0.5)), method="limit", k=4)])
    data = written(plan)
    assert Plan.from_json(data) == plan
    data["plans"][1] = changed(data["plans"][1], guard=[-900.0, 80.0])
    with pytest.raises(UserError, match=r"the plan \(layer 1\) states a guard"):
        Plan.from_json(data)
    shallow = {**written(LIMIT), "plans": written(plan)["plans"], "exponential": plan.layers[1].exponential.to_json()}
    for key in ("levels", "ct_mults", "domain", "guard", "max_error"):
        shallow.pop(key)
    with pytest.raises(UserError, match="is the plan of its deepest layer, and that of layer 0 costs more"):
        Plan.from_json(shallow)


def test_a_plan_of_another_checkpoint_or_for_other_rows_is_refused(tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(written(LIMIT, checkpoint="a" * 64)))
    mine, row_kind = "b" * 64, "masked"
    assert read_plan(tmp_path, "a" * 64, "full").checked == "coefficients and checkpoint"
    with pytest.raises(UserError, match="made for the checkpoint aaaaaaaaaaaa, and beside it lies bbbbbbbbbbbb"):
        read_plan(tmp_path, mine, "full")
    with pytest.raises(UserError, match="made for the checkpoint"):
        select({"method": "plan"}, tmp_path, "full", mine)
    with pytest.raises(UserError, match="is for full rows, and the model has masked ones"):
        read_plan(tmp_path, "a" * 64, row_kind)
    path.write_text(json.dumps(written(LIMIT)))  # of before plans named their checkpoint
    assert read_plan(tmp_path, mine, "full").checked == "coefficients"
    masked = choose(Request((-9.0, 0.5), (-8.0, 0.5), mask="causal"), method="limit", k=5)
    path.write_text(json.dumps(written(masked)))
    assert read_plan(tmp_path, mine, "full") == masked  # a level more than full rows need, and right


def test_a_chain_by_head_is_held_against_its_worst_head():
    heads = fit.with_fit(HeadChain("head_chain", (CHAIN, CHAIN)), (-8.0, 0.5))
    assert verified(heads, "it") == heads
    data = json.loads(json.dumps(heads.to_json()))
    data["constants"][1][0] += 0.02
    with pytest.raises(UserError, match="it states an error of"):
        verified(exponential_from_json(data), "it")
