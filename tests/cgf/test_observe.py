import math

import numpy as np
import pytest
import torch

from cgf.observe import Calibrator, Watch
from cgf.softmax.cgf import CGF

VALID = torch.ones(6, 6, dtype=torch.bool).tril()[None, None]


def scores(seed=0):
    return torch.from_numpy(np.random.default_rng(seed).normal(0, 2, (3, 2, 6, 6)))


def exponents(x):
    rows = [x.numpy()[place][: place[-1] + 1] for place in np.ndindex(3, 2, 6)]
    return [row - row.mean() - row.var() / 2 - math.log(len(row)) for row in rows]


def test_watch_counts_valid_entries_alone():
    softmax, watch = CGF(), Watch((-4.0, -1.0), (-6.0, -0.5))
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
    assert set(Watch(None, None).summary().values()) == {None}


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
