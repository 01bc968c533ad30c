"""Absent keys and keys of padding that hold the mean of an instance's keys: no level, and the outputs of the others."""

import functools

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the readings in the clear are tensors")
from test_attention import CHAIN, causal, cgf, encrypted, forced, in_the_clear, layer  # noqa: E402

from cgf.approx import fit  # noqa: E402
from cgf.approx.chain import SquareChain  # noqa: E402
from cgf.approx.exponential import Fit  # noqa: E402
from cgf.approx.head_chain import HeadChain  # noqa: E402
from cgf.approx.polynomial import Polynomial  # noqa: E402
from cgf.approx.unit_size import of_unit_size  # noqa: E402
from cgf.he import attention_run  # noqa: E402
from cgf.he.attention_blocks import spread_of  # noqa: E402
from cgf.he.circuits import MOST_GROWN, takes_means  # noqa: E402
from cgf.he.engines.desilo import DesiloOwner  # noqa: E402
from cgf.he.engines.sim import SimOwner  # noqa: E402
from cgf.he.tile import Tile  # noqa: E402
from cgf.network.attention import Heads  # noqa: E402
from cgf.softmax.taylor import TaylorCGF  # noqa: E402

BY_HEAD = HeadChain(
    "chain", tuple(SquareChain("chain", 0.9 / 8, 0.95 + 0.01 * h, (0.05, -0.02 - 0.005 * h, 0.016)) for h in range(3))
)


def of_lengths(lengths, heads=3, seed=0, left=False):
    n = max(lengths)
    whole = layer(len(lengths), heads, n, 4, seed=seed)
    valid = np.arange(n) < np.array(lengths)[:, None]
    valid = np.ascontiguousarray(valid[:, ::-1]) if left else valid
    return Heads(whole.query, whole.key, whole.value, whole.scaling, valid[:, None, None, :])


def softmax_of(exponential):
    softmax = cgf()
    softmax.exponential = exponential
    return softmax


@pytest.mark.parametrize("n", [*range(1, 41), 197])
def test_full_rows_take_three_levels_and_those_of_the_chain_for_every_count_of_keys(n):
    few = (1, 1) if n > 40 else (2, 3)
    heads = layer(*few, n, 4, seed=n)
    outputs, needs, seen = encrypted(cgf(), heads)
    np.testing.assert_allclose(outputs, in_the_clear(cgf(), heads), rtol=0, atol=1e-9 * np.abs(outputs).max())
    assert needs.levels == seen.levels == 3 + CHAIN.k and set(needs.circuits.values()) == {"folded"}
    assert seen.circuits == {"folded": heads.instances * n * n} and seen.overflow == 0


@pytest.mark.parametrize("b", [1, 2, 4, 8])
def test_any_tile_gives_the_same(b):
    heads = layer(2, 3, 13, 4)
    needs = forced(cgf(), heads, Tile(6, 8192, 5, b), True, means=True)
    owner = SimOwner(needs.max_level)
    task = needs.task(heads, np.arange(6))
    outputs, seen = attention_run.run(needs, owner, owner.evaluator(needs.rotations, True), cgf(), task)
    np.testing.assert_allclose(outputs.reshape(2, 3, 13, 4), in_the_clear(cgf(), heads), rtol=0, atol=1e-9)
    assert seen.levels == needs.levels == 6 and task.absent == (-13) % b


@pytest.mark.parametrize("exponential", [CHAIN, BY_HEAD], ids=["chain", "by head"])
@pytest.mark.parametrize("lengths", [(7, 9, 12), (20, 20, 17, 31), (5, 10), (1, 2), (40, 21)])
@pytest.mark.parametrize("left", [False, True])
def test_padding_takes_no_level_either(exponential, lengths, left):
    softmax, heads = softmax_of(exponential), of_lengths(lengths, left=left)
    outputs, needs, seen = encrypted(softmax, heads)
    np.testing.assert_allclose(outputs, in_the_clear(softmax, heads), rtol=0, atol=1e-9)
    assert needs.levels == seen.levels == 6 and needs.means and seen.overflow == 0
    assert seen.circuits == {"folded": 3 * sum(n * max(lengths) for n in lengths)}


