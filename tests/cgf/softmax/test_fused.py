"""CGF-softmax as one operation against its definition: values, gradients, what is kept for the backward pass."""

import pytest
import torch

from cgf.softmax import fused
from cgf.softmax.base import ExponentialSoftmax
from cgf.softmax.cgf import CGF

SHAPE = (2, 3, 7, 9)
MASKS = {
    "none": None,
    "causal": torch.ones(7, 9).tril().bool(),
    "padding": torch.arange(9)[None] < 6,
    "by sample": torch.rand(2, 1, 7, 9, generator=torch.Generator().manual_seed(5)) > 0.4,
    "padded samples": (torch.arange(9) < torch.tensor([4, 9])[:, None])[:, None, None],
    "empty rows": torch.arange(7)[:, None].expand(7, 9) > 2,
}


def scores(scale=1.0, dtype=torch.float64, shape=SHAPE):
    return torch.randn(shape, generator=torch.Generator().manual_seed(1), dtype=dtype) * scale


def outcome(weights_of, x, valid, watched):
    """Weights, exponents and the gradient of something that takes both, y where it counts."""
    softmax, x, seen = CGF(), x.clone().requires_grad_(), []
    if watched:
        softmax.observers.append(lambda s, y, w, v: seen.append(y))
    weights = weights_of(softmax, x, valid)
    factors = scores(shape=x.shape, dtype=x.dtype).roll(1, -1)
    loss = (weights * factors).sum()
    if watched:
        loss = loss + 0.01 * torch.relu(seen[0] + 3.0).square().mean()
    loss.backward()
    return weights.detach(), seen[0].detach() if watched else None, x.grad


@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize("scale", [1.0, 60.0])  # at 60 some weights underflow: ln p would not tell y
@pytest.mark.parametrize("piece", [1, 100, 2**19])
@pytest.mark.parametrize("mask", MASKS)
def test_one_operation_is_the_definition(mask, piece, scale, watched, monkeypatch):
    monkeypatch.setitem(fused.PIECE, "cpu", piece)
    x, valid = scores(scale), MASKS[mask]
    told = outcome(CGF.weights, x, valid, watched)
    expected = outcome(ExponentialSoftmax.weights, x, valid, watched)
    for a, b in zip(told, expected, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-11 * float(b.abs().max()))


def test_weights_that_underflow_are_not_lost_to_the_gradient():
    """A row whose largest entry holds the weight, and the rest none of it that float32 could tell."""
    x = torch.tensor([[0.0, -1.0, -2.0, 30.0]]).repeat(3, 1)
    y = CGF().exponent(fused_rows(x)).data
    assert (y < -100).any()
    told, _, grad = outcome(CGF.weights, x, None, False)
    expected, _, reference = outcome(ExponentialSoftmax.weights, x.double(), None, False)
    torch.testing.assert_close(told.double(), expected, rtol=1e-4, atol=1e-30)
    torch.testing.assert_close(grad.double(), reference, rtol=1e-4, atol=1e-30)


def fused_rows(x):
    from cgf.softmax.tensor import TensorRows

    return TensorRows.of(x, None)


@pytest.mark.parametrize("mask", ["none", "causal"])
@pytest.mark.parametrize("watched", [False, True])
def test_gradients_agree_with_differences(mask, watched):
    def weights(x):
        return tuple(part for part in fused.cgf_weights(x, MASKS[mask], watched) if part is not None)

    torch.autograd.gradcheck(weights, (scores().requires_grad_(),))


def test_half_precision_is_computed_in_float32():
    x = scores(2.0, torch.float32).bfloat16()
    told, _, grad = outcome(CGF.weights, x, MASKS["causal"], False)
    expected, _, reference = outcome(ExponentialSoftmax.weights, x, MASKS["causal"], False)
    assert told.dtype == torch.float32 and grad.dtype == torch.bfloat16
    torch.testing.assert_close(told, expected, rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(grad, reference, rtol=1e-2, atol=1e-6)


def test_minus_infinity_where_not_valid_does_no_harm():
    valid = MASKS["causal"]
    x = scores().masked_fill(~valid, float("-inf"))
    told, _, grad = outcome(CGF.weights, x, valid, False)
    expected, _, reference = outcome(CGF.weights, scores(), valid, False)
    torch.testing.assert_close(told, expected)
    torch.testing.assert_close(grad, reference)


def test_nothing_is_kept_but_the_weights():
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        weights = CGF().weights(
            scores(dtype=torch.float32, shape=(2, 4, 64, 64)).requires_grad_(), torch.ones(64, 64).tril().bool()
        )
    large = [t for t in kept if t.numel() == weights.numel()]
    assert len(large) == 1 and large[0].data_ptr() == weights.data_ptr()
    assert sum(t.numel() for t in kept) < weights.numel() + 3 * 64 * 64


def test_other_orders_and_other_exponentials_take_the_definition(monkeypatch):
    monkeypatch.setattr(fused, "cgf_weights", lambda *a: pytest.fail("the second order alone is one operation"))
    from cgf.approx import fit

    chained = CGF()
    chained.exponential = fit.chain(-16.0, 1.0, 4)
    for softmax in (CGF(order=3), chained):
        assert softmax.weights(scores()).shape == SHAPE
