"""The one fit that tests read from a file is the fit that the code would make."""

import os

import numpy as np
import pytest

from cgf.approx import series
from cgf.softmax.published.statistical import Arion


def test_the_kept_fit_is_the_best_of_its_degree(kept_fit):
    """Its stated error is the measured one, and it equioscillates, which the best polynomial alone does."""
    kept = Arion().inverse.guess
    assert kept is series.inverse(Arion.least, Arion.most, Arion.inverse_degree)
    assert (kept.a, kept.b) == (2 / (400.0 - 0.02), -(400.0 + 0.02) / (400.0 - 0.02))
    x = np.concatenate([np.geomspace(0.02, 400.0, 200_001), 200.01 - 199.99 * np.cos(np.linspace(0, np.pi, 200_001))])
    x = np.unique(x.clip(0.02, 400.0))
    error = np.polynomial.chebyshev.chebval(kept.a * x + kept.b, kept.coefficients) * x - 1
    assert np.abs(error).max() == pytest.approx(kept.max_error, rel=1e-3)
    signs = np.sign(error[np.abs(error) > 0.97 * kept.max_error])
    assert (signs[1:] != signs[:-1]).sum() + 1 >= kept.degree + 2
    assert series.inverse(0.5, 2.0, 3) is kept_fit(0.5, 2.0, 3)  # any other is made anew


@pytest.mark.skipif(not os.environ.get("CGF_SLOW"), reason="half a minute (CGF_SLOW=1)")
def test_the_kept_fit_is_made_by_the_code(kept_fit):
    np.testing.assert_allclose(kept_fit(0.02, 400.0, 255).coefficients, Arion().inverse.guess.coefficients, rtol=1e-6)
