"""Seconds of softmaxes on one 256 x 256 matrix under CKKS: python scripts/bench/softmax_cost.py [cho=medium]"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from omegaconf import DictConfig

from cgf.config import entry, resolved

DOMAIN = (-128.0, 0.0)
# GiB of one worker or lane of each way, as measured (peak_mib in results/bench/softmax.json)
SHARED = ("workers_by_rows", "lanes")
PEAK_GIB = {
    "ours": {"one_worker": 0.6, "workers_by_rows": 0.6, "lanes": 0.8, "library_threads": 0.6},
    "paper": {"one_worker": 3.8, "workers_by_rows": 3.9, "lanes": 4.5, "library_threads": 3.9},
    "paper_smallest_ring": {"one_worker": 0.8, "workers_by_rows": 0.7, "lanes": 1.4, "library_threads": 0.8},
    "paper_from_the_top": {"one_worker": 3.9, "workers_by_rows": 4.0, "lanes": 5.1, "library_threads": 3.9},
}


@entry("softmax_cost")
def main(cfg: DictConfig) -> None:
    """Measures what is asked for, keeps the rest of the result file, prints and draws all of it."""
    from cgf.errors import UserError
    from cgf.he.engines.desilo import BOOTSTRAP_GIB
    from cgf.memory import need_memory
    from cgf.published import runtimes_by_key
    from cgf.report.cost import draw_softmax, print_softmax
    from cgf.results import read_json, run_info, write_json
    from cgf.target import result_file

    if cfg.workers < 1 or 256 % cfg.workers:
        raise UserError(f"workers must divide the 256 rows of the matrix, and workers={cfg.workers}")
    if cfg.cho is not None:
        if cfg.cho not in BOOTSTRAP_GIB:
            raise UserError(
                f"cho is the size of a bootstrap key, {' or '.join(BOOTSTRAP_GIB)}, and {cfg.cho!r} was given"
            )
        need_memory(BOOTSTRAP_GIB[cfg.cho], f"a {cfg.cho} bootstrap key")
    out = result_file(cfg.out)
    before = read_json(out) if out.is_file() else {}
    result = {"cho": None, **before, "published_seconds": runtimes_by_key()}  # what is not measured now stays as it was
    if not cfg.matrix and "ours" not in result:
        raise UserError(f"matrix=false keeps the rows of the matrix, and {out} has none yet")
    if cfg.matrix:
        result |= {**matrix_rows(cfg), "run": run_info(resolved(cfg))}
        write_json(out, result | ratios(result))
    if cfg.batched:
        result |= {"batched": batched(cfg.workers), "batched_run": run_info(resolved(cfg))}
        write_json(out, result | ratios(result))
    if cfg.cho is not None:  # last, and after the rest is safe: it needs nearly all of the memory
        result["cho"] = {**cho(cfg), "run": run_info(resolved(cfg))}
    result |= ratios(result)
    write_json(out, result)
    print_softmax(result)
    draw_softmax(result, out.with_suffix(".png"))
    print(out)


def matrix_rows(cfg: Any) -> dict[str, Any]:
    """ours and the paper's circuit, each by one worker, by all, and by one with the library's own threads."""
    import numpy as np

    from cgf.approx import fit
    from cgf.bench.matrix import exponent, spanning_matrix
    from cgf.he.engines.engine import BOOTSTRAPPABLE
    from cgf.softmax.cgf import CGF

    matrix = spanning_matrix()
    truth = np.exp(exponent(matrix))
    ours, paper = CGF(), CGF()
    ours.exponential, paper.exponential = fit.chain(*DOMAIN, 6), fit.chebyshev(*DOMAIN, 15, 4)
    bootstrappable = {"max_level": BOOTSTRAPPABLE.max_level, "bootstrap": "plain"}
    rows = {
        "ours": (ours, "folded", None),
        "paper": (paper, "paper", bootstrappable),
        "paper_smallest_ring": (paper, "paper", None),
    }
    result: dict[str, Any] = {}
    for name, (softmax, style, owner) in rows.items():
        result[name] = at_its_best(name, softmax, style, owner=owner, matrix=matrix, truth=truth, cfg=cfg)
        print(f"{name}: {result[name]['seconds']['mean']:.2f} s", flush=True)
    top = BOOTSTRAPPABLE.max_level  # as a user meets it who encrypts or bootstraps there and goes on
    result["paper_from_the_top"] = at_its_best(
        "paper_from_the_top",
        paper,
        "paper",
        owner=bootstrappable,
        matrix=matrix,
        truth=truth,
        cfg=cfg,
        level=top,
        runs=max(2, cfg.runs // 3),
    )
    return result


def at_its_best(
    name: str,
    softmax: Any,
    style: str,
    *,
    owner: dict[str, Any] | None,
    matrix: Any,
    truth: Any,
    cfg: Any,
    level: int | None = None,
    runs: int | None = None,
) -> dict[str, Any]:
    """The fastest way to use the cores for this circuit; the seconds of every way are kept."""
    from cgf.bench.job import Job, rows_of, run
    from cgf.he.circuits import abreast, circuit_for
    from cgf.he.dryrun import depth, dry_run
    from cgf.memory import need_memory

    needs = dry_run(softmax, rows_of(*matrix.shape), matrix.shape[1], style)
    owner = owner or {"max_level": needs.max_level}
    centre = float(matrix.mean())  # public, as a calibration tells it; softmax does not change with it

    def make(rows: Any, padded: bool) -> Any:
        return circuit_for(softmax, rows, padded, style)

    def side_by_side(rows: Any, padded: bool) -> Any:
        return make(rows, padded) if style == "paper" else abreast(softmax.exponential, rows, centre)

    def job(**mode: Any) -> Job:
        return Job(name, make, level or needs.levels, {**owner, "mode": "cpu", **mode}, truth, matrix, runs or cfg.runs)

    ways = {
        "one_worker": partial(run, job()),
        "workers_by_rows": partial(run, job(), cfg.workers),
        "lanes": partial(run, replace(job(), lanes=cfg.workers, make=side_by_side)),
        "library_threads": partial(run, job(mode="parallel", threads=cfg.workers)),
    }
    by_way = {}
    for way, measure in ways.items():
        if name in PEAK_GIB:
            need_memory(PEAK_GIB[name][way] * (cfg.workers if way in SHARED else 1), f"{name}, {way}")
        by_way[way] = measure()
    way = min(by_way, key=lambda k: by_way[k]["seconds"]["mean"])
    counted = depth(softmax, rows_of(*matrix.shape), matrix.shape[1], style).levels
    return {
        **by_way[way],
        "way": way,
        "levels_counted": counted,
        "level_of_fresh_ciphertexts": level or needs.levels,
        "exponential": softmax.exponential.to_json(),
        "workers_efficiency": by_way["one_worker"]["seconds"]["mean"]
        / (cfg.workers * min(by_way[k]["seconds"]["mean"] for k in ("workers_by_rows", "lanes"))),
        "ways": {k: {"seconds": r["seconds"], "peak_mib": r["peak_mib"]} for k, r in by_way.items()},
    }


def batched(workers: int) -> dict[str, Any]:
    """8,192 rows a worker as eval_he.py runs them, encryption and decryption included: microseconds an entry."""
    import numpy as np

    from cgf.approx import fit
    from cgf.bench.batched import run
    from cgf.bench.job import rows_of
    from cgf.bench.matrix import exponent, spanning_matrix
    from cgf.he.engines.desilo import DesiloOwner
    from cgf.softmax.cgf import CGF

    result: dict[str, Any] = {}
    cases = {
        "full_128": (128, 3, -12.0, False),
        "causal_128": (128, 3, -12.0, True),
        "full_256_wide": (256, 6, -128.0, False),
    }
    for name, (n, k, low, causal) in cases.items():
        softmax = CGF()
        chain = softmax.exponential = fit.chain(low, 0.5 if low > -20 else 0.0, k)
        assert chain.fit is not None
        for count in sorted({1, workers} if name != "full_256_wide" else {1}):
            if low > -20:
                x = np.random.default_rng(7).standard_normal((8192 * count, n))
            else:
                x = np.tile(spanning_matrix(), (32, 1))
            rows = rows_of(len(x), n, causal)
            truth = np.exp(exponent(x)) if not causal else causal_truth(x, rows.valid, rows.counts)
            make_owner, runs = partial(DesiloOwner, mode="cpu"), 2 if n == 128 else 1
            got = run(softmax, x, causal, truth, make_owner, workers=count, runs=runs)
            got["exponential_error"] = chain.fit.max_error
            result[f"{name}_{count}_core{'s' * (count > 1)}"] = got
            print(f"{name}, {count} workers: {got['us_per_entry']:.2f} us an entry", flush=True)
    return result


def causal_truth(x: Any, valid: Any, counts: Any) -> Any:
    """CGF-softmax of causal rows by its definition: (rows, columns), zero where not valid."""
    import numpy as np

    n = counts[:, None]
    mean = np.where(valid, x, 0).sum(1, keepdims=True) / n
    variance = (np.where(valid, x - mean, 0) ** 2).sum(1, keepdims=True) / n
    return np.where(valid, np.exp(np.minimum(x - mean - variance / 2 - np.log(n), 50.0)), 0.0)


def cho(cfg: Any) -> dict[str, Any]:
    """Normalize and square with bootstraps, in one process: two keys of this size fit no machine."""
    from cgf.bench.job import Job, rows_of, run
    from cgf.bench.matrix import exact_softmax, spanning_matrix
    from cgf.he.circuits import circuit_for
    from cgf.he.dryrun import depth
    from cgf.he.engines.engine import BOOTSTRAPPABLE
    from cgf.softmax.published.normalize_square import NormalizeSquare

    matrix, softmax = spanning_matrix(), NormalizeSquare(bound=128.0, n=256)
    owner = {"max_level": BOOTSTRAPPABLE.max_level, "bootstrap": cfg.cho, "mode": "parallel", "threads": cfg.workers}
    job = Job(
        "cho",
        lambda rows, padded: circuit_for(softmax, rows, padded),
        BOOTSTRAPPABLE.max_level,
        owner,
        exact_softmax(matrix),
        matrix,
        cfg.cho_runs,
    )
    counted = depth(softmax, rows_of(*matrix.shape), matrix.shape[1]).levels
    return {
        **run(job),
        "levels_counted": counted,
        "k": softmax.k,
        "degrees": softmax.degrees,
        "bootstrap_key": cfg.cho,
        "error_bound": softmax.error_bound(),
    }


def ratios(result: dict[str, Any]) -> dict[str, Any]:
    """Times of the other circuits in units of ours, and microseconds a score entry."""
    ours = result["ours"]["seconds"]["mean"]
    times = {
        f"ratio_{name}": result[name]["seconds"]["mean"] / ours
        for name in ("paper", "paper_smallest_ring", "paper_from_the_top", "cho")
        if result.get(name)
    }
    times |= {"workers_efficiency": result["ours"]["workers_efficiency"], "us_per_entry": 1e6 * ours / 65536}
    if "batched" in result:
        times["us_per_entry_batched"] = {name: row["us_per_entry"] for name, row in result["batched"].items()}
    return times


if __name__ == "__main__":
    main()
