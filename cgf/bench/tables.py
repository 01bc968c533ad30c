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
    plt = _pyplot()
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


def print_complexity(result: dict[str, Any]) -> None:
    """Methods (the paper's Table 1 with counts), formulas beside counts by k, and the depth column."""
    from rich.console import Console
    from rich.table import Table

    console = Console(width=170)
    table = Table("method", "maximum", "division", "adaptive", "levels", "published", "cmult", "rotate", "boot", "ct",
                  title=f"{result['rows']} x {result['columns']} in 2^15 slots")
    for row in result["methods"]:
        ops, boot = row["ops"], row["ops"]["boot"]
        table.add_row(row["method"], row["maximum"], "yes" if row["division"] else "no",
                      "yes" if row["adaptive"] else "no", str(row["levels"]), str(row["published_levels"] or ""),
                      str(ops["cmult"]), str(ops["rotate"]), "-" if boot is None else str(boot),
                      str(row["ciphertexts"]))
    console.print(table)
    table = Table("k", "CGF levels (k + 6)", "cmult a ct (k + 10)", "rotate (2 log2 n)", "Cho levels (8 k + 9)",
                  "Cho cmult a ct (12 k + 58)", "Cho rotate (2 k log2 n)", "Cho boot", "ours: levels",
                  "ours: cmult a ct")
    for row in result["by_k"]:
        cells = []
        for name in ("cgf", "cho"):
            one = row[name]
            cells += [f"{one['levels']} ({one['formula']['levels']})",
                      f"{one['ops']['cmult'] / one['ciphertexts']:.0f} ({one['formula']['cmult']})",
                      f"{one['ops']['rotate']} ({one['formula']['rotate']})"]
        ours = row["ours"]
        table.add_row(str(row["k"]), *cells, str(row["cho"]["ops"]["boot"]), str(ours["levels"]),
                      f"{ours['ops']['cmult'] / ours['ciphertexts']:.0f}")
    console.print(table)
    table = Table("model", "k (Chebyshev, limit)", "levels", "least")
    for row in result["paper_k"]:
        table.add_row(row["model"], str(row["k"]), str(row["levels"]), str(row["least"]))
    console.print(table)


def draw_depths(result: dict[str, Any], path: Path) -> None:
    """Levels of every method, counted, on a logarithmic axis; published ones as marks."""
    plt = _pyplot()
    rows = sorted(result["methods"], key=lambda row: -row["levels"])
    figure, axes = plt.subplots(figsize=(8, 0.35 * len(rows) + 1.0), layout="constrained")
    axes.barh([row["method"] for row in rows], [row["levels"] for row in rows])
    for i, row in enumerate(rows):
        axes.text(row["levels"], i, f" {row['levels']}", va="center")
        if isinstance(row["published_levels"], int):
            axes.plot(row["published_levels"], i, "k|", markersize=12)
    axes.set_xscale("log")
    axes.set_xlabel(f"levels without a bootstrap, rows of {result['columns']} (mark: as published)")
    figure.savefig(path, dpi=150)
    plt.close(figure)


def print_noise(result: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("softmax", "levels", "largest error", "mean error", "polynomials alone", title=result["inputs"])
    named = [(f"standard, {row['iterations']} iterations", row) for row in result["standard"]]
    named += [(f"CGF, {name}", row) for name, row in result["cgf"].items()]
    named.append(("CGF, authors' setting (256 x 256, k = 2)", result["authors_setting"]))
    for name, row in named:
        table.add_row(name, str(row["levels"]), f"{row['max_error']:.2e}", f"{row['mean_error']:.2e}",
                      f"{row['max_error_of_the_polynomials']:.2e}")
    Console(width=140).print(table)
    print("noise of the library:", result["authors_setting"]["library_noise"], "published:", result["published"])


def draw_noise(result: dict[str, Any], path: Path) -> None:
    """Largest error by depth, standard softmax against CGF, with lines of the usual number formats."""
    plt = _pyplot()
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    standard = result["standard"]
    axes.semilogy([r["levels"] for r in standard], [r["max_error"] for r in standard], "o-", label="standard softmax")
    for name, row in result["cgf"].items():
        axes.semilogy([row["levels"]], [row["max_error"]], "s", label=f"CGF-softmax, {name}")
    axes.axhline(result["published"]["paper_cgf_depth_7"], color="tab:gray", lw=0.8, ls="--")
    axes.text(axes.get_xlim()[0], result["published"]["paper_cgf_depth_7"], " as published", va="bottom", fontsize=8)
    for name, value in result["precisions"].items():
        axes.axhline(value, color="k", lw=0.6, ls=":")
        axes.text(axes.get_xlim()[1], value, name, va="bottom", ha="right", fontsize=8)
    axes.set_xlabel("levels")
    axes.set_ylabel("largest error against the plaintext definition")
    axes.legend(fontsize=8)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt
