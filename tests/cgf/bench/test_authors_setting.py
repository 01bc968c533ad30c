"""The paper authors' published test: 256 x 256 from N(0, 1), seed 42, mean absolute error below 1e-9, by engine.

desilofhe 2.0.0 passes with a mean of 5e-10, of which its own noise is nearly all: the polynomial alone leaves 1.1e-11,
which the authors state of the library's 1.17.0. The largest error, 2e-8, is the noise floor of one of its squares.
OpenFHE at the scale of 2^50 that ours has misses the bound by a tenth, with a mean of 1.1e-9; at 2^58 it passes.
"""

import importlib.util
from functools import partial

import numpy as np
import pytest

from cgf.bench.matrix import exponent
from cgf.bench.noise import Bench, authors_exponential, noise_of, normal_scores
from cgf.he.engines import openfhe
from cgf.he.engines.desilo import DesiloOwner
from cgf.he.engines.openfhe import OpenFHEOwner
from cgf.he.engines.sim import SimOwner
from cgf.softmax.cgf import CGF

BOUND = 1e-9


@pytest.fixture(scope="module")
def scores():
    return normal_scores(256, 256, 42)


def row_on(make_owner, scores):
    softmax = CGF()
    softmax.exponential = authors_exponential()
    return noise_of(Bench.of(make_owner), softmax, "paper", scores, np.exp(exponent(scores)))


def test_on_the_simulator(scores):
    row = row_on(SimOwner, scores)
    assert row["levels"] == 8 and row["mean_error"] == pytest.approx(1.1222e-11, rel=0.01)
    assert row["mean_error"] < BOUND and row["noise"]["max_error"] < 1e-13


def test_on_ciphertexts(scores):
    row = row_on(partial(DesiloOwner, mode="cpu"), scores)
    assert row["levels"] == 8 and row["ring_slots"] == 16384
    assert row["mean_error"] < BOUND
    assert row["noise"]["mean_error"] > 1e-11 and row["noise"]["max_error"] < 1e-7  # real ciphertexts, at their floor


@pytest.mark.skipif(importlib.util.find_spec("openfhe") is None, reason="scripts/repo/test_openfhe.sh makes its venv")
def test_on_openfhe_which_misses_the_bound(scores, record_property):
    """What is left is the noise of its scale: the polynomial's own error is a hundredth of it."""
    row = row_on(OpenFHEOwner, scores)
    record_property("authors.mean_error", float(f"{row['mean_error']:.3g}"))
    assert row["levels"] == 8 and row["ring_slots"] == 16384
    assert BOUND < row["mean_error"] < 1.5 * BOUND and row["noise"]["max_error"] < 1e-6


@pytest.mark.skipif(importlib.util.find_spec("openfhe") is None, reason="scripts/repo/test_openfhe.sh makes its venv")
def test_on_openfhe_at_a_finer_scale_which_keeps_it(scores, record_property, monkeypatch):
    """An engine that can: at a scale of 2^58 the ring is the same, and the polynomial's own error is what is left."""
    monkeypatch.setattr(openfhe, "SCALE_BITS", 58)
    row = row_on(OpenFHEOwner, scores)
    record_property("authors.mean_error_at_scale_58", float(f"{row['mean_error']:.3g}"))
    assert row["mean_error"] < BOUND / 10 and row["noise"]["mean_error"] > 1e-14  # real ciphertexts
