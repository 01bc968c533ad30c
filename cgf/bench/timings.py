"""What the seconds of several runs of the same work are told by: the median run, and the range of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from cgf.types import Json


def timings(seconds: Sequence[float]) -> Json:
    """median, low and high of the seconds of runs; of an even number the median is the mean of the middle two.

    ValueError (StatisticsError) without a run.
    """
    return {"median": float(median(seconds)), "low": float(min(seconds)), "high": float(max(seconds))}
