"""The table of many rows at once, encryption and decryption included."""

from __future__ import annotations

from cgf.report.columns import grid
from cgf.types import Json

BATCH_NAMES = {
    "full_128": "8,192 full rows of 128",
    "causal_128": "8,192 causal rows of 128",
    "full_256_wide": "8,192 full rows of 256 on [-128, 0]",
}


def table(rows: Json) -> str:
    """A line for each case and count of workers, of what scripts/bench/softmax_cost.py measured."""
    lines = []
    for key, row in rows.items():
        title = next((t for k, t in BATCH_NAMES.items() if key.startswith(k)), key)
        lines.append(
            [
                title,
                str(row["workers"]),
                str(row["levels"]),
                f"{row['entries']:,}",
                f"{row['seconds']['mean']:.1f}",
                f"{row['us_per_entry']:.2f}",
                f"{row['max_error']:.1e}",
                f"{row['mean_error']:.1e}",
                f"{row['eta']:.1e}",
            ]
        )
    return grid(
        ["rows a worker", "workers", "levels", "entries", "seconds", "µs an entry", "max error", "mean error", "eta"],
        lines,
    )
