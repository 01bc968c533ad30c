"""The choice of layout, circuit and ring: padding columns change neither the circuit asked for nor the ring."""

import numpy as np
import pytest

from cgf.approx import fit
from cgf.he.dryrun import dry_run
from cgf.he.score_rows import Rows
from cgf.softmax.base import Softmax
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


def test_a_learned_factor_of_a_formula_goes_to_a_circuit_as_its_value():
    """A parameter has a gradient, which numpy refuses to drop unasked."""
    torch = pytest.importorskip("torch", reason="a learned factor is a tensor")

    class Scaled(Softmax):
        name = "scaled"

        def __init__(self, factor, shift):
            self.factor, self.shift = factor, shift

        def formula(self, x):
            return x.times_public(self.factor).plus_public(self.shift)

    rows = Rows((1, 1, 4, 4), 0, None, np.full(4, 4.0))
    learned = [torch.nn.Parameter(torch.full((1, 1, 4, 4), value)) for value in (0.5, 0.25)]
    needs = [dry_run(Scaled(*two), rows, 4, "folded") for two in (learned, [p.detach().numpy() for p in learned])]
    assert needs[0].levels == needs[1].levels == 1 and needs[0].ops == needs[1].ops
