import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgf.approx.calibrate import WIDTH, Calibration, union


def calibration(*parts, masked=False):
    c = Calibration()
    for part in parts:
        c.add(np.asarray(part), np.array([0.9, 1.1]), masked)
    return c


values = st.lists(st.integers(-400_000, 25_000).map(lambda n: n / 100), min_size=1, max_size=60)


@given(values, values, st.floats(0.001, 0.99))
def test_quantiles_leave_out_at_most_their_share(first, second, share):
    c, y = calibration(first, second), np.sort([*first, *second])
    assert (c.entries, c.low, c.high) == (len(y), y[0], y[-1])
    found = c.quantile(share)
    assert (y < found).sum() <= share * len(y)  # never more left out than asked for
    exact = y[int(np.floor(share * len(y)))]
    assert exact - WIDTH - 1e-9 <= found <= exact
    assert c.quantile(0) == y[0]


def test_row_sums_and_masks():
    c = Calibration()
    c.add(np.zeros(3), np.array([0.5, 2.0]), False)
    c.add(np.zeros(3), np.array([0.25, 1.0]), True)
    c.add(np.zeros(3), np.array([1.0]), False)
    assert (c.row_sum_low, c.row_sum_high, c.masked) == (0.25, 2.0, True)
    assert json.loads(json.dumps(c.to_json()))["range"] == [0.0, 0.0]


def test_union_reaches_over_all_layers():
    even = np.linspace(-100, -50, 1001)
    range_, domain = union([calibration(even), calibration([-7.0, 1.5])], outside=0.1)
    assert range_ == (-100.0, 1.5)
    assert domain[0] == pytest.approx(-95.0, abs=WIDTH + 0.06) and domain[1] == 1.5
    assert union([calibration([-3.0, -2.0])]) == ((-3.0, 0.0), (-3.0, 0.0))
