"""Intervals of shares over samples."""

from __future__ import annotations


def wilson(hits: int, samples: int) -> tuple[float, float]:
    """Ends of Wilson's 95 % interval of the share hits / samples, as shares."""
    from scipy.stats import binomtest  # a second to load

    low, high = binomtest(hits, samples).proportion_ci(0.95, method="wilson")
    return float(low), float(high)
