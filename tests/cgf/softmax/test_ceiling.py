"""The ceiling of CGF-softmax: exp stops growing there while training, and nowhere else."""

import pytest
import torch

from cgf.errors import UserError
from cgf.softmax.base import ExponentialSoftmax
from cgf.softmax.cgf import CGF
from cgf.softmax.chain_cgf import ChainCGF
from cgf.softmax.unit_cgf import UnitChainCGF

ROW = torch.tensor([[8.0] + 31 * [0.0]])  # one score above all others: its y is 3.3 by two cumulants, 0.9 by three


def told(softmax):
    """Weights, what an observer saw and the gradient of the weight that runs off."""
    x, seen = ROW.clone().requires_grad_(), []
    softmax.observers.append(lambda s, y, w, v: seen.append(y))
    weights = softmax.weights(x)
    weights[0, 0].backward()
    return weights.detach(), seen[0].detach(), x.grad


@pytest.mark.parametrize("order", [2, 3])
def test_training_cuts_the_weights_and_observers_see_the_exponent(order):
    free, y, slope = told(CGF(order=order))
    ceiling = float(y.max()) - 0.5
    softmax = CGF(order=order, ceiling=ceiling)
    softmax.training = True
    weights, seen, cut = told(softmax)
    assert ceiling > 0 and torch.allclose(seen, y) and float(slope.abs().max()) > 0.1
    assert torch.allclose(weights, y.clamp(max=ceiling).exp()) and not torch.allclose(weights, free)
    assert float(cut.abs().max()) == 0.0  # no gradient but that of whoever sees y


@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize("mask", [None, torch.ones(9, 32).tril(20).bool()])
def test_one_operation_is_the_definition(mask, watched):
    """The fused weights and their gradient are those of the formula, with entries above the ceiling and below."""
    scores, outcomes = torch.randn(2, 3, 9, 32, generator=torch.Generator().manual_seed(4)).double() * 4, []
    for weights_of in (CGF.weights, ExponentialSoftmax.weights):
        softmax, x, seen = CGF(ceiling=0.5), scores.clone().requires_grad_(), []
        softmax.training = True
        if watched:
            softmax.observers.append(lambda s, y, w, v, seen=seen: seen.append(y))
        weights = weights_of(softmax, x, mask)
        loss = (weights * scores.roll(1, -1)).sum() + (torch.relu(seen[0]).square().sum() if watched else 0.0)
        loss.backward()
        outcomes.append((weights.detach(), x.grad))
    (weights, grad), (expected, reference) = outcomes
    assert 0 < int((weights > 1.648).sum()) < weights.numel() / 10
    torch.testing.assert_close(weights, expected)
    torch.testing.assert_close(grad, reference)


@pytest.mark.parametrize("order", [2, 3])
def test_an_evaluation_never_cuts(order):
    free, _, slope = told(CGF(order=order))
    assert free.max() > 1.2 > torch.tensor(0.1).exp()
    weights, _, same = told(CGF(order=order, ceiling=0.1))
    assert torch.equal(weights, free) and torch.equal(same, slope)


def test_rows_below_the_ceiling_are_what_they_were():
    softmax = CGF(ceiling=9.0)
    softmax.training = True
    for told_of, expected in zip(told(softmax), told(CGF()), strict=True):
        torch.testing.assert_close(told_of, expected)


@pytest.mark.parametrize("ceiling", [-0.1, 88.1, 1e300, float("nan"), float("inf"), "high", True])
def test_a_ceiling_that_is_none(ceiling):
    with pytest.raises(UserError, match="from 0 to 88, or null"):
        CGF(ceiling=ceiling)


@pytest.mark.parametrize("make", [ChainCGF, UnitChainCGF])
def test_a_chain_in_the_loop_is_cut_there_too(make):
    """Its clamp around the domain took the ceiling's place, so that a ceiling changed nothing."""
    softmax, outcomes = make(ceiling=0.0), []
    softmax.training = True
    for ceiling in (0.0, None):
        softmax.ceiling = ceiling
        outcomes.append(softmax.weights(ROW)[0, 0].item())
    assert outcomes[0] < outcomes[1] - 0.01
    softmax.training, softmax.ceiling = False, 0.0
    free = make()
    free.training = False
    assert torch.equal(softmax.weights(ROW), free.weights(ROW))
