"""Forks that share a set of ciphertexts out: the same numbers as one process, whatever happens to a fork."""

import os
import signal
import time
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from test_network import EXACT, features_for, network

from cgf.he.engines.count import Counting
from cgf.he.engines.sim import SimOwner
from cgf.he.network_needs import dry_run, needs_of
from cgf.he.network_run import run
from cgf.he.side_by_side import processor_s, side_by_side, together_mib
from cgf.he.stages import parts, rounds
from cgf.memory import give_freed_memory_back, resident_mib
from cgf.network.program import program_of
from cgf.network.twin import twin

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")


def computed(net, processes, make_owner=SimOwner, tokens=4, count=5, at_once=5):
    needs = needs_of(program_of(net, tokens))
    needs = dry_run(replace(needs.circuit, at_once=at_once), needs.max_level, needs.ring)
    owner = make_owner(max_level=needs.max_level)
    return run(needs, owner, owner.evaluator(needs.rotations), features_for(net, tokens, count), processes)


def without_lowering(record):
    return {kind: count for kind, count in record.ops.items() if kind != "lower"}


@pytest.mark.parametrize("processes", [2, 3])
@pytest.mark.parametrize("depth", [1, 2])
def test_a_set_that_is_shared_out_is_the_same_set(depth, processes):
    """Logits bit for bit, levels, operations but for sources that each brings down, and the names of the stages."""
    net = network(depth, tokens=4, heads=2)
    (logits, alone), (shared, record) = computed(net, 1), computed(net, processes)
    np.testing.assert_array_equal(shared, logits)
    assert (record.levels, without_lowering(record)) == (alone.levels, without_lowering(alone))
    assert [stage[0] for stage in record.stages] == [stage[0] for stage in alone.stages]
    clear = twin(program_of(net, 4), features_for(net, 4, 5))
    np.testing.assert_allclose(shared, clear, rtol=0, atol=EXACT * np.abs(clear).max())


def test_ciphertexts_of_a_shared_set():
    desilo = pytest.importorskip("cgf.he.engines.desilo")
    pytest.importorskip("desilofhe")
    net = network(2, tokens=4, heads=2)
    logits, record = computed(net, 2, partial(desilo.DesiloOwner, mode="cpu"))
    clear = twin(program_of(net, 4), features_for(net, 4, 5))
    assert np.abs(logits - clear).max() < 1e-5 and record.levels == record.counted
    assert without_lowering(record) == without_lowering(computed(net, 1)[1])


def owner_and_state():
    owner = SimOwner(max_level=4)
    return owner.evaluator(frozenset()), {"x": [owner.encrypt(np.ones(owner.slots), 4)]}


def doubled(engine, state):
    return {"y": [engine.add(ct, ct) for ct in state["x"]]}


def test_a_fork_that_is_killed_is_done_again_here():
    engine, state = owner_and_state()
    here = os.getpid()

    def killed(engine, state):
        if os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return doubled(engine, state)

    counting = Counting(engine)
    made = side_by_side([doubled, killed, doubled], counting, engine, state)
    assert [len(each["y"]) for each in made] == [1, 1, 1] and counting.ops["add"] == 3


@pytest.mark.parametrize(
    ("error", "kind", "says"),
    [
        (MemoryError(), MemoryError, "MemoryError"),
        (RuntimeError("std::bad_alloc"), MemoryError, "bad_alloc"),
        (KeyError("q0"), RuntimeError, "a process that computed a part of a set ended: KeyError: 'q0'"),
    ],
)
def test_an_error_of_a_fork_is_told_here(error, kind, says):
    engine, state = owner_and_state()
    here = os.getpid()

    def failing(engine, state):
        if os.getpid() != here:
            raise error
        return {}

    with pytest.raises(kind, match=says.replace("(", r"\(")):
        side_by_side([doubled, failing], engine, engine, state)


