"""The figures of accuracy against depth, one a family of hosts: bars are 95 % intervals, hollow is undecided."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.typing import ColorType

from cgf.report.depth import APPROXIMATED, Point
from cgf.report.figure import colours_and_markers, new_figure, png
from cgf.report.training import REFERENCE
from cgf.types import Json, JsonValue

COLUMNS, PANEL_IN, LEGEND_IN = 3, 3.1, 1.3
APART = 1.035  # factor between points that share their levels: the axis is logarithmic
LEAST = 1.6  # levels at the left end
DRAWN = 2  # counts changes of the drawing: a figure of an earlier one is stale
SHAPES = {APPROXIMATED: "s"}  # of a kind of point; trained ones are of no squares
Look = tuple[ColorType, str]  # colour and marker


def shown(figure: Json) -> list[JsonValue]:
    """All that a figure shows (``cgf.report.figure.is_current``)."""
    return [DRAWN, figure]


def plot(figure: Json) -> bytes:
    """PNG of what ``cgf.report.depth.of_family`` gives."""
    panels = figure["panels"]
    names = sorted({p["softmax"] for panel in panels for p in panel["points"] if p["softmax"] != REFERENCE})
    looks = colours_and_markers(names)
    columns = min(COLUMNS, len(panels))
    drawing, axes = new_figure(PANEL_IN * -(-len(panels) // columns) + LEGEND_IN, len(panels), columns)
    most = max([p["levels"] or 0 for panel in panels for p in panel["points"]] + [*figure["published_levels"].values()])
    for ax, panel in zip(axes, panels, strict=True):
        _panel(ax, panel["points"], looks)
        for name, levels in figure["published_levels"].items():
            ax.axvline(levels, color=looks[name][0] if name in looks else "0.5", ls=":", lw=1)
        _axes(ax, most)
        ax.set_title(", ".join(dict.fromkeys((panel["host"], panel["task"]))), fontsize=10)
    kinds = {p["softmax"]: p["kind"] for panel in panels for p in panel["points"]}
    handles = [Line2D([], [], color="0.3", ls="--", label="exact softmax")]
    handles += [_key(name, looks[name], kinds[name]) for name in names]
    handles += [
        Line2D([], [], color="0.5", ls="none", marker="o", mfc="none", label="hollow: undecided against exact"),
        Line2D([], [], color="0.5", ls=":", label="published: Cho et al. up to 52, BPMax 2"),
    ]
    drawing.legend(handles=handles, loc="outside lower center", ncols=4, fontsize=7)
    return png(drawing, shown(figure))


def _key(name: str, look: Look, kind: str) -> Line2D:
    label = f"exact by {name}'s polynomials" if kind == APPROXIMATED else name
    return Line2D([], [], color=look[0], ls="none", marker=SHAPES.get(kind, look[1]), label=label)


def _panel(ax: Axes, points: list[Point], looks: dict[str, Look]) -> None:
    """Draws one host and task: exact softmax as a line, each other as a point with its interval."""
    beside: dict[int, int] = {}
    for p in points:
        if p["softmax"] == REFERENCE:
            ax.axhline(p["accuracy"], color="0.3", ls="--", lw=1)
            ax.axhspan(p["low"], p["high"], color="0.3", alpha=0.08, lw=0)
            continue
        at = p["levels"] * APART ** beside.get(p["levels"], 0)
        beside[p["levels"]] = beside.get(p["levels"], 0) + 1
        ends = [[p["accuracy"] - p["low"]], [p["high"] - p["accuracy"]]]
        own, marker = looks[p["softmax"]]
        face = own if p["decided"] else "white"
        shape = SHAPES.get(p["kind"], marker)
        ax.errorbar(at, p["accuracy"], ends, fmt=shape, ms=5, capsize=2, lw=1, color=own, mfc=face)


def _axes(ax: Axes, most: int) -> None:
    ax.set_xscale("log")
    ax.set_xlim(LEAST, most * 1.3)
    ticks = [level for level in (2, 3, 4, 5, 7, 10, 20, 50, 100, 200) if level <= most]
    ax.set_xticks(ticks, [str(level) for level in ticks], minor=False)
    ax.set_xticks([], minor=True)
    ax.set_xlabel("levels", fontsize=9)
    ax.set_ylabel("test accuracy, %", fontsize=9)
