"""The scores that every row of the cost tables is measured on."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq

from cgf.errors import UserError


def spanning_matrix(rows: int = 256, columns: int = 256, seed: int = 20_260_419) -> np.ndarray:
    """Scores (rows, columns) in [-128, 0] whose exponent y = x - K - ln n spans [-128, 0] in earnest.

    Each row: 3 of 256 entries with y in [-1, 0], one of them at least -0.69 (a weight above 1/2); 2 of 256 with
    y in [-122, -105]; the others normal with standard deviation 5 about the mean that makes K = mean + variance /
    2 come out right. A public shift in [-5, 0] a row keeps x from being y. An answer of zeros is wrong by 1/2.
    Raises UserError for fewer than 128 columns: such rows have no solution.
    """
    if columns < 128:
        raise UserError(f"the matrix needs rows of at least 128 entries, and {columns} were asked")
    rng, result = np.random.default_rng(seed), np.empty((rows, columns))
    tops, lows = 3 * columns // 256, 2 * columns // 256
    for row in result:
        top = np.r_[rng.uniform(-0.69, -0.01), rng.uniform(-1.0, 0.0, tops - 1)]
        fixed = np.r_[top, rng.uniform(-122.0, -105.0, lows)]
        bulk = 5.0 * rng.standard_normal(columns - len(fixed)).clip(-4, 4)
        y = np.r_[fixed, bulk + brentq(lambda m: _excess(np.r_[fixed, bulk + m]), -64.0, -25.0)]  # noqa: B023
        row[:] = rng.permutation(y) - rng.uniform(0.0, 5.0)
    return result


def _excess(y: np.ndarray) -> float:
    """K(y) + ln n, zero where y is its own exponent."""
    return float(y.mean() + y.var() / 2 + np.log(len(y)))


def exponent(x: np.ndarray) -> np.ndarray:
    """y = x - mean - variance / 2 - ln n of each row."""
    return x - x.mean(-1, keepdims=True) - x.var(-1, keepdims=True) / 2 - np.log(x.shape[-1])


def exact_softmax(x: np.ndarray) -> np.ndarray:
    """Softmax of each row of x (rows, columns), in float64."""
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def errors(truth: np.ndarray, got: np.ndarray) -> dict[str, float]:
    """max_error: largest absolute; eta: of a row, in the maximum norm, relative (the paper's)."""
    difference = np.abs(got - truth)
    return {
        "max_error": float(difference.max()),
        "mean_error": float(difference.mean()),
        "eta": float((difference.max(-1) / np.abs(truth).max(-1)).max()),
    }
