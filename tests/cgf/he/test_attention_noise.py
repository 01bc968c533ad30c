"""Outputs of a whole attention that are off by more than noise: by head, whatever another head or sample holds."""

import numpy as np
import pytest
from test_attention import layer, slot_of, through

from cgf.he.engines.sim import SimOwner
from cgf.network.attention import Heads


class Noisy(SimOwner):
    """Decrypts every slot with an error a hundred times what the simulator states."""

    def decrypt_pair(self, ct):
        real, imaginary = super().decrypt_pair(ct)
        return real + 1e-6, imaginary


def noisy(heads):
    slot = slot_of(Noisy)
    through(slot, heads)
    return slot.take_record().heads.wrong


def test_outputs_off_by_more_than_noise_are_wrong_by_head():
    heads = layer(2, 2, 5, 4)
    assert noisy(heads).min() > 0
    heads.value[:, 0] *= 1e4  # values as large as that leave room for the noise, in their own head alone
    wrong = noisy(heads)
    assert wrong[0] == 0 < wrong[1]


@pytest.mark.parametrize("gone", ["value", "query"])
def test_a_sample_that_came_ruined_gives_the_outputs_of_others_no_room(gone):
    heads = layer(3, 2, 5, 4)
    alone = noisy(Heads(*(np.delete(x, 1, 0) for x in (heads.query, heads.key, heads.value)), heads.scaling, None))
    getattr(heads, gone)[1] = np.nan
    assert noisy(heads).tolist() == alone.tolist() and alone.min() > 0


class Ruining(Noisy):
    """Gives no number for what is far too large."""

    def decrypt_pair(self, ct):
        real, imaginary = super().decrypt_pair(ct)
        return np.where(np.abs(real) > 1e6, np.nan, real), imaginary


def test_a_sample_that_is_ruined_here_gives_the_outputs_of_others_no_room():
    heads = layer(2, 2, 5, 4)
    heads.query[1] *= 1e3  # exponents far below the chain's interval, and weights of 1e20 in the clear
    slot = slot_of(Ruining)
    through(slot, heads)
    record = slot.take_record()
    assert record.ruined == {1} and record.heads.wrong.min() > 0
