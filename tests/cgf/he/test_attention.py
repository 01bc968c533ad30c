"""Whole attentions on the simulator and on ciphertexts against float64 with the same polynomials."""

import dataclasses
import functools

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the readings in the clear are tensors")
from test_every_softmax import CONFIGS, EXPONENTIALS, built, prepared  # noqa: E402

from cgf.approx.chain import SquareChain  # noqa: E402
from cgf.errors import UserError  # noqa: E402
from cgf.he import attention_run  # noqa: E402
from cgf.he.attention_blocks import AttentionTask  # noqa: E402
from cgf.he.attention_needs import dry_run, needs_of  # noqa: E402
from cgf.he.encrypted_attention import EncryptedAttention  # noqa: E402
from cgf.he.engines.desilo import DesiloOwner  # noqa: E402
from cgf.he.engines.engine import BOOTSTRAPPABLE, RINGS  # noqa: E402
from cgf.he.engines.sim import SimOwner  # noqa: E402
from cgf.he.layer_record import LayerRecord  # noqa: E402
from cgf.he.session import Session  # noqa: E402
from cgf.he.tile import Tile  # noqa: E402
from cgf.network.attention import Heads  # noqa: E402
from cgf.softmax.bpmax import BPMax  # noqa: E402
from cgf.softmax.cgf import CGF  # noqa: E402
from cgf.softmax.published.base import Published  # noqa: E402
from cgf.softmax.published.quotient import Power  # noqa: E402
from cgf.softmax.published.statistical import Arion  # noqa: E402
from cgf.softmax.published.the_x import TheX  # noqa: E402
from cgf.softmax.published.two_relu import TwoReLU  # noqa: E402

CHAIN = SquareChain("chain", 0.9 / 8, 0.95, (0.05, -0.025, 0.016))


def cgf(order=2):
    softmax = CGF(order=order)
    softmax.exponential = CHAIN
    return softmax


def layer(b, h, n, d, e=None, g=None, mask=None, seed=0, size=1.0):
    rng = np.random.default_rng(seed)
    e, g = e or d, g or h
    query, key = size * rng.normal(size=(b, h, n, d)), size * rng.normal(size=(b, g, n, d))
    return Heads(query, key, rng.normal(size=(b, g, n, e)), d**-0.5, mask)


def causal(n, window=None):
    mask = np.tril(np.ones((n, n), dtype=bool))
    return mask if window is None else mask & ~np.tril(mask, -window)


