"""What the file of a search of settings says: a line for the search, then one a trial (scripts/search.py)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

from cgf.results import read_lines
from cgf.types import Json

RANKED = "ranked first"  # which of equals is taken


def finished(path: Path) -> tuple[Json, int] | None:
    """The best trial of the last round of a search's file and the number of all its trials, each training counted once.

    None while it goes on, and where the numbers of every trial of that round ran off. Of equals it is the one that the
    round before had ranked first, at the start the one drawn first, however trials that ran at once ended; of a search
    whose first line has no ``ties`` it is the one that ended first, as its rows have it.
    """
    lines = read_lines(path)
    if not lines:
        return None
    head, trials = lines[0], lines[1:]
    left = list(head["drawn"])
    for number, (count, _) in enumerate(head["rounds"]):
        there = {line["configuration"]: line for line in trials if line["round"] == number}
        if not set(left[:count]) <= set(there):
            return None
        left = sorted(left[:count], key=lambda index: rank(there[index]))
    best = there[left[0]] if head.get("ties") == RANKED else min(there.values(), key=rank)
    different = {(line["round"], line["configuration"]) for line in trained(trials)}
    return None if best["validation"] is None else (best, len(different))


def trained(lines: Iterable[Json]) -> list[Json]:
    """The lines of trials that were trained: those that a round took over from the one before were not."""
    return [line for line in lines if "taken_from" not in line]


def rank(line: Json) -> float:
    """Orders the lines of trials: better ones first, those whose numbers ran off last."""
    return math.inf if line["validation"] is None else -line["validation"]
