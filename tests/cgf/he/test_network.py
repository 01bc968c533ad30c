"""Whole networks on the simulator and on ciphertexts against the same program in the clear."""

import weakref
from dataclasses import replace

import numpy as np
import pytest

from cgf.approx.chain import SquareChain
from cgf.approx.fit import chain, chebyshev
from cgf.approx.head_chain import HeadChain
from cgf.errors import UserError
from cgf.he import network_run
from cgf.he.engines.engine import ENDLESS
from cgf.he.engines.sim import SimOwner
from cgf.he.network_circuit import LOGITS
from cgf.he.network_layout import Steps, TokenLayout, sum_of_tokens
from cgf.he.network_needs import dry_run, endless_needs, needs_of, size_of
from cgf.he.network_operands import read_in_stretches
from cgf.he.session import Session
from cgf.network.layers import Affine, Gated, Linear, Network, Pool, Positions, Residual, Rotary, SelfAttention, Square
from cgf.network.program import program_of
from cgf.network.twin import Ranges, twin

EXACT = 1e-9


def linear(rng, outputs, inputs, size=1.0):
    return Linear(size * rng.normal(size=(outputs, inputs)) / np.sqrt(inputs), 0.2 * rng.normal(size=outputs))


def square(rng, features):
    sign = np.where(rng.random(features) < 0.3, -1.0, 1.0)
    numbers = 0.1 * rng.normal(size=features), 0.5 + 0.1 * rng.normal(size=features), sign * (0.1 + 0.1 * rng.random())
    return Square(np.stack(numbers))


def affine(rng, features):
    return Affine(0.6 + 0.2 * rng.random(features), 0.1 * rng.normal(size=features))


