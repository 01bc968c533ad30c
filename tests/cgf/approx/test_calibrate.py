import json

import numpy as np
import pytest
from scipy import stats

from cgf.plan.calibration import Calibration, merged, row_shape, union
from cgf.plan.histogram import Histogram

WIDTH = Histogram().width


def calibration(*parts, **masks):
    c = Calibration()
    for part in parts:
        c.add(np.atleast_2d(part), np.ones(1), **masks)
    return c


def rows(seed, count=40, columns=9):
    """Rows with masks, a padding row in four, and their sums."""
    rng = np.random.default_rng(seed)
    y = rng.gamma(1.5, 2.0, (count, columns)) - 9
    valid = np.arange(columns) < rng.integers(1, columns + 1, count)[:, None]
    return y, rng.uniform(0.5, 2, count), valid, rng.random(count) < 0.75


def test_row_shape_is_scipys():
    y, _, valid, _ = rows(0)
    skewness, kurtosis, kappa = row_shape(y, valid)
    for i, (row, keep) in enumerate(zip(y, valid, strict=True)):
        own = row[keep]
        if len(own) < 2:
            assert np.isnan([skewness[i], kurtosis[i], kappa[i]]).all()
            continue
        assert skewness[i] == pytest.approx(stats.skew(own), abs=1e-9)
        assert kurtosis[i] == pytest.approx(stats.kurtosis(own), abs=1e-9)
        m2, m3, m4 = (stats.moment(own, j) for j in (2, 3, 4))
        assert kappa[i] == pytest.approx(m3 / 6 + (m4 - 3 * m2**2) / 24, abs=1e-9)
    assert kappa[0] == pytest.approx(row_shape(y + 77, valid)[2][0], abs=1e-9)  # a shift changes nothing


def test_a_row_of_equal_entries_has_a_kappa_but_no_skewness():
    skewness, kurtosis, kappa = row_shape(np.full((1, 5), -2.3), np.ones((1, 5), dtype=bool))
    assert np.isnan([skewness[0], kurtosis[0]]).all() and kappa[0] == pytest.approx(0)


def test_statistics_are_those_of_all_rows_at_once():
    y, sums, valid, real = rows(1)
    c = Calibration()
    for part in (slice(0, 11), slice(11, 12), slice(12, 40)):
        c.add(y[part], sums[part], valid[part], real[part])
    kept = valid & real[:, None]
    assert c.entries == kept.sum() and (c.low, c.high) == (y[kept].min(), y[kept].max())
    assert (c.row_sums.low, c.row_sums.high) == (sums[real].min(), sums[real].max())
    skewness, kurtosis, kappa = (s[real] for s in row_shape(y, valid))
    for spread, values in ((c.skewness, skewness), (c.kurtosis, kurtosis), (c.kappa, kappa)):
        values = values[~np.isnan(values)]
        assert (spread.count, spread.mean, spread.std) == pytest.approx((len(values), values.mean(), values.std()))


def test_heads_merge_to_their_layer():
    parts, whole = [], Calibration()
    for seed in range(3):
        parts.append(Calibration())
        parts[-1].add(*rows(seed))
        whole.add(*rows(seed))
    layer = merged(parts)
    first, second = json.loads(json.dumps(layer.to_json())), whole.to_json()
    assert first["range"] == second["range"] and first["quantiles"] == second["quantiles"]
    assert first["slots"] == second["slots"] and first["kappa"]["std"] == pytest.approx(second["kappa"]["std"])
    assert first["entries"] > parts[0].entries and layer.masked


def test_slots_hold_padding_rows_and_a_zero_for_every_invalid_key():
    y = np.array([[-3.0, -1.0, 50.0], [-90.0, -7.0, 50.0], [-2.0, -2.5, -2.6]])
    valid = np.array([[True, True, False], [True, True, False], [True, True, True]])
    c = Calibration()
    c.add(y, np.array([1.0, 9.0, 1.0]), valid, np.array([True, False, True]))
    assert (c.low, c.high, c.entries, c.row_sums.high) == (-3.0, -1.0, 5, 1.0)
    assert (c.slots.low, c.slots.high, c.slots.count) == (-90.0, 0.0, 9)
    assert c.reach() == (-90.0, 0.0) and c.domain() == (-3.0, 0.0)


def test_rows_whose_sum_runs_over_are_counted_apart():
    c = Calibration()
    c.add(np.zeros((3, 2)), np.array([1.0, np.inf, 3.0]))
    c.add(np.zeros((1, 2)), np.array([0.25]), np.array([[True, False]]))
    assert (c.row_sums.low, c.row_sums.high, c.overflows, c.masked) == (0.25, 3.0, 1, True)
    assert json.loads(json.dumps(c.to_json()))["row_sum"] == [0.25, 3.0]


def test_a_row_without_valid_keys_is_a_slot_only():
    c = calibration([[-5.0, -6.0]], valid=np.zeros((1, 2), dtype=bool))
    assert c.entries == 0 and (c.slots.low, c.slots.high, c.slots.count) == (0.0, 0.0, 2)


def test_union_reaches_over_all_layers():
    even = np.linspace(-100, -50, 1001)
    range_, domain = union([calibration(even), calibration([-7.0, 1.5])], outside=0.1)
    assert range_ == (-100.0, 1.5)
    assert domain[0] == pytest.approx(-95.0, abs=WIDTH + 0.06) and domain[1] == 1.5
    assert union([calibration([-3.0, -2.0])]) == ((-3.0, 0.0), (-3.0, 0.0))


def test_the_range_holds_padding_rows_and_the_domain_does_not_reach_for_them():
    c = Calibration()
    c.add(np.array([[-3.0, -1.0], [-90.0, 4.0]]), np.ones(2), real=np.array([True, False]))
    assert union([c]) == ((-90.0, 4.0), (-3.0, 0.0))
