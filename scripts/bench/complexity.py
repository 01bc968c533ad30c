"""Depth and operations of every softmax, counted off the circuits that run: python scripts/bench/complexity.py

The paper's tables 'benefit' (maximum, division, data-adaptivity), 'depth' and 'complexity', its formulas beside.
"""

from __future__ import annotations

from omegaconf import DictConfig

from cgf.config import entry, resolved
from cgf.results import run_info, write_json
from cgf.target import result_file

NOTES = (
    "levels and operations are counted off the circuits as they run, on the simulator and on zeros: neither depends on "
    "data. Levels: as if no ring ended. Bootstraps: two ciphertexts in one, 17 levels after each (the paper: 10); "
    "-: no place to refresh, the ring must hold all of it",
    "each method at its own default setting and on its own domain: read domain and error bound beside the levels",
    "guard: where no intermediate passes the bound of a ciphertext; none: the method states none. BPMax is itself the "
    "definition: it approximates nothing, on any domain",
    "published levels are those of the paper's table 'depth', for the publications' own models and settings",
    "by k, of one ciphertext that holds whole rows, as the paper's formulas. CGF: degree 15 takes 8 products here, "
    "9 in the formula. Cho et al.: one cyclic row sum a round leaves the total in every slot, where the formula "
    "rotates twice as often; the two steps after the last round sum too",
)


@entry("complexity")
def main(cfg: DictConfig) -> None:
    """Counts, writes the result file and its figure, prints the tables."""
    from cgf.bench.complexity import Shape, by_k, methods, paper_k
    from cgf.report.cost import draw_depths, print_complexity

    out, shape = result_file(cfg.out), Shape(cfg.rows, cfg.columns)
    result = {
        "methods": methods(shape),
        "paper_k": paper_k(shape),
        "by_k": by_k(cfg.columns),
        "rows": cfg.rows,
        "columns": cfg.columns,
        "notes": NOTES,
        "run": run_info(resolved(cfg)),
    }
    write_json(out, result)
    print_complexity(result)
    draw_depths(result, out.with_suffix(".png"))
    print(out)


if __name__ == "__main__":
    main()
