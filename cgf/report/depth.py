"""Accuracy against multiplicative depth: points of trained rows and of published polynomials, by host and task."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from cgf.errors import UserError
from cgf.published import FIGURE_DEPTH
from cgf.report.comparison import KEPT, Result, accuracy_interval, against_exact, red_of
from cgf.report.training import REFERENCE, read_results
from cgf.results import read_json
from cgf.stats.intervals import wilson
from cgf.stats.labels import UNDECIDED, WITHIN, Comparison, compare
from cgf.types import Json

FAMILIES = {
    "llama": ("stories260k", "smollm2"),
    "vit": ("digits", "digits_folds", "vit_s14"),
    "bert": ("minilm", "minilm_sentences"),
}  # hosts of each figure
FOLDER = "approximated"  # of results, where scripts/bench/approximated.py writes
TRAINED, APPROXIMATED = "trained", "approximated"
NEEDED = ("host", "task", "softmax", "levels", "seed", "samples", "correct", "accuracy", "paired", "run", "loss")
Point = Json


def with_its_polynomial(result: Result) -> Result:
    """A result of training with the accuracy that belongs to its levels: that of its planned polynomial, if it has one.

    Counts of samples and predictions are those of the same evaluation. UserError for one that has such an accuracy
    and lacks what belongs to it.
    """
    if result.get("accuracy_planned") is None:
        return result
    kept = result.get(KEPT)
    lacks = "paired_planned" if result.get("paired_planned") is None else None
    if kept is not None and kept.planned is None:
        lacks = lacks or "predictions with the plan"
    if lacks is not None:
        raise UserError(
            f"row {result['run']} of {result['host']}, seed {result['seed']}, has accuracy_planned and lacks {lacks}: "
            "make it anew"
        )
    kept = None if kept is None else replace(kept, this=kept.planned)
    return {**result, "accuracy": result["accuracy_planned"], "paired": result["paired_planned"], KEPT: kept}


def points(folder: Path) -> list[Point]:
    """Every point of the figures from a results folder, by host, task, levels and name; exact softmax has no levels.

    UserError where a file lacks a field or came from a changed tree.
    """
    unordered = [*_trained(read_results(folder)), *_approximated(folder / FOLDER)]
    return sorted(unordered, key=lambda p: (p["host"], p["task"], p["levels"] or 0, p["kind"], p["softmax"]))


def _trained(results: list[Result]) -> list[Point]:
    """A point for each run whose every seed has levels, and for the exact softmax, over its seeds."""
    by: dict[tuple[str, str, str], list[Result]] = {}
    for result in results:
        by.setdefault((result["host"], result["task"], result["run"]), []).append(with_its_polynomial(result))
    counted = (g for g in by.values() if g[0]["run"] == REFERENCE or all(r["total_levels"] is not None for r in g))
    return [_point(group) for group in counted]


def _point(results: list[Result]) -> Point:
    first = results[0]
    low, high = accuracy_interval(results)
    levels = [result["total_levels"] for result in results if result["total_levels"] is not None]
    red = red_of(results, "evaluation") or red_of(results, "evaluation_planned")
    return {
        "host": first["host"],
        "task": first["task"],
        "softmax": first["run"] + (" (red)" if red and first["run"] != REFERENCE else ""),
        **({"red": True} if red else {}),
        "kind": TRAINED,
        "levels": max(levels, default=None),  # what a server needs that is to run any of its seeds
        "least_levels": min(levels, default=None),
        "seeds": sorted(result["seed"] for result in results),
        "samples": sum(first["paired"].values()),
        "accuracy": 100 * sum(result["accuracy"] for result in results) / len(results),
        "low": low,
        "high": high,
        "validation": 100 * sum(result["validation"] for result in results) / len(results),
        "validations": {str(result["seed"]): result["validation"] for result in results},
        **_against(None if first["run"] == REFERENCE else against_exact(results)),
    }


def _against(comparison: Comparison | None) -> Json:
    """What was tested against exact softmax, in points; None in each place of exact softmax itself."""
    if comparison is None:
        return {"against_exact": None, "against_low": None, "against_high": None, "labels": [], "decided": True}
    low, high = comparison.interval or (None, None)
    return {
        "against_exact": comparison.points,
        "against_low": low,
        "against_high": high,
        "labels": comparison.labels,
        "decided": not comparison.labels[0].startswith(UNDECIDED),
    }


def supported(point: Point) -> bool:
    """Whether both intervals say that a point lies no more than half a point below exact softmax."""
    return WITHIN in point["labels"]


def _approximated(folder: Path) -> list[Point]:
    """A point for each file of a published way to compute exact softmax, in a model that was trained with that."""
    approximations = []
    for path in sorted(folder.glob("*.json")):
        result = read_json(path)
        if missing := [key for key in NEEDED if not isinstance(result, dict) or key not in result]:
            raise UserError(f"{path} is to be of scripts/bench/approximated.py, and lacks {', '.join(missing)}")
        if result["run"]["git"]["dirty"]:
            raise UserError(f"{path} must come from a clean tree to be shown, and its tree was changed: make it anew")
        if result["softmax"] != REFERENCE:
            approximations.append(_of_polynomials(result))
    return approximations


def _of_polynomials(result: Json) -> Point:
    samples, paired = result["samples"], result["paired"]
    low, high = wilson(result["correct"], samples)
    alone = paired["this_alone"], paired["exact_alone"]
    exact = (paired["both"] + paired["exact_alone"]) / samples
    return {
        "host": result["host"],
        "task": result["task"],
        "softmax": result["softmax"],
        "kind": APPROXIMATED,
        "levels": result["levels"],
        "least_levels": result["levels"],
        "seeds": [result["seed"]],
        "samples": samples,
        "accuracy": 100 * result["accuracy"],
        "low": 100 * low,
        "high": 100 * high,
        "validation": None,
        "validations": {},
        **_against(compare([(result["accuracy"], exact)], samples, None, alone)),
    }


def of_family(points: list[Point], family: str) -> Json:
    """What the figure of a family shows: panels in order, and the published depths that it marks.

    UserError where no row is of its hosts.
    """
    hosts = FAMILIES[family]
    here = [p for p in points if p["host"] in hosts]
    places = sorted({(p["host"], p["task"]) for p in here}, key=lambda place: (hosts.index(place[0]), place[1]))
    if not places:
        raise UserError(f"the figure of {family} needs rows of {', '.join(hosts)}, and there are none")
    return {
        "family": family,
        "panels": [
            {"host": host, "task": task, "points": [p for p in here if (p["host"], p["task"]) == (host, task)]}
            for host, task in places
        ],
        "published_levels": FIGURE_DEPTH,
    }
