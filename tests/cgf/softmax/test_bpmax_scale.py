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
    softmax.layer, softmax.denominator = 4, torch.full((2, 3, 1), 2.0, dtype=torch.float64)
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


def test_a_position_without_a_key_keeps_its_running_mean():
    """Rows padded on the left have no key at their first positions: R there moved towards 0, and weights grew."""
    full = torch.ones(6, 6, dtype=torch.bool).tril().expand(4, 1, 6, 6).clone()
    left = full.clone()
    left[..., :2] = False  # whichever row: no key at positions 0 and 1
    softmax = CalibratedBPMax(p=3)
    softmax.training = True
    generator = torch.Generator().manual_seed(0)

    def batch(mask):
        softmax.weights(torch.randn(4, 1, 6, 6, generator=generator), mask)
        return softmax.denominator.clone()

    first = batch(left)
    assert (first[:, :2] == 1.0).all() and (first[:, 2:] > 50).all()
    softmax.training = False
    with pytest.warns(UserWarning, match=r"bpmax_calibrated measured no denominator at 2 of 6 query positions"):
        softmax.weights(torch.ones(1, 1, 6, 6), full[:1])
    softmax.training = True
    reached = batch(full)  # starts at the batch's own, not at a twentieth of it
    assert (reached[:, :2] > 50).all()
    for _ in range(40):
        last = batch(left)
    torch.testing.assert_close(last[:, :2], reached[:, :2], rtol=0.0, atol=0.0)
    assert (last[:, 2:] != reached[:, 2:]).all()


def test_processes_that_did_not_reach_a_position_do_not_count_there():
    one, other = torch.tensor([[[1.0], [4.0], [1.0]]]), torch.tensor([[[6.0], [8.0], [1.0]]])
    merged = CalibratedBPMax.merge([one, other], [1.0, 3.0])
    torch.testing.assert_close(merged, torch.tensor([[[6.0], [7.0], [1.0]]]))
    torch.testing.assert_close(CalibratedBPMax.merge([one[:, 1:2], other[:, 1:2]], [1.0, 3.0]), merged[:, 1:2])
