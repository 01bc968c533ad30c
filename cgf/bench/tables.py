"""The cost tables on the terminal and as plots."""

from __future__ import annotations

from pathlib import Path
from typing import Any

KINDS = ("add", "pmult", "imult", "cmult", "relinearize", "rotate", "boot")
ROWS = ("cho", "paper_from_the_top", "paper", "paper_smallest_ring", "ours")


def print_softmax(result: dict[str, Any]) -> None:
    """Seconds by operation (summed over workers) and in all (by the clock), as the paper's Table 4."""
    from rich.console import Console
    from rich.table import Table

    table = Table("softmax", "slots", "levels", *KINDS, "seconds", "max error", "eta", "peak MiB")
    for name in ROWS:
        if row := result.get(name):
            spent, total = row["seconds"]["by_operation"], row["seconds"]
            cells = [f"{spent[k]['mean']:.2f} ({row['ops'][k]})" for k in KINDS]
            table.add_row(name, str(row["ring_slots"]), str(row["levels_counted"]), *cells,
                          f"{total['mean']:.2f} ± {total['std']:.2f}", f"{row['max_error']:.1e}", f"{row['eta']:.1e}",
                          f"{row['peak_mib']:.0f}")
    Console(width=200).print(table)
    for key, value in result.items():
        if key.startswith(("ratio_", "us_per", "workers")):
            print(f"{key}: {value if isinstance(value, dict) else round(value, 2)}")


def draw_softmax(result: dict[str, Any], path: Path) -> None:
    """Seconds by operation, one bar a softmax, on a logarithmic axis of totals."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = [name for name in ROWS if result.get(name)]
    figure, axes = plt.subplots(figsize=(8, 0.7 * len(names) + 1.2), layout="constrained")
    left = [0.0] * len(names)
    for kind in KINDS:
        rows = [result[name] for name in names]
        shares = [r["seconds"]["by_operation"][kind]["mean"] for r in rows]
        sums = [sum(r["seconds"]["by_operation"][k]["mean"] for k in KINDS) or 1.0 for r in rows]
        widths = [r["seconds"]["mean"] * share / total for r, share, total in zip(rows, shares, sums, strict=True)]
        axes.barh(names, widths, left=left, label=kind)
        left = [a + b for a, b in zip(left, widths, strict=True)]
    for i, total in enumerate(left):
        axes.text(total, i, f" {total:.2f} s", va="center")
    axes.set_xscale("symlog", linthresh=1.0)
    axes.set_xlabel("seconds by the clock, shared out by operation")
    axes.legend(loc="lower right", fontsize=8)
    figure.savefig(path, dpi=150)
    plt.close(figure)
