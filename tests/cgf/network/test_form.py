"""Affine forms of sources."""

import numpy as np
import pytest

from cgf.network.form import Form


@pytest.mark.parametrize("size", [1, 3, 7])
def test_parts_of_a_source_sum_to_the_form(size):
    """Each feature of the source counts once, and the other sources and the constant once."""
    rng = np.random.default_rng(size)
    terms = {"o1": rng.normal(size=(2, 3)), "s1": rng.normal(size=(2, 7)), "x": rng.normal(size=(2, 4))}
    form = Form(terms, rng.normal(size=(5, 2)))
    sources = {name: rng.normal(size=(matrix.shape[1], 5)) for name, matrix in terms.items()}

    total = np.zeros((2, 5))
    for start in range(0, 7, size):
        chosen = slice(start, start + size)
        part = form.of_source("s1", chosen, start + size >= 7)
        read = sources | {"s1": sources["s1"][chosen]}
        total += sum(matrix @ read[name] for name, matrix in part.terms.items()) + part.constant.T
    np.testing.assert_allclose(total, sum(m @ sources[n] for n, m in terms.items()) + form.constant.T, atol=1e-12)
    assert set(form.of_source("s1", slice(0, 2), False).terms) == {"s1"}
