"""The table of control of the range: accuracies over the seeds that are done, and what left the range."""

from __future__ import annotations

from cgf.report.columns import grid, or_dash
from cgf.types import Json


def of_means(means: list[Json]) -> str:
    """The table of a study from its means over seeds (cgf.study.range_rows)."""
    lines = []
    for row in means:
        outside, least, most = row["outside_domain"], 100 * row["least"], 100 * row["most"]
        shown = "–" if outside is None else f"{100 * outside:.4f} %"
        if row["watched"] is not None and outside is not None:
            shown += f" of [{row['watched'][0]:g}, {row['watched'][1]:g}]"
        lines.append(
            [
                row["study"],
                row["run"],
                row["approx"],
                or_dash(row["levels"], "d"),
                str(row["epochs"]),
                ", ".join(map(str, row["seeds"])) + ("" if row["complete"] else " (partial)"),
                f"{100 * row['accuracy']:.2f} % ({least:.2f} to {most:.2f})",
                or_dash(row["points"], "+.2f"),
                shown,
                or_dash(row["beyond_guard"], "d") + (" (red)" if row["beyond_guard"] else ""),
            ]
        )
    return grid(
        [
            "study",
            "run",
            "exponential",
            "levels",
            "epochs",
            "seeds",
            "accuracy",
            "points against exact",
            "outside",
            "beyond guard",
        ],
        lines,
    )