def padded(b, n):
    """The first sample padded to its half; its padding queries see its real keys."""
    mask = np.ones((b, 1, n, n), dtype=bool)
    mask[0, ..., (n + 1) // 2 :] = False
    return mask


def tensors(heads):
    groups = heads.shape[1] // heads.key.shape[1]
    return tuple(
        torch.from_numpy(np.ascontiguousarray(x))
        for x in (heads.query, np.repeat(heads.key, groups, 1), np.repeat(heads.value, groups, 1))
    )


def in_the_clear(softmax, heads):
    query, key, value = tensors(heads)
    valid = None if heads.valid is None else torch.from_numpy(heads.valid)
    return (softmax.reading(softmax.scores(query, key, heads.scaling), valid) @ value).numpy()


def encrypted(softmax, heads, owner_of=SimOwner, tile=None, pairs=True, rings=RINGS):
    """(outputs, what was counted, what was seen); tile: another than the planner's."""
    every = np.arange(heads.instances)
    needs = needs_of(softmax, heads, every, rings=rings, pairs=pairs)
    assert needs.tile.instances == heads.instances
    if tile is not None:
        needs = forced(softmax, heads, tile, pairs)
    task = needs.task(heads, every)
    owner = owner_of(needs.max_level)
    outputs, seen = attention_run.run(needs, owner, owner.evaluator(needs.rotations, needs.pairs), softmax, task)
    return outputs.reshape(*heads.shape[:3], -1), needs, seen


def forced(softmax, heads, tile, pairs, means=False):
    task = AttentionTask(heads, np.arange(heads.instances), tile, pairs, means)
    top = next(r.max_level for r in RINGS if r.slots == tile.slots)
    return dry_run(softmax, task, "folded", top)


def cases():
    for path in CONFIGS:
        softmax = built(path)
        if softmax.encryptable:
            stands_in = softmax.uses_exponential and softmax.exponential is None
            yield pytest.param(path, "chain" if stands_in else None, id=path.stem)


def for_rows(softmax, keys):
    """A published softmax with its intervals made for rows of at most ``keys`` entries, as a user sets its ``n``."""
    if not isinstance(softmax, Published) or not hasattr(softmax, "n"):
        return softmax
    fitted = {"n": max(2, keys)}
    if isinstance(softmax, TwoReLU):  # its denominators are sums of at most n scores of at most the bound
        fitted |= {"least": softmax.bound / 4, "most": softmax.bound * fitted["n"]}
    return dataclasses.replace(softmax, **fitted)


def suited(softmax, heads):
    """Queries and keys whose scores lie where the softmax can take them: those of a published one in its domain."""
    if not isinstance(softmax, Published):
        return heads
    low, high = softmax.domain
    middle = high - 3.5 if softmax.maximum == "fixed" else (low + high) / 2
    if softmax.maximum == "bound":
        middle = 0.0
    # a key alone already has a few times the least denominator
    if isinstance(softmax, Power):
        middle = (4 * softmax.least) ** (1 / softmax.p) - softmax.c
    if isinstance(softmax, TheX):
        middle = 2 * (5 * softmax.least) ** (1 / 3) - 2
    if isinstance(softmax, TwoReLU):
        middle = 0.75 * softmax.bound
    root = np.sqrt(abs(middle) / heads.scaling)  # one more feature moves every score to the middle
    more = (np.full((*x.shape[:3], 1), f * root) for x, f in ((heads.query, np.sign(middle)), (heads.key, 1.0)))
    arrays = (np.concatenate([0.3 * x, extra], axis=3) for x, extra in zip((heads.query, heads.key), more, strict=True))
    return Heads(*arrays, heads.value, heads.scaling, heads.valid)


@pytest.mark.parametrize("path, method", cases())
def test_every_softmax_as_a_whole_attention_is_the_reading_in_the_clear(path, method):
    n = getattr(built(path), "n", 7)
    n = n if n < 40 else 7
    for mask in (None, causal(n), padded(2, n)):
        softmax = for_rows(prepared(path, method, n), n)
        if isinstance(softmax, BPMax):  # denominators by query position: as many as there are queries
            softmax.training = True
            softmax.weights(torch.randn(2, 3, n, n, dtype=torch.float64))
            softmax.training = False
        heads = suited(softmax, layer(2, 3, n, 8, e=5, mask=mask))
        rings = RINGS
        try:
            needs_of(softmax, heads, np.arange(6), "folded")
        except UserError:
            rings = (BOOTSTRAPPABLE,)
        session = Session(ring_owner(rings))
        slot = EncryptedAttention(softmax, session)
        query, key, value = tensors(heads)
        valid = None if mask is None else torch.from_numpy(mask)
        try:
            outputs, weights = slot.attention(query, key, value, heads.scaling, valid, lambda x: x)
        except UserError as error:  # no level is left after the last bootstrap
            assert (
                path.stem == "cho"
                and rings == (BOOTSTRAPPABLE,)
                and "needs more levels than there are (17)" in str(error)
            )
            continue
        assert weights is None
        wanted = in_the_clear(softmax, heads)
        assert np.abs(outputs.numpy() - wanted).max() < 1e-9 * max(1.0, np.abs(wanted).max())
        record = slot.take_record()
        assert record.levels == record.levels_counted > 0 and not record.overflow and not record.ruined
        assert record.outputs == 2 * 3 * n * 5 and record.macs == heads.macs()


def ring_owner(rings):
    def make(max_level):
        return SimOwner(max_level, rings=rings)

    make.rings = rings
    return make


SHAPES = {
    "one token": {"b": 3, "h": 2, "n": 1, "d": 4},
    "one feature": {"b": 2, "h": 2, "n": 6, "d": 1},
    "odd features": {"b": 2, "h": 2, "n": 6, "d": 5, "e": 3},
    "many features": {"b": 1, "h": 2, "n": 4, "d": 64},
    "grouped queries": {"b": 2, "h": 6, "n": 5, "d": 4, "g": 2},
    "one key head": {"b": 2, "h": 4, "n": 5, "d": 4, "g": 1},
    "forty tokens": {"b": 1, "h": 2, "n": 40, "d": 4},
    "causal": {"b": 2, "h": 2, "n": 9, "d": 4, "mask": causal(9)},
    "grouped causal": {"b": 2, "h": 4, "n": 6, "d": 4, "g": 2, "mask": causal(6)},
    "window": {"b": 2, "h": 2, "n": 9, "d": 4, "mask": causal(9, window=3)},
    "padded": {"b": 3, "h": 2, "n": 8, "d": 4, "mask": padded(3, 8)},
    "causal and padded": {"b": 3, "h": 2, "n": 8, "d": 4, "mask": padded(3, 8) & causal(8)},
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("pairs", [True, False])
def test_shapes_and_masks(name, pairs):
    heads = layer(**SHAPES[name])
    outputs, needs, seen = encrypted(cgf(), heads, pairs=pairs)
    np.testing.assert_allclose(outputs, in_the_clear(cgf(), heads), rtol=0, atol=1e-9)
    assert seen.levels == needs.levels
    counted = {kind: n for kind, n in needs.ops.items() if n}
    assert counted == dict(seen.ops)
    if heads.mask is None:
        assert needs.levels == 3 + CHAIN.levels  # queries times keys, variance, chain, values


@pytest.mark.parametrize("a, b", [(1, 1), (3, 1), (1, 4), (4, 2), (9, 8), (2, 16)])
@pytest.mark.parametrize("mask", [None, "causal", "padded"])
def test_every_tile_gives_the_same(a, b, mask):
    given = {"causal": causal(9), "padded": padded(2, 9)}.get(mask)
    heads = layer(2, 2, 9, 4, e=3, mask=given)
    outputs, needs, seen = encrypted(cgf(), heads, tile=Tile(4, 16384, a, b))
    np.testing.assert_allclose(outputs, in_the_clear(cgf(), heads), rtol=0, atol=1e-9)
    assert seen.levels == needs.levels and dict(seen.ops) == needs.ops
    if mask == "causal" and a == b == 1:
        assert needs.levels == 3 + CHAIN.levels and set(needs.circuits.values()) == {"folded"}
    assert needs.levels <= 4 + CHAIN.levels  # masks ride on the encodings; rows of their own counts take one level more


def test_a_vision_transformer_of_197_tokens():
    heads = layer(1, 1, 197, 4)
    outputs, _, seen = encrypted(cgf(), heads)
    np.testing.assert_allclose(outputs, in_the_clear(cgf(), heads), rtol=0, atol=1e-9)
    assert seen.levels == 3 + CHAIN.levels


def test_large_scores_share_the_scale_between_queries_and_keys():
    """Keys with a common offset: the weights do not change, and nothing is lost."""
    heads = layer(1, 2, 6, 8)
    shifted = Heads(heads.query, heads.key + 5.0, heads.value, heads.scaling)
    outputs, _, _ = encrypted(cgf(), shifted)
    np.testing.assert_allclose(outputs, in_the_clear(cgf(), shifted), rtol=0, atol=1e-9)


REAL = functools.partial(DesiloOwner, mode="cpu")


@pytest.mark.parametrize("name", ["odd features", "grouped causal", "padded"])
def test_ciphertexts(name):
    """Wanted: 1e-5 of the largest output."""
    heads = layer(**SHAPES[name])
    outputs, needs, seen = encrypted(cgf(), heads, REAL)
    wanted = in_the_clear(cgf(), heads)
    off = np.abs(outputs - wanted).max()
    assert 1e-10 < off < 1e-5 * np.abs(wanted).max()  # above zero: it did go through ciphertexts
    assert seen.levels == needs.levels and dict(seen.ops) == needs.ops


def test_ciphertexts_of_squared_distances():
    softmax = built(next(path for path in CONFIGS if path.stem == "gaussian"))
    softmax.exponential = EXPONENTIALS["chain"]()
    heads = layer(2, 2, 5, 4)
    outputs, needs, _ = encrypted(softmax, heads, REAL)
    assert np.abs(outputs - in_the_clear(softmax, heads)).max() < 1e-5 and not needs.pairs


def slot_of(owner=SimOwner, softmax=None, **settings):
    return EncryptedAttention(softmax or cgf(), Session(owner, **settings))


def through(slot, heads):
    valid = None if heads.valid is None else torch.from_numpy(heads.valid)
    return slot.attention(*tensors(heads), heads.scaling, valid, lambda x: x)[0]


def test_a_ruined_sample_is_named_and_the_others_go_on():
    heads = layer(3, 2, 5, 4)
    heads.value[1, 0, 2, 1] = np.nan
    slot = slot_of()
    outputs = through(slot, heads)
    assert outputs[1].isnan().all() and not outputs[[0, 2]].isnan().any()
    assert slot.take_record().ruined == {1}


def test_weights_of_an_encrypted_attention_are_refused():
    with pytest.raises(UserError, match="gives outputs, and no weights: they stay encrypted"):
        slot_of().weights(torch.zeros(1, 1, 2, 2))


class Corrupting(SimOwner):
    """Decrypts something else."""

    def decrypt_pair(self, ct):
        real, imaginary = super().decrypt_pair(ct)
        return real + 0.5, imaginary


def test_the_outputs_come_from_decryption_alone():
    heads, slot = layer(2, 2, 5, 4), slot_of(Corrupting)
    off = through(slot, heads).numpy() - in_the_clear(cgf(), heads)
    np.testing.assert_allclose(off[..., ::2], 0.5 * 1.0, rtol=0.3)
    record = slot.take_record()
    assert record.count("wrong") > 0 and record.max_error > 0.3


def test_more_instances_than_slots_take_several_sets():
    heads = layer(1400, 6, 2, 2)
    slot = slot_of()
    np.testing.assert_allclose(through(slot, heads).numpy(), in_the_clear(cgf(), heads), rtol=0, atol=1e-9)
    assert sum(slot.take_record().layouts.values()) > 1


def test_a_share_that_is_planned_another_layout_takes_sets_of_its_own(monkeypatch):
    """Half of the instances of 57 tokens are planned more queries side by side than fit them all."""
    from cgf.he.party import Party

    def attend(self, softmax, heads, chosen):
        assert self.attention_needs(softmax, heads, chosen).tile.instances == len(chosen)
        return heads.value[np.divmod(chosen, heads.shape[1])], LayerRecord()

    monkeypatch.setattr(Party, "attend", attend)
    value = np.random.default_rng(0).normal(size=(6509, 1, 57, 1))
    zeros = np.broadcast_to(0.0, (6509, 1, 57, 32))
    session = Session(SimOwner, most_mib=2000.0)
    session.parts = 2
    np.testing.assert_array_equal(session.attend(cgf(), Heads(zeros, zeros, value, 1.0), LayerRecord()), value)


@pytest.mark.parametrize("a, mask", [(4, None), (1, "causal"), (4, "causal")])
def test_entries_are_counted_once(a, mask):
    """The last block repeats its last query, whose results nobody reads."""
    heads = layer(2, 2, 9, 4, mask=causal(9) if mask else None)
    _, _, seen = encrypted(cgf(), heads, tile=Tile(4, 16384, a))
    assert sum(seen.circuits.values()) == 2 * 2 * (45 if mask else 81)


def test_two_workers_give_what_one_gives():
    heads = layer(3, 2, 5, 4, mask=padded(3, 5) & causal(5))
    session = Session(SimOwner, workers=2)
    try:
        slot = EncryptedAttention(cgf(), session)
        np.testing.assert_allclose(through(slot, heads), through(slot_of(), heads), rtol=0, atol=1e-12)
        assert sum(slot.take_record().layouts.values()) == 2
    finally:
        session.close()


def test_every_operation_is_checked_against_the_simulator():
    heads = layer(2, 2, 4, 4)
    checked = slot_of(REAL, check=True)
    assert np.abs(through(checked, heads).numpy() - in_the_clear(cgf(), heads)).max() < 1e-5


def test_slots_without_an_instance_hold_nothing_that_overflows():
    """A denominator of zero lies far outside an interval that ARION's reciprocal is made for."""
    softmax = Arion(n=16, low=-6.0, high=0.0, degree=31, least=0.5, most=1.7, inverse_degree=127)
    heads = layer(2, 2, 16, 4, mask=padded(2, 16), size=0.4)
    outputs, needs, _ = encrypted(softmax, heads, functools.partial(SimOwner, outside="raise"))
    assert needs.tile.instances * needs.tile.a < needs.tile.gap  # there are such slots
    np.testing.assert_allclose(outputs, in_the_clear(softmax, heads), rtol=0, atol=1e-9)
