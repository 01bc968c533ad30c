"""What holds for every CGF-softmax, and for every softmax whatever the surroundings it runs in."""

import copy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from cgf.config import build
from cgf.errors import UserError
from cgf.softmax.bpmax import BPMax, CalibratedBPMax
from cgf.softmax.cgf import CGF
from cgf.softmax.chain_cgf import ChainCGF
from cgf.softmax.exact import Exact
from cgf.softmax.published.base import Published
from cgf.softmax.published.two_relu import TwoReLU
from cgf.softmax.taylor import TaylorCGF

ROOT = Path(__file__).parents[3]
CONFIGS = sorted((ROOT / "configs" / "softmax").glob("*.yaml"))
ROWS = st.lists(st.floats(-4, 4), min_size=1, max_size=16)
ORDERS = st.sampled_from([2, 3, 4])


def approximates_exact(softmax):
    """A published way to compute exact softmax: its weights are exact's, and what is its own is the reading."""
    return type(softmax).weights is Published.weights


@pytest.fixture(params=CONFIGS, ids=lambda p: p.stem)
def softmax(request):
    return build(OmegaConf.load(request.param))


@pytest.fixture(params=[p for p in CONFIGS if not approximates_exact(build(OmegaConf.load(p)))], ids=lambda p: p.stem)
def defined(request):
    """One that has a definition of its own."""
    return build(OmegaConf.load(request.param))


