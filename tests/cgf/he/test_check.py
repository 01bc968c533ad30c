"""he.check: an evaluation on two engines side by side names the first operation that an engine does wrongly."""

import functools

import numpy as np
import pytest

from cgf.approx.chain import SquareChain
from cgf.errors import UserError
from cgf.he.engines.check import Divergence
from cgf.he.engines.desilo import DesiloOwner
from cgf.he.engines.lanes import LanesOwner
from cgf.he.engines.sim import SimCiphertext, SimEngine, SimOwner
from cgf.he.layer_record import LayerRecord
from cgf.he.session import Session
from cgf.softmax.cgf import CGF

SHAPE = (2, 2, 16, 16)
SAID = (
    r"^he\.check: the simulator and the engine sim part in softmax 'cgf' of layer 3 at operation \d+ \(square\): "
    r"slot \d+ holds \S+ and \S+ at level \d, \S+ apart where 1e-08 is allowed$"
)


class FaultyEngine(SimEngine):
    """A simulator whose squares are off by a factor."""

    def _square(self, a):
        right = super()._square(a)
        return SimCiphertext(right.values * 1.0001, right.level, right.polynomials)


class FaultyOwner(SimOwner):
    def evaluator(self, rotations):
        return FaultyEngine(self.max_level, rotations=rotations)


class LowEngine(SimEngine):
    """A simulator whose rotations lose a level."""

    def _rotate(self, a, step):
        right = super()._rotate(a, step)
        return SimCiphertext(right.values, right.level - 1, right.polynomials)


class LowOwner(SimOwner):
    def evaluator(self, rotations):
        return LowEngine(self.max_level, rotations=rotations)


def softmax():
    result = CGF()
    result.exponential, result.layer = SquareChain("chain", 0.9 / 8, 0.95, (0.05, -0.025, 0.016)), 3
    return result


def run(make_owner, **options):
    """Weights of 64 rows of 16 scores, and the record."""
    x, record = np.random.default_rng(0).normal(size=(64, 16)), LayerRecord()
    session = Session(make_owner, **options)
    try:
        return session.evaluate(softmax(), x, None, np.full(64, 16.0), SHAPE, record), record
    finally:
        session.close()


@pytest.mark.parametrize("workers", [1, 2])
def test_a_square_that_is_off_by_a_factor_is_named(workers):
    run(FaultyOwner, workers=workers)  # unchecked, nobody says a word
    with pytest.raises(UserError, match=SAID):
        run(FaultyOwner, workers=workers, check=True)


def test_an_operation_that_loses_a_level_is_named():
    with pytest.raises(Divergence, match=r"at operation \d+ \(rotate\): levels \d and \d$"):
        run(LowOwner, check=True)


@pytest.mark.parametrize("make_owner", [SimOwner, functools.partial(LanesOwner, make_owner=SimOwner, lanes=2)])
def test_a_check_changes_no_number_and_no_count(make_owner):
    plain, alone = run(make_owner)
    checked, beside = run(make_owner, check=True)
    np.testing.assert_array_equal(checked, plain)
    assert (beside.levels, beside.ops, beside.slots) == (alone.levels, alone.ops, alone.slots)


def test_a_fault_in_one_lane_is_named():
    with pytest.raises(UserError, match=SAID):
        run(functools.partial(LanesOwner, make_owner=FaultyOwner, lanes=2), check=True)


def test_slots_beyond_the_bound_are_counted_under_a_check_too():
    tight = functools.partial(SimOwner, bound=1e-13)
    assert run(tight, check=True)[1].overflow == run(tight)[1].overflow > 0


def test_real_ciphertexts_pass_the_check():
    pytest.importorskip("desilofhe")
    weights, record = run(functools.partial(DesiloOwner, mode="cpu"), check=True)
    expected, alone = run(SimOwner)
    assert 0 < np.abs(weights - expected).max() < 1e-5 and record.ops == alone.ops


@pytest.mark.parametrize(
    "make_owner, check, says",
    [
        (SimOwner, 1, "^he.check must be true or false, and 1 was given$"),
        (
            functools.partial(DesiloOwner, bootstrap="small"),
            True,
            "^he.check=true needs an engine without bootstraps, .* he.owner.bootstrap=null$",
        ),
    ],
)
def test_what_cannot_be_checked_is_refused_before_keys_are_made(make_owner, check, says):
    with pytest.raises(UserError, match=says):
        Session(make_owner, check=check)
