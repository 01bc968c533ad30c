"""The table of many rows at once, encryption and decryption included."""

from __future__ import annotations

from cgf.report.columns import grid, median_and_range
from cgf.types import Json

BATCH_NAMES = {
    "full_128": "8,192 full rows of 128",
    "causal_128": "8,192 causal rows of 128",
    "full_256_wide": "8,192 full rows of 256 on [-128, 0]",
}


def table(results: Json) -> str:
    """A line for each case and count of workers, of what scripts/bench/softmax_cost.py measured."""
    lines = []
    for key, result in results.items():
        title = next((t for k, t in BATCH_NAMES.items() if key.startswith(k)), key)
        lines.append(
            [
                title,
                str(result["workers"]),
                str(result["levels"]),
                f"{result['entries']:,}",
                median_and_range(result["seconds"], 1),
                f"{result['us_per_entry']:.2f}",
                f"{result['max_error']:.1e}",
                f"{result['mean_error']:.1e}",
                f"{result['eta']:.1e}",
            ]
        )
    return grid(
        [
            "rows a worker",
            "workers",
            "levels",
            "entries",
            "seconds (range)",
            "µs an entry",
            "max error",
            "mean error",
            "eta",
        ],
        lines,
    )
