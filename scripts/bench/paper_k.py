"""The paper's table of k, and a plan of fewer levels for each of its intervals: python scripts/bench/paper_k.py

Writes results/approx/paper_k.json. Source of k: CGF-softmax paper, appendix, table 'Specific values of k'.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from cgf.approx import fit
from cgf.plan.candidates import METHODS, specs
from cgf.plan.cost import needs_of
from cgf.plan.fit_cache import FitCache
from cgf.plan.pareto import least_levels
from cgf.plan.request import Request
from cgf.published import PAPER_K
from cgf.results import run_info, write_json
from cgf.types import Json

INTERVALS = {
    "chebyshev": "[-8 2^k, 0], the paper's interval of its degree 15 polynomial, stretched by the k squarings",
    "limit": "[-2^(k+1), 0], where |1 + y / 2^k| <= 1: beyond it the limit approximation grows without bound",
}
TOLERANCE = 1e-5
COLUMNS = 256  # full rows; a power of two, so no padding column


def interval(method: str, k: int) -> tuple[float, float]:
    """The interval of y that a method of the paper covers with k squarings."""
    return (-8.0 * 2**k if method == "chebyshev" else -(2.0 ** (k + 1)), 0.0)


def compare(method: str, k: int, cache: FitCache) -> Json:
    """A row: the paper's levels, by its formula and counted on Algorithm 1; ours, counted on the folded circuit.

    Both count statistics, scaling and core of full rows: k + 6 (Chebyshev, degree 15) and k + 2 (limit). levels_core is
    the exponential's alone, levels_folded what the paper's polynomial takes in our circuit: so what folding saves and
    what the polynomial saves can be told apart. The paper's error is that on the interval, of the limit that on its
    upper half: at the lower end it is 1.
    """
    domain = interval(method, k)
    theirs = fit.chebyshev(*domain, 15, k) if method == "chebyshev" else fit.limit(*domain, k)
    paper_levels = k + 6 if method == "chebyshev" else k + 2
    ours = least_levels(Request(domain, domain, TOLERANCE, COLUMNS, COLUMNS, "full"), specs(domain, METHODS), cache)
    e, needs = ours.exponential, needs_of(ours.exponential, "full", COLUMNS, COLUMNS)[0]
    assert e.fit is not None
    told = domain if method == "chebyshev" else (-(2.0**k), 0.0)
    counted = needs_of(theirs, "full", COLUMNS, COLUMNS, style="paper")[0]
    return {
        "method": method,
        "k": k,
        "where": [published.where for published in PAPER_K if getattr(published, method) == k],
        "interval": list(domain),
        "paper": {
            "levels": paper_levels,
            "levels_counted": counted.levels,
            "levels_core": theirs.levels,
            "levels_folded": needs_of(theirs, "full", COLUMNS, COLUMNS)[0].levels,
            "ct_mults_core": theirs.ct_mults,
            "max_error": fit.max_error(theirs, told),
            "error_on": list(told),
            "ring_slots": counted.layout.slots,
        },
        "ours": {
            "levels": needs.levels,
            "levels_core": e.levels,
            "ct_mults_core": e.ct_mults,
            "max_error": e.fit.max_error,
            "ring_slots": needs.layout.slots,
            "guard": list(e.fit.guard),
            "exponential": e.to_json(),
        },
        "fewer": paper_levels - needs.levels,
    }


def main() -> None:
    """Compares every k, prints the table, writes the result file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/approx/paper_k.json"))
    parser.add_argument("--cache", type=Path, default=Path(".cache/fits"))
    arguments = parser.parse_args()
    cache, results = FitCache(arguments.cache), []
    table = Table(
        "paper", "interval", "levels", "folded", "core mults", "error", "ours", "levels", "core mults", "error", "guard"
    )
    for method in INTERVALS:
        for k in sorted({getattr(published, method) for published in PAPER_K}):
            results.append(compare(method, k, cache))
            r = results[-1]
            paper, ours = r["paper"], r["ours"]
            e = ours["exponential"]
            name = e["method"] + (f" {e['degree']}" if "degree" in e else "") + f" k={e['k']}"
            table.add_row(
                f"{method} k={k}",
                f"[{r['interval'][0]:g}, 0]",
                str(paper["levels"]),
                str(paper["levels_folded"]),
                str(paper["ct_mults_core"]),
                f"{paper['max_error']:.1e}",
                name,
                str(ours["levels"]),
                str(ours["ct_mults_core"]),
                f"{ours['max_error']:.1e}",
                "[{:.1f}, {:.1f}]".format(*ours["guard"]),
            )
    Console(width=None if sys.stdout.isatty() else 140).print(table)
    write_json(
        arguments.out,
        {"rows": results, "tolerance": TOLERANCE, "columns": COLUMNS, "intervals": INTERVALS, "run": run_info()},
    )
    print(arguments.out)


if __name__ == "__main__":
    main()
