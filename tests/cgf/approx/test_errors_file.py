"""results/approx/errors.json holds what it says: every row is measured again, and the levels are those of its tree."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

PATH = Path(__file__).parents[3] / "results" / "approx" / "errors.json"
ROWS = json.loads(PATH.read_text())["rows"]
LIMITS = {(-128, 6): 2e-6, (-64, 5): 6e-5, (-32, 5): 2.5e-5, (-16, 4): 3e-4, (-16, 3): 1.2e-2}


def intermediates(row, y):
    """The core's values before each squaring and after the last, from the coefficients of the file alone."""
    k = row["k"]
    if "constants" in row:
        values = [row["alpha"] * y + row["beta"]]
        for constant in row["constants"]:
            values.append(values[-1] ** 2 + constant)
        return values
    values = [np.polynomial.polynomial.polyval(y / 2**k, row["coefficients"])]
    for _ in range(k):
        values.append(values[-1] ** 2)
    return values


@pytest.mark.parametrize("row", ROWS, ids=lambda r: f"{r['method']}-{r['degree']}-k{r['k']}-{r['domain'][0]:g}")
def test_a_row_holds_what_its_coefficients_do(row):
    lo, hi = row["domain"]
    y = np.linspace(lo, hi, 200_003)
    error = np.abs(intermediates(row, y)[-1] - np.exp(y)).max()
    assert error == pytest.approx(row["max_error"], rel=0.01, abs=1e-12)
    low, high = row["guard"]
    assert low <= lo and high >= hi
    inside = intermediates(row, np.linspace(low, high, 20_001))
    assert max(np.abs(values).max() for values in inside) <= row["guard_bound"] * (1 + 1e-6)
    assert row["levels_full"] == row["levels"] + 1 and row["levels_masked"] == row["levels"] + 2
    core = row["k"] if "constants" in row else row["k"] + math.ceil(math.log2(row["degree"] + 1))
    assert row["levels"] == core


def test_the_chains_are_within_the_limits_asked_for():
    found = {(row["domain"][0], row["k"]): row["max_error"] for row in ROWS if row["method"] == "chain"}
    assert all(found[case] <= limit for case, limit in LIMITS.items())
    (paper,) = [r for r in ROWS if (r["method"], r["degree"], r["k"], r["domain"]) == ("chebyshev", 15, 4, [-128, 0])]
    assert paper["max_error"] <= 3e-9
