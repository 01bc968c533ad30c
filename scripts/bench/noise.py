"""Noise under CKKS: standard softmax by Goldschmidt iterations against CGF-softmax: python scripts/bench/noise.py

Beside them the setting of the authors' code, and what scripts/bench/noise_engines.sh measured on other engines.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from omegaconf import DictConfig

from cgf.config import entry, resolved
from cgf.errors import UserError
from cgf.he.engines.desilo import DesiloOwner
from cgf.he.engines.desilo_library import VERSION
from cgf.published import NOISE, PRECISIONS
from cgf.results import read_json, run_info, write_json
from cgf.target import result_file
from cgf.types import Json


@entry("noise")
def main(cfg: DictConfig) -> None:
    """Measures on this engine, writes the result file with what others left, prints and draws all of it."""
    from cgf.bench.noise import measure
    from cgf.report.noise import draw_noise, print_noise

    if cfg.seeds < 1:
        raise UserError(f"seeds must be at least 1, and {cfg.seeds} was given")
    out = result_file(cfg.out)
    here = {
        "engine": f"desilofhe {VERSION}",
        **measure(DesiloOwner, cfg.rows, cfg.columns, list(cfg.steps), cfg.seed, cfg.runs),
    }
    result = {
        "engines": [here, *others(out)],
        "precisions": PRECISIONS,
        "published": NOISE,
        "polynomial_by_seed": by_seed(cfg.seeds),
        "run": run_info(resolved(cfg), cfg.seed),
    }
    write_json(out, result)
    print_noise(result)
    draw_noise(result, out.with_suffix(".png"))
    print(out)


def others(out: Path) -> list[Json]:
    """What noise_engine.py left beside ``out``, each with the run that made it."""
    return [read_json(path) for path in sorted(out.parent.glob(f"{out.stem}_*.json"))]


def by_seed(seeds: int) -> Json:
    """Mean error of the authors' polynomial, in float64 and so without any noise, over matrices of other seeds."""
    from cgf.bench.matrix import exponent
    from cgf.bench.noise import authors_exponential, normal_scores

    means, polynomial = [], authors_exponential()
    for seed in range(seeds):
        y = exponent(normal_scores(256, 256, seed))
        means.append(float(np.abs(polynomial(y) - np.exp(y)).mean()))
    return {"seeds": seeds, "mean": float(np.mean(means)), "least": min(means), "most": max(means)}


if __name__ == "__main__":
    main()
