"""Settings of published softmaxes hold on the scores that they were made for, and levels follow the range."""

import numpy as np
import pytest
import torch

from cgf.errors import UserError
from cgf.evaluate.score_range import ScoreWatch
from cgf.plan.published import FARTHEST, ScoreRange, levels_of, settings
from cgf.softmax.exact import Exact
from cgf.softmax.published.standard import FixedMax, Standard
from cgf.softmax.tensor import TensorRows


def seen_of(width, entries=16):
    generator = torch.Generator().manual_seed(3)
    watch = ScoreWatch()
    scores = width * torch.rand((2, 3, entries, entries), generator=generator)
    watch.add(scores, None)
    return scores, watch.seen()


def test_a_watch_sees_valid_entries_alone_and_leaves_empty_rows_out():
    watch = ScoreWatch()
    scores = torch.tensor([[[[1.0, 2.0, 90.0], [-3.0, 0.5, 4.0], [70.0, 80.0, 90.0]]]])
    valid = torch.tensor([[[[True, True, False], [True, True, True], [False, False, False]]]])
    watch.add(scores, valid)
    seen = watch.seen()
    assert (seen.low, seen.high, seen.least_maximum, seen.entries) == (-3.0, 4.0, 2.0, (2, 3))
    sums = [np.log(np.exp(row).sum()) for row in ([1.0, 2.0], [-3.0, 0.5, 4.0])]
    assert seen.log_sums == pytest.approx((min(sums), max(sums)))
    mean, variance = 0.5, np.var([-3.0, 0.5, 4.0])
    assert seen.shifted[0] == pytest.approx(-3.0 - mean - 2.08 * (1.25 + 0.1 * variance), abs=1e-2)


def test_a_range_of_masked_rows_holds_what_masked_entries_are_under_encryption():
    """A score of 0, which ARION's shift takes further from its domain the further a row lies from zero."""
    far, watch, full = torch.full((1, 1, 2, 3), -20.0) + torch.arange(3.0), ScoreWatch(), ScoreWatch()
    watch.add(far, torch.ones(3, 3, dtype=torch.bool).tril()[1:])
    full.add(far, None)
    assert watch.seen().high == 0.0 and full.seen().high == -18.0
    assert watch.seen().shifted[1] > 15.0 > 0.0 > full.seen().shifted[1]


@pytest.mark.parametrize("name", ["cho", "thor", "standard", "hetal"])
def test_weights_lie_within_the_stated_error_and_a_wider_range_takes_more_levels(name):
    levels = []
    for width in (6.0, 30.0):
        scores, seen = seen_of(width)
        made = settings([name], seen, "full")
        assert made.left_out == {}
        (softmax,) = made.softmaxes
        far = (softmax.reading(scores) - Exact().weights(scores)).abs().max()
        assert far <= softmax.error_bound() + 1e-6 and softmax.error_bound() < 0.1
        levels.append(levels_of(softmax, "full", seen.columns))
    assert levels[0] < levels[1]


@pytest.mark.parametrize("name", ["fixed_max", "standard"])
def test_rows_of_different_counts_divide_by_means_which_lie_nearer_than_sums(name):
    """A sum is off by most / sum times a product's noise, so that the interval is what rows lose under encryption."""
    generator, watch = torch.Generator().manual_seed(4), ScoreWatch()
    scores = torch.randn((2, 3, 40, 40), generator=generator, dtype=torch.float64)
    causal = torch.ones(40, 40, dtype=torch.bool).tril()
    watch.add(scores, causal)
    seen = watch.seen()
    counts = torch.arange(1.0, 41.0, dtype=torch.float64).log()
    means = scores.masked_fill(~causal, -np.inf).logsumexp(-1) - counts
    assert seen.log_means == pytest.approx((float(means.min()), float(means.max())))
    levelled = (scores - counts[:, None])[causal.expand(scores.shape)]
    assert seen.levelled == pytest.approx((float(levelled.min()), float(levelled.max())))
    (softmax,) = settings([name], seen, "masked").softmaxes
    assert softmax.mean
    least, most = softmax.divider.domain
    assert most / least == pytest.approx(np.exp(1.2 * (seen.log_means[1] - seen.log_means[0])))
    assert most / least < 0.2 * np.exp(seen.log_sums[1] - seen.log_sums[0])
    far = (softmax.reading(scores, causal) - Exact().weights(scores, causal)).abs().max()
    assert far <= softmax.error_bound() + 1e-6 and softmax.error_bound() < 0.2
    inside = softmax.argument(TensorRows.of(scores, causal, torch.float64)).data[causal.expand(scores.shape)]
    assert softmax.domain[0] <= inside.min() and inside.max() <= softmax.domain[1]


