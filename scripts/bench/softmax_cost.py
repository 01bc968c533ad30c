"""Seconds of softmaxes on one 256 x 256 matrix under CKKS: python scripts/bench/softmax_cost.py [cho=medium]"""

from __future__ import annotations

from pathlib import Path

from omegaconf import DictConfig

from cgf.checks import whole
from cgf.config import entry, resolved
from cgf.errors import UserError
from cgf.he.engines.desilo_library import BOOTSTRAP_GIB
from cgf.memory import need_memory
from cgf.published import runtimes_by_key
from cgf.results import read_json, run_info, write_json
from cgf.target import result_file
from cgf.types import JsonValue


@entry("softmax_cost")
def main(cfg: DictConfig) -> None:
    """Measures what is asked for, keeps the rest of the result file, prints and draws all of it."""
    from cgf.bench.softmax_cost import batched, cho, matrix_results, ratios
    from cgf.report.cost import draw_softmax, print_softmax

    if cfg.workers < 1 or 256 % cfg.workers:
        raise UserError(f"workers must divide the 256 rows of the matrix, and workers={cfg.workers}")
    for key in ("runs", "tries"):
        whole(key, cfg[key], 1)
    if cfg.cho is not None:
        if cfg.cho not in BOOTSTRAP_GIB:
            raise UserError(
                f"cho is the size of a bootstrap key, {' or '.join(BOOTSTRAP_GIB)}, and {cfg.cho!r} was given"
            )
        need_memory(BOOTSTRAP_GIB[cfg.cho], f"a {cfg.cho} bootstrap key")
    out = result_file(cfg.out)
    before = read_json(out) if out.is_file() else {}
    check_current(before, out)
    result = {"cho": None, **before, "published_seconds": runtimes_by_key()}  # what is not measured now stays as it was
    if not cfg.matrix and "ours" not in result:
        raise UserError(f"matrix=false keeps the rows of the matrix, and {out} has none yet")
    if cfg.matrix:
        result |= {**matrix_results(cfg), "run": run_info(resolved(cfg))}
        write_json(out, result | ratios(result))
    if cfg.batched:
        result |= {"batched": batched(cfg.workers, cfg.runs), "batched_run": run_info(resolved(cfg))}
        write_json(out, result | ratios(result))
    if cfg.cho is not None:  # last, and after the rest is safe: it needs nearly all of the memory
        result["cho"] = {**cho(cfg), "run": run_info(resolved(cfg))}
    result |= ratios(result)
    write_json(out, result)
    print_softmax(result)
    draw_softmax(result, out.with_suffix(".png"))
    print(out)


def check_current(before: JsonValue, out: Path) -> None:
    """UserError where a result file's circuits have no median seconds: it is of before, or none of this command."""
    from cgf.report.cost import CIRCUITS

    circuits = before if isinstance(before, dict) else dict.fromkeys(CIRCUITS, before)
    if others := [key for key in CIRCUITS if circuits.get(key) is not None and not has_median(circuits[key])]:
        raise UserError(
            f"{out} must hold circuits with the median of their seconds, and has none of {', '.join(others)} (files of "
            "before have means): move it away, or name another out"
        )


def has_median(circuit: JsonValue) -> bool:
    """Whether a circuit of a result file tells its median seconds."""
    seconds = circuit.get("seconds") if isinstance(circuit, dict) else None
    return isinstance(seconds, dict) and "median" in seconds


if __name__ == "__main__":
    main()
