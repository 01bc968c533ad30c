"""Every softmax in one table: what it costs under CKKS, what it keeps of softmax, how well models do with it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cgf.bench.properties import kept
from cgf.errors import UserError
from cgf.former import current_row
from cgf.he.dryrun import depth
from cgf.he.packed import Rows
from cgf.results import read_json
from cgf.softmax.base import Softmax
from cgf.softmax.published.base import Published

NEEDED = ("host", "task", "softmax", "seed", "accuracy")  # of a training result


def cost(softmax: Any, rows: int, columns: int) -> dict[str, Any]:
    """Levels and operations of full rows in 2^15 slots; None where there is no circuit."""
    if not softmax.encryptable:
        return {"levels": None, "cmult": None, "rotate": None}
    needs = depth(softmax, Rows((1, 1, rows, columns), 0, None, np.full(rows, float(columns))), columns)
    return {"levels": needs.levels, "cmult": needs.ops["cmult"], "rotate": needs.ops["rotate"]}


def table(
    softmaxes: Mapping[str, Any], exponential: Any, rows: int, columns: int, results: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """A row a softmax, by name; then a row for each run of another name.

    exponential  stands in for exp where a softmax has no polynomial of its own; its weights are those of exp
    results      of training, as ``training_results`` gives them
    """
    accuracies, lines = by_run(results), []
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
                "accuracy": accuracies.pop(name, {}),
            }
        )
    blank = dict.fromkeys(
        ("levels", "cmult", "rotate", "stand_in_for_exp", "order", "positive", "shift_invariant", "shift_change")
    )
    return lines + [{"softmax": name, **blank, "accuracy": found} for name, found in sorted(accuracies.items())]


def choices(softmaxes: Mapping[str, Softmax]) -> str:
    """The names of all softmaxes in a line of Markdown: those with a definition of their own, then the published ways
    to compute softmax itself."""
    approximations = [name for name, softmax in softmaxes.items() if type(softmax).weights is Published.weights]
    definitions = [name for name in softmaxes if name not in approximations]
    of_own, of_softmax = (", ".join(f"`{name}`" for name in names) for names in (definitions, approximations))
    return f"{of_own}; published ways to compute softmax itself: {of_softmax}"


def by_run(results: list[dict[str, Any]]) -> dict[str, dict[str, dict[str, Any]]]:
    """run -> 'host task' -> mean accuracy over seeds, seeds, and the levels that the files state."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in results:
        groups[row["run"], f"{row['host']} {row['task']}"].append(row)
    found: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
    for (run, where), rows in groups.items():
        levels = [r["total_levels"] for r in rows if r.get("total_levels") is not None]
        found[run][where] = {
            "accuracy": float(np.mean([r["accuracy"] for r in rows])),
            "seeds": sorted(r["seed"] for r in rows),
            "levels": max(levels, default=None),
        }
    return dict(found)


def training_results(folder: Path) -> list[dict[str, Any]]:
    """The files of a folder of training results; none where there is no such folder. UserError for a file that
    lacks what the table needs."""
    rows = []
    for path in sorted(folder.glob("*.json")):
        row = current_row(read_json(path), path)
        row = row if isinstance(row, dict) else {}
        if missing := [k for k in NEEDED if k not in row]:
            raise UserError(f"{path} is to be a training result, and lacks {', '.join(missing)}")
        rows.append(row)
    return rows


def print_alternatives(result: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    places = sorted({where for row in result["table"] for where in row["accuracy"]})
    shown = Table(
        "softmax",
        "levels",
        "cmult",
        "order",
        "positive",
        "shift inv.",
        *places,
        title=f"{result['rows']} rows of {result['columns']} in 2^15 slots; * exp by {result['exponential']}",
    )
    for row in result["table"]:
        cells = [f"{100 * row['accuracy'][w]['accuracy']:.2f} %" if w in row["accuracy"] else "–" for w in places]
        levels = "–" if row["levels"] is None else f"{row['levels']}{'*' if row['stand_in_for_exp'] else ''}"
        shift = {None: "–", True: "yes", False: "no"}[row["shift_invariant"]]
        shown.add_row(
            row["softmax"], levels, str(row["cmult"] or "–"), row["order"] or "–", row["positive"] or "–", shift, *cells
        )
    Console(width=140 + 12 * len(places)).print(shown)


def draw_alternatives(result: dict[str, Any], path: Path) -> None:
    """Levels against products of ciphertexts, and against accuracy where there are results; filled: order kept."""
    from matplotlib.figure import Figure

    places = sorted({where for row in result["table"] for where in row["accuracy"]})
    figure = Figure(figsize=(7.5, 4.2 * (1 + len(places))), layout="constrained")
    panels = figure.subplots(1 + len(places), 1, squeeze=False)[:, 0]
    costs = [(row, row["levels"], row["cmult"]) for row in result["table"] if row["levels"] is not None]
    _scatter(panels[0], costs, "products of ciphertexts")
    panels[0].set_yscale("log")
    for axes, where in zip(panels[1:], places, strict=True):
        points = []
        for row in result["table"]:
            if (found := row["accuracy"].get(where)) is not None:
                points.append((row, found["levels"] or row["levels"], 100 * found["accuracy"]))
        _scatter(axes, [p for p in points if p[1] is not None], "accuracy, %")
        for row, levels, accuracy in points:
            if levels is None:
                axes.axhline(accuracy, ls=":", color="0.4")
                axes.annotate(row["softmax"], (1, accuracy), xycoords=axes.get_yaxis_transform(), fontsize=7)
        axes.set_title(where, fontsize=10)
    figure.savefig(path, dpi=150)


def _scatter(axes: Any, points: list[tuple[dict[str, Any], int, float]], label: str) -> None:
    names: dict[tuple[float, float], list[str]] = defaultdict(list)
    for row, x, y in points:
        colour = {"strict": "#0072B2", "weak": "#E69F00"}.get(row["order"], "#999999")
        axes.plot(x, y, "o", color=colour, markerfacecolor=colour if row["positive"] == "yes" else "none")
        names[x, y].append(row["softmax"])
    for place, here in names.items():
        axes.annotate(", ".join(here), place, xytext=(5, 3), textcoords="offset points", fontsize=7)
    if points:
        axes.set_xscale("log")
    axes.set_xlabel("levels (blue: order kept, orange: weakly, grey: not; filled: weights positive)")
    axes.set_ylabel(label)
