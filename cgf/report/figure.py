"""A figure of this project: one width, light grid, PNG or SVG; without pyplot, so no display and no global state."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Sequence
from pathlib import Path

from matplotlib import colormaps, rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.typing import ColorType

from cgf.types import JsonValue

WIDTH_IN = 9.0


def colours(count: int) -> list:
    """So many colours to tell series apart, the same each time."""
    name = "tab10" if count <= 10 else "tab20"
    return [colormaps[name](index % 20) for index in range(count)]


def colours_and_markers(names: Sequence[str]) -> dict[str, tuple[ColorType, str]]:
    """A colour and a marker for each name; where colours come again, the marker is another one."""
    markers = "oD^vP"
    if len(names) > 20 * len(markers):
        raise ValueError(f"{20 * len(markers)} series can be told apart, and there are {len(names)}")
    return {
        name: (colour, markers[index // 20])
        for index, (name, colour) in enumerate(zip(names, colours(len(names)), strict=True))
    }


def new_figure(
    height_in: float, panels: int = 1, columns: int | None = None, share_y: bool = False
) -> tuple[Figure, list[Axes]]:
    """A figure of so many panels, ``columns`` side by side (None: all), and their axes."""
    figure = Figure(figsize=(WIDTH_IN, height_in), layout="constrained", facecolor="white")
    across = columns or panels
    grid = list(figure.subplots(-(-panels // across), across, squeeze=False, sharey=share_y).flat)
    axes = grid[:panels]
    for ax in grid[panels:]:
        ax.set_axis_off()
    for ax in axes:
        ax.grid(color="#e4e7eb", linewidth=0.7)
        ax.set_axisbelow(True)
        ax.spines[["top", "right"]].set_visible(False)
    return figure, axes


def digest(shown: JsonValue) -> str:
    """Of all that a figure shows, as json has it; ``png`` keeps it in the file, so that a stale one is noticed."""
    return hashlib.sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest()


def is_current(path: Path, shown: JsonValue) -> bool:
    """Whether a file was drawn to show this."""
    return path.is_file() and digest(shown).encode() in path.read_bytes()


def _as_they_are(figure: Figure) -> None:
    """Texts, legends and titles show what files say as it is: a '$' in a name begins no formula, which may be damaged.

    The numbers beside an axis are matplotlib's own, and those of a logarithmic one are formulas.
    """
    legends = [*figure.legends, *(legend for ax in figure.axes if (legend := ax.get_legend()) is not None)]
    texts = [text for legend in legends for text in legend.get_texts()]
    texts += [text for ax in figure.axes for text in (*ax.texts, ax.title)]
    for text in texts:
        text.set_parse_math(False)


def svg(figure: Figure) -> bytes:
    """The figure as SVG, the same bytes for the same figure: letters are paths, so that no font is needed."""
    _as_they_are(figure)
    buffer = io.BytesIO()
    with rc_context({"svg.hashsalt": "figure", "svg.fonttype": "path"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


def png(figure: Figure, shown: JsonValue = None) -> bytes:
    """The figure as PNG; ``shown``, where given, is what ``is_current`` asks for."""
    _as_they_are(figure)
    metadata = None if shown is None else {"Description": digest(shown)}
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=140, metadata=metadata)
    return buffer.getvalue()
