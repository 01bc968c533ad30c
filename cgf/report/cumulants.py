"""The table of higher cumulants of rows, before and after a training."""

from __future__ import annotations

from pathlib import Path

from cgf.errors import UserError
from cgf.report.columns import grid
from cgf.results import read_json


def cumulants(folder: Path) -> str:
    """kappa_3/3! + kappa_4/4! over rows of a host before and after training, of friendly.py compare=..."""
    paths = sorted(folder.glob("friendly/*/friendly.json"))
    if not paths:
        raise UserError(f"the table needs {folder / 'friendly'}, and it holds no friendly.json of a host")
    lines = []
    for result in map(read_json, paths):
        for row in reversed(result["kappa"]):  # what it is compared with was before
            low, high = row["quantiles"]["0.001"], row["quantiles"]["0.999"]
            lines.append(
                [
                    result["model"],
                    result["task"],
                    row["name"],
                    f"{row['count']:,}",
                    f"{row['mean']:.3f}",
                    f"{row['std']:.3f}",
                    f"{low:.2f} to {high:.2f}",
                ]
            )
    return grid(["host", "task", "weights", "rows", "mean", "standard deviation", "0.1 % to 99.9 %"], lines)
