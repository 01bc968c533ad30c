"""Labels, p values and intervals where the two tests differ."""

import numpy as np
import pytest

from cgf.report.comparison import told
from cgf.stats.intervals import Evidence, over_both, over_seeds
from cgf.stats.labels import Comparison


def test_a_p_value_is_the_larger_of_both_tests():
    samples, between = Evidence(0.1, 0.9, 0.01, 0.2, 1.0), Evidence(0.1, 0.9, 0.3, 0.02, 1.0)
    both = Comparison(0.5, 3, samples, between)
    assert (both.p("above"), both.p("below"), both.p("within 0.5")) == (0.3, 0.3, 0.2)


def test_seeds_and_samples_that_all_agree_are_as_wide_over_both_as_over_seeds():
    both, seeds = over_both(np.zeros((3, 200), np.int8)), over_seeds([0.0] * 3, 200)
    assert (both.low, both.high) == pytest.approx((seeds.low, seeds.high)) and both.low < 0 < both.high


def test_below_holds_for_both_where_the_upper_end_is_below_zero():
    def of(low, high):
        decides = Evidence(-1.9, -0.1, 0.01, 0.02, 1.0)
        return Comparison(-1.0, 5, decides, decides, None, Evidence(low, high, 0.01, 0.02, 1.0))

    assert of(-1.95, -0.05).holds_for_both("below") and not of(-2.2, 0.2).holds_for_both("below")
    assert ", below\\*; p" in told([of(-1.95, -0.05)])[0] and ", below\\*†; p" in told([of(-2.2, 0.2)])[0]


@pytest.mark.parametrize("share", [0.0, 0.003, 0.006, 0.02])
def test_over_both_p_of_the_margin_is_that_of_its_lower_end(share):
    draws = np.random.default_rng(5).random((3, 4000))
    found = over_both((draws < 0.01).astype(np.int8) - (draws > 0.99 - share).astype(np.int8))
    assert (found.low > -0.5) == (found.p_margin <= 0.05) and (found.p_margin <= 0.05) == (share == 0.0)


def test_a_star_is_for_what_holds_after_the_correction_alone():
    decides = Evidence(0.1, 1.9, 0.03, 0.001, 1.0)
    one = Comparison(1.0, 5, decides, decides, None, decides)
    assert "above\\*, within 0.5\\*; p 0.03" in told([one])[0]
    assert "above, within 0.5\\*; p 0.06" in told([one, one])[0]  # twice 0.03 is no longer below 0.05


def test_an_interval_has_the_wider_end_of_either_source_on_both_sides():
    samples, between = Evidence(-0.9, 0.2, 0.5, 0.5, 1.0), Evidence(-0.2, 0.6, 0.5, 0.5, 1.0)
    assert Comparison(0.0, 3, samples, between).interval == Comparison(0.0, 3, between, samples).interval == (-0.9, 0.6)
