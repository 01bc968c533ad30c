"""One sample alone in its ciphertexts, on the simulator, against the same program in the clear; and what is refused."""

from dataclasses import replace

import numpy as np
import pytest
from test_network import affine, features_for, linear, network, square

from cgf.approx.chain import SquareChain
from cgf.approx.fit import chain
from cgf.approx.head_chain import HeadChain
from cgf.errors import UserError
from cgf.he import network_run
from cgf.he.alone_layout import AloneLayout, Place, entries
from cgf.he.engines.sim import SimOwner
from cgf.he.network_circuit import LOGITS
from cgf.he.network_needs import alone_needs
from cgf.he.session import Session
from cgf.network.layers import Network, Pool, Positions, Residual, SelfAttention
from cgf.network.program import program_of
from cgf.network.twin import twin


def one_block(tokens, dim, heads, features, hidden, classes, pool="mean", value=None, exponential=None):
    """A block whose values and hidden layer have sizes of their own; biases and positions are not zero."""
    rng = np.random.default_rng(tokens * 100 + dim)
    value = value or dim
    query, key = linear(rng, dim, dim, 0.7), linear(rng, dim, dim, 0.7)
    exponential = exponential or chain(-8.0, 1.0, 2)
    attend = SelfAttention(query, key, linear(rng, value, dim), heads, (dim // heads) ** -0.5, exponential)
    inner = (affine(rng, dim), linear(rng, hidden, dim, 0.7), square(rng, hidden), linear(rng, dim, hidden, 0.5))
    layers = [
        linear(rng, dim, features),
        Positions(0.3 * rng.normal(size=(tokens, dim))),
        Residual((affine(rng, dim), attend, linear(rng, dim, value))),
        Residual(inner),
        affine(rng, dim),
        Pool(pool),
        linear(rng, classes, dim),
    ]
    return Network("small", features, (2, tokens), tuple(layers), tuple(map(str, range(classes))))


CASES = {
    "square sizes": {"tokens": 4, "dim": 8, "heads": 2, "features": 2, "hidden": 16, "classes": 4},
    "one head": {"tokens": 8, "dim": 4, "heads": 1, "features": 3, "hidden": 9, "classes": 3},
    "more classes than lanes": {"tokens": 4, "dim": 4, "heads": 2, "features": 1, "hidden": 4, "classes": 11},
    "few hidden features": {"tokens": 8, "dim": 8, "heads": 4, "features": 2, "hidden": 3, "classes": 2},
    "wide values": {"tokens": 2, "dim": 4, "heads": 2, "features": 2, "hidden": 30, "classes": 5, "value": 6},
    "first token": {"tokens": 4, "dim": 8, "heads": 2, "features": 2, "hidden": 16, "classes": 4, "pool": "first"},
    "a chain of 3": {
        "tokens": 4,
        "dim": 8,
        "heads": 2,
        "features": 2,
        "hidden": 16,
        "classes": 4,
        "exponential": chain(-8.0, 1.0, 3),
    },
}


def alone(net, tokens, seed=0):
    """(logits, logits in the clear, needs, record) of one sample on the simulator."""
    needs = alone_needs(program_of(net, tokens, streams=False))
    owner = SimOwner(needs.max_level)
    x = features_for(net, tokens, 1, seed)
    logits, record = network_run.run(needs, owner, owner.evaluator(needs.rotations), x)
    return logits, twin(needs.circuit.program, x), needs, record


@pytest.mark.parametrize("name", CASES)
def test_the_simulator_equals_the_clear_run_and_levels_are_counted(name):
    sizes = CASES[name]
    net = one_block(**sizes)
    logits, clear, needs, record = alone(net, sizes["tokens"])
    np.testing.assert_allclose(logits, clear, rtol=0, atol=1e-9 * max(1.0, np.abs(clear).max()))
    assert logits.shape == (1, sizes["classes"]) and np.abs(clear).max() > 0.05
    k = sizes.get("exponential", chain(-8.0, 1.0, 2)).levels
    assert record.levels == record.counted == needs.levels == 9 + k  # 7 + k in a set of many samples
    assert (needs.samples, needs.decrypted, needs.encrypted) == (1, 1, 2 * sizes["features"])
    np.testing.assert_allclose(
        alone(net, sizes["tokens"], seed=5)[0], alone(net, sizes["tokens"], seed=5)[1], atol=1e-9
    )


def test_what_is_decrypted_holds_logits_alone():
    """Every slot that a client decrypts is a logit or zero: partial sums of the server's weights stay with it."""
    net = one_block(**CASES["square sizes"])
    needs = alone_needs(program_of(net, 4, streams=False))
    circuit, owner = needs.circuit, SimOwner(needs.max_level)
    engine, x = owner.evaluator(needs.rotations), features_for(net, 4, 1)
    state = {
        name: [owner.encrypt(vector, needs.max_level) for vector in vectors]
        for name, vectors in circuit.packed(x).items()
    }
    for stage in circuit.stages():
        state = stage.run(engine, state)
    (answer,) = state[LOGITS]
    slots, lane = owner.decrypt(answer), circuit.layout.lane
    np.testing.assert_allclose(slots.reshape(-1, lane)[:, 1:], 0.0, atol=1e-12)
    np.testing.assert_allclose(slots[::lane][:4], twin(circuit.program, x)[0], atol=1e-9)


def test_a_session_evaluates_one_sample_a_set():
    net = one_block(**CASES["square sizes"])
    session = Session(SimOwner, alone=True)
    x = features_for(net, 4, 2)
    assert session.party.network_needs(net, 4).samples == 1
    np.testing.assert_allclose(session.network(net, x[1:])[0], twin(program_of(net, 4), x[1:]), atol=1e-9)
    with pytest.raises(UserError, match="a sample alone has its own ciphertexts, and 2 samples were given"):
        session.network(net, x)


def test_a_pooling_before_the_square_is_named():
    """Of exactly one attention and one square it was said that one attention and one square are needed."""
    made = one_block(**CASES["square sizes"])
    first, positions, attention, inner, norm, pool, last = made.layers
    before = replace(made, layers=(first, positions, attention, pool, *inner.layers, norm, last))
    says = "one square behind it, and one pooling behind the square, and network 'small' has it before the square: take"
    with pytest.raises(UserError, match=says):
        alone_needs(program_of(before, 4, streams=False))


def test_places_and_entries():
    layout = AloneLayout(4, 2, 256, 4)
    numbers = layout.vector(lambda p: 1000 * p.lane + 100 * p.turn + 10 * p.token + p.head)
    assert numbers[0] == 0 and numbers[1] == 1 and numbers[2] == 10 and numbers[8] == 100 and numbers[32] == 1000
    np.testing.assert_array_equal(numbers[:128], numbers[128:])  # the lanes are there twice
    packed = layout.pack(np.array([[0.0, 1.0, 2.0, 3.0]]), True)
    assert packed[layout.turn * 3 + 2 * 2] == 1.0  # at token 2 the key of turn 3 is token 1
    matrix = np.arange(6.0).reshape(2, 3)
    assert entries(matrix, np.array([0, 1, 2]), np.array([2, 0, 0])).tolist() == [2.0, 3.0, 0.0]
    assert entries(matrix[:1], np.array([5]), 1).tolist() == [1.0]
    assert Place(*np.ogrid[:2, :2, :2, :2])._replace(lane=np.array(7)).lane == 7


def test_networks_of_another_shape_are_refused():
    def needs(net, tokens, **options):
        return alone_needs(program_of(net, tokens, streams=False), **options)

    for net, tokens, says in (
        (network(depth=2), 4, "one attention and one square behind it, and network 'small' is another"),
        (network(mlp=False), 4, "one attention and one square behind it, and network 'small' is another"),
        (
            one_block(**{**CASES["square sizes"], "tokens": 6}),
            6,
            "are powers of two, and network 'small' has 6, 2 and 4",
        ),
        (one_block(**{**CASES["square sizes"], "dim": 12}), 4, "are powers of two, and network 'small' has 4, 2 and 6"),
        (one_block(**{**CASES["one head"], "tokens": 128, "classes": 3}), 128, "in 65536 slots, and a ciphertext"),
    ):
        with pytest.raises(UserError, match=says):
            needs(net, tokens)
    with pytest.raises(UserError, match=r"needs 11 levels for a sample alone, and he.max_level=10 was given"):
        needs(one_block(**CASES["square sizes"]), 4, max_level=10)
    first = chain(-8.0, 1.0, 2)
    assert isinstance(first, SquareChain)
    heads = HeadChain("head_chain", (first, SquareChain("chain", first.a, first.b + 0.1, first.constants)))
    with pytest.raises(
        UserError, match=r"one exponential for all heads of an attention, and network 'small' has one for"
    ):
        needs(one_block(**{**CASES["square sizes"], "exponential": heads}), 4)
