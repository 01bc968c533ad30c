"""Threads that share out a network's operations on one engine: the same bits, the same counts, one error."""

import sys
import threading

import numpy as np
import pytest
from test_network import features_for, network

from cgf.errors import UserError
from cgf.he.engines.count import Counting
from cgf.he.engines.engine import encrypt_all
from cgf.he.engines.sim import SimEngine, SimOwner
from cgf.he.engines.threads import AT_ONCE, Threads, each
from cgf.he.network_circuit import LOGITS
from cgf.he.network_needs import needs_of
from cgf.network.program import program_of


def test_order_is_kept_and_items_are_made_as_they_are_needed():
    made, threads = [], Threads(2)

    def items():
        for i in range(100):
            made.append(i)
            yield i

    results = threads.each(lambda i: (i, threading.get_ident()), items())
    assert next(results)[0] == 0 and len(made) == 2 * AT_ONCE
    assert [i for i, _ in results] == list(range(1, 100))


def test_both_threads_work_and_work_within_work_waits_for_none():
    threads, met = Threads(2), threading.Barrier(2)

    def inner(i):
        return i, threading.get_ident()

    def outer(i):
        met.wait(timeout=20)  # by one thread alone this never ends
        return [who for _, who in threads.each(inner, range(3))], threading.get_ident()

    for whos, own in threads.each(outer, range(2)):
        assert whos == [own] * 3


def test_an_error_of_either_thread_is_the_callers_and_nothing_more_is_begun():
    begun, threads = [], Threads(2)

    def work(i):
        begun.append(i)
        if i == 3:
            raise UserError("the third")
        return i

    with pytest.raises(UserError, match="the third"):
        list(threads.each(work, range(16)))
    assert len(begun) <= 16
    assert list(threads.each(lambda i: i + 1, range(4))) == [1, 2, 3, 4]


@pytest.mark.parametrize("count", [0, 65, 1.5, True])
def test_counts_of_threads(count):
    with pytest.raises(UserError, match=r"he\.owner\.threads must be a whole number from 1 to 64"):
        Threads(count)


def test_an_engine_without_threads_does_all_itself():
    owner = SimOwner(3)
    assert list(each(owner.evaluator(frozenset()), lambda x: x + 1, [1, 2])) == [2, 3]


def test_operations_of_several_threads_are_all_counted():
    class Threaded(SimEngine):
        def each(self, work, items):
            return Threads(4).each(work, items)

    engine, owner = Counting(Threaded(3)), SimOwner(3)
    cts = [owner.encrypt(np.ones(4), 3) for _ in range(400)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        list(engine.each(lambda ct: engine.relinearize(engine.square(ct)), cts))
    finally:
        sys.setswitchinterval(before)
    assert (engine.ops["cmult"], engine.ops["relinearize"], engine.by_level["square", 3]) == (400, 400, 400)


def test_two_threads_give_the_bits_of_one_on_ciphertexts():
    """The same ciphertexts through the same circuit: every slot of every logit, twice over."""
    pytest.importorskip("desilofhe")
    from cgf.he.engines.desilo import DesiloOwner

    net = network(dim=8, heads=1, features=8, mlp=False)
    needs = needs_of(program_of(net, 4))
    owner = DesiloOwner(needs.max_level, mode="cpu", threads=2)
    packed = needs.circuit.packed(features_for(net, 4, needs.samples))
    sent = {name: encrypt_all(owner, vectors, needs.max_level) for name, vectors in packed.items()}

    def run(threads):
        engine = owner.evaluator(needs.rotations)
        assert engine.threads is not None and engine.threads.count == 2
        engine.threads = engine.threads if threads else None
        counting, state = Counting(engine), {name: list(cts) for name, cts in sent.items()}
        for stage in needs.circuit.stages():
            state = stage.run(counting, state)
        return [owner.decrypt(ct) for ct in state[LOGITS]], counting.ops

    alone, ops = run(False)
    for _ in range(2):
        together, counted = run(True)
        assert counted == ops
        np.testing.assert_array_equal(together, alone)


def test_a_ciphertext_is_never_given_to_two_threads():
    from cgf.he.engines.desilo import DesiloEngine

    class Spied(DesiloEngine):
        def __init__(self):
            self.threads = Threads(2)
            self._engine = self

        def add(self, a, b):
            return [*a, *b]

    engine, met = Spied(), threading.Event()

    def some(a, b):
        met.wait(0.2)
        return [(x, threading.get_ident()) for x in a]

    cts = [object() for _ in range(8)]
    halves = engine._summed(some, cts, [0.5] * 8)
    assert [x for x, _ in halves] == cts and len({who for _, who in halves}) == 2
    twice = [*cts[:7], cts[0]]
    assert len({who for _, who in engine._summed(some, twice, [0.5] * 8)}) == 1
    assert len({who for _, who in engine._summed(some, cts, [*cts[4:], *cts[:4]])}) == 1