def block(rng, dim, heads, exponential, mlp=True):
    """A block whose scores are small and whose state stays of one size."""
    q, k, v, o = (linear(rng, dim, dim, 0.7) for _ in range(4))
    attend = SelfAttention(q, k, v, heads, (dim // heads) ** -0.5, exponential)
    first = Residual((affine(rng, dim), attend, o))
    if not mlp:
        return (first,)
    inner = (affine(rng, dim), linear(rng, 2 * dim, dim, 0.7), square(rng, 2 * dim), linear(rng, dim, 2 * dim, 0.5))
    return first, Residual(inner)


def network(depth=1, dim=4, heads=2, tokens=4, features=2, pool="mean", exponential=None, mlp=True, tail=False):
    rng = np.random.default_rng(depth * 100 + tokens)
    exponential = exponential or chain(-8.0, 1.0, 2)
    layers = [linear(rng, dim, features), Positions(0.3 * rng.normal(size=(tokens, dim)))]
    for _ in range(depth):
        layers += block(rng, dim, heads, exponential, mlp)
    layers += [affine(rng, dim), Pool(pool)]
    if tail:
        layers += [linear(rng, dim, dim), square(rng, dim)]
    return Network("small", features, (2, tokens), (*layers, linear(rng, 3, dim)), ("a", "b", "c"))


def decoder(depth=1, dim=4, heads=1, features=2, exponential=None, pool="last", **parts):
    """A LLaMA of random numbers: causal, with rotary positions and gated units unless ``parts`` says otherwise."""
    parts = {"causal": True, "rotary": True, "gated": True, **parts}
    rng = np.random.default_rng(depth)
    angles = np.tile(rng.uniform(-3, 3, (16, dim // heads // 2)), 2)
    turns = Rotary(np.cos(angles), np.sin(angles)) if parts["rotary"] else None
    exponential = exponential or chain(-8.0, 1.0, 2)
    layers = [linear(rng, dim, features)]
    for _ in range(depth):
        q, key, v, o = (linear(rng, dim, dim, 0.7) for _ in range(4))
        attend = SelfAttention(q, key, v, heads, (dim // heads) ** -0.5, exponential, parts["causal"], turns)
        gate, up = linear(rng, 2 * dim, dim, 0.7), linear(rng, 2 * dim, dim, 0.7)
        unit = (Gated((gate,), up),) if parts["gated"] else (up, square(rng, 2 * dim))
        inner = (affine(rng, dim), *unit, linear(rng, dim, 2 * dim, 0.5))
        layers += [Residual((affine(rng, dim), attend, o)), Residual(inner)]
    layers += [affine(rng, dim), Pool(pool), linear(rng, 3, dim)]
    return Network("decoder", features, (2, 16), tuple(layers), ("a", "b", "c"))


def features_for(net, tokens, samples, seed=0):
    return np.random.default_rng(seed).normal(size=(samples, tokens, net.features))


def evaluated(net, tokens, owner=SimOwner, samples=None, **options):
    """(logits, logits in the clear, needs, record) of one set; every sample that fits, unless a count is given."""
    needs = needs_of(program_of(net, tokens), **options)
    x = features_for(net, tokens, samples or needs.samples)
    made = owner(needs.max_level)
    logits, record = network_run.run(needs, made, made.evaluator(needs.rotations), x)
    ranges = Ranges()
    clear = twin(needs.circuit.program, x, ranges)
    assert not any(ranges.beyond.values()) and np.abs(clear).max() > 0.1
    return logits, clear, needs, record


CASES = [
    {},
    {"depth": 2},
    {"depth": 2, "features": 7},  # a state of fewer features than its sources, from the first block on
    {"depth": 2, "pool": "first", "tail": True},
    {"pool": "mean", "tail": True},
    {"exponential": chain(-8.0, 1.0, 3)},
    {"exponential": chebyshev(-8.0, 1.0, 5, 0)},
    {"heads": 1, "mlp": False},
]


def counts(case):
    """Counts of tokens: some that divide the slots and some that do not; all of them for a case that is quick."""
    return (4, 3, 5, 7, 16) if case.get("depth", 1) == 1 and "exponential" not in case else (4, 3, 16)


@pytest.mark.parametrize(("case", "tokens"), [(c, n) for c in CASES for n in counts(c)], ids=str)
def test_every_sample_of_a_set_on_the_simulator(case, tokens):
    """No slot of another sample is read, and the dry run counts what runs."""
    net = network(tokens=16, **case)
    logits, clear, needs, record = evaluated(net, tokens)
    np.testing.assert_allclose(logits, clear, rtol=0, atol=EXACT * np.abs(clear).max())
    assert record.levels == record.counted == needs.levels == needs.circuit.program.depth()
    assert needs.circuit.layout.cyclic == (tokens in (4, 16))
    assert record.ops == needs.ops  # the dry run is the circuit


@pytest.mark.parametrize("tokens", [4, 3, 5, 16])
@pytest.mark.parametrize("case", [
    {"rotary": False, "gated": False},
    {"causal": False, "gated": False},
    {"causal": False, "rotary": False, "pool": "last"},
    {"depth": 2, "heads": 2},
    {"dim": 8, "heads": 2, "features": 9, "pool": "mean"},
], ids=str)  # fmt: skip
def test_every_sample_of_what_a_llama_has_on_the_simulator(case, tokens):
    """Masks, rotary positions, products, and logits of the last token: two levels, one, none and none."""
    net = decoder(**case)
    logits, clear, needs, record = evaluated(net, tokens)
    np.testing.assert_allclose(logits, clear, rtol=0, atol=EXACT * np.abs(clear).max())
    more = 2 * case.get("causal", True) + case.get("rotary", True)
    assert record.levels == record.counted == needs.levels == case.get("depth", 1) * (8 + more) + 1
    assert needs.circuit.layout.cyclic == (tokens in (4, 16)) and record.ops == needs.ops


@pytest.mark.parametrize("tokens", [4, 5])
@pytest.mark.parametrize(
    "exponential", [chebyshev(-8.0, 1.0, 5, 0), chebyshev(-8.0, 1.0, 3, 2)], ids=["5", "3 squared twice"]
)
def test_causal_rows_take_any_exponential(exponential, tokens):
    """What an entry that does not count is weighed by is that exponential's own number, which is subtracted."""
    logits, clear, needs, record = evaluated(decoder(heads=2, exponential=exponential), tokens)
    np.testing.assert_allclose(logits, clear, rtol=0, atol=EXACT * np.abs(clear).max())
    assert record.levels == needs.levels == 9 + exponential.levels + 1


def test_levels_are_six_and_the_squarings_a_block_and_one():
    for depth, k in ((1, 2), (1, 3), (2, 2)):
        net = network(depth, exponential=chain(-8.0, 1.0, k))
        _, _, needs, record = evaluated(net, 4, samples=2)
        assert record.levels == needs.levels == depth * (6 + k) + 1


def test_heads_may_have_chains_of_their_own():
    first, second = chain(-8.0, 1.0, 2), chain(-6.0, 1.0, 2)
    second = SquareChain("chain", first.a, second.b, second.constants, first.fit)
    chains = HeadChain("head_chain", (first, second), first.fit)
    logits, clear, *_ = evaluated(network(exponential=chains), 4)
    np.testing.assert_allclose(logits, clear, rtol=0, atol=EXACT * np.abs(clear).max())
    swapped = twin(program_of(network(exponential=HeadChain("head_chain", (second, first), first.fit)), 4),
                   features_for(network(), 4, 4))  # fmt: skip
    assert np.abs(swapped - clear[:4]).max() > 1e-6


def test_features_are_sent_turned_where_the_ring_has_no_level_to_turn_them_in():
    sevens = network(exponential=chain(-8.0, 1.0, 2), mlp=False)
    logits, clear, needs, _ = evaluated(sevens, 4)
    assert (needs.levels, needs.ring.slots, needs.circuit.sent_turned) == (7, 8192, True)
    assert [turn for _, turn in needs.circuit.sent] == [0, -2, 1]
    np.testing.assert_allclose(logits, clear, rtol=0, atol=EXACT * np.abs(clear).max())
    _, _, higher, _ = evaluated(sevens, 4, samples=2, max_level=9)
    assert higher.circuit.turns_inputs and not higher.circuit.sent_turned
    assert higher.encrypted == sevens.features


def test_more_samples_than_a_set_takes_are_refused():
    net = network(tokens=16)
    most = needs_of(program_of(net, 16)).samples
    with pytest.raises(UserError, match=f"takes {most} samples of network 'small', and {most + 1} were given"):
        Session(SimOwner).network(net, features_for(net, 16, most + 1))


def test_few_samples_leave_no_slot_to_what_no_sample_is():
    layout = TokenLayout.of(program_of(network(), 4), 8192)
    column = np.arange(12.0).reshape(3, 4) + 1
    packed = layout.pack(column, 1)
    assert set(packed) == set(column.ravel())
    assert packed[1] == column[1, 1] and packed[4 * layout.samples - 1] == column[(layout.samples - 1) % 3, 0]


@pytest.mark.parametrize("tokens", range(1, 40))
def test_diagonals_and_sums_cover_every_token_once(tokens):
    steps = Steps.of(tokens)
    met = [b + steps.baby * g for g in range(steps.giants) for b in steps.babies(g)]
    assert met == list(range(tokens)) and len(steps.frames) == tokens
    assert steps.baby + steps.giants <= 2 * int(np.ceil(np.sqrt(tokens)))
    places = np.arange(100.0) ** 1.5
    total = sum_of_tokens(tokens, places, lambda ct, turn: np.roll(ct, -turn), np.add)
    np.testing.assert_allclose(total[:50], [places[p : p + tokens].sum() for p in range(50)])


@pytest.mark.parametrize("between", [1, 4, 7])
def test_a_circuit_goes_on_from_the_ciphertexts_between_two_stages(between):
    """What is handed on is lists of ciphertexts by name, and nothing else: another engine goes on with them."""
    net = network(2)
    needs = needs_of(program_of(net, 4))
    x, owner = features_for(net, 4, 5), SimOwner(needs.max_level)
    state = {
        name: [owner.encrypt(v, needs.max_level) for v in vectors] for name, vectors in needs.circuit.packed(x).items()
    }
    stages = needs.circuit.stages()
    assert len({stage.name for stage in stages}) == len(stages)
    first, second = owner.evaluator(needs.rotations), owner.evaluator(needs.rotations)
    for stage in stages[:between]:
        state = stage.run(first, state)
    dumped = {name: [first.dump(ct) for ct in cts] for name, cts in state.items()}
    state = {name: [second.load(data) for data in cts] for name, cts in dumped.items()}
    for stage in needs.circuit.stages()[between:]:
        state = stage.run(second, state)
    assert list(state) == [LOGITS]
    logits = needs.circuit.logits([owner.decrypt(ct) for ct in state[LOGITS]], 5)
    clear = twin(needs.circuit.program, x)
    np.testing.assert_allclose(logits, clear, rtol=0, atol=EXACT * np.abs(clear).max())


def test_ciphertexts_go_when_their_last_reader_is_done():
    needs = needs_of(program_of(network(2), 4))
    owner = SimOwner(needs.max_level)
    engine = owner.evaluator(needs.rotations)
    x = features_for(network(2), 4, 2)
    state = {n: [owner.encrypt(v, needs.max_level) for v in vs] for n, vs in needs.circuit.packed(x).items()}
    given = [weakref.ref(ct) for cts in state.values() for ct in cts]
    for stage in needs.circuit.stages():
        state = stage.run(engine, state)
        if stage.name.startswith("block 2 state"):
            assert set(state) == {"h2", "q0", "k0", "v0", "q1", "k1", "v1"}
            assert not any(ref() for ref in given)
    held = [stage.kept_mib for stage in needs.stages]
    assert held[-1] < max(held) / 3


def stretched(needs, at_once):
    return dry_run(replace(needs.circuit, at_once=at_once), needs.max_level, needs.ring)


@pytest.mark.parametrize(("depth", "at_once", "stretches"), [(2, 3, 3), (3, 4, 2), (2, 8, 1)])
def test_squares_that_an_attention_alone_reads_are_made_in_stretches(depth, at_once, stretches):
    """The same logits and levels, and stages of some squares, then of each operand, for every stretch."""
    net = network(depth, tokens=5)
    needs = stretched(needs_of(program_of(net, 5)), at_once)
    assert needs.levels == needs_of(program_of(net, 5)).levels
    owner, x = SimOwner(needs.max_level), features_for(net, 5, needs.samples)
    logits, record = network_run.run(needs, owner, owner.evaluator(needs.rotations), x)
    clear = twin(needs.circuit.program, x)
    np.testing.assert_allclose(logits, clear, rtol=0, atol=EXACT * np.abs(clear).max())
    assert record.levels == needs.levels

    ends = [""] if stretches == 1 else [f", {i} of {stretches}" for i in range(1, stretches + 1)]
    parts = ("block 1 s1", *(f"block 2 {part}" for part in ("queries", "keys", "values", "state")))
    names = [part + end for end in ends for part in parts]
    begins = [stage.name for stage in needs.stages].index(names[0])
    assert [stage.name for stage in needs.stages[begins : begins + len(names)]] == names
    assert needs.stages[-2].name == f"block {depth} s{depth}"  # what the logits read is there at once


def test_squares_that_are_read_later_stay_as_they_are():
    """Without streams the state behind the second attention reads the first squares again."""
    program = program_of(network(2), 4, streams=False)
    assert [read_in_stretches(program, i) for i in range(len(program.steps) + 1)] == [None] * 5
    assert read_in_stretches(program_of(network(2), 4), 2) is not None


def test_a_head_prepares_some_features_at_a_time():
    needs = needs_of(program_of(network(dim=64, heads=1, features=80, mlp=False), 4))
    stages = {stage.name: stage for stage in needs.stages}
    head, before = stages["block 1 head 1"], stages["block 1 state"].kept_mib
    one = size_of(needs.ring.slots, head.level) / 2**20
    assert 0 < head.most_mib - before < 24 * one  # its keys in both turns and its queries together are 192


def test_a_network_deeper_than_any_ring_is_refused_and_counted_all_the_same():
    program = program_of(network(5), 4)
    with pytest.raises(UserError, match="needs 41 levels, and the largest ring holds 36: fewer squarings, or fewer"):
        needs_of(program)
    assert endless_needs(program).levels == 41
    with pytest.raises(UserError, match=r"needs 9 levels, and he\.max_level=8 was given"):
        needs_of(program_of(network(1), 4), max_level=8)
    assert dry_run(needs_of(program_of(network(1), 4)).circuit, 20, ENDLESS).levels == 9


# -- real ciphertexts ------------------------------------------------------------------------------


@pytest.mark.parametrize("tokens", [4, 3])
def test_an_attention_from_features_to_logits_on_ciphertexts(owner_of, tokens):
    """Seven levels in 8,192 slots, features sent turned; tokens that divide the slots, and some that do not."""
    net = network(heads=1, mlp=False)
    logits, clear, needs, record = evaluated(net, tokens, lambda level: owner_of("desilo", level))
    assert np.abs(logits - clear).max() < 1e-5 * np.abs(clear).max()
    assert record.levels == record.counted == 7 and needs.ring.slots == 8192
    assert record.bytes_up and record.bytes_down and record.key_bytes
    assert len(logits) == needs.samples > 1000


def test_a_block_from_features_to_logits_on_ciphertexts(owner_of):
    logits, clear, _, record = evaluated(network(heads=1), 4, lambda level: owner_of("desilo", level))
    assert np.abs(logits - clear).max() < 1e-5 * np.abs(clear).max()
    assert record.levels == record.counted == 9


def test_a_llama_of_one_block_from_features_to_logits_on_ciphertexts(owner_of):
    """Twelve levels in 16,384 slots: a causal mask, rotary positions, a gated unit, the last of five tokens."""
    logits, clear, needs, record = evaluated(decoder(), 5, lambda level: owner_of("desilo", level))
    assert np.abs(logits - clear).max() < 1e-5 * np.abs(clear).max()
    assert record.levels == record.counted == 12 and needs.ring.slots == 16384 and len(logits) == needs.samples


# -- parties ---------------------------------------------------------------------------------------


def test_a_party_keeps_the_keys_of_one_count_of_tokens():
    made = []

    def make_owner(max_level):
        made.append(SimOwner(max_level))
        return made[-1]

    session, net = Session(make_owner), network(tokens=16)
    for tokens in (4, 4, 7, 4):
        x = features_for(net, tokens, 3)
        logits, _ = session.network(net, x)
        np.testing.assert_allclose(logits, twin(program_of(net, tokens), x), rtol=0, atol=1e-9)
    assert len(made) == 3


def test_checking_names_the_operation_that_differs():
    """he.check runs beside the simulator, operation by operation."""
    from cgf.he.engines.check import Divergence
    from cgf.he.engines.sim import SimEngine

    class Wrong(SimEngine):
        def _combine(self, cts, weights):
            return super()._combine(cts, [1.1 * weights[0], *weights[1:]])

    class WrongOwner(SimOwner):
        def evaluator(self, rotations, conjugation=False):
            return Wrong(self.max_level, rotations=rotations)

    x = features_for(network(), 4, 3)
    with pytest.raises(Divergence, match=r"operation \d+ \(combine\)"):
        Session(WrongOwner, check=True).network(network(), x)
    logits, _ = Session(SimOwner, check=True).network(network(), x)
    np.testing.assert_allclose(logits, twin(program_of(network(), 4), x), rtol=0, atol=1e-9)
