"""The candidates of a plan as a table and as a plot: plain dicts in, rich table and PNG bytes out."""

from __future__ import annotations

import sys
from pathlib import Path

from matplotlib.colors import LogNorm
from matplotlib.ticker import MaxNLocator
from rich.console import Console
from rich.table import Table

from cgf.report.figure import new_figure, png
from cgf.results import write_bytes, write_json
from cgf.types import Json

MARKERS = {"chain": "o", "limit": "s", "chebyshev": "^", "fitted": "D", "taylor": "v"}


def name(candidate: Json) -> str:
    """Method and degree of a candidate: 'chebyshev 15', 'chain'."""
    return candidate["method"] + (f" {candidate['degree']}" if candidate.get("degree") is not None else "")


def front_table(candidates: list[Json], picked: Json, title: str) -> Table:
    """A line for each of the Pareto set; the picked one is marked. Seconds and keys are – without a table of times."""
    table = Table(
        "",
        "method",
        "k",
        "levels",
        "ct mults",
        "ring",
        "cts",
        "keys MiB",
        "seconds",
        "µs/entry",
        "error",
        "guard",
        title=title,
    )
    for candidate in candidates:
        table.add_row(
            "→" if candidate == picked else "",
            name(candidate),
            str(candidate["k"]),
            str(candidate["levels"]),
            str(candidate["ct_mults"]),
            f"{candidate['ring_slots']:,}",
            str(candidate["ciphertexts"]),
            _number(candidate["key_mib"], ".0f"),
            _number(candidate["seconds"], ".2f"),
            _number(candidate["us_per_entry"], ".1f"),
            f"{candidate['max_error']:.1e}",
            "[{:.1f}, {:.1f}]".format(*candidate["guard"]),
            style="bold" if candidate == picked else "",
        )
    return table


def layer_table(layers: list[Json]) -> Table:
    """A line a layer: the range it showed and the plan it got."""
    table = Table("layer", "range", "method", "k", "levels", "ct mults", "error", "guard", title="a plan a layer")
    for index, layer in enumerate(layers):
        e = layer["exponential"]
        table.add_row(
            str(index),
            "[{:.1f}, {:.1f}]".format(*layer["range"]),
            name(e),
            str(e["k"]),
            str(layer["levels"]),
            str(layer["ct_mults"]),
            f"{e['max_error']:.1e}",
            "[{:.1f}, {:.1f}]".format(*e["guard"]),
        )
    return table


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def front_plot(candidates: list[Json], front: list[Json], picked: Json) -> bytes:
    """Levels against predicted seconds (ciphertext multiplications without a table of times), error as colour.

    Candidates outside the Pareto set are small, the picked one is ringed.
    """
    timed = all(candidate["seconds"] is not None for candidate in candidates)
    height = "seconds" if timed else "ct_mults"
    errors = [max(candidate["max_error"], 1e-16) for candidate in candidates]
    norm = LogNorm(min(errors), max(max(errors), 1.001 * min(errors)))
    figure, (ax,) = new_figure(4.4)
    points = None
    for candidate, error in zip(candidates, errors, strict=True):
        size = 70 if candidate in front else 18
        points = ax.scatter(
            [candidate["levels"]],
            [candidate[height]],
            c=[error],
            norm=norm,
            cmap="viridis",
            s=size,
            marker=MARKERS.get(candidate["method"], "o"),
            zorder=3,
        )
    ax.scatter(
        [picked["levels"]], [picked[height]], s=230, facecolors="none", edgecolors="#D55E00", linewidths=1.6, zorder=4
    )
    ax.annotate(
        f"{name(picked)}, k={picked['k']}",
        (picked["levels"], picked[height]),
        xytext=(10, -12),
        textcoords="offset points",
        fontsize=9,
    )
    methods = [m for m in MARKERS if any(candidate["method"] == m for candidate in candidates)]
    figure.legend(
        [ax.scatter([], [], marker=MARKERS[m], color="#555555") for m in methods],
        methods,
        fontsize=8,
        loc="outside upper center",
        ncols=len(methods),
    )
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    ax.set_xlabel("levels in all")
    ax.set_ylabel("predicted seconds" if timed else "ciphertext multiplications")
    ax.set_ylim(bottom=0)
    if points is not None:
        figure.colorbar(points, ax=ax, label="largest error of the exponential")
    return png(figure)


def show(pareto: Json, folder: Path) -> None:
    """Prints the Pareto set and writes it to a folder as pareto.json and pareto.png.

    pareto: picked, front and feasible candidates, and what was asked for: rows, columns, mask, tolerance.
    """
    title = f"{pareto['rows']} x {pareto['columns']} {pareto['mask']} rows, error at most {pareto['tolerance']:g}"
    _console().print(front_table(pareto["front"], pareto["picked"], title))
    write_json(folder / "pareto.json", pareto)
    write_bytes(folder / "pareto.png", front_plot(pareto["feasible"], pareto["front"], pareto["picked"]))
    print(folder / "pareto.png")


def show_layers(plans: list[Json]) -> None:
    """Prints the table of plans, one a layer."""
    _console().print(layer_table(plans))


def _console() -> Console:
    return Console(width=None if sys.stdout.isatty() else 140)
