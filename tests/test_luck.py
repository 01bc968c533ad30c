"""No test of the checks depends on luck: draws are the same in every run, in any order."""

import os
import random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

DRAWN = []


@pytest.mark.skipif(os.environ.get("HYPOTHESIS_PROFILE", "checks") != "checks", reason="fresh draws were asked for")
def test_the_checks_draw_the_same_every_time():
    @settings(max_examples=20)
    @given(st.integers())
    def draw(number):
        seen.append(number)

    runs = []
    for _ in range(2):
        seen = []
        draw()
        runs.append(seen)
    assert runs[0] == runs[1] and len(set(runs[0])) > 5
    assert settings().database is None and settings().deadline is None


@pytest.mark.parametrize("time", [1, 2])
def test_what_has_no_generator_of_its_own_begins_at_one_seed(time):
    DRAWN.append((torch.rand(2).tolist(), np.random.rand(), random.random()))  # noqa: NPY002
    assert DRAWN[-1] == DRAWN[0] and torch.initial_seed() == 0
