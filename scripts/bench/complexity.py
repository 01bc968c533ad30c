"""Depth and operations of every softmax, counted off the circuits that run: python scripts/bench/complexity.py

The paper's tables 'benefit' (maximum, division, data-adaptivity), 'depth' and 'complexity', its formulas beside.
"""

from __future__ import annotations

from typing import Any

from omegaconf import DictConfig

from cgf.config import entry, resolved

# the paper's table of k: (model and data, k of Chebyshev, k of the limit)
PAPER_K = (
    ("LLaMA-3.2-1B CLINC150", 3, 6),
    ("LLaMA-3.2-1B Banking77", 3, 6),
    ("LLaMA-3.2-1B SST-2", 4, 7),
    ("ViT-Base ImageNet", 6, 8),
    ("DeiT-Base ImageNet", 3, 6),
    ("ViT-Tiny ImageNet", 1, 8),
    ("DeiT-Tiny ImageNet", 1, 7),
)
# the paper's table 'depth', for those publications' own models and settings
PUBLISHED_DEPTH = {"thor": 30, "tricycle": 17, "arion": 14, "fixed_max": "22 / 26 / 30", "cgf": "7 to 10"}
# the paper's table 'benefit': (maximum, division, data-adaptivity)
PUBLISHED_TRAITS = {
    "hetal": ("comparison", True, True),
    "fixed_max": ("fixed", True, False),
    "tricycle": ("bound", True, True),
    "arion": ("bound", True, True),
    "cho": ("fixed", True, False),
    "thor": ("fixed", True, False),
    "cgf": ("none", False, True),
}
PUBLISHED_LEVELS_AFTER_BOOTSTRAP = 10  # the paper's L
TAYLOR_REACH = 2.0  # about x0: the paper states no domain for its Taylor polynomials
# by label: where a softmax without division comes from, and what was put there by us
OWN_SOURCES = {
    "ours: chain of 6, folded": {
        "source": "this repository, for the definition of the CGF-softmax paper",
        "stand_in": "",
    },
    "paper: Chebyshev 15, k = 4": {"source": "CGF-softmax paper, Algorithm 1 with Chebyshev", "stand_in": ""},
    "paper: limit, k = 7": {"source": "CGF-softmax paper, Algorithm 1 with the limit", "stand_in": ""},
    "Taylor, degree 3": {
        "source": "CGF-softmax paper, appendix Low-degree Variant",
        "stand_in": "the domain, 2 to each side of x0, is ours: the paper states none",
    },
    "BPMax, p = 5": {"source": "Powerformer, Park et al., ACL 2025", "stand_in": ""},
}
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
    from cgf.report.cost import draw_depths, print_complexity
    from cgf.results import run_info, write_json
    from cgf.target import result_file

    out = result_file(cfg.out)
    check(cfg)
    result = {
        "methods": methods(cfg),
        "paper_k": paper_k(cfg),
        "by_k": by_k(cfg),
        "rows": cfg.rows,
        "columns": cfg.columns,
        "notes": NOTES,
        "run": run_info(resolved(cfg)),
    }
    write_json(out, result)
    print_complexity(result)
    draw_depths(result, out.with_suffix(".png"))
    print(out)


def check(cfg: Any) -> None:
    from cgf.errors import UserError
    from cgf.he.engines.engine import BOOTSTRAPPABLE as RING

    if not (1 <= cfg.rows <= RING.slots and 2 <= cfg.columns <= RING.slots):
        raise UserError(
            f"rows must lie in 1 to {RING.slots} and columns in 2 to {RING.slots}, and {cfg.rows} x "
            f"{cfg.columns} was given"
        )


def counted(softmax: Any, cfg: Any, style: str = "folded", rows: int | None = None) -> dict[str, Any]:
    """Levels as if no ring ended, operations, and the bootstraps where the 2^15-slot engine must refresh."""
    from cgf.bench.job import rows_of
    from cgf.errors import UserError
    from cgf.he.dryrun import depth, dry_run
    from cgf.he.engines.engine import BOOTSTRAPPABLE

    shape = rows_of(rows or cfg.rows, cfg.columns)
    endless = depth(softmax, shape, cfg.columns, style)
    try:
        boots = dry_run(softmax, shape, cfg.columns, style, rings=(BOOTSTRAPPABLE,)).ops["boot"]
    except UserError:
        boots = None  # no place to refresh in its formula: the ring must hold all of it
    return {
        "levels": endless.levels,
        "ops": {**endless.ops, "boot": boots},
        "ciphertexts": endless.layout.ciphertexts,
        "circuit": endless.circuit.name,
    }