@pytest.mark.parametrize("sent", [0, 1, 2])
def test_a_fork_that_ends_while_it_sends_is_done_again_here(monkeypatch, sent):
    """Killed after so many of its three ciphertexts, in the middle of what it says."""
    engine, state = owner_and_state()
    here, dumped, dump = os.getpid(), [], type(engine).dump

    def cut_off(engine, ct):
        if os.getpid() != here:
            if len(dumped) == sent:
                os.kill(os.getpid(), signal.SIGKILL)
            dumped.append(ct)
        return dump(engine, ct)

    def three(engine, state):
        return {"y": [engine.add(ct, ct) for ct in state["x"] * 3]}

    monkeypatch.setattr(type(engine), "dump", cut_off)
    made = side_by_side([doubled, three], engine, engine, state)
    assert [len(each["y"]) for each in made] == [1, 3]


def test_an_error_while_a_fork_sends_is_told_here(monkeypatch):
    engine, state = owner_and_state()
    here, dump = os.getpid(), type(engine).dump

    def failing(engine, ct):
        if os.getpid() != here:
            raise MemoryError("no more")
        return dump(engine, ct)

    monkeypatch.setattr(type(engine), "dump", failing)
    with pytest.raises(MemoryError, match="no more"):
        side_by_side([doubled, doubled], engine, engine, state)


def test_no_fork_is_left_where_the_first_work_fails(monkeypatch):
    engine, state = owner_and_state()
    here, start, fork, forks = os.getpid(), time.monotonic(), os.fork, []

    def counted():
        process = fork()
        forks.append(process)
        return process

    monkeypatch.setattr(os, "fork", counted)

    def failing(engine, state):
        raise KeyboardInterrupt

    def long(engine, state):
        assert os.getpid() != here
        time.sleep(60)
        return {}

    with pytest.raises(KeyboardInterrupt):
        side_by_side([failing, long, long], engine, engine, state)
    assert time.monotonic() - start < 30
    assert len(forks) == 2
    for process in forks:
        with pytest.raises(ChildProcessError):  # waited for already
            os.waitpid(process, os.WNOHANG)


def test_seconds_of_forks_count():
    engine, state = owner_and_state()

    def busy(engine, state):
        until = time.process_time() + 0.3
        while time.process_time() < until:
            pass
        return {}

    before = processor_s()
    side_by_side([busy, busy], engine, engine, state)
    assert processor_s() - before > 0.55


def test_memory_that_forks_share_counts_once(monkeypatch):
    """200 MiB that all read, and 100 that each of two forks makes of its own."""
    engine, state = owner_and_state()
    shared, kept = np.ones(200 * 2**17), []

    def own(engine, state):
        kept.append(np.ones(100 * 2**17))
        assert shared.sum() + kept[0].sum() == 300 * 2**17
        return {}

    monkeypatch.setattr("cgf.he.side_by_side._Fork.together_mib", 0.0)
    give_freed_memory_back()
    before = resident_mib()
    side_by_side([lambda engine, state: {}, own, own], engine, engine, state)
    assert 195 < together_mib() - before < 350


def test_stages_run_together_as_far_as_there_are_processes():
    stages = needs_of(program_of(network(2, heads=4, dim=8), 4)).circuit.stages()
    together = [[stage.name for stage in some] for some in rounds(stages, 3)]
    assert [name for some in together for name in some] == [stage.name for stage in stages]
    heads = [f"block 1 head {i}" for i in range(1, 5)]
    assert heads[:3] in together and heads[3:] in together
    assert all(len(some) == 1 for some in together if "head" not in some[0])
    assert [len(some) for some in rounds(stages, 1)] == [1] * len(stages)


@pytest.mark.parametrize(("count", "most"), [(0, 2), (1, 2), (5, 2), (7, 3), (3, 8)])
def test_stretches_cover_all_once(count, most):
    some = parts(count, most)
    assert [i for part in some for i in range(count)[part]] == list(range(count)) and len(some) == min(count, most)
