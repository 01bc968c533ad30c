"""Every softmax in one table: what it costs under CKKS, what it keeps of softmax, how well models do with it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from cgf.approx.exponential import Exponential
from cgf.bench.properties import kept
from cgf.errors import UserError
from cgf.former import current_row
from cgf.he.dryrun import depth
from cgf.he.score_rows import Rows
from cgf.results import read_json
from cgf.softmax.base import Softmax
from cgf.softmax.published.base import Published
from cgf.types import Json

NEEDED = ("host", "task", "run", "softmax", "seed", "accuracy")  # of a training result


def cost(softmax: Softmax, rows: int, columns: int) -> Json:
    """Levels and operations of full rows in 2^15 slots; None where there is no circuit."""
    if not softmax.encryptable:
        return {"levels": None, "cmult": None, "rotate": None}
    needs = depth(softmax, Rows((1, 1, rows, columns), 0, None, np.full(rows, float(columns))), columns)
    return {"levels": needs.levels, "cmult": needs.ops["cmult"], "rotate": needs.ops["rotate"]}


def table(
    softmaxes: Mapping[str, Softmax], exponential: Exponential, rows: int, columns: int, results: list[Json]
) -> list[Json]:
    """An entry a softmax, by name; then one for each run of another name.

    exponential  stands in for exp where a softmax has no polynomial of its own; its weights are those of exp
    results      of training, as ``training_results`` gives them
    """
    lines = []
    for name, softmax in softmaxes.items():
        properties = kept(softmax)  # before a polynomial takes the place of exp
        stands_in = softmax.uses_exponential and softmax.exponential is None
        if stands_in:
            softmax.exponential = exponential
        lines.append(
            {
                "softmax": name,
                **cost(softmax, rows, columns),
                "stand_in_for_exp": stands_in,
                "order": properties.order,
                "positive": properties.positive,
                "shift_invariant": properties.shift_invariant,
                "shift_change": properties.shift_change,
            }
        )
    return with_accuracies(lines, results)


def with_accuracies(entries: list[Json], results: list[Json]) -> list[Json]:
    """The entries of softmaxes with the accuracies of these results, then one for each run of another name."""
    accuracies = by_run(results)
    lines = [
        {**entry, "accuracy": accuracies.pop(entry["softmax"], {})} for entry in entries if entry["order"] is not None
    ]
    blank = dict.fromkeys(
        ("levels", "cmult", "rotate", "stand_in_for_exp", "order", "positive", "shift_invariant", "shift_change")
    )
    return lines + [{"softmax": name, **blank, "accuracy": each} for name, each in sorted(accuracies.items())]


def choices(softmaxes: Mapping[str, Softmax]) -> str:
    """The names of all softmaxes in a line of Markdown: those with a definition of their own, then the published ways
    to compute softmax itself."""
    approximations = [name for name, softmax in softmaxes.items() if type(softmax).weights is Published.weights]
    definitions = [name for name in softmaxes if name not in approximations]
    of_own, of_softmax = (", ".join(f"`{name}`" for name in names) for names in (definitions, approximations))
    return f"{of_own}; published ways to compute softmax itself: {of_softmax}"


def by_run(results: list[Json]) -> dict[str, dict[str, Json]]:
    """run -> 'host task' -> mean accuracy over seeds, seeds, and the levels that the files state."""
    groups: dict[tuple[str, str], list[Json]] = defaultdict(list)
    for result in results:
        groups[result["run"], f"{result['host']} {result['task']}"].append(result)
    accuracies: dict[str, dict[str, Json]] = defaultdict(dict)
    for (run, where), group in groups.items():
        levels = [r["total_levels"] for r in group if r.get("total_levels") is not None]
        accuracies[run][where] = {
            "accuracy": float(np.mean([r["accuracy"] for r in group])),
            "seeds": sorted(r["seed"] for r in group),
            "levels": max(levels, default=None),
        }
    return dict(accuracies)


def training_results(folder: Path) -> list[Json]:
    """The files of a folder of training results; none where there is no such folder. UserError for a file that
    lacks what the table needs."""
    results = []
    for path in sorted(folder.glob("*.json")):
        result = current_row(read_json(path), path)
        result = result if isinstance(result, dict) else {}
        if missing := [k for k in NEEDED if k not in result]:
            raise UserError(f"{path} is to be a training result, and lacks {', '.join(missing)}")
        results.append(result)
    return results
