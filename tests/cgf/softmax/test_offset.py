"""Rows of float32 far from zero: their mean loses digits that the weights must not."""

import pytest
import torch

from cgf.softmax.base import ExponentialSoftmax
from cgf.softmax.cgf import CGF
from cgf.softmax.chain_cgf import ChainCGF
from cgf.softmax.tensor import FAR

N = 24
MASKS = {"full": None, "causal": torch.ones(N, N, dtype=torch.bool).tril()}
READINGS = {
    "one operation": (CGF.weights, CGF),
    "the definition": (ExponentialSoftmax.weights, CGF),
    "three cumulants": (CGF.weights, lambda: CGF(order=3)),
    "four cumulants": (CGF.weights, lambda: CGF(order=4)),
    "in the loop": (CGF.weights, ChainCGF),
}


def scores(offset):
    """(2, 3, N, N) in float32 about the offset, which is what every reading is given."""
    g = torch.Generator().manual_seed(4)
    return (torch.randn(2, 3, N, N, generator=g, dtype=torch.float64) + offset).float()


def outcome(reading, x, valid):
    """Weights and gradient; in training, where a chain too is read in float32."""
    weights_of, make = READINGS[reading]
    softmax, x = make(), x.clone().requires_grad_()
    softmax.training = True
    weights = weights_of(softmax, x, valid)
    (weights * scores(0.0).roll(1, -1)).sum().backward()
    return weights.detach().double(), x.grad.double()


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("offset", [1e3, -1e4, 1e5])
@pytest.mark.parametrize("reading", READINGS)
def test_a_common_offset_costs_no_digits(reading, offset, mask):
    x, valid = scores(offset), MASKS[mask]
    for found, wanted in zip(outcome(reading, x, valid), outcome(reading, x.double(), valid), strict=True):
        assert float((found - wanted).abs().max()) < 4e-6 * float(wanted.abs().max())


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("reading", READINGS)
def test_rows_beside_one_that_lies_far_stay_bit_for_bit(reading, mask):
    x = scores(3.0)
    plain, moved = outcome(reading, x, MASKS[mask]), x.clone()
    moved[1, 2, 5] += 4 * FAR
    for found, wanted in zip(outcome(reading, moved, MASKS[mask]), plain, strict=True):
        same = torch.ones(2, 3, N, dtype=torch.bool)
        same[1, 2, 5] = False
        assert torch.equal(found[same], wanted[same])


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("order", [2, 3])
def test_gradients_of_rows_that_lie_far_agree_with_differences(order, mask, monkeypatch):
    """In float64, which differences need, the second pass is made to act on some rows."""
    for module in ("tensor", "fused"):
        monkeypatch.setattr(f"cgf.softmax.{module}.far_from_zero", lambda mean: mean.abs() > 2.0)
    x = torch.randn(1, 2, 5, 5, generator=torch.Generator().manual_seed(2), dtype=torch.float64) + 2
    valid = None if MASKS[mask] is None else MASKS[mask][:5, :5]
    torch.autograd.gradcheck(lambda s: CGF(order=order).weights(s, valid), (x.requires_grad_(),))