def methods(cfg: Any) -> list[dict[str, Any]]:
    """Every softmax at its default setting, rows of ``columns`` entries; ours on [-128, 0] at 1e-5."""
    from cgf.approx import fit
    from cgf.softmax.bpmax import BPMax
    from cgf.softmax.cgf import CGF
    from cgf.softmax.published.base import Published
    from cgf.softmax.published.comparison import Comparison
    from cgf.softmax.published.normalize_square import NormalizeSquare, Thor
    from cgf.softmax.published.quotient import Power, Quad
    from cgf.softmax.published.standard import FixedMax, Standard
    from cgf.softmax.published.statistical import Arion, Tricycle
    from cgf.softmax.taylor import TaylorCGF

    n = cfg.columns
    ours, paper, limit = CGF(), CGF(), CGF()
    ours.exponential, paper.exponential = fit.chain(-128.0, 0.0, 6), fit.chebyshev(-128.0, 0.0, 15, 4)
    limit.exponential = fit.limit(-128.0, 0.0, 7)
    taylor = TaylorCGF()
    near = taylor.x0 - TAYLOR_REACH, taylor.x0 + TAYLOR_REACH
    taylor.exponential = fit.taylor(taylor.degree, taylor.x0, *near)
    chosen = [
        ("ours: chain of 6, folded", ours, "folded"),
        ("paper: Chebyshev 15, k = 4", paper, "paper"),
        ("paper: limit, k = 7", limit, "paper"),
        ("Taylor, degree 3", taylor, "folded"),
        ("BPMax, p = 5", BPMax(), "folded"),
        ("standard, Goldschmidt", Standard(n=n), "folded"),
        ("HETAL", Comparison(n=n), "folded"),
        ("EncryptedLLM (stand-in)", FixedMax(n=n), "folded"),
        ("Tricycle (our bound)", Tricycle(n=n), "folded"),
        ("ARION", Arion(n=n), "folded"),
        ("Cho et al.", NormalizeSquare(n=n), "folded"),
        ("THOR", Thor(n=n), "folded"),
        ("Power-softmax, p = 4", Power(), "folded"),
        ("2Quad", Quad(), "folded"),
    ]
    table = []
    for label, softmax, style in chosen:
        row = {
            "method": label,
            "name": softmax.name,
            "setting": softmax.params(),
            **counted(softmax, cfg, style),
            "published_traits": PUBLISHED_TRAITS.get(softmax.name),
            "published_levels": PUBLISHED_DEPTH.get(softmax.name),
        }
        if isinstance(softmax, Published):
            row |= {
                "maximum": softmax.maximum,
                "division": True,
                "adaptive": softmax.adaptive,
                "source": softmax.source,
                "stand_in": softmax.stand_in,
                "domain": softmax.domain,
                "guard": "none",
                "error_bound": softmax.error_bound(),
            }
        else:
            fitted = softmax.exponential.fit if softmax.exponential is not None else None
            row |= {
                "maximum": "none",
                "division": False,
                "adaptive": softmax.name != "bpmax",
                **OWN_SOURCES[label],
                "domain": fitted.domain if fitted else "none",
                "guard": fitted.guard if fitted else "none",
                "error_bound": fitted.max_error if fitted else "none",
            }
        table.append(row)
    return table


def by_k(cfg: Any) -> list[dict[str, Any]]:
    """The paper's formulas for CGF and Cho et al., beside what the circuits count in one ciphertext.

    CGF on [-8 2^k, 0]; Cho et al. on [-4 2^k, 0], where the paper's rule k = ceil(log2 M - log2 ln n) gives k.
    """
    import math

    from cgf.approx import fit
    from cgf.he.engines.engine import BOOTSTRAPPABLE
    from cgf.softmax.cgf import CGF
    from cgf.softmax.published.normalize_square import NormalizeSquare

    table, bits = [], math.ceil(math.log2(cfg.columns))
    rows = BOOTSTRAPPABLE.slots >> bits  # whole rows in one ciphertext
    for k in range(1, 7):
        cgf, ours = CGF(), CGF()
        chebyshev = cgf.exponential = fit.chebyshev(-8.0 * 2**k, 0.0, 15, k)
        chain = ours.exponential = fit.chain(-8.0 * 2**k, 0.0, min(k + 2, 8))
        rounds = NormalizeSquare(bound=4.0 * 2**k, n=cfg.columns, k=k)
        table.append(
            {
                "k": k,
                "cgf": {
                    **counted(cgf, cfg, "paper", rows),
                    "max_error": chebyshev.fit.max_error if chebyshev.fit else None,
                    "formula": formula(k + 6, k + 10, 2 * bits),
                },
                "cho": {
                    **counted(rounds, cfg, rows=rows),
                    "max_error": rounds.error_bound(),
                    "formula": formula(8 * k + 9, 12 * k + 58, 2 * k * bits),
                },
                "ours": {**counted(ours, cfg, rows=rows), "max_error": chain.fit.max_error if chain.fit else None},
            }
        )
    return table


def formula(levels: int, cmult: int, rotate: int) -> dict[str, int]:
    return {"levels": levels, "cmult": cmult, "rotate": rotate, "boot": levels // PUBLISHED_LEVELS_AFTER_BOOTSTRAP}


def paper_k(cfg: Any) -> list[dict[str, Any]]:
    """The paper's depth column: the smaller of Chebyshev (k + 6) and limit (k + 2), as counted."""
    from cgf.approx import fit
    from cgf.softmax.cgf import CGF

    table = []
    for label, chebyshev, limit in PAPER_K:
        first, second = CGF(), CGF()
        first.exponential = fit.chebyshev(-8.0 * 2**chebyshev, 0.0, 15, chebyshev)
        second.exponential = fit.limit(-(2.0**limit), 0.0, limit)
        counts = [counted(s, cfg, "paper")["levels"] for s in (first, second)]
        table.append({"model": label, "k": [chebyshev, limit], "levels": counts, "least": min(counts)})
    return table


if __name__ == "__main__":
    main()
