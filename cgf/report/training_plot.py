"""Accuracy against the levels of the circuit, a panel a host and task, as the paper's figure has it."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from matplotlib.typing import ColorType

from cgf.report.figure import colours_and_markers, new_figure, png
from cgf.report.training import REFERENCE, groups
from cgf.types import Json, JsonValue, VendorObject

Handle = VendorObject  # matplotlib's Artist or Container: its own types know the first alone
PLOT = "train/accuracy.png"
COLUMNS, PANEL_IN, LEGEND_IN = 3, 2.9, 1.3
APART = 0.22  # levels between points that share theirs
KEYS = ("host", "task", "run", "seeds", "levels", "accuracy", "least", "most")  # of a group, what is drawn of it
DRAWN = 7  # counts changes of the drawing: a plot of an earlier one is stale


def shown(results: list[Json]) -> list[JsonValue]:
    """All that the plot shows (``figure.is_current``)."""
    return [DRAWN, [{key: g[key] for key in KEYS} for g in groups(results)]]


def plot(results: list[Json]) -> bytes:
    """Mean over the seeds, least to most where there are several; a line for each run without levels. PNG.

    A run whose seeds need different levels stands at the most of them.
    A hollow point is of fewer seeds than others of its panel: it stands against the line of other seeds.
    """
    entries = groups(results)
    places = list(dict.fromkeys((g["host"], g["task"]) for g in entries))
    names = sorted({g["run"] for g in entries if g["levels"] is not None})
    looks = colours_and_markers(names)
    columns = min(COLUMNS, len(places))
    figure, axes = new_figure(PANEL_IN * -(-len(places) // columns) + LEGEND_IN, len(places), columns)
    handles: dict[str, Handle] = {}
    for ax, place in zip(axes, places, strict=True):
        handles |= _panel(ax, [g for g in entries if (g["host"], g["task"]) == place], looks)
        ax.set_title(", ".join(dict.fromkeys(place)), fontsize=10)
    lines = {g["run"] for g in entries if g["levels"] is None}
    ordered = sorted(handles, key=lambda name: (name not in lines, name))
    figure.legend([handles[name] for name in ordered], ordered, loc="outside lower center", ncols=5, fontsize=7)
    return png(figure, shown(results))


def _panel(ax: Axes, here: list[Json], looks: dict[str, tuple[ColorType, str]]) -> dict[str, Handle]:
    """Draws one host and task; returns what the legend shows of it, by name."""
    handles: dict[str, Handle] = {}
    drawn: dict[int, int] = {}
    most = max(len(g["seeds"]) for g in here)
    for g in here:
        middle = 100 * g["accuracy"]
        if g["levels"] is None:
            style = "--" if g["run"] == REFERENCE else ":"
            handles[g["run"]] = ax.axhline(middle, color="0.3", ls=style, lw=1)
            continue
        level = g["levels"][-1]  # of the seed that needs most
        colour, marker = looks[g["run"]]
        beside, drawn[level] = drawn.get(level, 0), drawn.get(level, 0) + 1
        # where all seeds are alike their mean may be off by a rounding, and a bar has no negative length
        below, above = (max(0.0, d) for d in (middle - 100 * g["least"], 100 * g["most"] - middle))
        ends = [[below], [above]] if len(g["seeds"]) > 1 else None
        handles[g["run"]] = ax.errorbar(
            level + APART * beside,
            middle,
            ends,
            fmt=marker,
            ms=5,
            capsize=3,
            color=colour,
            mfc=colour if len(g["seeds"]) == most else "none",
        )
    if drawn:  # a panel of few levels is no wider than it means
        ax.set_xlim(min(drawn) - 1, max(drawn) + 1)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    ax.set_xlabel("levels", fontsize=9)
    ax.set_ylabel("test accuracy, %", fontsize=9)
    return handles
