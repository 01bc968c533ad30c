"""Growth of a measured series: a slope that is there is found, and one that is not has 0 in its interval."""

import numpy as np
import pytest
from scipy import stats

from cgf.errors import UserError
from cgf.stats.growth import growth


@pytest.mark.parametrize("slope", [-3.0, 0.0, 0.5, 40.0])
def test_the_interval_holds_the_slope_about_as_often_as_it_says(slope):
    """With noise whose neighbours are alike; a step at the start is left out."""
    rng, times = np.random.default_rng(0), np.linspace(0, 2, 800)
    held = 0
    for _ in range(200):
        noise = np.convolve(rng.normal(0, 1, 804), np.ones(5) / 5, "valid")
        values = 300 + slope * times + noise - 100 * (times < 0.3)
        found = growth(times, values)
        held += found.low <= slope <= found.high
        assert found.samples == 600 and found.low <= found.slope <= found.high
    assert 0.85 <= held / 200 <= 0.99


def test_growth_is_seen_and_its_absence_too():
    times = np.arange(200) / 100
    assert not growth(times, 100 + 5 * times).is_none
    flat = growth(times, np.full(200, 7.0))
    assert flat.is_none and (flat.slope, flat.low, flat.high) == (0.0, 0.0, 0.0)


def test_too_few_samples_are_refused():
    with pytest.raises(UserError, match="growth needs 60 samples after the start, and 45 were given"):
        growth(np.arange(60), np.arange(60))
    with pytest.raises(UserError, match="0 were given"):
        growth([], [])


def test_the_interval_is_students_of_the_slope_of_twenty_means():
    times = np.arange(800.0)
    values = 0.3 * times + np.random.default_rng(1).normal(0, 5, 800)
    found = growth(times, values, settled=0.0)
    fit = stats.linregress(*(x.reshape(20, 40).mean(1) for x in (times, values)))
    half = stats.t.ppf(0.975, 18) * fit.stderr
    assert (found.slope, found.low, found.high) == pytest.approx((fit.slope, fit.slope - half, fit.slope + half))
