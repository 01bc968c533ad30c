"""BPMax scaled by its typical denominator: the same weights, whatever sign and size the denominators have."""

import pytest
import torch

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
