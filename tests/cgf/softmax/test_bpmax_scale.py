"""BPMax scaled by its typical denominator: the same weights, whatever sign and size the denominators have."""

import warnings

import pytest
import torch

from cgf.errors import UserError
from cgf.softmax.bpmax import EPSILON, BPMax, CalibratedBPMax


@pytest.mark.parametrize("make", [BPMax, CalibratedBPMax])
@pytest.mark.parametrize(
    "denominator",
    [
        torch.full((2, 3, 1), 7e4),
        torch.tensor([[-3.0], [0.0], [5e5]]).expand(2, 3, 1),  # an odd power of scores below -c; no key at all
        torch.zeros(2, 3, 1),
        torch.full((2, 1, 1), 1e-3),  # positions beyond keep R = 1
        None,
    ],
    ids=["usual", "signs", "zero", "short", "none"],
)
def test_weights_are_powers_over_denominators(make, denominator):
    softmax = make()
    softmax.denominator = denominator
    scores = torch.randn(2, 2, 3, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    divisor = torch.ones(2, 3, 1, dtype=torch.float64)
    if denominator is not None:
        divisor[:, : denominator.shape[1]] = denominator.double()
    wanted = (scores + 5.0) ** 5 / (divisor + EPSILON)
    torch.testing.assert_close(softmax.weights(scores), wanted, rtol=1e-9, atol=0.0)
    torch.testing.assert_close(softmax.reading(scores, None), wanted, rtol=1e-9, atol=0.0)
    assert softmax.typical > 0 and softmax.public_scale(None) == pytest.approx(softmax.typical**-0.2)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -EPSILON])
def test_a_denominator_that_divides_nothing_is_named(value):
    softmax = BPMax()
    softmax.layer, softmax.denominator = 4, torch.ones(2, 3, 1, dtype=torch.float64)
    softmax.denominator[1, 2] = value
    for use in (lambda: softmax.weights(torch.ones(1, 2, 3, 3)), lambda: softmax.roots(3)):
        with pytest.raises(UserError, match=r"layer 4 of bpmax cannot divide by .* head 1 at query position 2"):
            use()
    softmax.weights(torch.ones(1, 2, 2, 2))  # rows that do not reach it


def test_positions_that_training_did_not_reach_are_told():
    softmax = BPMax()
    softmax.denominator = torch.full((2, 3, 1), 50.0)
    with pytest.warns(
        UserWarning, match=r"bpmax measured its denominators on 3 query positions, and these rows have m"
    ):
        softmax.weights(torch.ones(1, 2, 4, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        softmax.weights(torch.ones(1, 2, 3, 5))
