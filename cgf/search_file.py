"""What the file of a search of settings says: a line for the search, then one a trial (scripts/search.py)."""

from __future__ import annotations

import math
from pathlib import Path

from cgf.results import read_lines
from cgf.types import Json


def finished(path: Path) -> tuple[Json, int] | None:
    """The best trial of the last round of a search's file and the number of all its trials.

    None while it goes on, and where the numbers of every trial of that round ran off.
    """
    lines = read_lines(path)
    if not lines:
        return None
    last, trials = len(lines[0]["rounds"]) - 1, lines[1:]
    wanted = min(lines[0]["rounds"][last][0], len(lines[0]["drawn"]))
    of_last = [line for line in trials if line["round"] == last]
    if len(of_last) < wanted:
        return None
    best = min(of_last, key=rank)
    return None if best["validation"] is None else (best, len(trials))


def rank(line: Json) -> float:
    """Orders the lines of trials: better ones first, those whose numbers ran off last."""
    return math.inf if line["validation"] is None else -line["validation"]
