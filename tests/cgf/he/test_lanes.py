"""Operations on several lanes: the schedule keeps every dependency, and results do not depend on the lanes."""

import functools
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cgf.approx import fit
from cgf.errors import UserError
from cgf.he import circuits
from cgf.he.dryrun import dry_run
from cgf.he.engines.count import Counting
from cgf.he.engines.desilo import DesiloOwner
from cgf.he.engines.lanes import LanesOwner
from cgf.he.engines.schedule import ScheduledTask, list_schedule
from cgf.he.engines.sim import SimEngine, SimOwner
from cgf.he.packed import Packed
from cgf.he.score_rows import Rows
from cgf.softmax.cgf import CGF


def random_tasks(seed, count):
    rng, tasks = random.Random(seed), []
    for _ in range(count):
        tasks.append(ScheduledTask(rng.uniform(0.1, 2.0), tuple(rng.sample(tasks, min(len(tasks), rng.randint(0, 2))))))
    return tasks


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), count=st.integers(1, 60), workers=st.integers(1, 4))
def test_every_task_runs_once_and_after_what_it_needs(seed, count, workers):
    tasks = random_tasks(seed, count)
    order = list_schedule(tasks, workers, transfer=0.1)
    assert sorted(id(t) for todo in order for t in todo) == sorted(map(id, tasks))
    assert all(t.worker == w for w, todo in enumerate(order) for t in todo)
    # run as threads would: each worker takes its next task once what it needs is there
    done, places = set(), [list(todo) for todo in order]
    while any(places):
        runnable = [todo for todo in places if todo and all(id(n) in done for n in todo[0].needs)]
        assert runnable, "the orders wait for each other"
        for todo in runnable:
            done.add(id(todo.pop(0)))
    # not worse than one worker, nor better than the longest path or an equal share
    whole, finish = sum(t.cost for t in tasks), max(t.finish for t in tasks)
    moves = sum(n.worker != t.worker for t in tasks for n in t.needs)
    assert max(t.rank for t in tasks) - 1e-9 <= finish and whole / workers - 1e-9 <= finish
    assert finish <= whole + 0.1 * moves + 1e-9


def test_independent_tasks_share_the_workers():
    order = list_schedule([ScheduledTask(1.0, ()) for _ in range(8)], 2, transfer=0.1)
    assert [len(todo) for todo in order] == [4, 4]


def causal_free_rows(rows, columns):
    return Rows((1, 1, rows, columns), 0, None, np.full(rows, float(columns)))


def evaluated(owner, softmax, style, x):
    rows = causal_free_rows(*x.shape)
    needs = dry_run(softmax, rows, x.shape[1], style, max_level=owner.max_level)
    engine = Counting(owner.evaluator(needs.rotations))
    cts = tuple(owner.encrypt(v, needs.levels) for v in needs.layout.pack(x * needs.circuit.input_scale))
    result = needs.circuit.run(Packed(engine, needs.layout, rows, cts)).relinearized()
    if hasattr(engine.engine, "wait"):
        engine.engine.wait(result.cts)
    weights = needs.circuit.opened(needs.layout.unpack([owner.decrypt(ct) for ct in result.cts]))
    return weights, needs, result.level


def softmax_of(k=5):
    softmax = CGF()
    softmax.exponential = fit.chain(-32.0, 1.0, k)
    return softmax


@pytest.mark.parametrize("style", ["folded", "abreast", "paper"])
@pytest.mark.parametrize("lanes", [1, 2, 3])
def test_lanes_give_what_one_engine_gives(style, lanes):
    x = np.random.default_rng(1).normal(0.0, 1.5, (64, 256))
    alone, needs, level = evaluated(SimOwner(9), softmax_of(), style, x)
    side, same, side_level = evaluated(LanesOwner(9, SimOwner, lanes), softmax_of(), style, x)
    np.testing.assert_allclose(side, alone, rtol=0, atol=1e-12)
    assert (needs.levels, level) == (same.levels, side_level)


@pytest.mark.alone  # its engines hold 2 GB
@pytest.mark.usefixtures("no_kept_owners")
@pytest.mark.parametrize("style", ["folded", "abreast"])
def test_real_lanes(style):
    x = np.random.default_rng(1).normal(0.0, 1.5, (64, 256)) - 3.0
    softmax = softmax_of()
    owner = LanesOwner(8, functools.partial(DesiloOwner, mode="cpu"), 2)
    weights, needs, level = evaluated(owner, softmax, style, x)
    expected, _, _ = evaluated(SimOwner(8), softmax, style, x)
    assert expected.max() > 0.01 and np.abs(weights - expected).max() < 1e-6
    assert (needs.levels, level) == (6, 0)


