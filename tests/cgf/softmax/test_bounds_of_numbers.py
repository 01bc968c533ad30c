"""Numbers of a softmax that no float or no circuit takes are refused when it is built."""

import numpy as np
import pytest

import cgf
from cgf.errors import UserError
from cgf.softmax.poly_cgf import PolynomialCGF
from cgf.softmax.published.comparison import Comparison
from cgf.softmax.published.normalize_square import NormalizeSquare, Thor
from cgf.softmax.published.standard import FixedMax, Standard
from cgf.softmax.published.statistical import Arion, Tricycle
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
        (lambda: Thor(eps=-1.0), r"a division needs 0 < low < high for its denominator, and has \[-128"),
        (lambda: Thor(n=-5), "a division needs 0 < low < high for its denominator"),
        (lambda: Comparison(iterations=-3), "iterations"),
        (lambda: Arion(least=-1.0), r"0 < least < most, and has \[-1.0, 400.0\]"),
        (lambda: Arion(least=5.0, most=1.0), r"0 < least < most, and has \[5.0, 1.0\]"),
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


def test_a_fixed_maximum_whose_powers_vanish_in_its_domain_has_no_bound():
    assert FixedMax(shift=8.0, low=4.0, r=2).error_bound() == np.inf  # 1 - 4 / 2^2 at the lower end


@pytest.mark.parametrize(("r", "shift", "low"), [(3, 8.0, 4.0), (4, 8.0, 4.0), (8, 4.0, -7.0)])
def test_the_bound_of_a_fixed_maximum_holds_at_few_squarings(r, shift, low):
    softmax = FixedMax(shift=shift, low=low, r=r, iterations=20)
    rows = np.stack([np.full(softmax.n, low), np.full(softmax.n, shift), np.linspace(low, shift, softmax.n)])
    powers = softmax.first_polynomial(rows)
    exact = np.exp(rows) / np.exp(rows).sum(1, keepdims=True)
    assert softmax.error_bound() >= np.abs(powers / powers.sum(1, keepdims=True) - exact).max()


def test_scores_far_apart_in_few_keys_are_served():
    done = cgf.apply_softmax([[0, 12], [0, 120]], "cgf", engine="sim")
    assert done.error < 1e-4
