"""Whole attentions on every engine, without torch: against float64 with the same chain, and the libraries agree.

OpenFHE has no complex slots, so that every feature takes a ciphertext of its own there. What its test notes beside
passing (``record_property``) becomes results/reliability/openfhe.json: scripts/repo/test_openfhe.sh.
"""

import time

import numpy as np
import pytest

from cgf.approx.chain import SquareChain
from cgf.errors import UserError
from cgf.he.attention_needs import needs_of
from cgf.he.engines.engine import RINGS, complex_slots, ring_for, rings_of
from cgf.he.engines.library import library_of
from cgf.he.engines.openfhe import OPENFHE_RINGS
from cgf.he.layer_record import LayerRecord
from cgf.he.session import Session
from cgf.network.attention import Heads
from cgf.softmax.cgf import CGF
from cgf.softmax.published.gaussian import GaussianKernel

CHAIN = SquareChain("chain", 0.9 / 8, 0.95, (0.05, -0.025, 0.016))
FULL = 3 + CHAIN.levels  # queries times keys, variance, chain, values
TOLERANCE = 1e-5  # of the largest output, as wanted of ciphertexts


def softmax_of(kind=CGF):
    softmax = kind()
    softmax.exponential = CHAIN
    return softmax


def layer(b, h, n, d, e=None, g=None, mask=None):
    rng = np.random.default_rng(0)
    g = g or h
    query, key = rng.normal(size=(b, h, n, d)), rng.normal(size=(b, g, n, d))
    return Heads(query, key, rng.normal(size=(b, g, n, e or d)), d**-0.5, mask)


def padded(b, n):
    """The first sample padded to its half."""
    mask = np.ones((b, 1, n, n), dtype=bool)
    mask[0, ..., (n + 1) // 2 :] = False
    return mask


# heads, softmax, levels (None: as counted)
CASES = {
    "full": (layer(2, 2, 5, 4), CGF, FULL),
    "odd": (layer(2, 2, 6, 3, e=1), CGF, FULL),
    "grouped-causal": (layer(1, 4, 5, 4, g=2, mask=np.tril(np.ones((5, 5), dtype=bool))), CGF, None),
    "padded": (layer(3, 2, 4, 2, mask=padded(3, 4)), CGF, None),
    "distances": (layer(1, 2, 4, 3), GaussianKernel, None),
}


def by_hand(heads, kind):
    """Outputs (B, H, Q, E), query by query over the keys that it attends to, with the chain written out."""
    query, key, value = heads.flat(np.arange(heads.instances))
    outputs = np.zeros((*query.shape[:2], value.shape[2]))
    for i, q in np.ndindex(query.shape[:2]):
        keep = np.ones(key.shape[1], dtype=bool)
        if heads.mask is not None:
            keep = heads.mask[i // heads.shape[1], i % heads.shape[1], q]
        if kind is GaussianKernel:
            y = -((query[i, q] - key[i, keep]) ** 2).sum(1) / 2 * heads.scaling
        else:
            y = key[i, keep] @ query[i, q] * heads.scaling
            y = y - y.mean() - y.var() / 2 - np.log(len(y))
        u = CHAIN.a * y + CHAIN.b
        for constant in CHAIN.constants:
            u = u * u + constant
        outputs[i, q] = u @ value[i, keep]
    return outputs.reshape(*heads.shape[:3], -1)


def maker(owner_of, engine):
    """Hands out the kept owners of an engine, and states what their class does."""
    kind = type(owner_of(engine, 3))

    def make(max_level):
        return owner_of(engine, max_level)

    make.rings, make.pairs, make.library = rings_of(kind), complex_slots(kind), library_of(kind)
    return make


def run(owner_of, engine, name, **options):
    """Outputs, and the record of what was seen."""
    heads, kind, _ = CASES[name]
    session, record = Session(maker(owner_of, engine), **options), LayerRecord()
    return session.attend(softmax_of(kind), heads, record), record


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("engine", ["sim", "openfhe"])
def test_whole_attentions_equal_their_definition(owner_of, engine, name, record_property):
    heads, kind, levels = CASES[name]
    start = time.perf_counter()
    outputs, record = run(owner_of, engine, name)
    seconds, expected = time.perf_counter() - start, by_hand(heads, kind)
    largest = np.abs(expected).max()
    error = np.abs(outputs - expected).max() / largest
    assert largest > 0.05  # outputs, not noise
    assert record.levels == record.levels_counted == (levels or record.levels_counted) and not record.overflow
    if engine == "sim":
        assert error < 1e-9
        return
    assert 1e-11 < error < TOLERANCE  # above zero: it did go through ciphertexts
    shape = f"{heads.shape[0]} x {heads.shape[1]} heads, {heads.shape[2]} tokens, {heads.query.shape[3]} features"
    seen = {"shape": shape, "error_of_largest": float(f"{error:.2g}"), "levels": record.levels}
    for key, value in {**seen, "slots": max(record.slots), "seconds": round(seconds, 2)}.items():
        record_property(f"attention.{name}.{key}", value)


@pytest.mark.parametrize("name", ["full", "distances"])
def test_the_two_libraries_agree_on_whole_attentions(owner_of, name):
    (theirs, other), (ours, one) = (run(owner_of, engine, name) for engine in ("openfhe", "desilo"))
    assert 0 < np.abs(ours - theirs).max() <= TOLERANCE * max(1.0, np.abs(ours).max())  # never the same bits
    assert one.levels == other.levels and one.ops["prepare"] > 0 < other.ops["prepare"]


def test_every_operation_of_an_attention_on_openfhe_is_checked_against_the_simulator(owner_of):
    outputs, record = run(owner_of, "openfhe", "padded", check=True)
    np.testing.assert_allclose(outputs, by_hand(*CASES["padded"][:2]), rtol=0, atol=TOLERANCE)
    assert record.levels == record.levels_counted == FULL  # means of keys stand where padding is


def test_what_openfhe_cannot_do_is_said(owner_of):
    """Two features a ciphertext, and bootstraps: both are refused by name."""
    owner = owner_of("openfhe", 3)
    for asked in (lambda: owner.evaluator(frozenset(), True), lambda: owner.encrypt(np.ones(4) * 1j, 1)):
        with pytest.raises(UserError, match="complex slots"):
            asked()
    engine = owner.evaluator(frozenset())
    with pytest.raises(UserError, match="bootstrap"):
        engine.bootstrap([owner.encrypt(np.ones(4), 0)])


@pytest.mark.parametrize("name", CASES)
def test_the_ring_is_the_smallest_that_holds_the_levels(name):
    heads, kind, _ = CASES[name]
    for rings, pairs in ((RINGS, True), (OPENFHE_RINGS, False)):
        needs = needs_of(softmax_of(kind), heads, np.arange(heads.instances), rings=rings, pairs=pairs)
        assert needs.tile.slots == ring_for(needs.levels, rings).slots and needs.max_level == needs.levels