def test_each_lane_works_and_its_seconds_are_seen():
    owner = LanesOwner(8, SimOwner, 2)
    engine = owner.evaluator(frozenset())
    squares = [engine.relinearize(engine.square(owner.encrypt(np.ones(4), 3))) for _ in range(6)]
    total = functools.reduce(engine.add, squares)
    spent = engine.wait([total])
    assert {task.worker for task in squares} == {0, 1}
    assert owner.decrypt(total)[:5].tolist() == [6, 6, 6, 6, 0]
    assert spent["cmult"] > 0 and spent["relinearize"] > 0


def test_results_of_a_wait_serve_the_next():
    owner = LanesOwner(8, SimOwner, 2)
    engine = owner.evaluator(frozenset())
    a, b = owner.encrypt(np.full(4, 2.0), 3), owner.encrypt(np.full(4, 3.0), 3)
    first = engine.relinearize(engine.mul(a, b))
    engine.wait([first])
    second = [engine.add(engine.mul(first, 2), a), engine.add(engine.mul(first, 3), b)]
    engine.wait(second)
    assert [owner.decrypt(ct)[0] for ct in second] == [14.0, 21.0]


def test_a_lane_that_fails_stops_all(monkeypatch):
    owner = LanesOwner(8, SimOwner, 2)
    engine = owner.evaluator(frozenset({1}))
    cts = [engine.rotate(engine.mul(owner.encrypt(np.ones(4), 3), 0.5), 1) for _ in range(6)]

    def broken(self, ct, step):
        raise UserError("a key is broken")

    monkeypatch.setattr(SimEngine, "rotate", broken)
    with pytest.raises(UserError, match="a key is broken"):
        engine.wait([functools.reduce(engine.add, cts)])


@pytest.mark.parametrize("lanes", [0, -1, 1.5, "two"])
def test_lanes_are_a_whole_number(lanes):
    with pytest.raises(UserError, match="lanes must be a whole number of at least 1"):
        LanesOwner(3, SimOwner, lanes)


@pytest.mark.parametrize("n", [1, 2, 12, 49, 197, 256])
def test_square_part(n):
    q, m = circuits.square_part(n)
    assert q * q * m == n and all(m % (p * p) for p in range(2, 200))


@pytest.mark.parametrize("n, centre", [(256, 0.0), (256, -7.0), (12, 0.0), (197, 3.0)])
def test_abreast_is_the_folded_circuit(n, centre):
    e = softmax_of().exponential
    x = np.random.default_rng(2).normal(-5.0, 1.5, (8, n))
    rows, results = causal_free_rows(8, n), []
    for circuit in (circuits.folded(e, rows), circuits.abreast(e, rows, centre)):
        owner = SimOwner(8)
        layout = circuits_layout(n)
        cts = tuple(owner.encrypt(v, 8) for v in layout.pack(x * circuit.input_scale))
        out = circuit.run(Packed(owner.evaluator(frozenset(layout.rotations)), layout, rows, cts)).relinearized()
        results.append(circuit.opened(layout.unpack([owner.decrypt(ct) for ct in out.cts])))
        assert 8 - out.level == 1 + e.levels
    np.testing.assert_allclose(results[0], results[1], rtol=0, atol=1e-11)


def circuits_layout(n):
    """One without padding columns, which either circuit needs."""
    from cgf.he.layout import Layout

    power = n & -n  # columns a ciphertext: the power of two in n
    return Layout(8, n, 16384, 16384 // power)


def test_what_is_used_up_is_forgotten_and_results_stay():
    owner = LanesOwner(8, SimOwner, 2)
    engine = owner.evaluator(frozenset())
    cts = owner.encrypt_all([np.full(4, float(i)) for i in range(5)], 3)
    squares = [engine.relinearize(engine.square(ct)) for ct in cts]
    results = [engine.add(square, cts[0]) for square in squares]
    engine.wait(results, forget=True)
    assert not any(ct.copies or ct.data for ct in [*cts, *squares])
    assert [v[0] for v in owner.decrypt_all(results)] == [0, 1, 4, 9, 16]
    assert [v[0] for v in owner.decrypt_all(results)] == [0, 1, 4, 9, 16]  # and stay


def test_vectors_keep_their_order_over_the_lanes():
    for count in (1, 2, 5):
        owner = LanesOwner(3, SimOwner, 3)
        cts = owner.encrypt_all([np.full(4, float(i)) for i in range(count)], 1)
        assert [v[0] for v in owner.decrypt_all(cts)] == list(range(count))
        assert {ct.worker for ct in cts} == set(range(min(count, 3)))
