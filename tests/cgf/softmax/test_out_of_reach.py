"""Published softmaxes with numbers that no circuit could have are refused when they are made, in one sentence."""

import time

import pytest

from cgf.errors import UserError
from cgf.softmax.load import softmax_from_json
from cgf.softmax.published.comparison import Comparison
from cgf.softmax.published.normalize_square import NormalizeSquare

HETAL = "hetal needs scores within 2\\^40, radius 2\\^extensions / 2, and has"
CHO = "cho needs scores within 2\\^40 of each other and at most 40 rounds, and has"


@pytest.mark.parametrize(
    "described, sentence",
    [
        ({"variant": "hetal", "extensions": 512}, f"{HETAL} radius 8.0 and 512 extensions"),
        ({"variant": "hetal", "radius": 1e300}, f"{HETAL} radius 1e\\+300 and 5 extensions"),
        ({"variant": "cho", "bound": 1e300}, f"{CHO} bound 1e\\+300"),
        ({"variant": "cho", "k": 512, "degrees": [512] * 512}, f"{CHO} bound 128.0 and k 512"),
    ],
)
def test_a_softmax_json_out_of_reach_is_refused_at_once(described, sentence):
    start = time.perf_counter()
    with pytest.raises(UserError, match=sentence):
        softmax_from_json(described)
    assert time.perf_counter() - start < 1


def test_what_is_not_a_number_is_refused():
    for made in (lambda: Comparison(radius=float("nan")), lambda: NormalizeSquare(bound=float("nan"))):
        with pytest.raises(UserError, match="> 0"):
            made()


def test_the_widest_scores_are_within_reach():
    assert Comparison(radius=8.0, extensions=38).half_width == 2.0**40
    assert NormalizeSquare(bound=2.0**40, k=40).k == 40
