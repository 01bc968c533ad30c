"""Accuracy on validation by epoch, of the runs that the paper trains for other lengths: CGF-softmax and BPMax."""

from __future__ import annotations

from collections import defaultdict
from statistics import fmean

from matplotlib.ticker import MaxNLocator

from cgf.report.figure import colours, new_figure, png
from cgf.types import Json, JsonValue

FILE = "figures/epochs"  # below results, .png and .json
RUNS = (
    *("exact", "cgf", "cgf_5_epochs", "bpmax", "bpmax_calibrated", "bpmax_20_epochs"),
    *("exact_40_epochs", "cgf_40_epochs", "bpmax_40_epochs", "bpmax_calibrated_40_epochs"),
    *("exact_40_epochs_by_loss", "cgf_40_epochs_by_loss", "bpmax_40_epochs_by_loss"),
    "bpmax_calibrated_40_epochs_by_loss",
)
FIELD = "validation_by_epoch"  # of a row of training; rows of before lack it
NOTE = (
    "accuracy on validation by epoch: mean over the seeds that were validated at that epoch, least and most of them; "
    "early stopping ends some seeds before others, and a curve is drawn as far as all of its seeds go"
)
COLUMNS, PANEL_IN, LEGEND_IN = 2, 3.1, 0.7
DRAWN = 3  # counts changes of the drawing: a figure of an earlier one is stale


def curves(results: list[Json]) -> Json:
    """What the figure shows of rows of training: a panel a host and task, a curve a run, a point an epoch."""
    groups: dict[tuple[str, str], dict[str, list[Json]]] = defaultdict(lambda: defaultdict(list))
    for result in results:
        if result["run"] in RUNS and result.get(FIELD):
            groups[result["host"], result["task"]][result["run"]].append(result)
    panels = []
    for (host, task), runs in sorted(groups.items()):
        shown = [_curve(name, runs[name]) for name in RUNS if name in runs]
        panels.append({"host": host, "task": task, "curves": shown})
    return {"note": NOTE, "panels": panels}


def _curve(name: str, results: list[Json]) -> Json:
    by_epoch: dict[float, list[float]] = defaultdict(list)
    for result in results:
        for epoch, accuracy in result[FIELD]:
            by_epoch[epoch].append(accuracy)
    points = [
        {"epoch": epoch, "seeds": len(each), "mean": fmean(each), "least": min(each), "most": max(each)}
        for epoch, each in sorted(by_epoch.items())
    ]
    return {"run": name, "seeds": sorted(result["seed"] for result in results), "points": points}


def shown(figure: Json) -> list[JsonValue]:
    """All that the drawing shows (``cgf.report.figure.is_current``)."""
    return [DRAWN, figure]


def plot(figure: Json) -> bytes:
    """PNG of ``curves``: means as lines, least to most of the seeds as bands."""
    panels = figure["panels"]
    colour = dict(zip(RUNS, colours(len(RUNS)), strict=True))
    columns = min(COLUMNS, len(panels))
    drawing, axes = new_figure(PANEL_IN * -(-len(panels) // columns) + LEGEND_IN, len(panels), columns)
    lines = {}
    for ax, panel in zip(axes, panels, strict=True):
        for curve in panel["curves"]:
            points = [p for p in curve["points"] if p["seeds"] == len(curve["seeds"])]
            at = [p["epoch"] for p in points]
            mean, least, most = ([100 * p[key] for p in points] for key in ("mean", "least", "most"))
            own = colour[curve["run"]]
            (lines[curve["run"]],) = ax.plot(at, mean, color=own, marker=".", lw=1.2)
            ax.fill_between(at, least, most, color=own, alpha=0.12, lw=0)
        ax.set_title(", ".join(dict.fromkeys((panel["host"], panel["task"]))), fontsize=10)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.set_xlabel("epoch", fontsize=9)
        ax.set_ylabel("accuracy on validation, %", fontsize=9)
    drawing.legend(lines.values(), lines.keys(), loc="outside lower center", ncols=6, fontsize=7)
    return png(drawing, shown(figure))
