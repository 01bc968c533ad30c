"""Noise under CKKS: standard softmax by Goldschmidt iterations against CGF-softmax: python scripts/noise.py

Beside them the setting of the paper's own code.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from omegaconf import DictConfig

from cgf.config import entry, resolved

PRECISIONS = {"FP32": 2.0**-23, "FP16": 2.0**-10, "BF16": 2.0**-7}
PUBLISHED = {"paper_cgf_depth_7": 3.05e-10, "authors_code_mean_absolute_error": 1.1222e-11}


@entry("noise")
def main(cfg: DictConfig) -> None:
    from cgf.bench.tables import draw_noise, print_noise
    from cgf.results import run_info, write_json

    out = Path(cfg.out).expanduser()
    result = {"inputs": f"{cfg.rows} rows of {cfg.columns} scores from N(0, 1), seed {cfg.seed}",
              "standard": standard(cfg), "cgf": cgf(cfg), "authors_setting": authors(cfg), "precisions": PRECISIONS,
              "published": PUBLISHED, "run": run_info(resolved(cfg), cfg.seed)}
    write_json(out, result)
    print_noise(result)
    draw_noise(result, out.with_suffix(".png"))
    print(out)


def scores(rows: int, columns: int, seed: int) -> Any:
    import numpy as np

    return np.random.default_rng(seed).standard_normal((rows, columns))


def noise_of(name: str, softmax: Any, style: str, x: Any, truth: Any) -> dict[str, Any]:
    """Largest and mean error of one encrypted run against ``truth``, and what the polynomials alone leave of it."""
    from cgf.bench.job import Job, rows_of, run
    from cgf.he.circuits import circuit_for
    from cgf.he.dryrun import dry_run
    from cgf.he.sim import SimOwner

    rows = rows_of(*x.shape)
    needs = dry_run(softmax, rows, x.shape[1], style)
    got = run(Job(name, partial(circuit_for, softmax, style=style), needs.max_level,
                  {"max_level": needs.max_level, "mode": "parallel"}, truth, x, 1))  # fmt: skip
    clear = simulated(needs, rows, x, SimOwner(needs.max_level))
    return {"levels": needs.levels, "max_error": got["max_error"], "mean_error": got["mean_error"], "eta": got["eta"],
            "max_error_of_the_polynomials": float(abs(clear - truth).max()), "ring_slots": needs.layout.slots}


def simulated(needs: Any, rows: Any, x: Any, owner: Any) -> Any:
    from cgf.he.packed import Packed

    vectors = needs.layout.pack(x * needs.circuit.input_scale)
    cts = tuple(owner.encrypt(vector, needs.max_level) for vector in vectors)
    result = needs.circuit.run(Packed(owner.evaluator(needs.rotations), needs.layout, rows, cts)).relinearized()
    return needs.layout.unpack([owner.decrypt(ct) for ct in result.cts]) * needs.circuit.output_scale


def standard(cfg: Any) -> list[dict[str, Any]]:
    """exp by degree 15 with k = 1 (5 levels here: the scaling rides on the encoding), then 1 + i iterations."""
    import numpy as np

    from cgf.bench.matrix import exact_softmax
    from cgf.softmax.standard import Standard

    x = scores(cfg.rows, cfg.columns, cfg.seed)
    sums = np.exp(x).sum(1)
    table = []
    for more in cfg.iterations:
        softmax = Standard(low=-6.0, high=6.0, n=cfg.columns, iterations=1 + more, least=float(0.8 * sums.min()),
                           most=float(1.25 * sums.max()))
        table.append({"iterations": 1 + more, **noise_of("standard", softmax, "folded", x, exact_softmax(x))})
    return table


def cgf(cfg: Any) -> dict[str, Any]:
    """CGF-softmax: the paper's circuit at depth 7 (degree 15, k = 1) and ours on the same interval."""
    import numpy as np

    from cgf.approx import fit
    from cgf.bench.matrix import exponent
    from cgf.softmax.cgf import CGF

    x = scores(cfg.rows, cfg.columns, cfg.seed)
    truth, result = np.exp(exponent(x)), {}
    for name, exponential, style in (("paper", fit.chebyshev(-14.0, 0.0, 15, 1), "paper"),
                                     ("ours", fit.fitted(-14.0, 0.0, 15, 0), "folded")):
        softmax = CGF()
        softmax.exponential = exponential
        result[name] = noise_of(name, softmax, style, x, truth)
    return result


def authors(cfg: Any) -> dict[str, Any]:
    """256 x 256 from N(0, 1), k = 2, degree 15 on [-7, 1], depth 8, as in the authors' code, and one square's noise."""
    import numpy as np

    from cgf.approx import fit
    from cgf.bench.matrix import exponent
    from cgf.he.desilo import DesiloOwner
    from cgf.softmax.cgf import CGF

    x, softmax = scores(256, 256, cfg.seed), CGF()
    softmax.exponential = fit.chebyshev(-28.0, 4.0, 15, 2)
    found = noise_of("authors", softmax, "paper", x, np.exp(exponent(x)))
    owner = DesiloOwner(8)
    engine, values = owner.evaluator(frozenset()), np.random.default_rng(1).uniform(-1, 1, owner.slots)
    fresh = owner.encrypt(values, 8)
    squared = engine.relinearize(engine.square(fresh))
    return {**found, "library_noise": {"fresh": float(abs(owner.decrypt(fresh) - values).max()),
                                       "one_square": float(abs(owner.decrypt(squared) - values**2).max())}}


if __name__ == "__main__":
    main()
