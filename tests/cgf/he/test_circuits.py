"""Circuits against the plaintext definition, written out here in numpy; levels off the ciphertexts."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cgf.approx import fit
from cgf.approx.chain import SquareChain
from cgf.approx.exponential import Fit
from cgf.approx.polynomial import Polynomial
from cgf.errors import UserError
from cgf.he.circuits import circuit_for
from cgf.he.dryrun import dry_run
from cgf.he.engines.engine import Ring
from cgf.he.engines.sim import SimOwner
from cgf.he.folding import fold_integers, rescaled
from cgf.he.packed import Packed
from cgf.he.score_rows import Rows
from cgf.softmax.bpmax import BPMax, CalibratedBPMax
from cgf.softmax.cgf import CGF
from cgf.softmax.exact import Exact
from cgf.softmax.taylor import TaylorCGF

torch = pytest.importorskip("torch", reason="scores and masks are tensors here; test_engines.py runs circuits without")
from cgf.he.encrypted import Encrypted, flatten  # noqa: E402
from cgf.he.session import Session  # noqa: E402

# constants near those of fits on [-32, 1]; written here so that tests do not wait for a search. What
# matters is that the circuit evaluates the same polynomial, not how near that is to exp.
CHAINS = {
    k: SquareChain("chain", 0.9 * 2.0**-k, 0.95, tuple(0.05 * (-1) ** i / (i + 1) for i in range(k)))
    for k in (3, 4, 5, 6)
}
POLYNOMIALS = [
    *CHAINS.values(),
    fit.limit(-16.0, 1.0, 4),
    fit.limit(-32.0, 1.0, 6),
    fit.chebyshev(-16.0, 1.0, 15, 1),
    fit.chebyshev(-32.0, 1.0, 15),
    fit.chebyshev(-16.0, 1.0, 7, 2),
]


def core_by_hand(e, y):
    """The polynomial as its fields define it, not by its own core()."""
    u = e.a * y + e.b
    if isinstance(e, SquareChain):
        for constant in e.constants:
            u = u**2 + constant
        return u
    return sum(c * u**i for i, c in enumerate(e.coefficients)) ** (2**e.k)


def cgf_by_hand(x, valid, e, order=2):
    """exp(x - K - ln n) row by row, over the valid entries alone, in float64."""
    x, result = np.asarray(x, dtype=np.float64), np.zeros(x.shape)
    for place in np.ndindex(x.shape[:-1]):
        keep = np.ones(x.shape[-1], dtype=bool) if valid is None else np.broadcast_to(valid, x.shape)[place]
        row = x[place][keep]
        if not len(row):
            continue
        shift = row.mean() + row.var() / 2
        if order >= 3:
            shift += ((row - row.mean()) ** 3).mean() / 6
        if order >= 4:
            shift += (((row - row.mean()) ** 4).mean() - 3 * row.var() ** 2) / 24
        result[place][keep] = core_by_hand(e, row - shift - np.log(len(row)))
    return result


def scores(*shape, scale=1.5, mean=0.0, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).normal(mean, scale, shape))


def causal(n):
    return torch.ones(n, n, dtype=torch.bool).tril()[None, None]


def padded_keys(batch, n, last):
    valid = torch.ones(batch, 1, 1, n, dtype=torch.bool)
    valid[batch // 2 :, ..., last:] = False
    return valid


def with_exponential(softmax, e):
    softmax.exponential = e
    return softmax


def run(owner_of, engine, softmax, x, valid=None, **options):
    session = Session(lambda max_level: owner_of(engine, max_level), **options)
    encrypted = Encrypted(softmax, session)
    weights = encrypted.weights(x, valid)
    names = session.party.circuits()
    return weights, encrypted.record, names


# name: scores, mask, circuit, levels before the core. 197 tokens of a ViT leave padding columns.
CASES = {
    "full rows": (scores(5, 4, 16, 16), None, "folded", 1),
    "full rows, no power of two": (scores(10, 10, 12, 12), None, "folded", 1),
    "padding columns": (scores(1, 2, 197, 197), None, "masked", 2),
    "causal": (scores(4, 3, 12, 12, mean=3.0), causal(12), "masked", 2),
    "causal and padding": (scores(4, 3, 12, 12, mean=-2.0), causal(12) & padded_keys(4, 12, 9), "masked", 2),
    "padding": (scores(4, 3, 12, 12), padded_keys(4, 12, 7), "masked", 2),
    "all padded alike": (scores(4, 3, 12, 12), padded_keys(1, 12, 7), "masked", 2),
    "a row without a valid entry": (
        scores(2, 2, 4, 4),
        torch.tensor([[1, 1, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1], [0, 0, 0, 1]], dtype=torch.bool)[None, None],
        "masked",
        2,
    ),
    "large mean": (scores(2, 2, 10, 10, scale=0.1, mean=40.0), causal(10), "masked", 2),
    "large negative mean": (scores(2, 2, 10, 10, scale=0.1, mean=-40.0), causal(10), "masked", 2),
}


@pytest.mark.parametrize("e", POLYNOMIALS, ids=lambda e: f"{e.method}-{e.levels}")
@pytest.mark.parametrize("case", CASES)
def test_second_order_equals_its_definition(owner_of, case, e):
    x, valid, circuit, before = CASES[case]
    weights, record, names = run(owner_of, "sim", with_exponential(CGF(), e), x, valid)
    expected = cgf_by_hand(x.numpy(), None if valid is None else valid.numpy(), e)
    np.testing.assert_allclose(weights.numpy(), expected, rtol=0, atol=1e-9 * max(1.0, np.abs(expected).max()))
    assert names == {circuit}
    assert record.levels == record.levels_counted == before + e.levels


@pytest.mark.parametrize("e", POLYNOMIALS, ids=lambda e: f"{e.method}-{e.levels}")
def test_algorithm_1_equals_its_definition(owner_of, e):
    x = scores(5, 4, 16, 16, mean=7.0)
    weights, record, names = run(owner_of, "sim", with_exponential(CGF(), e), x, style="paper")
    np.testing.assert_allclose(weights.numpy(), cgf_by_hand(x.numpy(), None, e), rtol=0, atol=1e-9)
    assert names == {"algorithm-1"} and record.levels == record.levels_counted == 2 + e.levels


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_levels_of_the_paper(owner_of, k):
    """Algorithm 1 takes k + 6 levels with Chebyshev 15 and k + 2 with the limit approximation."""
    for e, levels in ((fit.chebyshev(-8.0 * 2**k, 0.0, 15, k), k + 6), (fit.limit(-8.0, 0.0, k), k + 2)):
        softmax = with_exponential(CGF(), e)
        rows = Rows((1, 1, 16, 16), 0, None, np.full(16, 16.0))
        assert dry_run(softmax, rows, 16, "paper").levels == levels
        assert dry_run(softmax, rows, 16, "folded").levels == levels - 1


@pytest.mark.parametrize("order", [3, 4])
@pytest.mark.parametrize("case", ["full rows", "padding columns", "causal and padding", "a row without a valid entry"])
def test_higher_orders_equal_their_definition(owner_of, order, case):
    x, valid, _, _ = CASES[case]
    e = CHAINS[4]
    weights, record, names = run(owner_of, "sim", with_exponential(CGF(order=order), e), x, valid)
    expected = cgf_by_hand(x.numpy(), None if valid is None else valid.numpy(), e, order)
    np.testing.assert_allclose(weights.numpy(), expected, rtol=1e-9, atol=1e-9)
    assert names == {"formula"} and record.levels == record.levels_counted


def test_low_degree_taylor(owner_of):
    x = scores(5, 4, 16, 16)
    weights, record, names = run(owner_of, "sim", TaylorCGF(degree=3, x0=-3.0), x)
    y = x - x.mean(-1, keepdim=True) - x.var(-1, correction=0, keepdim=True) / 2 - math.log(16)
    expected = sum(math.exp(-3) / math.factorial(i) * (y + 3) ** i for i in range(4))
    torch.testing.assert_close(weights, expected, rtol=0, atol=1e-9)
    assert names == {"folded"} and record.levels == 1 + 2


@pytest.mark.parametrize("style, name", [("folded", "rooted"), ("abreast", "rooted"), ("paper", "formula")])
@pytest.mark.parametrize("p, levels", [(1, {"rooted": 0, "formula": 1}), *((p, {}) for p in (3, 5, 7, 9))])
@pytest.mark.parametrize("make", [BPMax, CalibratedBPMax])
def test_bpmax_equals_its_definition(owner_of, make, p, levels, style, name):
    softmax = make(p=p, c=3.0)
    denominator = np.random.default_rng(1).uniform(500, 900, (3, 12, 1)) * np.array([1.0, -1.0, 1e-3])[:, None, None]
    softmax.denominator = torch.from_numpy(denominator)
    for valid in (None, causal(12), causal(12) & padded_keys(4, 12, 9)):
        x = scores(4, 3, 12, 12)
        weights, record, names = run(owner_of, "sim", softmax, x, valid, style=style)
        expected = (x.numpy() + 3.0) ** p / (denominator + 1e-10)
        expected = expected if valid is None else np.where(valid.numpy(), expected, 0.0)
        np.testing.assert_allclose(weights.numpy(), expected, rtol=1e-9, atol=1e-9)
        assert names == {name} and record.levels == record.levels_counted == levels.get(name, math.ceil(math.log2(p)))


REAL = {
    "folded": (CGF(), fit.limit(-16.0, 1.0, 5), "full rows", {}),
    "algorithm-1": (CGF(), fit.limit(-16.0, 1.0, 4), "full rows", {"style": "paper"}),
    "masked": (CGF(), fit.limit(-16.0, 1.0, 4), "causal and padding", {}),
    "formula": (CGF(order=3), fit.limit(-16.0, 1.0, 3), "full rows", {}),
    "folded-taylor": (TaylorCGF(degree=3, x0=-3.0), fit.taylor(3, -3.0), "full rows", {}),
}


@pytest.mark.parametrize("name", REAL)
def test_real_ciphertexts(owner_of, name):
    softmax, e, case, options = REAL[name]
    x, valid, _, _ = CASES[case]
    x = x - x.mean(-1, keepdim=True)
    softmax.exponential = e
    weights, record, names = run(owner_of, "desilo", softmax, x, valid, **options)
    expected = cgf_by_hand(x.numpy(), None if valid is None else valid.numpy(), e, softmax.order)
    assert np.abs(weights.numpy() - expected).max() <= 1e-5 and record.max_error <= 1e-5
    assert record.levels == record.levels_counted
    _, simulated, same = run(owner_of, "sim", softmax, x, valid, **options)
    assert names == same == {name.removesuffix("-taylor")}
    assert (record.ops, record.levels, record.slots) == (simulated.ops, simulated.levels, simulated.slots)


def test_real_bpmax(owner_of):
    softmax, x = BPMax(p=5, c=3.0), scores(4, 3, 12, 12, scale=0.5)
    softmax.denominator = torch.full((3, 12, 1), 3000.0)
    weights, record, _ = run(owner_of, "desilo", softmax, x, causal(12))
    expected = np.where(causal(12).numpy(), (x.numpy() + 3.0) ** 5 / 3000.0, 0.0)
    assert np.abs(weights.numpy() - expected).max() <= 1e-5
    assert record.levels == record.levels_counted == 3


@pytest.mark.parametrize("mask", [None, "causal"])
@pytest.mark.parametrize("p", [1, 3, 7])
def test_a_small_denominator_does_not_enlarge_the_noise(owner_of, p, mask):
    """One head's scores lie near -c, so that its powers and its R are small: at p = 7 some 1e-8 of the other heads'.

    The formula as it stands divides the noise of the raised scores by that. What stands where entries do not count
    would, raised with the shift of that head, wrap the whole ciphertext.
    """
    c, valid = 20.0, None if mask is None else causal(12)
    softmax, x = BPMax(p=p, c=c), scores(4, 3, 12, 12, scale=0.3)
    x[:, 1] = 0.05 * x[:, 1] - c + 0.2
    powers = (x + c) ** p
    softmax.denominator = powers.sum(-1, keepdim=True).mean(0)
    expected = (powers / softmax.denominators(12)).numpy()
    expected, off = expected if valid is None else np.where(valid.numpy(), expected, 0.0), {}
    for style in ("folded", "paper"):
        weights, record, _ = run(owner_of, "desilo", softmax, x, valid, style=style)
        off[style] = np.abs(weights.numpy() - expected)[:, 1].max()
        if style == "folded":
            assert not record.heads.wrong.any()
    assert off["folded"] <= 1e-6 and off["paper"] > 10 * off["folded"], off


# -- rows, levels, bad input ----------------------------------------------------------------------------


@pytest.mark.parametrize("mask", [None, "causal"])
def test_rows_beyond_the_slots_are_split(owner_of, mask):
    """9000 rows in rings of 8192 slots: two sets of ciphertexts, each row with its own place and count."""
    e, x = CHAINS[4], scores(375, 6, 4, 4, scale=1.0)
    valid = None if mask is None else causal(4)
    softmax = with_exponential(CGF(), e)
    weights, record, _ = run(owner_of, "sim", softmax, x, valid)
    assert x.shape[0] * 6 * 4 == 9000 and record.slots == {8192}
    assert record.entries == (36000 if mask is None else 22500)
    expected = cgf_by_hand(x.numpy(), None if valid is None else valid.numpy(), e)
    np.testing.assert_allclose(weights.numpy(), expected, rtol=0, atol=1e-9)


def test_a_session_follows_the_rings_of_its_owner():
    """240 rows in rings of 32 and 128 slots: the chain of four squarings takes the second, and two sets of them."""

    def make(max_level):
        return SimOwner(max_level, rings=make.rings)

    make.rings = (Ring(32, 4, 4), Ring(128, 9, 9))
    encrypted, x = Encrypted(with_exponential(CGF(), CHAINS[4]), Session(make)), scores(10, 6, 4, 4)
    weights = encrypted.weights(x, causal(4))
    np.testing.assert_allclose(weights.numpy(), cgf_by_hand(x.numpy(), causal(4).numpy(), CHAINS[4]), atol=1e-9)
    assert encrypted.record.slots == {128} and encrypted.record.levels == 6


def test_split_rows_take_their_own_denominator(owner_of):
    softmax, x = BPMax(p=3, c=3.0), scores(375, 6, 4, 4)
    denominator = np.arange(1.0, 25.0).reshape(6, 4, 1)
    softmax.denominator = torch.from_numpy(denominator)
    weights, _, _ = run(owner_of, "sim", softmax, x)
    np.testing.assert_allclose(weights.numpy(), (x.numpy() + 3.0) ** 3 / (denominator + 1e-10), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "dtype, out", [(torch.float64, torch.float64), (torch.float32, torch.float32), (torch.bfloat16, torch.float32)]
)
def test_shape_and_dtype_are_those_of_the_softmax(owner_of, dtype, out):
    x, softmax = scores(2, 2, 8, 8).to(dtype), with_exponential(CGF(), CHAINS[4])
    weights, _, _ = run(owner_of, "sim", softmax, x, causal(8))
    assert weights.shape == x.shape and weights.dtype == out == softmax.weights(x, causal(8)).dtype
    assert (weights[:, :, ~causal(8)[0, 0]] == 0).all()
    with pytest.raises(UserError, match=r"\(B, H, Q, K\), and got 3"):
        run(owner_of, "sim", softmax, x[0])


def test_records_count_entries_outside_and_beyond(owner_of):
    e, x = CHAINS[4], scores(3, 2, 8, 8, scale=0.5)
    x[0, 0, 7, 5] += 5.0  # above both intervals
    x[1, 1, 7, 0] -= 9.0
    x[2, 0, 4, 1] -= 5.0
    valid = causal(8)
    keep = np.broadcast_to(valid.numpy(), x.shape)
    y = np.concatenate(
        [(row := x.numpy()[p][keep[p]]) - row.mean() - row.var() / 2 - math.log(len(row)) for p in np.ndindex(3, 2, 8)]
    )
    domain, guard = (-4.0, 0.0), (-6.0, 0.5)
    outside, beyond = (int(((y < lo) | (y > hi)).sum()) for lo, hi in (domain, guard))
    assert 0 < beyond < outside < 40  # few, and not the same
    assert (y > guard[1]).any() and (y < guard[0]).any()  # on either side
    softmax = with_exponential(CGF(), SquareChain(e.method, e.a, e.b, e.constants, Fit(domain, guard, 2.0**20, 1.0)))
    _, record, _ = run(owner_of, "sim", softmax, x, valid)
    assert (record.outside, record.beyond, record.entries) == (outside, beyond, len(y))
    assert (record.low, record.high) == pytest.approx((y.min(), y.max()))


def test_the_record_measures_the_error(owner_of, monkeypatch):
    owner = owner_of("sim", 7)
    honest = type(owner).decrypt
    monkeypatch.setattr(type(owner), "decrypt", lambda self, ct: honest(self, ct) + 0.125)
    _, record, _ = run(owner_of, "sim", with_exponential(CGF(), CHAINS[4]), scores(3, 2, 8, 8))
    scale = fold_scale(CHAINS[4], 8)
    assert record.max_error == pytest.approx(0.125 * scale) == record.sum_error / record.entries


def fold_scale(e, n):
    rows = Rows((1, 1, n, n), 0, None, np.full(n, float(n)))
    return circuit_for(with_exponential(CGF(), e), rows, False).output_scale


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e200])  # the last is finite, but no float32
def test_what_is_no_number_ruins_its_sample_and_no_other(owner_of, monkeypatch, bad):
    """Row 83 of 2 samples, 4 heads and 16 queries: sample 1, head 1."""
    x, softmax = scores(2, 4, 16, 16).float(), with_exponential(CGF(), CHAINS[4])
    clean, before, _ = run(owner_of, "sim", softmax, x)
    owner = owner_of("sim", 7)
    honest = type(owner).decrypt  # one ciphertext holds all rows
    wrong = np.where(np.arange(owner.slots) == 83, bad, 0.0)
    monkeypatch.setattr(type(owner), "decrypt", lambda self, ct: honest(self, ct) + wrong)
    weights, record, _ = run(owner_of, "sim", softmax, x)
    assert bool(weights[1].isnan().all()) and torch.equal(weights[0], clean[0])
    assert record.ruined == {1} and record.heads.ruined.tolist() == [0, 1, 0, 0]
    assert record.lost == record.entries // 2 == before.entries // 2 and before.lost == 0 and before.ruined == set()
    assert record.max_error < 1e-9 and record.sum_error < before.sum_error + 1e-12


def test_a_sample_that_comes_ruined_is_not_encrypted_and_names_no_head(owner_of):
    x, softmax = scores(2, 4, 16, 16), with_exponential(CGF(), CHAINS[4])
    clean, _, _ = run(owner_of, "sim", softmax, x)
    for bad in (torch.nan, torch.inf, 1e30):
        hurt = x.clone()
        hurt[0, 2, 5, 7] = bad
        weights, record, _ = run(owner_of, "sim", softmax, hurt)
        assert bool(weights[0].isnan().all()) and torch.equal(weights[1], clean[1])
        assert record.ruined == {0} and record.heads.ruined.tolist() == [0, 0, 0, 0]


def test_entries_are_counted_by_the_circuit_that_they_went_through(owner_of):
    softmax, x = with_exponential(CGF(), CHAINS[4]), scores(2, 2, 8, 8)
    for style, valid, found in (
        ("paper", None, {"paper": 256}),
        ("folded", None, {"folded": 256}),
        ("paper", causal(8), {"masked": 4 * 36}),
    ):
        session = Session(lambda max_level: owner_of("sim", max_level), style=style)
        encrypted = Encrypted(softmax, session)
        encrypted.weights(x, valid)
        assert encrypted.record.circuits == found


def test_a_session_sees_another_exponential(owner_of):
    """Circuits carry coefficients: a softmax whose polynomial was replaced needs another."""
    session, softmax, x = Session(lambda max_level: owner_of("sim", max_level)), CGF(), scores(2, 2, 8, 8)
    for e in (CHAINS[4], CHAINS[3]):
        softmax.exponential = e
        weights = Encrypted(softmax, session).weights(x)
        np.testing.assert_allclose(weights.numpy(), cgf_by_hand(x.numpy(), None, e), atol=1e-9)


# masked rows begin with a rotation, which an engine of 7 levels, its ring's most, makes at level 6
@pytest.mark.parametrize("valid, levels, need", [(None, 1 + 5, 6), (causal(8), 2 + 5, 8)])
def test_too_few_levels_says_need_and_have(owner_of, valid, levels, need):
    softmax = with_exponential(CGF(), CHAINS[5])
    for have in (1, need - 1):
        with pytest.raises(UserError, match=rf"needs an engine of {need} levels, and he.max_level={have}"):
            run(owner_of, "sim", softmax, scores(2, 2, 8, 8), valid, max_level=have)
    _, record, _ = run(owner_of, "sim", softmax, scores(2, 2, 8, 8), valid, max_level=need)
    assert record.levels == record.levels_counted == levels


def test_the_largest_ring_may_not_do():
    softmax = BPMax(p=2**37 + 1, c=0.5)
    with pytest.raises(UserError, match=r"more levels than the largest ring holds \(36\)"):
        dry_run(softmax, Rows((1, 1, 4, 4), 0, None, np.full(4, 4.0)), 4, "folded")


def test_what_cannot_run_says_why(owner_of):
    x = scores(1, 1, 4, 4)
    with pytest.raises(UserError, match="needs a polynomial"):
        run(owner_of, "sim", CGF(), x)
    with pytest.raises(UserError, match="'exact' cannot run under CKKS: it needs a maximum and a division"):
        run(owner_of, "sim", Exact(), x)
    with pytest.raises(UserError, match=r"he\.circuit must be one of folded, abreast, paper, and 'fast'"):
        run(owner_of, "sim", with_exponential(CGF(), CHAINS[4]), x, style="fast")


def test_a_ciphertext_has_no_exponential(owner_of):
    packed = Packed(None, None, Rows((1, 1, 4, 4), 0, None, np.full(4, 4.0)), ())
    with pytest.raises(UserError, match="no exponential"):
        packed.exp()


def test_flatten_leaves_nothing_of_invalid_entries():
    x, valid = scores(2, 2, 4, 4), causal(4)
    x[:, :, ~valid[0, 0]] = -3e38
    matrix, mask, counts, shape = flatten(x, valid)
    assert np.abs(matrix).max() < 100 and (matrix[~mask] == 0).all() and shape == (2, 2, 4, 4)
    assert counts.tolist() == [1, 2, 3, 4] * 4


# -- public factors -------------------------------------------------------------------------------------

factors = st.floats(0.5, 2.0)


@settings(max_examples=50, deadline=None)
@given(factors, st.lists(st.floats(-1, 1), min_size=1, max_size=5))
def test_rescaled_chain_is_the_same_polynomial(p, constants):
    e = SquareChain("chain", 0.1, 0.9, tuple(constants))
    other, scale = rescaled(e, p)
    for u in np.linspace(-1, 1, 9):
        value, moved = u, p * u
        for a, b in zip(constants, other.constants, strict=True):
            value, moved = value**2 + a, moved**2 + b
        assert scale * moved == pytest.approx(value, rel=1e-9, abs=1e-9)
    assert len(other.constants) == len(constants)


@settings(max_examples=50, deadline=None)
@given(factors, st.lists(st.floats(-1, 1), min_size=2, max_size=8), st.integers(0, 3))
def test_rescaled_polynomial_is_the_same(p, coefficients, k):
    coefficients[1] = 0.5
    e = Polynomial("chebyshev", 0.1, 0.9, tuple(coefficients), k)
    other, scale = rescaled(e, p)
    for u in np.linspace(-1, 1, 9):
        value = sum(c * u**i for i, c in enumerate(coefficients)) ** (2**k)
        moved = sum(c * (p * u) ** i for i, c in enumerate(other.coefficients)) ** (2**other.k)
        assert scale * moved == pytest.approx(value, rel=1e-9, abs=1e-9)


@settings(max_examples=50, deadline=None)
@given(st.integers(2, 300), st.floats(0.005, 0.5), st.integers(2, 7))
def test_folded_integers(n, a, k):
    e = SquareChain("limit", a, 1.0, (0.0,) * k)
    m1, m2, p = fold_integers(e, n)
    assert m1 >= 1 and 1 <= m2 <= 512 and isinstance(m1, int) and isinstance(m2, int)
    assert m1**2 / (2 * n * m2) == pytest.approx(p * a, rel=1e-12)
    grown = p ** (2**k)  # what the public factor becomes at the end of the core
    # within the slack wherever the integers allow it
    allowed = any(
        2**k * abs(math.log(round(math.sqrt(2 * n * m * a)) ** 2 / (2 * n * m * a))) <= 0.05
        for m in range(1, 513)
        if round(math.sqrt(2 * n * m * a)) >= 1
    )
    assert not allowed or abs(math.log(grown)) <= 0.05 + 1e-9
    smaller = [
        m
        for m in range(1, m2)
        if (r := round(math.sqrt(2 * n * m * a))) >= 1 and 2**k * abs(math.log(r * r / (2 * n * m * a))) <= 0.05
    ]
    assert smaller == []  # M2 multiplies noise: no smaller one would have served
