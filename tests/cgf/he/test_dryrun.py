"""The choice of layout, circuit and ring: padding columns change neither the circuit asked for nor the ring."""

import numpy as np
import pytest

from cgf.approx import fit
from cgf.he.dryrun import dry_run
from cgf.he.score_rows import Rows
from cgf.softmax.cgf import CGF


@pytest.mark.parametrize(
    "style, lo, k, circuit, ciphertexts",
    [
        ("folded", -16.0, 3, "masked", 21),  # half the ciphertexts for one level
        ("paper", -16.0, 3, "algorithm-1", 41),  # the circuit that was asked for, though it takes 41
        ("abreast", -16.0, 3, "abreast", 41),
        ("folded", -64.0, 6, "folded", 41),  # a level more would take the larger ring
    ],
)
def test_seven_texts_of_41_tokens(style, lo, k, circuit, ciphertexts):
    """3,444 rows of an odd number of columns; with a gap of 4,096 two columns a ciphertext, and one of padding."""
    softmax = CGF()
    softmax.exponential = fit.chain(lo, 0.0, k)
    needs = dry_run(softmax, Rows((7, 12, 41, 41), 0, None, np.full(3444, 41.0)), 41, style)
    assert (needs.circuit.name, needs.layout.ciphertexts, needs.layout.slots) == (circuit, ciphertexts, 8192)
    assert (needs.layout.padding_columns > 0) == (circuit == "masked")


def test_an_engine_of_too_few_levels_does_without_padding_columns():
    softmax = CGF()
    softmax.exponential = fit.chain(-16.0, 0.0, 3)
    rows = Rows((7, 12, 41, 41), 0, None, np.full(3444, 41.0))
    assert dry_run(softmax, rows, 41, "folded").levels == 5
    given = dry_run(softmax, rows, 41, "folded", max_level=4)
    assert given.levels == 4 and given.layout.padding_columns == 0
