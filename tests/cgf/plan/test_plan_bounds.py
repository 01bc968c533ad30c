"""What plan.json may hold: numbers of squarings and coefficients that a circuit could have, one plan a layer."""

import json
import time

import pytest

from cgf.approx import fit
from cgf.approx.exponential_json import HEADS, SQUARINGS, exponential_from_json
from cgf.errors import UserError
from cgf.plan.choose import plan_with
from cgf.plan.plan import LAYERS, Plan, by_layer
from cgf.plan.request import Request

POLYNOMIAL = fit.chebyshev(-8.0, 0.5, 7, 2).to_json()
CHAIN = fit.limit(-8.0, 0.5, 5).to_json()


def heads(betas, constants):
    return {**CHAIN, "method": "head_chain", "beta": betas, "constants": constants}


@pytest.mark.parametrize(
    "exponential, sentence",
    [
        ({**POLYNOMIAL, "k": 10**9}, "'k' must be a whole number from 0 to 64, and 1000000000 was given"),
        ({**POLYNOMIAL, "k": -1}, "'k' must be a whole number from 0 to 64, and -1 was given"),
        ({**POLYNOMIAL, "k": True}, "'k' must be a whole number from 0 to 64, and True was given"),
        ({**POLYNOMIAL, "coefficients": [0.5] * 10**5}, "'coefficients' may hold 64 numbers at most, and holds 100000"),
        ({**CHAIN, "constants": [0.0] * 10**5}, "'constants' may hold 64 numbers at most, and holds 100000"),
        (heads([1.0] * 10**5, [[0.0]] * 10**5), "'beta' may hold 1024 numbers at most, and holds 100000"),
        (heads([1.0], [[0.0] * 10**5]), "'constants' may hold 64 numbers at most, and holds 100000"),
        (heads([1.0], [[0.0]] * 10**5), r"as many lists of constants as betas \(1\), and has 100000"),
    ],
)
def test_an_exponential_longer_than_a_circuit_is_refused_at_once(exponential, sentence):
    start = time.perf_counter()
    with pytest.raises(UserError, match=sentence) as refusal:
        exponential_from_json(exponential)
    assert time.perf_counter() - start < 1 and len(str(refusal.value)) < 200


def test_an_exponential_as_long_as_the_bounds_is_read():
    assert exponential_from_json({**POLYNOMIAL, "k": SQUARINGS}).k == SQUARINGS
    assert exponential_from_json({**CHAIN, "constants": [0.0] * SQUARINGS}).k == SQUARINGS
    assert len(exponential_from_json(heads([1.0] * HEADS, [[0.0]] * HEADS)).chains) == HEADS


def test_a_plan_of_more_layers_than_a_model_or_of_plans_within_plans_is_refused():
    plan = plan_with(Request(None, (-8.0, 0.5)), fit.limit(-8.0, 0.5, 5))
    layers = json.loads(json.dumps(by_layer([plan, plan]).to_json()))
    assert Plan.from_json(layers) == by_layer([plan, plan])
    with pytest.raises(UserError, match=f"may hold {LAYERS} layers at most, and holds 100000"):
        Plan.from_json({**layers, "plans": layers["plans"][:1] * 10**5})
    with pytest.raises(UserError, match=r"the plan \(layer 0\) is the plan of one layer, and holds plans of others"):
        Plan.from_json({**layers, "plans": [layers]})
