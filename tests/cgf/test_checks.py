"""Checks of what a person gives: the value comes back, or one sentence says what is needed and what there is."""

import math

import numpy as np
import pytest

from cgf.checks import interval, one_of, path_part, positive, share, whole
from cgf.errors import UserError


def test_what_holds_comes_back():
    assert whole("k", np.int64(3), 1, 3) == 3 and type(whole("k", np.int64(3), 1)) is int
    assert positive("tolerance", 1e-4) == 1e-4 and share("outside", 0, "the entries") == 0
    assert interval("domain", [-8, 0]) == (-8.0, 0.0) and one_of("mask", "full", ("full", "causal")) == "full"


@pytest.mark.parametrize(
    "check, says",
    [
        (lambda: whole("k", True, 1, 3), "k must be a whole number from 1 to 3, and True was given"),
        (lambda: whole("k", 2.0, 1, 3), "k must be a whole number from 1 to 3, and 2.0 was given"),
        (lambda: whole("k", 4, 1, 3), "k must be a whole number from 1 to 3, and 4 was given"),
        (lambda: whole("k", 0, 1), "k must be a whole number of at least 1, and 0 was given"),
        (lambda: positive("alpha", 0.0), "alpha must be positive, and is 0.0"),
        (lambda: positive("alpha", math.inf), "alpha must be positive, and is inf"),
        (lambda: positive("alpha", "x"), "alpha must be positive, and is x"),
        (
            lambda: share("outside", 1.0, "the entries"),
            "outside is a share of the entries, from 0 to below 1, and 1.0 ",
        ),
        (
            lambda: share("outside", math.nan, "rows"),
            "outside is a share of rows, from 0 to below 1, and nan was given",
        ),
        (lambda: interval("domain", 3), "domain must be two numbers [lo, hi], and is 3"),
        (lambda: interval("domain", [1, 2, 3]), "domain must be two numbers [lo, hi], and is [1, 2, 3]"),
        (lambda: interval("domain", [0, 0]), "domain needs finite lo < hi, and is [0.0, 0.0]"),
        (lambda: interval("domain", [-math.inf, 0]), "domain needs finite lo < hi, and is [-inf, 0.0]"),
        (lambda: one_of("mask", "half", ("full", "causal")), "mask must be one of full, causal, and 'half' was given"),
        *(
            (lambda text=text: path_part("task.name", text), "task.name becomes part of a path: it must be one name")
            for text in ("", ".", "..", "../x", "a/b", "a\\b", "/etc")
        ),
    ],
)
def test_what_does_not_is_said_in_one_sentence(check, says):
    with pytest.raises(UserError) as refused:
        check()
    assert str(refused.value).startswith(says)
