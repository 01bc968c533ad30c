"""Whole attentions by shape: what is predicted and measured in one process, and side by side in two."""

from __future__ import annotations

import functools
import time

import pytest

from cgf.approx import fit
from cgf.bench.attention import Costing, Shape, measured, middle, odd, shareable, shared_out, side_by_side
from cgf.errors import UserError
from cgf.he.engines.sim import SimOwner
from cgf.report.attention_cost import divided, together
from cgf.softmax.cgf import CGF


def test_one_process_is_right_and_two_take_a_set_each():
    softmax = CGF()
    softmax.exponential = fit.chain(-18.0, 1.2, 3)
    costing, shape = Costing(softmax, SimOwner, 2000, None, 0), Shape(4, 2, 6, 4, "causal")
    row, beside = measured(shape, costing), side_by_side(shape, costing, 2)
    assert row["levels"] == row["levels_counted"] and row["instances"] == 8
    assert row["max_error"] < 1e-9 * row["largest"]
    assert together(row) == "–"
    assert beside["workers"] == 2
    assert beside["ms_per_head"] == pytest.approx(1e3 * beside["seconds"] / (2 * row["instances"]))
    assert beside["peak_mib"] > 1.5 * row["peak_mib"]
    assert together({**row, "side_by_side": beside}).endswith("times)")


def one_fails(place, max_level):
    """An owner for one of two processes; the other, which is first, has none."""
    try:
        (place / "first").touch(exist_ok=False)
    except FileExistsError:
        return SimOwner(max_level)
    time.sleep(2.0)  # the other waits for it
    raise UserError("it needs 21.5 GiB")


def test_the_process_that_failed_is_heard_and_not_the_one_that_waited_for_it(tmp_path):
    softmax = CGF()
    softmax.exponential = fit.chain(-18.0, 1.2, 3)
    costing = Costing(softmax, functools.partial(one_fails, tmp_path), 2000, None, 0)
    start = time.monotonic()
    with pytest.raises(UserError, match=r"^it needs 21.5 GiB$"):
        side_by_side(Shape(1, 2, 8, 4), costing, 2)
    assert time.monotonic() - start < 300  # READY_S is 600


def test_a_layer_is_shared_out_by_heads():
    softmax = CGF()
    softmax.exponential = fit.chain(-18.0, 1.2, 3)
    costing, shape = Costing(softmax, SimOwner, 2000, None, 0), Shape(1, 3, 6, 4, "causal")
    shared = shared_out(shape, costing, 2)
    assert shared["workers"] == 2 and shared["ms_per_head"] == pytest.approx(1e3 * shared["seconds"] / 3)
    assert divided({"shared_out": shared}).endswith("(2 workers)") and divided({}) == "–"
    assert shareable(shape, 2) and not shareable(Shape(2, 3, 6, 4), 2) and not shareable(shape, 4)
    with pytest.raises(UserError, match="do not fit one set of ciphertexts for each of 2 workers"):
        shared_out(Shape(4097, 8, 3, 2), costing, 2)


def test_the_run_of_median_seconds_is_told_with_the_range():
    figures = ((1.0, 5.0, 10.0, 3e-7), (2.0, 1.0, 30.0, 1e-7), (3.0, 1.0, 20.0, 2e-7))
    runs = [{"client_s": c, "server_s": s, "peak_mib": m, "max_error": e} for c, s, m, e in figures]
    assert middle(runs) == {
        "client_s": 3.0,
        "server_s": 1.0,
        "peak_mib": 30.0,
        "max_error": 3e-7,
        "runs": {"count": 3, "least_s": 3.0, "most_s": 6.0},
    }
    assert odd(1) == 1 and odd(3) == 3
    for wrong in (0, 2, -1, 1.0, True):
        with pytest.raises(UserError, match="runs must be an odd number"):
            odd(wrong)
