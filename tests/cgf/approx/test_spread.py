import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgf.errors import UserError
from cgf.plan.histogram import Histogram

numbers = st.lists(st.integers(-400_000, 25_000).map(lambda n: n / 100), max_size=40)


def spread(*parts, **options):
    s = Histogram(**options)
    for part in parts:
        s.add(np.asarray(part))
    return s


@given(st.lists(numbers, min_size=1, max_size=5))
def test_parts_merge_to_the_whole(parts):
    whole, merged = spread(np.concatenate(parts)), Histogram()
    for part in parts:
        merged.merge(spread(part))
    values = np.concatenate(parts)
    assert (merged.count, merged.low, merged.high) == (whole.count, whole.low, whole.high)
    assert merged.bins.tolist() == whole.bins.tolist() and merged.first == whole.first
    if values.size:
        assert merged.mean == pytest.approx(values.mean(), abs=1e-7)
        assert merged.std == pytest.approx(values.std(), abs=1e-6)
        assert merged.bins.sum() == values.size
    else:
        assert merged.to_json() is None


@given(numbers.filter(len), st.floats(0.001, 0.99))
def test_quantiles_leave_out_at_most_their_share(values, share):
    s, y = spread(values), np.sort(values)
    found = s.quantile(share)
    assert (y < found).mean() <= share and y[int(np.floor(share * len(y)))] - s.width - 1e-9 <= found
    assert s.quantile(0) == y[0] and s.quantile(1) <= y[-1]


@given(numbers.filter(len), st.integers(-300, 300), st.integers(-300, 300))
def test_share_outside_is_exact_to_a_bin_and_never_too_small(values, a, b):
    s, y, (lo, hi) = spread(values), np.asarray(values), sorted((a + 0.01, b + 0.017))
    found = s.outside((lo, hi))
    assert ((y < lo) | (y > hi)).mean() - 1e-12 <= found
    assert found <= ((y < lo + s.width) | (y > hi - s.width)).mean() + 1e-12
    assert s.outside((s.low, s.high)) == 0


def test_numbers_beyond_the_limits_count_in_the_last_bins():
    s = spread([-1e9, -3.0, 1e9], width=1.0, limits=(-4.0, 4.0))
    assert (s.low, s.high, s.bins.tolist()) == (-1e9, 1e9, [1, 1, 0, 0, 0, 0, 0, 1])
    assert s.outside((-10.0, 10.0)) == pytest.approx(2 / 3)
    assert s.quantile(0.99) == 3.0
    assert s.quantile(0.2) == -1e9  # somewhere below the limit, so nothing may be left out


def test_a_coarse_histogram_keeps_every_number():
    y = np.random.default_rng(0).normal(0, 3, 5000)
    s = spread(y)
    drawn = s.coarse(-4.0, 4.0, 50)
    assert len(drawn["counts"]) <= 51 and sum(drawn["counts"]) + drawn["beyond"] == len(y)
    lo, hi = drawn["low"], drawn["low"] + drawn["width"] * len(drawn["counts"])
    assert lo <= -4 and hi >= 4 and sum(drawn["counts"]) == ((y >= lo) & (y < hi)).sum()
    assert json.loads(json.dumps(s.to_json()))["std"] == pytest.approx(y.std())


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_no_number_is_refused(value):
    with pytest.raises(UserError, match="finite"):
        spread([1.0, value])


def test_other_bins_do_not_merge():
    with pytest.raises(UserError, match="equal bins"):
        Histogram().merge(Histogram(width=0.5))
