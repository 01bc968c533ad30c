"""Every softmax that there is in one table and one plot: python scripts/bench/alternatives.py

CKKS levels and multiplications (counted off the circuits), order, positivity and shift invariance (by trial),
accuracy where a training result has it.
"""

from __future__ import annotations

from pathlib import Path

from omegaconf import DictConfig

from cgf.config import built, entry, resolved
from cgf.errors import UserError
from cgf.results import run_info, write_bytes, write_json
from cgf.target import result_file


@entry("alternatives")
def main(cfg: DictConfig) -> None:
    """Counts and tries, writes the result file and its figure, prints the table."""
    from cgf.approx import fit
    from cgf.bench.alternatives import table, training_results
    from cgf.report.alternatives import plot, print_alternatives

    out = result_file(cfg.out)
    softmaxes = built("softmax")
    names = list(softmaxes) if cfg.names is None else list(cfg.names)
    if unknown := sorted(set(names) - set(softmaxes)):
        raise UserError(f"unknown softmax '{unknown[0]}': there are {', '.join(softmaxes)}")
    chain = fit.chain(cfg.range[0], cfg.range[1], cfg.k)
    result = {
        "table": table(
            {name: softmaxes[name] for name in names},
            chain,
            cfg.rows,
            cfg.columns,
            training_results(Path(cfg.train).expanduser()),
        ),
        "rows": cfg.rows,
        "columns": cfg.columns,
        "exponential": f"a chain of {cfg.k} squarings on {list(cfg.range)}",
        "run": run_info(resolved(cfg)),
    }
    write_json(out, result)
    print_alternatives(result)
    write_bytes(out.with_suffix(".png"), plot(result))
    print(out)


if __name__ == "__main__":
    main()
