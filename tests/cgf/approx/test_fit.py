import json

import numpy as np
import pytest

from cgf.approx import fit, minimax
from cgf.approx.exponential_json import exponential_from_json
from cgf.approx.polynomial import Polynomial
from cgf.errors import UserError


def error_on(exponential, lo, hi):
    """Measured apart from the package, on a grid of its own."""
    y = np.linspace(lo, hi, 234_567)
    return float((np.abs(exponential(y) - np.exp(y)) / np.maximum(1.0, np.exp(y))).max())


@pytest.mark.parametrize(
    ("width", "k", "most"), [(128, 6, 2e-6), (64, 5, 5.95e-5), (32, 5, 2.45e-5), (16, 4, 2.7e-4), (16, 3, 1.16e-2)]
)
def test_chain_errors(width, k, most):
    chain = fit.chain(-width, 0, k)
    assert error_on(chain, -width, 0) <= most
    assert chain.fit.max_error == pytest.approx(error_on(chain, -width, 0), rel=1e-2)
    assert chain.levels == chain.ct_mults == k


def test_chain_beyond_zero_is_relative_there_and_keeps_a_fixed_alpha():
    chain = fit.chain(-20, 2, 4, alpha=0.07)
    assert chain.alpha == 0.07
    assert error_on(chain, -20, 2) == pytest.approx(chain.fit.max_error, rel=1e-2)
    assert chain.fit.max_error < 3e-3


def test_the_papers_chebyshev():
    paper = fit.chebyshev(-128, 0, 15, 4)
    assert fit.chebyshev(-128, 0) is paper and paper.levels == 8 and paper.ct_mults == 12
    assert error_on(paper, -128, 0) <= 3e-9
    assert fit.chebyshev(-8, 0).k == 0


def test_limit_and_taylor():
    assert error_on(fit.limit(-128, 0, 8), -128, 0) == pytest.approx(1.06e-3, rel=0.01)
    cubic = fit.taylor(3, -10.0)
    assert cubic.fit is None and cubic.levels == 2
    assert cubic(-9.0) == pytest.approx(np.exp(-10) * (1 + 1 + 1 / 2 + 1 / 6), rel=1e-12)
    assert fit.taylor(1, -3.0, -6, 0).fit.max_error == pytest.approx(1 - 4 * np.exp(-3), rel=1e-6)


def test_fitted_through_the_squarings_beats_least_squares():
    through, plain = fit.fitted(-128, 0, 7, 4), fit.chebyshev(-128, 0, 7, 4)
    assert error_on(through, -128, 0) < 2e-9 < 1e-3 < error_on(plain, -128, 0)


@pytest.mark.filterwarnings("ignore:overflow")
def test_a_start_whose_columns_are_parallel_does_not_end_the_fit():
    """A range as SmolLM2's layers have it together, widened: one of seven starts has a singular matrix."""
    assert fit.fitted(-544.6531372070312, 8.2972412109375, 7, 6).fit.max_error < 1e-9


def test_a_singular_matrix_leaves_the_other_starts_their_steps():
    gram, slope = np.stack([np.ones((2, 2)), np.array([[1.0, 0.5], [0.5, 1.0]])]), np.array([[1.0, 1.0], [1.0, 2.0]])
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.solve(gram, slope[..., None])
    steps = minimax._solve(gram, slope)
    np.testing.assert_allclose(steps, [[0.5, 0.5], [0.0, 2.0]], atol=1e-8)


def test_fits_are_deterministic_and_survive_json():
    first = fit.chain(-16, 0, 3)
    fit._chain.cache_clear()
    again = fit.chain(-16, 0, 3)
    assert again is not first and again == first
    for exponential in (first, fit.chebyshev(-8, 0), fit.limit(-8, 0, 4)):
        assert exponential_from_json(json.loads(json.dumps(exponential.to_json()))) == exponential


@pytest.mark.parametrize(
    "make", [lambda: fit.chain(-16, 0, 3), lambda: fit.chebyshev(-32, 1), lambda: fit.limit(-20, 0, 6)]
)
def test_guard_ends_are_the_last_that_hold(make):
    e = make()
    lo, hi = e.fit.guard
    assert lo <= e.fit.domain[0] and hi >= e.fit.domain[1]
    peak = lambda y: max(np.abs(v).max() for v in e.intermediates(np.asarray(y)))  # noqa: E731
    assert peak(np.linspace(lo, hi, 50_000)) <= fit.GUARD_BOUND < min(peak([lo - 1e-5]), peak([hi + 1e-5]))


def test_guard_where_the_domain_breaks_the_bound():
    e = Polynomial("fitted", 1.0, 0.0, (0.0, 0.0, 1.0))
    lo, hi = fit.guard_interval(e, bound=100.0, domain=(-50.0, 20.0))
    assert (lo, hi) == (pytest.approx(-10), pytest.approx(10)) and lo >= -10 and hi <= 10
    assert fit.guard_interval(e, bound=1e9, reach=5.0, domain=(-1.0, 1.0)) == (-6.0, 6.0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: fit.chain(0, -1, 3),
        lambda: fit.chain(-1, 0, 0),
        lambda: fit.chain(-1, 0, 3, alpha=-1.0),
        lambda: fit.chebyshev(-1, 0, degree=0),
        lambda: fit.limit(-1, float("nan"), 3),
        lambda: fit.taylor(0, -1.0),
    ],
)
def test_bad_input(make):
    with pytest.raises(UserError):
        make()


def test_a_range_far_beyond_every_start_gives_a_fit_and_no_error():
    """Scores of a host that CGF-softmax was put into untrained: all starts overflow or vanish."""
    wide = fit.fitted(-3304.44140625, 8.396411895751953, 3, 8)
    assert np.isfinite(wide.fit.max_error) and wide.k == 8


@pytest.mark.parametrize(("low", "k"), [(-1e6, 20), (-3e5, 18)])
def test_the_error_on_a_wide_interval_is_seen_near_its_upper_end(low, k):
    """The largest error of the limit lies at y = -2, which an even grid of 200,000 steps passes over."""
    stated = fit.limit(low, 0, k).fit.max_error
    assert abs(fit.limit(low, 0, k)(np.array([-2.0])) - np.exp(-2.0))[0] <= stated * (1 + 1e-6)
