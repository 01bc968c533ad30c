"""Numbers of a softmax that no float or no circuit takes are refused when it is built."""

import numpy as np
import pytest

import cgf
from cgf.errors import UserError
from cgf.softmax.poly_cgf import PolynomialCGF
from cgf.softmax.published.normalize_square import NormalizeSquare, Thor
from cgf.softmax.published.standard import FixedMax, Standard
from cgf.softmax.published.statistical import Tricycle
from cgf.softmax.taylor import TaylorCGF


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: TaylorCGF(x0=800.0), r"x0 must lie within \[-700, 700\]"),
        (lambda: Standard(low=0.0, high=800.0), "standard takes exp of its scores, which is a float up to 700"),
        (lambda: Tricycle(low=0.0, high=800.0), "tricycle takes exp of its scores"),
        (lambda: Thor(temperature=2.0), "temperature of thor must be a whole number"),
        (lambda: Thor(temperature=6), "power of two"),
        (lambda: NormalizeSquare(degrees=5, k=1), "degrees as a list, one a round, and has 5"),
        (lambda: FixedMax(r=2000), "softmax.r of fixed_max must be a whole number from 0 to 30"),
    ],
)
def test_numbers_out_of_reach_are_named(make, says):
    with pytest.raises(UserError, match=says):
        make()


@pytest.mark.parametrize(("keys", "k", "levels"), [(1, 10, 11), (1, 11, 13), (2, 12, 14), (3, 12, 14)])
def test_many_squarings_on_few_keys_take_the_circuit_of_the_paper(keys, k, levels):
    """The factor 2^-k of y is nearer to 0 than any of whole numbers: what would be left overflows in the squarings."""
    scores = np.linspace(0.0, 1.0, keys)[None]
    done = cgf.apply_softmax(scores, PolynomialCGF(method="limit", k=k, domain=[-4000.0, 1.2]), engine="sim")
    exact = np.exp(scores - scores.mean() - scores.var() / 2 - np.log(keys))
    assert done.levels == levels and np.abs(done.weights - exact).max() < 0.3 / 2**k + 1e-9


def test_scores_far_apart_in_few_keys_are_served():
    done = cgf.apply_softmax([[0, 12], [0, 120]], "cgf", engine="sim")
    assert done.error < 1e-4
