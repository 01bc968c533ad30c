"""Products of matrices by the library's matrix form, against float64 and against prepared operands."""

import functools

import numpy as np
import pytest

from cgf.bench.matrix_form import compared
from cgf.errors import UserError
from cgf.he.engines.desilo import DesiloOwner
from cgf.he.engines.desilo_matrix import MATRICES, MatrixProducts


def test_both_ways_give_the_products_of_float64():
    row = compared(16, functools.partial(DesiloOwner, mode="cpu"), 3)
    errors = row["matrix_form"]["max_error"], row["prepared"]["max_error"], row["difference"]
    assert all(1e-12 < error < 1e-5 for error in errors)  # above zero: it did go through ciphertexts
    assert row["largest"] > 5 and row["matrix_form"]["s"] > 0 and row["prepared"]["s"] > 0
    full = row["prepared"]["us_per_mac"] * MATRICES / row["prepared"]["slots"]
    assert row["prepared"]["us_per_mac_full"] == pytest.approx(full)


def test_the_second_matrix_is_transposed():
    form, rng = MatrixProducts(16), np.random.default_rng(0)
    a, b = rng.normal(size=(2, MATRICES, 16, 16))
    product = form.decrypt(form.times_transposed(form.encrypt(a), form.encrypt(b)))
    np.testing.assert_allclose(product, a @ b.transpose(0, 2, 1), rtol=0, atol=1e-5)
    assert np.abs(product - a @ b).max() > 1.0


def test_other_shapes_are_refused():
    with pytest.raises(UserError, match="takes matrices of 16, 32, 64 rows, and 17 were asked"):
        MatrixProducts(17)
    with pytest.raises(UserError, match=r"takes an array of \(256, 16, 16\), and \(2, 16, 16\) was given"):
        MatrixProducts(16).encrypt(np.zeros((2, 16, 16)))
