"""A chain whose constants were trained, by layer or by head, on ciphertexts: the same numbers at the same levels."""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the readings in the clear are tensors")
from cgf.approx.chain import SquareChain  # noqa: E402
from cgf.approx.head_chain import HeadChain  # noqa: E402
from cgf.errors import UserError  # noqa: E402
from cgf.he.circuits import circuit_for  # noqa: E402
from cgf.he.encrypted import Encrypted  # noqa: E402
from cgf.he.engines.sim import SimOwner  # noqa: E402
from cgf.he.folding import rescaled  # noqa: E402
from cgf.he.layout import choose_layout  # noqa: E402
from cgf.he.packed import Packed  # noqa: E402
from cgf.he.score_rows import Rows  # noqa: E402
from cgf.he.session import Session  # noqa: E402
from cgf.softmax.chain_cgf import ChainCGF  # noqa: E402

H = 3


def trained(trainable, k=3, order=2):
    """Constants as far from those of the fit as a training takes them, and different in every head."""
    softmax = ChainCGF(k=k, trainable=trainable, order=order)
    softmax.sized(H)
    generator = torch.Generator().manual_seed(1)
    for p in softmax.parameters():
        p.data += 0.04 * torch.randn(p.shape, generator=generator, dtype=torch.float64)
    softmax.load_tensors(softmax.tensors())
    return softmax


def by_hand(softmax, x, valid):
    """Row by row over the valid entries, with the kept tensors and nothing of the chain's own code."""
    kept, result = {n: t.numpy() for n, t in softmax.tensors().items()}, np.zeros(x.shape)
    beta, constants = (
        np.broadcast_to(kept["beta"].reshape(-1), H),
        np.broadcast_to(kept["constants"].reshape(softmax.k, -1), (softmax.k, H)),
    )
    for b, h, q in np.ndindex(x.shape[:3]):
        keep = np.ones(x.shape[3], dtype=bool) if valid is None else np.broadcast_to(valid, x.shape)[b, h, q]
        row = x.numpy()[b, h, q][keep]
        z = kept["alpha"] * (row - row.mean() - row.var() / 2 - math.log(len(row))) + beta[h]
        for c in constants[:, h]:
            z = z**2 + c
        result[b, h, q][keep] = z
    return result


def scores(*shape, mean=0.0):
    return torch.from_numpy(np.random.default_rng(0).normal(mean, 1.5, shape))


def causal(n):
    return torch.ones(n, n, dtype=torch.bool).tril()[None, None]


# scores, mask, style, circuit, levels before the chain; 9000 rows need two sets of 8192 slots
CASES = {
    "full": (scores(4, H, 16, 16), None, "folded", "folded", 1),
    "algorithm 1": (scores(4, H, 16, 16), None, "paper", "algorithm-1", 2),
    "causal": (scores(4, H, 12, 12, mean=2.0), causal(12), "folded", "masked", 2),
    "padding columns": (scores(1, H, 97, 97), None, "folded", "masked", 2),
    "split": (scores(750, H, 4, 4), causal(4), "folded", "masked", 2),
}


def run(owner_of, engine, softmax, x, valid, style="folded"):
    session = Session(lambda max_level: owner_of(engine, max_level), style=style)
    encrypted = Encrypted(softmax, session)
    weights = encrypted.weights(x, valid)
    return weights, encrypted.record, session.party.circuits()


@pytest.mark.parametrize("trainable", ["layer", "head"])
@pytest.mark.parametrize("case", CASES)
def test_the_simulator_follows_the_definition_and_constants_cost_nothing(owner_of, case, trainable):
    x, valid, style, circuit, before = CASES[case]
    softmax = trained(trainable)
    weights, record, names = run(owner_of, "sim", softmax, x, valid, style)
    np.testing.assert_allclose(weights.numpy(), by_hand(softmax, x, valid), rtol=0, atol=1e-9)
    torch.testing.assert_close(weights, softmax.weights(x, valid), rtol=0, atol=1e-9)
    fixed, fixed_record, _ = run(owner_of, "sim", ChainCGF(trainable="none"), x, valid, style)
    assert names == {circuit} and (weights - fixed).abs().max() > 1e-3
    assert record.levels == record.levels_counted == fixed_record.levels == before + 3
    assert record.ops == fixed_record.ops


