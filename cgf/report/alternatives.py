"""Every softmax in one table (results/bench/alternatives.json): for the README, the terminal and as a plot."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path

from matplotlib.axes import Axes
from rich.console import Console

from cgf.report import training
from cgf.report.columns import NONE, Column, Entry, markdown, or_dash, terminal, yes_or_no
from cgf.report.figure import new_figure, png
from cgf.types import Json, JsonValue

DRAWN = 2  # counts changes of the drawing: a figure of an earlier one is stale
COLOURS = {"strict": "#0072B2", "weak": "#E69F00"}  # of the order that a softmax keeps


def _levels(entry: Entry) -> str:
    """Levels, with a star where a chain stands in for exp."""
    return or_dash(entry["levels"]) + ("*" if entry["stand_in_for_exp"] else "")


KEPT = (
    Column("order", lambda e: e["order"] or NONE),
    Column("positivity", lambda e: e["positive"] or NONE),
    Column("shift invariance", lambda e: NONE if e["shift_invariant"] is None else yes_or_no(e["shift_invariant"])),
)
COST = (
    Column("softmax", itemgetter("softmax")),
    Column("levels", lambda e: or_dash(e["levels"])),
    Column("products", lambda e: or_dash(e["cmult"])),
)


def block(folder: Path, entries: list[Entry]) -> str:
    """The README's table: softmaxes that were tried, with accuracies from the rows of training as they are now."""
    results = training.read_results(folder) if any((folder / "train").glob("*.json")) else []
    trained = {(f"{g['host']} {g['task']}", g["run"]): g for g in training.groups(results)}

    def accuracy(where: str) -> Column:
        def cell(entry: Entry) -> str:
            group = trained.get((where, entry["softmax"]))
            return NONE if group is None else f"{100 * group['accuracy']:.2f} % ({len(group['seeds'])})"

        return Column(f"{where} (seeds)", cell)

    places = sorted({where for where, _ in trained})
    tried = [entry for entry in entries if entry["order"] is not None]
    return markdown((*COST, *KEPT, *map(accuracy, places)), tried)


def places_of(result: Json) -> list[str]:
    """Hosts and tasks on which any softmax of the result was trained."""
    return sorted({where for entry in result["table"] for where in entry["accuracy"]})


def print_alternatives(result: Json) -> None:
    """The table on the terminal, with the accuracies that the result states."""

    def accuracy(where: str) -> Column:
        def cell(entry: Entry) -> str:
            stated = entry["accuracy"].get(where)
            return NONE if stated is None else f"{100 * stated['accuracy']:.2f} %"

        return Column(where, cell)

    places = places_of(result)
    columns = (COST[0], Column("levels", _levels), *COST[2:], *KEPT, *map(accuracy, places))
    title = f"{result['rows']} rows of {result['columns']} in 2^15 slots; * exp by {result['exponential']}"
    Console(width=140 + 12 * len(places)).print(terminal(columns, result["table"], title))


def shown(result: Json) -> list[JsonValue]:
    """All that the figure shows (``cgf.report.figure.is_current``)."""
    return [DRAWN, result["table"]]


def plot(result: Json) -> bytes:
    """Levels against products of ciphertexts, and against accuracy where there are results; filled: order kept. PNG."""
    places = places_of(result)
    figure, (first, *others) = new_figure(4.2 * (1 + len(places)), 1 + len(places), columns=1)
    costs = [(entry, entry["levels"], entry["cmult"]) for entry in result["table"] if entry["levels"] is not None]
    _scatter(first, costs, "products of ciphertexts")
    first.set_yscale("log")
    for axes, where in zip(others, places, strict=True):
        _accuracies(axes, where, result["table"])
    return png(figure, shown(result))


def _accuracies(axes: Axes, where: str, entries: Sequence[Entry]) -> None:
    """One host and task; what has no circuit is a dotted line."""
    points = []
    for entry in entries:
        if (trained := entry["accuracy"].get(where)) is not None:
            points.append((entry, trained["levels"] or entry["levels"], 100 * trained["accuracy"]))
    _scatter(axes, [point for point in points if point[1] is not None], "accuracy, %")
    for entry, levels, accuracy in points:
        if levels is None:
            axes.axhline(accuracy, ls=":", color="0.4")
            axes.annotate(entry["softmax"], (1, accuracy), xycoords=axes.get_yaxis_transform(), fontsize=7)
    axes.set_title(where, fontsize=10)


def _scatter(axes: Axes, points: list[tuple[Entry, int, float]], label: str) -> None:
    names: dict[tuple[float, float], list[str]] = defaultdict(list)
    for entry, x, y in points:
        colour = COLOURS.get(entry["order"], "#999999")
        axes.plot(x, y, "o", color=colour, markerfacecolor=colour if entry["positive"] == "yes" else "none")
        names[x, y].append(entry["softmax"])
    for place, here in names.items():
        axes.annotate(", ".join(here), place, xytext=(5, 3), textcoords="offset points", fontsize=7)
    if points:
        axes.set_xscale("log")
    axes.set_xlabel("levels (blue: order kept, orange: weakly, grey: not; filled: weights positive)")
    axes.set_ylabel(label)
