import math

import numpy as np
import pytest
import torch

from cgf.errors import UserError
from cgf.evaluate.observe import Calibrator, ExponentMonitor, Onlooker
from cgf.softmax.cgf import CGF
from cgf.softmax.exact import Exact
from cgf.softmax.published.gaussian import GaussianKernel

VALID = torch.ones(6, 6, dtype=torch.bool).tril()[None, None]


def scores(seed=0):
    return torch.from_numpy(np.random.default_rng(seed).normal(0, 2, (3, 2, 6, 6)))


def exponents(x):
    rows = [x.numpy()[place][: place[-1] + 1] for place in np.ndindex(3, 2, 6)]
    return [row - row.mean() - row.var() / 2 - math.log(len(row)) for row in rows]


def test_watch_counts_valid_entries_alone():
    softmax, watch = CGF(), ExponentMonitor((-4.0, -1.0), (-6.0, -0.5))
    softmax.observers.append(watch)
    found = softmax.weights(scores(), VALID)
    rows = exponents(scores())
    y = np.concatenate(rows)
    summary = watch.summary()
    assert summary["outside_domain"] == pytest.approx(((y < -4) | (y > -1)).mean()) != 0
    assert summary["beyond_guard"] == ((y < -6) | (y > -0.5)).sum() > 0
    assert summary["range"] == pytest.approx([y.min(), y.max()])
    sums = [np.exp(row).sum() for row in rows]
    assert (summary["row_sum"]["min"], summary["row_sum"]["max"]) == pytest.approx((min(sums), max(sums)))
    softmax.observers.clear()
    torch.testing.assert_close(softmax.weights(scores(), VALID), found)  # observers change nothing


def test_watch_that_saw_nothing():
    assert set(ExponentMonitor(None, None).summary().values()) == {None}


def test_calibrator_keeps_layers_apart():
    calibrator = Calibrator()
    for layer, seed in ((0, 1), (1, 2)):
        softmax = CGF()
        softmax.layer = layer
        softmax.observers.append(calibrator)
        softmax.weights(scores(seed), VALID if layer else None)
    y = np.concatenate(exponents(scores(2)))
    kept = calibrator.layers[1]
    assert (kept.low, kept.high) == pytest.approx((y.min(), y.max())) and kept.entries == len(y)
    assert kept.masked and not calibrator.layers[0].masked and calibrator.layers[0].entries == 3 * 2 * 36


PADDED = torch.ones(3, 1, 6, 6, dtype=torch.bool)
PADDED[1, :, :, 4:] = False  # the second text has four tokens


def test_calibrator_tells_rows_of_padding_from_real_ones():
    x = scores(3)
    x[1, :, 4:, :4] *= 40  # what padding tokens ask for: a range no real row has
    calibrator, softmax = Calibrator(), CGF()
    softmax.observers.append(calibrator)
    softmax.weights(x, PADDED)
    assert sorted(calibrator.heads) == [(0, 0), (0, 1)]
    for head in range(2):
        real, slots = [], [0.0]
        for sample, query in np.ndindex(3, 6):
            row = x[sample, head, query, : 4 if sample == 1 else 6].numpy()
            y = row - row.mean() - row.var() / 2 - math.log(len(row))
            slots.extend(y)
            if sample != 1 or query < 4:
                real.extend(y)
        c = calibrator.heads[0, head]
        assert (c.low, c.high, c.entries) == pytest.approx((min(real), max(real), len(real)))
        assert (c.slots.low, c.slots.high) == pytest.approx((min(slots), max(slots)))
        assert c.slots.count == 3 * 36 and c.slots.low < 5 * c.low and c.kappa.count == 16
    whole = calibrator.layers[0]
    assert whole.entries == sum(c.entries for c in calibrator.of_layer(0))
    assert whole.low == min(c.low for c in calibrator.of_layer(0))


def test_the_diagonal_tells_no_padding_where_keys_are_other_than_queries():
    calibrator, softmax = Calibrator(), CGF()
    softmax.observers.append(calibrator)
    softmax.weights(scores()[..., :4, :], torch.ones(3, 1, 1, 6, dtype=torch.bool))
    assert calibrator.heads[0, 0].kappa.count == 3 * 4


def test_scores_that_ran_off_are_refused_by_layer():
    calibrator, softmax = Calibrator(), CGF()
    softmax.layer = 4
    softmax.observers.append(calibrator)
    with pytest.raises(UserError, match="layer 4"):
        softmax.weights(scores() * math.inf)


def test_an_onlooker_sees_one_softmax_and_drives_with_another():
    calibrator, looked = Calibrator(), CGF()
    looked.observers.append(calibrator)
    slot = Onlooker(Exact(), looked)
    slot.layer = 2
    torch.testing.assert_close(slot.weights(scores(), VALID), Exact().weights(scores(), VALID), rtol=0, atol=0)
    y = np.concatenate(exponents(scores()))
    assert (calibrator.layers[2].low, calibrator.layers[2].high) == pytest.approx((y.min(), y.max()))


def test_an_onlookers_subject_has_scores_of_its_own():
    """A Gaussian kernel's exponent is a distance, which is not above 0, whatever drives the model."""
    draw = torch.Generator().manual_seed(2)
    query, key, value = torch.randn(3, 2, 2, 6, 8, generator=draw)
    calibrators = [Calibrator(), Calibrator()]
    for calibrator in calibrators:
        subject = GaussianKernel()
        subject.observers.append(calibrator)
        slot = subject if calibrator is calibrators[0] else Onlooker(Exact(), subject)
        outputs, _ = slot.attention(query, key, value, 0.3, None, lambda weights: weights)
    torch.testing.assert_close(outputs, Exact().attention(query, key, value, 0.3, None, lambda weights: weights)[0])
    alone, looked = (calibrator.layers[0] for calibrator in calibrators)
    assert (looked.low, looked.high) == (alone.low, alone.high) and looked.high <= 0


def test_watch_judges_accuracy_by_real_rows_and_the_guard_by_all():
    x = scores(3)
    x[1, :, 4:, :4] *= 40
    plain, padded = ExponentMonitor((-9.0, 2.0), (-30.0, 4.0)), ExponentMonitor((-9.0, 2.0), (-30.0, 4.0))
    for watch, rows, mask in ((plain, x[1:2, :, :4, :4], None), (padded, x[1:2], PADDED[1:2])):
        softmax = CGF()
        softmax.observers.append(watch)
        softmax.weights(rows, mask)
    a, b = plain.summary(), padded.summary()
    assert a["range"] == pytest.approx(b["range"]) and a["outside_domain"] == pytest.approx(b["outside_domain"])
    assert a["row_sum"] == pytest.approx(b["row_sum"])
    assert plain.beyond == 0 < padded.beyond
