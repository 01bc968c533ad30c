"""The paper's table of k beside plans of ours for the same intervals, from results/approx/paper_k.json."""

from __future__ import annotations

from cgf.types import Json

TITLES = [
    "the paper's",
    "interval",
    "levels",
    "its core",
    "in our circuit",
    "error",
    "ours",
    "levels",
    "its core",
    "products",
    "error",
    "guard",
]


def name_of(exponential: Json) -> str:
    """'chain, k = 6', 'fitted, degree 15, k = 1'."""
    degree = [f"degree {exponential['degree']}"] if exponential.get("degree") else []
    return ", ".join([exponential["method"], *degree, f"k = {exponential['k']}"])


def lines(result: Json) -> list[list[str]]:
    """A line for each k of the paper: levels of whole circuits (statistics, scaling, core) and of the core alone."""
    table = []
    for row in result["rows"]:
        paper, ours = row["paper"], row["ours"]
        (lo, hi), (low, high) = row["interval"], ours["guard"]
        table.append(
            [
                f"{row['method']}, k = {row['k']}",
                f"[{lo:g}, {hi:g}]",
                str(paper["levels"]),
                str(paper["levels_core"]),
                str(paper["levels_folded"]),
                f"{paper['max_error']:.0e}",
                name_of(ours["exponential"]),
                str(ours["levels"]),
                str(ours["levels_core"]),
                str(ours["ct_mults_core"]),
                f"{ours['max_error']:.0e}",
                f"{low:.1f} to {high:.1f}",
            ]
        )
    return table
