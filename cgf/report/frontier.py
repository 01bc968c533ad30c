"""The best accuracy that any softmax reaches with so many levels, host by host: the frontier lower down."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

from cgf.errors import UserError
from cgf.report.columns import grid
from cgf.report.depth import TRAINED, Point, supported
from cgf.report.training import DIGITS, REFERENCE
from cgf.results import read_json
from cgf.stats.labels import LEAST_SEEDS
from cgf.types import Json

FILE = "frontier.json"
LEVELS = (2, 3, 4, 5)
NOTE = (
    "the run of at most so many levels that is best on validation, by its mean over the seeds that all runs of three "
    "seeds or more share: the test set chooses nothing; of equals the one of fewer levels; a run of one or two seeds "
    "only where there is no other; levels are those of the seed that needs most; accuracy, ends of its 95 % interval "
    "and points against exact softmax are of the test set and of all its seeds; supported: whether both intervals lie "
    "above -0.5 points"
)
TITLES = ["host", "task", "levels", "softmax", "its levels", "seeds", "accuracy [95 %]", "points against exact [95 %]"]
Entry = Json


def entries(points: list[Point]) -> list[Entry]:
    """An entry for each host, task and number of LEVELS for which a trained run needs no more; of none that is red."""
    table = []
    for host, task in sorted({(p["host"], p["task"]) for p in points}):
        runs = [p for p in points if (p["host"], p["task"], p["kind"]) == (host, task, TRAINED)]
        for levels in LEVELS:
            able = [p for p in runs if p["softmax"] != REFERENCE and p["levels"] <= levels and not p.get("red")]
            if able:
                table.append(_entry(levels, best(able)))
    return table


def best(able: list[Point]) -> Point:
    """The point that is best on validation, as NOTE says; of equals that of fewer levels, then the first by name."""
    candidates = [p for p in able if len(p["seeds"]) >= LEAST_SEEDS] or able
    shared = set.intersection(*(set(p["validations"]) for p in candidates))

    def validation(point: Point) -> float:
        values = [value for seed, value in point["validations"].items() if seed in shared or not shared]
        return round(fmean(values), DIGITS)

    return min(candidates, key=lambda p: (-validation(p), p["levels"], p["softmax"]))


def _entry(levels: int, point: Point) -> Entry:
    return {
        "host": point["host"],
        "task": point["task"],
        "levels": levels,
        "softmax": point["softmax"],
        "own_levels": point["levels"],
        "seeds": point["seeds"],
        "samples": point["samples"],
        "validation": point["validation"] / 100,
        "accuracy": point["accuracy"] / 100,
        "low": point["low"] / 100,
        "high": point["high"] / 100,
        "against_exact": point["against_exact"],
        "against_low": point["against_low"],
        "against_high": point["against_high"],
        "labels": point["labels"],
        "supported": supported(point),
    }


def table(folder: Path) -> str:
    """frontier.json as a markdown table; UserError where the file is missing."""
    path = folder / FILE
    if not path.is_file():
        raise UserError(f"the table needs {path}, and it is not there: python scripts/repo/tables.py")
    return grid(TITLES, [_cells(entry) for entry in read_json(path)["rows"]])


def _cells(entry: Entry) -> list[str]:
    ends = "" if entry["against_low"] is None else f" [{entry['against_low']:+.2f}, {entry['against_high']:+.2f}]"
    return [
        entry["host"],
        entry["task"],
        str(entry["levels"]),
        f"`{entry['softmax']}`",
        str(entry["own_levels"]),
        ", ".join(map(str, entry["seeds"])),
        f"{100 * entry['accuracy']:.2f} % [{100 * entry['low']:.2f}, {100 * entry['high']:.2f}]",
        f"{entry['against_exact']:+.2f}{ends}, {', '.join(entry['labels'])}",
    ]