@pytest.mark.parametrize("name", ["arion", "cho", "hetal", "standard", "thor"])
def test_settings_of_masked_rows_hold_for_a_row_of_one_entry_as_for_the_longest(name):
    generator, watch = torch.Generator().manual_seed(4), ScoreWatch()
    scores = 4.0 * torch.randn((2, 3, 11, 11), generator=generator, dtype=torch.float64) - 3.0
    causal = torch.ones(11, 11, dtype=torch.bool).tril()
    watch.add(scores, causal)
    assert watch.seen().entries == (1, 11) and watch.seen().columns == 16
    (softmax,) = settings([name], watch.seen(), "masked").softmaxes
    far = (softmax.reading(scores, causal) - Exact().weights(scores, causal)).abs().max()
    assert far <= softmax.error_bound() + 1e-6 and softmax.error_bound() < 0.1


def test_a_fixed_maximum_is_the_greatest_score_and_divides_by_what_rows_reach():
    scores, seen = seen_of(6.0)
    (softmax,) = settings(["fixed_max"], seen, "full").softmaxes
    wide = seen.widened()
    assert (softmax.shift, softmax.low, softmax.n) == (wide.high, wide.low, 16)
    assert not softmax.mean
    assert softmax.least == pytest.approx(np.exp(wide.log_sums[0] - wide.high))
    assert softmax.most == pytest.approx(np.exp(wide.log_sums[1] - wide.high)) and softmax.most < 16
    far = (softmax.reading(scores) - Exact().weights(scores)).abs().max()
    assert far <= softmax.error_bound() + 1e-6 and softmax.error_bound() < 0.1
    assert levels_of(softmax, "full", 16) == 8 + softmax.iterations < 16
    far_apart = ScoreRange(-250.0, 6.0, 5.0, (5.0, 6.0), (3, 8), (-9.0, 1.0), (0.5, 2.0), (-252.0, 5.0), (3.0, 5.0))
    left_out = settings(["fixed_max"], far_apart, "full").left_out
    assert "8 squarings serves scores within 256 of each other" in left_out["fixed_max"]


def test_sums_of_exponentials_that_are_no_floats_are_refused():
    seen = ScoreRange(700, 720, 715, (720, 725), (16, 16), (-30, 5), (0.1, 30), (697, 717), (717, 722))
    made = settings(["standard", "fixed_max"], seen, "full")
    assert [type(softmax) for softmax in made.softmaxes] == [FixedMax] and "must be floats" in made.left_out["standard"]


def test_what_cannot_be_had_is_left_out_with_the_reason():
    wide = ScoreRange(
        -150.0, 60.0, -46.0, (-45.0, 61.0), (3, 59), (-331.0, 20.0), (1e-80, 1e9), (-154.0, 59.0), (-48.0, 58.0)
    )
    made = settings(["standard", "arion", "thor"], wide, "masked")
    assert [softmax.name for softmax in made.softmaxes] == ["thor"] and made.softmaxes[0].temperature > 2
    assert "Goldschmidt iterations leave" in made.left_out["standard"]
    assert f"within {FARTHEST:g} of each other" in made.left_out["arion"]
    with pytest.raises(UserError, match="settings are made for arion, cho"):
        settings(["quad"], wide, "full")
    with pytest.raises(UserError, match="finite scores that differ"):
        ScoreRange(1.0, 1.0, 1.0, (1.0, 2.0), (2, 5), (0.0, 1.0), (1.0, 2.0), (0.0, 1.0), (0.0, 1.0))


@pytest.mark.parametrize("kind", [Standard, FixedMax])
def test_a_word_in_the_place_of_true_or_false_is_refused(kind):
    with pytest.raises(UserError, match=r"softmax.mean of .* must be true or false, and is 'no'"):
        kind(mean="no")
