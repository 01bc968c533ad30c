"""Seconds of the phases of a run."""

from __future__ import annotations

import time
from collections import Counter

from cgf.he.engines.count import spend


class Laps:
    """Seconds by name, each since the lap before; laps of one name are summed."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self._last = time.perf_counter()

    def __call__(self, name: str) -> None:
        before, self._last = self._last, time.perf_counter()
        spend(self.seconds, name, self._last - before)