def draw(*shape, seed=5, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def weights_of(softmax, row):
    return softmax.weights(torch.tensor(row, dtype=torch.float64)[None])[0].numpy()


# -- CGF-softmax ----------------------------------------------------------------------------------------


@settings(max_examples=80, deadline=None)
@given(ROWS, ORDERS)
def test_the_row_sum_is_the_cumulant_series_error(row, order):
    """ln sum_i w_i = (ln mean exp x) - K: the series against the logarithm that it truncates."""
    x = np.array(row)
    centred = x - x.mean()
    m2, m3, m4 = (np.mean(centred**j) for j in (2, 3, 4))
    series = x.mean() + m2 / 2 + (m3 / 6 if order > 2 else 0) + ((m4 - 3 * m2 * m2) / 24 if order > 3 else 0)
    wanted = np.log(np.mean(np.exp(x))) - series
    assert np.log(weights_of(CGF(order=order), row).sum()) == pytest.approx(wanted, rel=1e-9, abs=1e-9)


@settings(max_examples=80, deadline=None)
@given(ROWS, ORDERS, st.floats(-30, 30))
def test_shift_order_ratios_and_positivity_at_every_order(row, order, shift):
    x, w = np.array(row), weights_of(CGF(order=order), row)
    assert (w > 0).all()
    np.testing.assert_allclose(w[:, None] / w[None], np.exp(x[:, None] - x[None]), rtol=1e-9)
    np.testing.assert_allclose(weights_of(CGF(order=order), x - shift), w, rtol=1e-7)
    bigger = x[:, None] > x[None] + 1e-9
    assert (w[:, None] > w[None])[bigger].all()


@settings(max_examples=60, deadline=None)
@given(ROWS, ORDERS, st.integers(0, 8))
def test_domain_scaling_at_every_order(row, order, k):
    """exp(y / 2^k)^(2^k), run as the formula's exponential by k squarings, is exp(y)."""

    def scaled(y):
        value = (y * 2.0**-k).exp()
        for _ in range(k):
            value = value.square()
        return value

    plain, squared = CGF(order=order), CGF(order=order)
    squared.exponential = scaled
    np.testing.assert_allclose(weights_of(squared, row), weights_of(plain, row), rtol=1e-9)


@settings(max_examples=40, deadline=None)
@given(st.floats(-20, 20), st.integers(1, 16), ORDERS)
def test_equal_scores_share_equally(value, n, order):
    np.testing.assert_allclose(weights_of(CGF(order=order), [value] * n), np.full(n, 1 / n), rtol=1e-9)


def test_second_order_is_exact_for_gaussian_rows_in_the_limit():
    row = np.random.default_rng(0).normal(1.5, 0.7, 200_000)
    assert weights_of(CGF(), row).sum() == pytest.approx(1, abs=0.01)


def test_the_taylor_variant_meets_the_exponential_at_its_centre_and_nowhere_else():
    row = np.zeros(16)  # y = -ln 16 at every entry
    for degree in (1, 3, 5):
        near = weights_of(TaylorCGF(degree=degree, x0=float(-np.log(16))), row)
        np.testing.assert_allclose(near, np.full(16, 1 / 16), rtol=1e-12)
    away = [abs(weights_of(TaylorCGF(degree=d, x0=-4.0), row)[0] - 1 / 16) for d in (1, 3, 5)]
    assert away[0] > away[1] > away[2] > 1e-6


# -- the surroundings -----------------------------------------------------------------------------------


def test_every_form_of_the_same_mask_gives_the_same_weights(softmax):
    scores, row = draw(2, 3, 4, 5), torch.tensor([True, True, False, True, False])
    weights = softmax.reading if approximates_exact(softmax) else softmax.weights
    wanted = weights(scores, row.expand(2, 3, 4, 5).clone())
    for shape in ((5,), (1, 5), (4, 5), (1, 1, 5), (1, 1, 1, 5), (2, 1, 1, 5), (2, 3, 1, 5), (1, 1, 4, 5)):
        assert torch.equal(weights(scores, row.expand(shape).clone()), wanted), shape
    assert (wanted[..., ~row] == 0).all() and wanted[..., row].any((-1, -2)).all()
    full = weights(scores, torch.ones(1, dtype=torch.bool).expand(5))
    close(full, weights(scores), approximates_exact(softmax))


def close(found, wanted, of_polynomials):
    """To rounding, which an iteration for 1 / x multiplies."""
    rtol, atol = (1e-8, 1e-12) if of_polynomials else (1e-12, 0)
    torch.testing.assert_close(found, wanted, rtol=rtol, atol=atol)


def test_longer_padding_changes_nothing(softmax):
    scores = draw(2, 3, 4, 5)
    longer = torch.cat([scores, torch.full((2, 3, 4, 6), 1e4, dtype=torch.float64)], -1)
    valid = torch.arange(11) < 5
    weights_of = softmax.reading if approximates_exact(softmax) else softmax.weights
    weights = weights_of(longer, valid.expand(2, 1, 1, 11))
    close(weights[..., :5], weights_of(scores), approximates_exact(softmax))
    assert (weights[..., 5:] == 0).all()


@pytest.mark.parametrize("training", [False, True])
def test_autocast_does_not_lower_the_precision(defined, training):
    softmax = defined
    softmax.training = training
    scores, valid = draw(2, 3, 6, 6, dtype=torch.float32), torch.ones(6, 6, dtype=torch.bool).tril()
    plain = copy.deepcopy(softmax).weights(scores, valid)
    with torch.autocast("cpu", torch.bfloat16):
        within = softmax.weights(scores, valid)
    assert within.dtype == torch.float32 and torch.equal(within, plain)


def test_rows_without_a_valid_entry_have_finite_gradients(defined):
    softmax = defined
    for training in (False, True):
        softmax.training = training
        scores, valid = draw(2, 3, 4, 4).requires_grad_(), torch.zeros(2, 1, 4, 4, dtype=torch.bool)
        valid[0, 0, 2, 1] = True  # the one valid entry: BPMax's training denominator sees all keys, others none
        weights = softmax.weights(scores, valid)
        counts = torch.ones(3, dtype=torch.bool) if softmax.name != "relu" else scores[0, :, 2, 1] > 0
        assert counts.any() and (weights[1] == 0).all() and (weights[0, counts, 2, 1] != 0).all()
        (weights * draw(2, 3, 4, 4, seed=6)).sum().backward()
        assert torch.isfinite(scores.grad).all()
        if not isinstance(softmax, BPMax):
            assert (scores.grad[~valid.expand_as(scores)] == 0).all()


def test_tensors_go_back_where_they_came_from(softmax):
    softmax.training = True
    softmax.weights(draw(2, 3, 4, 4))
    tensors, fresh = softmax.tensors(), copy.deepcopy(softmax)
    assert bool(tensors) == isinstance(softmax, BPMax | ChainCGF)
    if isinstance(softmax, ChainCGF):  # constants that a checkpoint lacks would be silently those of the fit
        tensors = {**tensors, "beta": tensors["beta"] + 0.125}
        with pytest.raises(UserError, match="has \\[\\]"):
            fresh.load_tensors({})
        softmax.load_tensors(tensors)
    else:
        fresh.load_tensors({})
        assert getattr(fresh, "denominator", None) is None
    if tensors:
        fresh.load_tensors(tensors)
    fresh.training = softmax.training = False
    assert torch.equal(fresh.weights(draw(1, 3, 4, 4, seed=8)), softmax.weights(draw(1, 3, 4, 4, seed=8)))
    with pytest.raises(UserError, match="'?nonsense"):  # noqa: RUF043
        fresh.load_tensors({"nonsense": torch.ones(1)})


def test_observers_see_the_exponent_of_valid_entries():
    softmax, seen = CGF(order=3), []
    softmax.observers.append(lambda *what: seen.append(what))
    valid = torch.ones(6, 6, dtype=torch.bool).tril()
    weights = softmax.weights(draw(2, 3, 6, 6), valid)
    ((who, y, observed, mask),) = seen
    assert who is softmax and mask is valid and torch.equal(observed, weights)
    torch.testing.assert_close(y.exp()[..., valid], weights[..., valid])


@pytest.mark.parametrize(
    "make, says",
    [
        (lambda: CalibratedBPMax(momentum=1.0), "momentum=1.0"),
        (lambda: CalibratedBPMax(momentum=-0.1), "momentum=-0.1"),
        (lambda: CalibratedBPMax(p=2), "odd power"),
        (lambda: BPMax(p=2.5), "p=2.5"),
        (lambda: BPMax(p=True), "p=True"),
        (lambda: TwoReLU(degree=True), "whole degree, and has .* True"),
        (lambda: TaylorCGF(order=7), "order=7"),
        (lambda: BPMax().weights(torch.ones(4, 4)), r"scores \(..., H, Q, K\)"),
    ],
)
def test_what_a_softmax_refuses(make, says):
    with pytest.raises(UserError, match=says):
        make()


def test_exact_bears_scores_that_overflow_a_naive_exponential():
    scores = torch.tensor([[[[1000.0, 999.0, -1000.0]]]])
    e = np.exp(-1.0)
    np.testing.assert_allclose(Exact().weights(scores)[0, 0, 0].numpy(), [1 / (1 + e), e / (1 + e), 0], rtol=1e-6)


# -- BPMax, through its training ------------------------------------------------------------------------


def test_bpmax_keeps_its_last_batch_and_not_the_largest():
    softmax, large, small = BPMax(p=3, c=6.0), draw(4, 2, 3, 3) + 3, draw(2, 2, 3, 3, seed=9) - 1
    softmax.training = True
    softmax.weights(large)
    softmax.weights(small)
    wanted = ((small.numpy() + 6) ** 3).sum(-1).max(0)
    np.testing.assert_allclose(softmax.tensors()["denominator"][..., 0].numpy(), wanted, rtol=1e-12)
    softmax.training = False
    before = softmax.denominator.clone()
    softmax.weights(large)
    assert torch.equal(softmax.denominator, before), "evaluation must not measure"


def test_calibrated_bpmax_leaves_empty_rows_out_of_its_mean():
    softmax, scores, valid = CalibratedBPMax(p=1, c=5.0), draw(3, 1, 2, 4), torch.ones(3, 1, 2, 4, dtype=torch.bool)
    valid[2] = False
    softmax.training = True
    softmax.weights(scores, valid)
    wanted = (scores.numpy()[:2] + 5).sum(-1).mean(0)
    np.testing.assert_allclose(softmax.denominator[..., 0].numpy(), wanted, rtol=1e-12)


# -- without torch --------------------------------------------------------------------------------------


def test_the_definitions_load_without_torch():
    files = [p for folder in ("softmax", "he", "approx") for p in (ROOT / "cgf" / folder).glob("*.py")]
    with_torch = ("__init__", "tensor", "fused", "encrypted", "encrypted_attention", "desilo")
    names = [f"cgf.{p.parent.name}.{p.stem}" for p in files if p.stem not in with_torch]
    assert {"cgf.softmax.load", "cgf.softmax.bpmax", "cgf.he.packed", "cgf.approx.fit"} <= set(names)
    code = f"""
import importlib, sys
for name in ("torch", "transformers", "timm", "hydra", "desilofhe"):
    sys.modules[name] = None
for name in {names!r}:
    importlib.import_module(name)
from cgf.softmax.load import softmax_from_json
print(softmax_from_json({{"_target_": "cgf.softmax.taylor.TaylorCGF", "variant": "taylor", "degree": 5}}).degree)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stdout == "5\n", done.stderr
