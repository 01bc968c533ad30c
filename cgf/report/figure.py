"""A figure of this project: one width, light grid, PNG bytes; without pyplot, so no display and no global state."""

from __future__ import annotations

import io

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

WIDTH_IN = 9.0


def colours(count: int) -> list:
    """So many colours to tell series apart, the same each time."""
    name = "tab10" if count <= 10 else "tab20"
    return [colormaps[name](index % 20) for index in range(count)]


def new_figure(height_in: float, panels: int = 1, columns: int | None = None) -> tuple[Figure, list[Axes]]:
    """A figure of so many panels, ``columns`` side by side (None: all), and their axes."""
    figure = Figure(figsize=(WIDTH_IN, height_in), layout="constrained", facecolor="white")
    across = columns or panels
    grid = list(figure.subplots(-(-panels // across), across, squeeze=False).flat)
    axes = grid[:panels]
    for ax in grid[panels:]:
        ax.set_axis_off()
    for ax in axes:
        ax.grid(color="#e4e7eb", linewidth=0.7)
        ax.set_axisbelow(True)
        ax.spines[["top", "right"]].set_visible(False)
    return figure, axes


def png(figure: Figure, metadata: dict[str, str] | None = None) -> bytes:
    """The figure as PNG, with text of one's own in its metadata."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=140, metadata=metadata)
    return buffer.getvalue()
