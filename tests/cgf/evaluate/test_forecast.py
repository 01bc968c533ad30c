"""What an encrypted evaluation is said to take, against dry runs added up by hand and rows as a host gives them."""

import functools
from dataclasses import replace

import numpy as np
import pytest
import torch

from cgf.approx.fit import chain
from cgf.evaluate.he_forecast import COPIES, PROCESS_MIB, Forecast, batch_rows, costs_of, forecast
from cgf.he.encrypted import flatten
from cgf.he.engines.sim import SimOwner
from cgf.he.session import Session
from cgf.plan.cost import needs_of, predict
from cgf.plan.op_times import table_of
from cgf.softmax.cgf import CGF
from cgf.softmax.published.normalize_square import NormalizeSquare

TIMES = table_of(None, "desilo")


@pytest.fixture
def softmax():
    made = CGF()
    made.exponential = chain(-18.0, 1.2, 3)
    return made


@pytest.fixture
def session():
    return Session(functools.partial(SimOwner))


def test_rows_are_those_that_a_batch_of_texts_gives():
    lengths, heads, longest = [5, 3, 4], 2, 5
    causal = torch.arange(longest) <= torch.arange(longest)[:, None]
    padded = torch.arange(longest) < torch.tensor(lengths)[:, None]
    valid = (causal & padded[:, None, None]).expand(3, heads, longest, longest)
    _, mask, counts, shape = flatten(torch.zeros(3, heads, longest, longest), valid)
    rows = batch_rows(lengths, 3, heads, longest, mask="causal")
    assert rows.shape == shape and np.array_equal(rows.valid, mask) and np.array_equal(rows.counts, counts)
    full = batch_rows([4, 4], 2, 3, 4, mask="full")
    assert full.valid is None and full.uniform == 4 and len(full.counts) == 24


def test_seconds_are_the_dry_runs_of_all_layers(session, softmax):
    batches = [[0], [1], [2]]
    rows = batch_rows(None, 100, 4, 16, mask="full")
    found = forecast(session, [softmax] * 5, batches, lambda _: [rows], len, TIMES)
    one = predict(needs_of(softmax.exponential, "full", 6400, 16), TIMES)
    assert found.seconds == pytest.approx(3 * 5 * one.total_s)
    (cost,) = costs_of(session, softmax, rows)
    assert cost.layout.ciphertexts == 16 and cost.max_level == 4
    held = 16 * 32 * 8192 * 5 / 2**20  # two polynomials of 2 x 8,192 numbers of 8 bytes at each of 5 places
    assert found.mib == pytest.approx(PROCESS_MIB + one.key_mib + COPIES * held)


def test_batches_that_are_not_looked_at_count_by_their_work(session, softmax):
    rows = batch_rows(None, 10, 4, 16, mask="full")
    few, many = (
        forecast(session, [softmax], [[i] for i in range(n)], lambda _: [rows], len, TIMES).seconds for n in (6, 60)
    )
    assert many == pytest.approx(10 * few)


def test_kinds_of_layers_share_the_layers_and_workers_the_time(session, softmax):
    small, large = (batch_rows(None, 10, 4, n, mask="full") for n in (8, 32))
    both = forecast(session, [softmax] * 4, [[0]], lambda _: [small, large], len, TIMES).seconds
    each = [forecast(session, [softmax] * 2, [[0]], lambda _, r=r: [r], len, TIMES).seconds for r in (small, large)]
    assert both == pytest.approx(sum(each))
    session.workers = 2
    shared = forecast(session, [softmax] * 4, [[0]], lambda _: [small, large], len, TIMES)
    assert shared.seconds == pytest.approx(both / 2) and shared.workers == 2


def test_a_circuit_that_bootstraps_has_no_forecast(session):
    rows = batch_rows(None, 1, 1, 16, mask="full")
    assert forecast(session, [NormalizeSquare()], [[0]], lambda _: [rows], len, TIMES) is None


def test_what_is_said():
    fine = Forecast(seconds=245.0, mib=2048.0, workers=2, free_gib=8.0)
    assert fine.sentences() == [
        "predicted: about 4 min 5 s and 2.0 GiB of memory by 2 workers, from operation times of free cores"
    ]
    _, tight = replace(fine, free_gib=1.5).sentences()
    assert "more than the 1.5 GiB that are free: he.workers=1, or he.rows_at_once=2048" in tight
    _, tight = replace(fine, free_gib=1.5, workers=1).sentences()
    assert tight.endswith("free: he.rows_at_once=2048")
    _, long = replace(fine, seconds=7200.0).sentences()
    assert long.startswith("less time: he.samples=20")
    assert len(replace(fine, free_gib=None).sentences()) == 1


@pytest.mark.parametrize("engine, said", [("sim", False), ("desilo", True)])
def test_the_command_says_it_before_it_starts(checkpoint, engine, said):
    from digits_checkpoint import call

    out = checkpoint / "eval" / f"forecast-{engine}.json"
    done = call("eval_he", f"ckpt={checkpoint}", f"out={out}", f"he={engine}", "he.samples=2")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    predicted = [i for i, line in enumerate(lines) if line.startswith("predicted: about ")]
    assert bool(predicted) == said
    if said:
        first = next(i for i, line in enumerate(lines) if "2/2 samples" in line)
        assert predicted[0] < first and " s and " in lines[predicted[0]]  # with its unit
        assert "GiB of memory by 1 worker," in lines[predicted[0]]
