"""The matrix of the cost tables spans its interval in earnest, and the errors are those of the definition."""

import numpy as np
import pytest

from cgf.bench.job import rows_of
from cgf.bench.matrix import errors, exact_softmax, exponent, spanning_matrix
from cgf.errors import UserError


def test_it_spans_the_interval():
    x = spanning_matrix()
    y = exponent(x)
    assert x.shape == (256, 256) and x.min() >= -128 and x.max() <= 0
    assert -128 <= y.min() <= -100 and y.max() <= 0
    assert ((y >= -1) & (y <= 0)).mean() >= 0.01
    assert np.exp(y).max(1).min() >= 0.5 and exact_softmax(x).max() >= 0.5  # zeros are wrong everywhere


def test_it_is_the_same_every_time_and_other_sizes_and_seeds_differ():
    assert np.array_equal(spanning_matrix(), spanning_matrix())
    assert not np.array_equal(spanning_matrix(4, 128), spanning_matrix(4, 128, seed=1))
    with pytest.raises(UserError, match="at least 128 entries, and 64 were asked"):
        spanning_matrix(4, 64)


def test_errors_are_those_of_the_maximum_norm():
    truth = np.array([[0.5, 0.1], [0.01, 0.02]])
    got = truth + np.array([[0.0, 0.01], [-0.001, 0.0]])
    found = errors(truth, got)
    assert found["max_error"] == pytest.approx(0.01)
    assert found["eta"] == pytest.approx(max(0.01 / 0.5, 0.001 / 0.02))


def test_causal_rows():
    rows = rows_of(6, 3, causal=True)
    assert rows.counts.tolist() == [1, 2, 3, 1, 2, 3] and rows.valid[1].tolist() == [True, True, False]
    assert rows_of(4, 3).uniform == 3