@pytest.mark.parametrize("trainable", ["layer", "head"])
@pytest.mark.parametrize("case", ["full", "causal"])
def test_real_ciphertexts(owner_of, case, trainable):
    x, valid, style, circuit, before = CASES[case]
    softmax = trained(trainable)
    weights, record, names = run(owner_of, "desilo", softmax, x, valid, style)
    assert np.abs(weights.numpy() - by_hand(softmax, x, valid)).max() < 1e-5 and record.max_error < 1e-5
    assert names == {circuit} and record.levels == record.levels_counted == before + 3
    _, simulated, _ = run(owner_of, "sim", softmax, x, valid, style)
    assert (record.ops, record.levels, record.slots) == (simulated.ops, simulated.levels, simulated.slots)


def test_cumulants_of_higher_order_run_their_formula(owner_of):
    softmax, x = trained("head", order=3), scores(4, H, 12, 12)
    weights, record, names = run(owner_of, "sim", softmax, x, causal(12))
    torch.testing.assert_close(weights, softmax.weights(x, causal(12)), rtol=0, atol=1e-9)
    assert names == {"formula"} and record.levels == run(owner_of, "sim", ChainCGF(order=3), x, causal(12))[1].levels


def test_a_softmax_left_in_training_is_encrypted_as_in_evaluation(owner_of):
    softmax, x = trained("head", order=3), scores(2, H, 12, 12) * 3
    softmax.training = True
    weights, _, _ = run(owner_of, "sim", softmax, x, None)
    assert softmax.training is False
    torch.testing.assert_close(weights, softmax.weights(x), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("p", [0.8, 1.0, 1.3])
def test_a_public_factor_moves_through_every_head(p):
    e = trained("head").exponential
    other, scale = rescaled(e, p)
    u = np.random.default_rng(2).uniform(-1, 1, (2, H, 4, 5))
    np.testing.assert_allclose(scale * other.core(p * u), e.core(u), rtol=1e-10, atol=1e-12)


def test_heads_share_the_folded_integers(owner_of):
    chains = tuple(SquareChain("chain", 0.11, 0.9 + 0.01 * h, (0.1, 0.0, -0.01 * h)) for h in range(H))
    rows = Rows((1, H, 12, 12), 0, None, np.full(36, 12.0))
    circuits = []
    for e in (chains[0], HeadChain("head_chain", chains)):
        softmax = ChainCGF(trainable="none")
        softmax.exponential = e
        circuits.append(circuit_for(softmax, rows, False))
    assert circuits[0].input_scale == circuits[1].input_scale
    assert circuits[0].output_scale == circuits[1].output_scale


# -- public additions -----------------------------------------------------------------------------------


def packed(rows=slice(0, 24), masked=False):
    x = np.random.default_rng(3).normal(size=(2 * H * 4, 5))[rows]
    valid = (np.arange(5) < 3)[None].repeat(len(x), 0) if masked else None
    facts = Rows((2, H, 4, 5), rows.start, valid, np.full(len(x), 3.0 if masked else 5.0))
    owner = SimOwner(7)
    layout = choose_layout(len(x), 5, owner.slots, masked)
    engine = owner.evaluator(frozenset(s % owner.slots for s in layout.rotations))
    return x, owner, Packed(engine, layout, facts, tuple(owner.encrypt(v, 7) for v in layout.pack(x)))


def values(owner, value):
    return value.layout.unpack([owner.decrypt(ct) for ct in value.cts])


@pytest.mark.parametrize("shape", [(), (H, 1, 1), (H, 4, 1), (1, 1, 1), (2, H, 4, 5), (5,), (4, 1)])
@pytest.mark.parametrize("rows", [slice(0, 24), slice(7, 19)])
def test_public_numbers_are_added_where_they_belong(shape, rows):
    x, owner, value = packed(rows)
    public = np.random.default_rng(4).normal(size=shape)
    full = np.broadcast_to(public, (2, H, 4, 5)).reshape(24, 5)[rows]
    result = value.plus_public(public)
    np.testing.assert_allclose(values(owner, result), x + full, atol=1e-12)
    assert result.level == value.level


def test_an_addition_leaves_nothing_in_the_row_sum_of_masked_rows():
    x, owner, value = packed(masked=True)
    public = np.arange(1.0, H + 1).reshape(H, 1, 1)
    sums = value.at_invalid(0.0).times_public(np.ones(())).plus_public(public).row_sum()
    wanted = x[:, :3].sum(1) + 3 * np.broadcast_to(public, (2, H, 4, 1)).reshape(24)
    np.testing.assert_allclose(values(owner, sums.times_public(np.ones((1, 5))))[:, 0], wanted, atol=1e-9)


def test_numbers_that_do_not_fit_are_one_sentence():
    _, _, value = packed()
    with pytest.raises(UserError, match=r"shape \(7, 1, 1\) do not fit scores of shape \(2, 3, 4, 5\)"):
        value.plus_public(np.ones((7, 1, 1)))
