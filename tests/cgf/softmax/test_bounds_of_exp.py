"""Bounds of published softmaxes hold the error of exp where the division's is next to nothing."""

import pytest
from test_bounds import ROUNDING, scores

from cgf.softmax.exact import Exact
from cgf.softmax.published.normalize_square import Thor
from cgf.softmax.published.statistical import Arion, Tricycle

NEARLY_EXACT = [  # divisions, so that what is left of an error is that of exp
    Tricycle(n=16, low=-24.0, iterations=40),
    Thor(n=16, accuracy=1e-13),
    Arion(n=16, low=-24.0, high=4.0, degree=15, least=0.2, most=60.0, inverse_degree=63, newton=5),
]


@pytest.mark.parametrize("softmax", NEARLY_EXACT, ids=lambda softmax: softmax.name)
def test_a_bound_has_the_error_of_exp_in_it(softmax):
    x = scores(softmax, 1.0, softmax.n)
    far = float((softmax.reading(x) - Exact().weights(x)).abs().max())
    assert 10 * ROUNDING < far <= softmax.error_bound()
