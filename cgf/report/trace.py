"""Where the time and the error of an encrypted evaluation went, as one figure."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from cgf.operations import KINDS
from cgf.report.figure import colours, new_figure, png
from cgf.types import Json

PHASES = ("model", "pack", "encrypt", "circuit", "decrypt", "compare")


def draw(result: Json) -> bytes:
    """PNG of an eval_he.py result: seconds by phase, the circuit's by operation, and the largest error by layer and
    head."""
    figure, (left, right) = new_figure(3.6, 2)
    _seconds(left, result["seconds"])
    _errors(right, result["layers"])
    figure.suptitle(
        f"{result['model']} on {result['task']}, {result['softmax']}: {result['samples']} samples, "
        f"{result['us_per_entry']:.1f} us an entry, {result['workers']} worker(s)",
        fontsize=10,
    )
    return png(figure)


def _seconds(ax: Axes, seconds: dict[str, float]) -> None:
    for row, keys in ((1, PHASES), (0, KINDS)):
        start = 0.0
        for key, colour in zip(keys, colours(len(keys)), strict=True):
            width = seconds.get(key, 0.0)
            ax.barh(row, width, left=start, color=colour, edgecolor="white")
            if width > 0.06 * sum(seconds.get(k, 0.0) for k in PHASES):
                ax.text(start + width / 2, row, key, ha="center", va="center", rotation=90, fontsize=7, color="white")
            start += width
    ax.set_yticks([0, 1], ["circuit", "all"])
    ax.set_xlabel(f"seconds, summed over workers (wall: {seconds['total']:.0f} s)")


def _errors(ax: Axes, layers: list[Json]) -> None:
    """One row a layer; blank where another layer has more heads."""
    errors = [layer["heads"]["max_error"] for layer in layers]
    heads = max(map(len, errors))
    table = np.array([own + [np.nan] * (heads - len(own)) for own in errors])
    ax.grid(visible=False)
    image = ax.imshow(np.log10(np.maximum(table, 1e-16)), aspect="auto", cmap="viridis")
    for layer, row in enumerate(layers):
        for head, count in enumerate(row["heads"]["outside"]):
            if count:
                beyond = row["heads"]["beyond"][head]
                ax.text(
                    head,
                    layer,
                    "X" if beyond else "o",
                    ha="center",
                    va="center",
                    fontsize=7,
                    color="red" if beyond else "white",
                )
    ax.set(xlabel="head  (o: entries outside the domain, X: beyond the guard)", ylabel="layer")
    ax.figure.colorbar(image, ax=ax, label="log10 of the largest error")
