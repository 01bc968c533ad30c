"""results/approx/paper_k.json holds what it says: every polynomial in it is measured again, and levels counted."""

import json
from pathlib import Path

import pytest

from cgf.approx.exponential_json import exponential_from_json
from cgf.approx.fit import guard_interval, max_error
from cgf.plan.cost import needs_of

PATH = Path(__file__).parents[3] / "results" / "approx" / "paper_k.json"
ROWS = json.loads(PATH.read_text())["rows"]


def test_every_k_of_the_papers_table_is_there():
    assert {(r["method"], r["k"], len(r["where"])) for r in ROWS} == {
        ("chebyshev", 1, 2),
        ("chebyshev", 3, 3),
        ("chebyshev", 4, 1),
        ("chebyshev", 6, 1),
        ("limit", 6, 3),
        ("limit", 7, 2),
        ("limit", 8, 2),
    }


@pytest.mark.parametrize("row", ROWS, ids=lambda r: f"{r['method']}-{r['k']}")
def test_fewer_levels_on_the_same_interval_within_the_error(row):
    e, (lo, hi) = exponential_from_json(row["ours"]["exponential"]), row["interval"]
    assert lo == (-8 * 2 ** row["k"] if row["method"] == "chebyshev" else -(2 ** (row["k"] + 1))) and hi == 0
    assert max_error(e, (lo, hi), 300_001) <= 1.0001e-5
    guard = guard_interval(e, domain=(lo, hi))
    assert guard[0] <= lo and guard[1] >= hi and guard == pytest.approx(row["ours"]["guard"])
    levels = needs_of(e, "full", 256, 256)[0].levels
    assert levels == 1 + e.levels == row["ours"]["levels"]
    formula = row["k"] + (6 if row["method"] == "chebyshev" else 2)
    assert row["paper"]["levels"] == row["paper"]["levels_counted"] == formula
    assert levels < formula and row["fewer"] == formula - levels
    assert row["ours"]["levels_core"] == e.levels and row["paper"]["levels_core"] == row["paper"]["levels_folded"] - 1
    assert row["paper"]["levels_folded"] < formula and levels <= row["paper"]["levels_folded"]