def test_on_ciphertexts_the_noise_is_that_of_rows_of_one_length():
    heads = of_lengths((6, 9, 12))
    outputs, _, _ = encrypted(cgf(), heads, functools.partial(DesiloOwner, mode="cpu"))
    wanted = in_the_clear(cgf(), heads)
    assert 0 < np.abs(outputs - wanted).max() < 1e-5 * np.abs(wanted).max()


def test_grouped_queries_have_the_mean_of_their_own_keys():
    whole = layer(2, 4, 11, 4, g=2)
    valid = (np.arange(11) < np.array([7, 11])[:, None])[:, None, None, :]
    heads = Heads(whole.query, whole.key, whole.value, whole.scaling, valid)
    outputs, needs, _ = encrypted(cgf(), heads)
    np.testing.assert_allclose(outputs, in_the_clear(cgf(), heads), rtol=0, atol=1e-9)
    assert needs.levels == 6


def test_where_weights_would_grow_too_far_rows_are_masked():
    assert takes_means(cgf(), "folded") == MOST_GROWN ** (1 / 2**CHAIN.k) == 2.0
    heads = of_lengths((4, 12))  # three times as long
    outputs, needs, seen = encrypted(cgf(), heads)
    np.testing.assert_allclose(outputs, in_the_clear(cgf(), heads), rtol=0, atol=1e-9)
    assert needs.levels == seen.levels == 7 and set(seen.circuits) == {"masked"} and not needs.means


def test_a_polynomial_takes_means_for_absent_keys_and_not_for_padding():
    softmax = softmax_of(fit.chebyshev(-24.0, 3.0, 15, 1))
    assert takes_means(softmax, "folded") == 1.0
    for heads, circuit in ((layer(2, 3, 13, 4), "folded"), (of_lengths((9, 13)), "masked")):
        outputs, _, seen = encrypted(softmax, heads)
        np.testing.assert_allclose(outputs, in_the_clear(softmax, heads), rtol=0, atol=1e-9)
        assert set(seen.circuits) == {circuit}


def test_what_takes_no_means():
    assert takes_means(cgf(), "paper") == takes_means(cgf(order=3), "folded") == takes_means(cgf(), "abreast") == 0.0
    every = np.arange(6)
    masked = layer(2, 3, 5, 4, mask=causal(5))
    assert spread_of(masked, every) == np.inf and spread_of(layer(2, 3, 5, 4), every) == 1.0
    assert spread_of(of_lengths((3, 6)), every) == 2.0 and spread_of(of_lengths((3, 6)), every[:3]) == 1.0


@pytest.mark.parametrize("mask", [None, causal(12)], ids=["full", "causal"])
def test_a_polynomial_of_small_weights_keeps_its_digits(mask):
    """Taylor about -10: weights of 5e-5. Unscaled the error was 5e-5 of the largest output."""
    softmax, heads = TaylorCGF(), layer(2, 3, 12, 4, mask=mask)
    assert of_unit_size(softmax.exponential)[1] == pytest.approx(np.exp(-10) * (1 + 2 + 2 + 8 / 6))
    outputs, _, seen = encrypted(softmax, heads, functools.partial(DesiloOwner, mode="cpu"))
    wanted = in_the_clear(softmax, heads)
    assert 0 < np.abs(outputs - wanted).max() < 1e-6 * np.abs(wanted).max() and seen.levels == seen.levels_counted


def test_other_exponentials_stay_as_they_are():
    wide = fit.chebyshev(-24.0, 3.0, 15, 1)
    assert of_unit_size(wide) == (wide, 1.0) and of_unit_size(CHAIN) == (CHAIN, 1.0)
    low = fit.taylor(3, -10.0)
    scaled, size = of_unit_size(low)
    u = np.linspace(-2, 2, 9)
    np.testing.assert_allclose(size * scaled.core(u), low.core(u), rtol=1e-12)
    squared = Polynomial("fitted", 1.0, 10.0, (0.01, 0.004, 0.002), k=2)
    scaled, size = of_unit_size(squared)
    assert size < 1e-6 and np.abs(scaled.core(np.linspace(-2, 2, 65))).max() == pytest.approx(1.0)
    np.testing.assert_allclose(size * scaled.core(u), squared.core(u), rtol=1e-12)
    monic = Polynomial("fitted", 0.1, 0.2, (0.01, 0.0, 1.0), fit=Fit((-2.0, 0.0), (-2.0, 0.0), 1.0, 0.0))
    assert of_unit_size(monic) == (monic, 1.0)  # its leading 1 takes no level, and another factor would
