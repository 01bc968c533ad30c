"""Errors of the stand-ins for exp on [-B, 0], one row a fit: python scripts/bench/approx_errors.py

Writes results/approx/errors.json. Largest errors on a grid of 200,000 points that no fit has seen.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from cgf.approx import fit
from cgf.approx.chain import SquareChain
from cgf.approx.exponential import Exponential
from cgf.approx.polynomial import Polynomial
from cgf.results import run_info, write_json
from cgf.types import Json

STATISTICS = {"full": 1, "masked": 2}  # levels before the core (cgf.he.circuits), the affine map included


def row(method: str, low: float, exponential: Exponential, seconds: float) -> Json:
    """A row of errors.json. levels: of the core alone; levels_full, levels_masked: with the statistics."""
    of_fit = exponential.fit
    assert of_fit is not None
    data: Json = {
        "method": method,
        "domain": [low, 0.0],
        "guard": list(of_fit.guard),
        "guard_bound": of_fit.guard_bound,
        "levels": exponential.levels,
        "ct_mults": exponential.ct_mults,
        "max_error": of_fit.max_error,
        "fit_s": seconds,
        **{f"levels_{k}": v + exponential.levels for k, v in STATISTICS.items()},
    }
    if isinstance(exponential, SquareChain):
        chain = {"alpha": exponential.alpha, "beta": exponential.beta, "constants": list(exponential.constants)}
        return {**data, "degree": None, "k": exponential.k, **chain}
    assert isinstance(exponential, Polynomial)
    # powers of y / 2^k read like the paper; the powers of u in [-1, 1] that a circuit uses lose fewer digits
    return {
        **data,
        "degree": exponential.degree,
        "k": exponential.k,
        "coefficients": list(exponential.in_powers_of_scaled_y()),
        "u": {"a": exponential.a, "b": exponential.b, "coefficients": list(exponential.coefficients)},
    }


def fits(bounds: list[int]) -> list[tuple[str, float, Callable[[], Exponential]]]:
    """(method, lower end, what fits it) of every row of the file."""
    jobs: list[tuple[str, float, Callable[[], Exponential]]] = []
    for bound in bounds:
        low, most = -float(bound), {16: 3, 32: 4, 64: 5, 128: 6}.get(bound, 6)
        jobs += [("chain", low, partial(fit.chain, low, 0.0, k)) for k in range(3, 9)]
        jobs += [("limit", low, partial(fit.limit, low, 0.0, k)) for k in (6, 7, 8)]
        jobs += [("chebyshev", low, partial(fit.chebyshev, low, 0.0, 15, k)) for k in range(most)]
        jobs += [
            ("fitted", low, partial(fit.fitted, low, 0.0, d, k))
            for d in (3, 7, 15)
            for k in range(max(0, most - 3), most)
        ]
    return jobs


def main() -> None:
    """Fits everything, prints the table, writes the result file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/approx/errors.json"))
    parser.add_argument("--bounds", type=int, nargs="+", default=[16, 32, 64, 128])
    arguments = parser.parse_args()
    results = []
    table = Table("method", "domain", "degree", "k", "levels", "ct mults", "max error", "guard", "fit s")
    for method, low, make in fits(arguments.bounds):
        start = time.perf_counter()
        results.append(row(method, low, make(), time.perf_counter() - start))
        r = results[-1]
        table.add_row(
            method,
            f"[{low:g}, 0]",
            str(r["degree"] or ""),
            str(r["k"]),
            str(r["levels"]),
            str(r["ct_mults"]),
            f"{r['max_error']:.2e}",
            f"[{r['guard'][0]:.1f}, {r['guard'][1]:.1f}]",
            f"{r['fit_s']:.1f}",
        )
    Console(width=None if sys.stdout.isatty() else 140).print(table)
    write_json(arguments.out, {"rows": results, "grid": fit.GRID, "run": run_info()})
    print(arguments.out)


if __name__ == "__main__":
    main()
