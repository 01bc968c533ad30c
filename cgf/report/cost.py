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
            table.add_row(
                name,
                str(row["ring_slots"]),
                str(row["levels_counted"]),
                *cells,
                f"{total['mean']:.2f} ± {total['std']:.2f}",
                f"{row['max_error']:.1e}",
                f"{row['eta']:.1e}",
                f"{row['peak_mib']:.0f}",
            )
    Console(width=200).print(table)
    for key, value in result.items():
        if key.startswith(("ratio_", "us_per", "workers")):
            print(f"{key}: {value if isinstance(value, dict) else round(value, 2)}")


def draw_softmax(result: dict[str, Any], path: Path) -> None:
    """Left: seconds by the clock, logarithmic. Right: which share of the work each operation has."""
    plt = _pyplot()
    names = [name for name in ROWS if result.get(name)]
    figure, (clock, work) = plt.subplots(1, 2, figsize=(11, 0.6 * len(names) + 1.4), sharey=True, layout="constrained")
    totals = [result[name]["seconds"]["mean"] for name in names]
    clock.barh(names, totals, color="0.6")
    for i, total in enumerate(totals):
        clock.text(total, i, f" {total:.2f} s", va="center")
    clock.set_xscale("log")
    clock.set_xlim(min(totals) / 3, max(totals) * 4)
    clock.set_xlabel("seconds by the clock")
    spent = [[result[name]["seconds"]["by_operation"][kind]["mean"] for kind in KINDS] for name in names]
    left = [0.0] * len(names)
    for column, kind in enumerate(KINDS):
        widths = [row[column] / (sum(row) or 1.0) for row in spent]
        work.barh(names, widths, left=left, label=kind)
        left = [x + y for x, y in zip(left, widths, strict=True)]
    work.set_xlabel("share of the seconds that operations took")
    figure.legend(loc="outside lower center", ncols=len(KINDS), fontsize=8)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def print_complexity(result: dict[str, Any]) -> None:
    """Methods (the paper's Table 1 with counts), formulas beside counts by k, and the depth column."""
    from rich.console import Console

    console = Console(width=170)
    for table in (_methods(result), _by_k(result["by_k"]), _paper_k(result["paper_k"])):
        console.print(table)
    for note in result["notes"]:
        print(f"- {note}")


def _methods(result: dict[str, Any]) -> Any:
    from rich.table import Table

    table = Table(
        "method",
        "maximum",
        "division",
        "adaptive",
        "as in the paper",
        "levels",
        "published",
        "cmult",
        "rotate",
        "boot",
        "ct",
        "domain",
        "error bound",
        title=f"{result['rows']} x {result['columns']} in 2^15 slots",
    )
    for row in result["methods"]:
        ops, boot, stated = row["ops"], row["ops"]["boot"], row["published_traits"]
        traits = (row["maximum"], row["division"], row["adaptive"])
        same = "" if stated is None else "yes" if tuple(stated) == traits else "NO"
        domain = row["domain"] if isinstance(row["domain"], str) else "{:g} to {:g}".format(*row["domain"])
        bound = row["error_bound"] if isinstance(row["error_bound"], str) else f"{row['error_bound']:.0e}"
        table.add_row(
            row["method"],
            row["maximum"],
            *("yes" if trait else "no" for trait in traits[1:]),
            same,
            str(row["levels"]),
            str(row["published_levels"] or ""),
            str(ops["cmult"]),
            str(ops["rotate"]),
            "-" if boot is None else str(boot),
            str(row["ciphertexts"]),
            domain,
            bound,
        )
    return table


def _by_k(rows: list[dict[str, Any]]) -> Any:
    """Counted, and in brackets the paper's formula."""
    from rich.table import Table

    kinds = ("levels", "cmult", "rotate", "boot")
    table = Table(
        "k",
        *(f"CGF {kind}" for kind in kinds),
        "error",
        *(f"Cho {kind}" for kind in kinds),
        "bound",
        "ours levels",
        "cmult",
        "rotate",
        "error",
        title="one ciphertext of whole rows: counted (the paper's formula); on [-8 2^k, 0], Cho [-4 2^k, 0]",
    )
    for row in rows:
        cells = []
        for name in ("cgf", "cho"):
            counts = {"levels": row[name]["levels"], **row[name]["ops"]}
            cells += [f"{counts[kind]} ({row[name]['formula'][kind]})" for kind in kinds]
            cells.append(f"{row[name]['max_error']:.0e}")
        ours = row["ours"]
        table.add_row(
            str(row["k"]),
            *cells,
            str(ours["levels"]),
            str(ours["ops"]["cmult"]),
            str(ours["ops"]["rotate"]),
            f"{ours['max_error']:.0e}",
        )
    return table


def _paper_k(rows: list[dict[str, Any]]) -> Any:
    from rich.table import Table

    table = Table("model", "k (Chebyshev, limit)", "levels", "least")
    for row in rows:
        table.add_row(row["model"], str(row["k"]), str(row["levels"]), str(row["least"]))
    return table


def draw_depths(result: dict[str, Any], path: Path) -> None:
    """Levels of every method, counted, on a logarithmic axis; published ones as marks."""
    plt = _pyplot()
    rows = sorted(result["methods"], key=lambda row: -row["levels"])
    figure, axes = plt.subplots(figsize=(8, 0.35 * len(rows) + 1.2), layout="constrained")
    axes.barh([row["method"] for row in rows], [row["levels"] for row in rows])
    for i, row in enumerate(rows):
        axes.text(row["levels"], i, f" {row['levels']}", va="center")
        for stated in _numbers(row["published_levels"]):
            axes.plot(stated, i, "|", color="tab:orange", markersize=13, markeredgewidth=2)
    axes.set_xscale("log")
    axes.set_xlim(1, 2 * max(row["levels"] for row in rows))
    axes.set_xlabel(f"levels without a bootstrap, rows of {result['columns']} (orange: as published, elsewhere)")
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _numbers(stated: Any) -> list[int]:
    """30 -> [30], '22 / 26 / 30' -> all three, '7 to 10' -> both ends, None -> nothing."""
    return [] if stated is None else [int(word) for word in str(stated).split() if word.isdigit()]


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt
