"""What noise weights may have: that of their own head and sample, on every engine."""

import numpy as np
import pytest
import torch
from test_guards import Noisy, seen

from cgf.he.engines.desilo import DesiloOwner
from cgf.he.engines.openfhe import OpenFHEOwner
from cgf.he.engines.sim import SimOwner
from cgf.he.party import TENFOLD
from cgf.softmax.bpmax import BPMax


def test_the_noise_that_a_head_may_have_is_that_of_its_own_weights():
    scores = torch.full((1, 2, 4, 16), -4.5, dtype=torch.float64)
    scores[:, 0] = 0.0  # weights of 5^5, beside those of 0.5^5 in head 1, whose slots are noisy
    record = seen(BPMax(), scores, Noisy)
    assert record.heads.wrong[0] == 0 < record.heads.wrong[1]


class Ruining(Noisy):
    """Gives a NaN in a row of the second sample too."""

    def decrypt(self, ct):
        slots = super().decrypt(ct)
        slots[9] = np.nan
        return slots

    def decrypt_pair(self, ct):
        real, imaginary = super().decrypt_pair(ct)
        real[9] = np.nan
        return real, imaginary


def test_a_ruined_sample_gives_the_others_no_room():
    scores = torch.full((2, 2, 4, 16), -4.5, dtype=torch.float64)
    scores[1] = 10.0  # weights of 15^5, in the heads of the first sample's, whose slots are noisy
    record = seen(BPMax(), scores, Ruining)
    assert record.ruined == {1} and record.heads.wrong[1] > 0


def test_weights_that_the_model_cannot_hold_ruin_their_sample():
    scores = torch.zeros(2, 1, 2, 4)  # of float32, as the model's weights are
    scores[1, 0, 0, 0] = 1e8  # a weight of 1e40, which float64 holds
    assert seen(BPMax(), scores).ruined == {1}


@pytest.mark.parametrize("owner", [SimOwner, DesiloOwner, OpenFHEOwner])
def test_a_weight_that_is_off_by_more_than_a_thousandth_is_wrong_on_every_engine(owner):
    assert 0 < TENFOLD * owner.library.noise <= 1e-3
