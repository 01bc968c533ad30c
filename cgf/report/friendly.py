"""The report 'is my model CGF-friendly' from friendly.json: a table, a sentence a layer, two plots."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from cgf.report.figure import colours, new_figure, png
from cgf.report.tables import MISSING, error, percent, plain
from cgf.results import write_bytes

WIDTH_WITHOUT_TERMINAL = 190
NARROW, WIDE = "0.001", "0.999"  # the quantiles that table and plot show
COLUMNS = (
    "layer",
    "head",
    "range of y",
    "0.1 % / 99.9 %",
    "all slots",
    "skewness",
    "excess kurtosis",
    "k3/3! + k4/4!",
    "row sums",
    "outside",
    "levels",
    "exponential",
    "error",
)


def show(result: dict, folder: str | os.PathLike, heads: bool) -> None:
    """Prints the table and the sentences, writes ranges.png and kappa.png into the folder, prints the paths."""
    folder, console = Path(folder), Console(width=None if sys.stdout.isatty() else WIDTH_WITHOUT_TERMINAL)
    console.print(table(result, heads))
    for line in sentences(result):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    print(folder / "friendly.json")
    for name, image in (("ranges.png", range_figure(result)), ("kappa.png", kappa_figure(result))):
        if image is not None:
            write_bytes(folder / name, image)
            print(folder / name)


def table_rows(result: dict, heads: bool) -> list[list[str]]:
    """Cells of the table, in the order of COLUMNS: each layer, then its heads where wanted."""
    cells = []
    for layer in result["layers"]:
        cells.append([str(layer["layer"]), "all", *_cells(layer)])
        if heads:
            cells.extend([str(layer["layer"]), str(head["head"]), *_cells(head)] for head in layer["heads"])
    return cells


def _cells(row: dict) -> list[str]:
    quantiles = row.get("quantiles") or {}
    return [
        _pair(row.get("range")),
        _pair([quantiles.get(NARROW), quantiles.get(WIDE)]),
        _pair(row["slots"]["range"]),
        _moments(row.get("skewness")),
        _moments(row.get("kurtosis")),
        _moments(row.get("kappa")),
        _pair(row.get("row_sum")) + (f", {row['row_sum_overflows']:,} overflow" if row["row_sum_overflows"] else ""),
        percent(row.get("outside_domain")),
        plain(row.get("levels")),
        row.get("method") or MISSING,
        error(row.get("max_error")),
    ]


def _pair(ends: Sequence[float | None] | None) -> str:
    return MISSING if not ends or None in ends else " … ".join(f"{end:.4g}" for end in ends)


def _moments(spread: dict | None) -> str:
    return MISSING if spread is None else f"{spread['mean']:.2f} ± {spread['std']:.2f}"


def table(result: dict, heads: bool = False) -> Table:
    """Columns that nothing fills are left out."""
    title = (
        f"{result['name']}, {result['task']}: exponent of {result['softmax']}, attention by {result['forward']}, "
        f"{result['samples']} {result['split']} samples, {result['rows']} rows, error at most "
        f"{result['tolerance']:g}"
    )
    drawn, lines = Table(title=title, title_justify="left"), table_rows(result, heads)
    used = [i for i, name in enumerate(COLUMNS) if name != "head" or heads]
    for i in used:
        drawn.add_column(COLUMNS[i], justify="left" if COLUMNS[i] == "exponential" else "right")
    for line in lines:
        drawn.add_row(*(line[i] for i in used), style="bold" if heads and line[1] == "all" else None)
    return drawn


def sentences(result: dict) -> list[str]:
    """A verdict a layer, one of the whole, and the standard deviations of kappa_3/3! + kappa_4/4!."""
    layers = result["layers"]
    said = [f"layer {layer['layer']}: {layer['verdict']}" for layer in layers]
    good = sum(layer["friendly"] for layer in layers)
    said.append(
        f"{good} of {len(layers)} layers are CGF-friendly within {result['levels']} levels, each with a "
        "polynomial of its own"
    )
    said.append(f"one polynomial for all layers: {result['one_plan']['verdict']}")
    said.extend(
        f"kappa_3/3! + kappa_4/4! of {k['name']}: mean {k['mean']:.3g}, standard deviation {k['std']:.3g} "
        f"({k['count']:,} rows)"
        for k in result["kappa"]
    )
    return said


def kappa_figure(result: dict) -> bytes | None:
    """Distribution of kappa_3/3! + kappa_4/4! over rows, a curve a model, as in the paper's appendix."""
    if not result["kappa"]:
        return None
    figure, (ax,) = new_figure(3.8)
    for kappa, colour in zip(result["kappa"], colours(len(result["kappa"])), strict=True):
        bins = kappa["histogram"]
        edges = [bins["low"] + bins["width"] * i for i in range(len(bins["counts"]) + 1)]
        heights = [count / kappa["count"] / bins["width"] for count in bins["counts"]]
        label = (
            f"{kappa['name']}: standard deviation {kappa['std']:.3g}, mean {kappa['mean']:.3g}, "
            f"{percent(bins['beyond'] / kappa['count'])} not shown"
        )
        ax.stairs(heights, edges, fill=True, color=colour, alpha=0.45)
        ax.stairs(heights, edges, color=colour, linewidth=1.3, label=label)
    ax.set_xlabel("kappa_3 / 3! + kappa_4 / 4! of a row of softmax inputs")
    ax.set_ylabel("share of rows, by unit")
    figure.legend(loc="outside lower left", frameon=False)
    return png(figure)


def range_figure(result: dict) -> bytes | None:
    """Range of y by layer and head (thin: all; thick: 0.1 % to 99.9 %), padding rows, and each layer's domain."""
    layers = [layer for layer in result["layers"] if layer["range"]]
    if not layers:
        return None
    figure, (ax,) = new_figure(4.2)
    for place, layer in enumerate(layers):
        parts = [head for head in layer["heads"] if head["range"]]
        lo, hi = layer["domain"]
        ax.fill_between(
            [place - 0.44, place + 0.44], lo, hi, color="#0072B2", alpha=0.13, linewidth=0, label="accuracy domain"
        )
        for i, part in enumerate(parts):
            x = place + 0.8 * ((i + 0.5) / len(parts) - 0.5)
            ax.plot([x, x], part["slots"]["range"], color="#bbbbbb", linewidth=1, label="all slots of the circuit")
            ax.plot([x, x], part["range"], color="#E69F00", linewidth=1.3, label="range of a head")
            ends = [part["quantiles"][NARROW], part["quantiles"][WIDE]]
            ax.plot(
                [x, x],
                ends,
                color="#0072B2",
                linewidth=max(1.6, 22 / (len(parts) + len(layers))),
                solid_capstyle="butt",
                label="0.1 % to 99.9 %",
            )
    ax.set_xticks(range(len(layers)), [str(layer["layer"]) for layer in layers])
    ax.set_xlabel("layer, its heads side by side")
    ax.set_ylabel("y, the argument of the exponential")
    handles, labels = ax.get_legend_handles_labels()
    first = dict(zip(reversed(labels), reversed(handles), strict=True))
    figure.legend(first.values(), first.keys(), loc="outside lower left", ncols=4, frameon=False)
    return png(figure)
