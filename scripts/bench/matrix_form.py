"""Multiplies matrices under CKKS in two ways: python scripts/bench/matrix_form.py   (one thread: he.owner.mode=cpu)

Writes results/bench/matrix_form.json: desilofhe's matrix form beside the products of prepared operands that whole
attentions use, on the same matrices, and how far they are from each other and from float64.
"""

from __future__ import annotations

from omegaconf import DictConfig

from cgf.bench.matrix_form import compared
from cgf.config import build, entry, resolved
from cgf.results import run_info, write_json
from cgf.target import result_file


@entry("matrix_form")
def main(cfg: DictConfig) -> None:
    """Multiplies matrices of each size both ways, prints what they took, and writes the result file."""
    out, make_owner = result_file(cfg.out), build(cfg.he.owner)
    products = []
    for size in cfg.sizes:
        products.append(compared(size, make_owner, cfg.seed))
        print(f"{size} x {size}: {products[-1]}", flush=True)
    result = {"kind": "matrix_form", "engine": cfg.he.engine, "products": products}
    write_json(out, {**result, "run": run_info(resolved(cfg), cfg.seed)})
    print(out)


if __name__ == "__main__":
    main()
