"""Seconds of softmaxes on one 256 x 256 matrix and on many rows at once: ours, the paper's circuit and Cho et al.'s."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from cgf.approx import fit
from cgf.bench import batched as rows_at_once
from cgf.bench import job as timing
from cgf.bench.job import Job, rows_of
from cgf.bench.matrix import exact_softmax, exponent, spanning_matrix
from cgf.he.circuits import Circuit, abreast, circuit_for
from cgf.he.dryrun import depth, dry_run
from cgf.he.engines.desilo import DesiloOwner
from cgf.he.engines.engine import BOOTSTRAPPABLE
from cgf.he.score_rows import Rows
from cgf.memory import need_memory
from cgf.softmax.base import Softmax
from cgf.softmax.cgf import CGF
from cgf.softmax.published.normalize_square import NormalizeSquare
from cgf.types import Config, Json

DOMAIN = (-128.0, 0.0)
# GiB of one worker or lane of each way, as measured (peak_mib in results/bench/softmax.json)
SHARED = ("workers_by_rows", "lanes")
PEAK_GIB = {
    "ours": {"one_worker": 0.6, "workers_by_rows": 0.6, "lanes": 0.8, "library_threads": 0.6},
    "paper": {"one_worker": 3.8, "workers_by_rows": 3.9, "lanes": 4.5, "library_threads": 3.9},
    "paper_smallest_ring": {"one_worker": 0.8, "workers_by_rows": 0.7, "lanes": 1.4, "library_threads": 0.8},
    "paper_from_the_top": {"one_worker": 3.9, "workers_by_rows": 4.0, "lanes": 5.1, "library_threads": 3.9},
}


def matrix_results(cfg: Config) -> Json:
    """ours and the paper's circuit, each by one worker, by all, and by one with the library's own threads."""
    matrix = spanning_matrix()
    truth = np.exp(exponent(matrix))
    ours, paper = CGF(), CGF()
    ours.exponential, paper.exponential = fit.chain(*DOMAIN, 6), fit.chebyshev(*DOMAIN, 15, 4)
    bootstrappable = {"max_level": BOOTSTRAPPABLE.max_level, "bootstrap": "plain"}
    circuits = {
        "ours": (ours, "folded", None),
        "paper": (paper, "paper", bootstrappable),
        "paper_smallest_ring": (paper, "paper", None),
    }
    result: Json = {}
    for name, (softmax, style, owner) in circuits.items():
        result[name] = at_its_best(name, softmax, style, owner=owner, matrix=matrix, truth=truth, cfg=cfg)
        print(f"{name}: {result[name]['seconds']['median']:.2f} s", flush=True)
    top = BOOTSTRAPPABLE.max_level  # as a user meets it who encrypts or bootstraps there and goes on
    result["paper_from_the_top"] = at_its_best(
        "paper_from_the_top", paper, "paper", owner=bootstrappable, matrix=matrix, truth=truth, cfg=cfg, level=top
    )
    return result


def at_its_best(
    name: str,
    softmax: Softmax,
    style: str,
    *,
    owner: Json | None,
    matrix: np.ndarray,
    truth: np.ndarray,
    cfg: Config,
    level: int | None = None,
) -> Json:
    """The fastest way to use the cores for this circuit; the seconds of every way are kept.

    1. Every way is run ``cfg.tries`` times, and the one of least median seconds is taken.
    2. That one is run ``cfg.runs`` times anew, so that what is told of it is not what it was chosen by.

    matrix, truth: scores and weights (rows, columns); level: of fresh ciphertexts, None: as many as the circuit needs.
    """
    assert softmax.exponential is not None  # each of them has a polynomial in place
    needs = dry_run(softmax, rows_of(*matrix.shape), matrix.shape[1], style)
    level = level or needs.levels
    job = Job(
        name,
        lambda rows, padded: circuit_for(softmax, rows, padded, style),
        level,
        {**(owner or {"max_level": needs.max_level}), "mode": "cpu"},
        truth,
        matrix,
        cfg.tries,
    )
    by_way = {}
    for way, measure in ways_of(job, softmax, style, cfg.workers).items():
        if name in PEAK_GIB:
            need_memory(PEAK_GIB[name][way] * (cfg.workers if way in SHARED else 1), f"{name}, {way}")
        by_way[way] = measure()
    way = min(by_way, key=lambda k: by_way[k]["seconds"]["median"])
    counted = depth(softmax, rows_of(*matrix.shape), matrix.shape[1], style).levels
    return {
        **ways_of(replace(job, runs=cfg.runs), softmax, style, cfg.workers)[way](),
        "way": way,
        "levels_counted": counted,
        "level_of_fresh_ciphertexts": level,
        "exponential": softmax.exponential.to_json(),
        "workers_efficiency": by_way["one_worker"]["seconds"]["median"]
        / (cfg.workers * min(by_way[k]["seconds"]["median"] for k in ("workers_by_rows", "lanes"))),
        "tries": cfg.tries,
        "ways": {k: {"seconds": r["seconds"], "peak_mib": r["peak_mib"]} for k, r in by_way.items()},
    }


def ways_of(job: Job, softmax: Softmax, style: str, workers: int) -> dict[str, Callable[[], Json]]:
    """What measures a job of one worker by each way to use the cores; lanes run both sums of our circuit at once."""
    exponential = softmax.exponential
    assert exponential is not None
    centre = float(job.matrix.mean())  # public, as a calibration tells it; softmax does not change with it

    def side_by_side(rows: Rows, padded: bool) -> Circuit:
        return job.make(rows, padded) if style == "paper" else abreast(exponential, rows, centre)

    threads = replace(job, owner={**job.owner, "mode": "parallel", "threads": workers})
    return {
        "one_worker": partial(timing.run, job),
        "workers_by_rows": partial(timing.run, job, workers),
        "lanes": partial(timing.run, replace(job, lanes=workers, make=side_by_side)),
        "library_threads": partial(timing.run, threads),
    }


def batched(workers: int, runs: int) -> Json:
    """8,192 rows a worker as eval_he.py runs them, encryption and decryption included: microseconds an entry."""
    result: Json = {}
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
            truth = np.exp(exponent(x)) if rows.valid is None else causal_truth(x, rows.valid, rows.counts)
            make_owner = partial(DesiloOwner, mode="cpu")
            got = rows_at_once.run(softmax, x, causal, truth, make_owner, workers=count, runs=runs)
            got["exponential_error"] = chain.fit.max_error
            result[f"{name}_{count}_core{'s' * (count > 1)}"] = got
            print(f"{name}, {count} workers: {got['us_per_entry']:.2f} us an entry", flush=True)
    return result


def causal_truth(x: np.ndarray, valid: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """CGF-softmax of causal rows by its definition: (rows, columns), zero where not valid."""
    n = counts[:, None]
    mean = np.where(valid, x, 0).sum(1, keepdims=True) / n
    variance = (np.where(valid, x - mean, 0) ** 2).sum(1, keepdims=True) / n
    return np.where(valid, np.exp(np.minimum(x - mean - variance / 2 - np.log(n), 50.0)), 0.0)


def cho(cfg: Config) -> Json:
    """Normalize and square with bootstraps, in one process: two keys of this size fit no machine."""
    matrix, softmax = spanning_matrix(), NormalizeSquare(bound=128.0, n=256)
    owner = {"max_level": BOOTSTRAPPABLE.max_level, "bootstrap": cfg.cho, "mode": "parallel", "threads": cfg.workers}
    job = Job(
        "cho",
        lambda rows, padded: circuit_for(softmax, rows, padded),
        BOOTSTRAPPABLE.max_level,
        owner,
        exact_softmax(matrix),
        matrix,
        cfg.runs,
    )
    counted = depth(softmax, rows_of(*matrix.shape), matrix.shape[1]).levels
    return {
        **timing.run(job),
        "levels_counted": counted,
        "k": softmax.k,
        "degrees": softmax.degrees,
        "bootstrap_key": cfg.cho,
        "error_bound": softmax.error_bound(),
    }


def ratios(result: Json) -> Json:
    """Times of the other circuits in units of ours, and microseconds a score entry."""
    ours = result["ours"]["seconds"]["median"]
    times = {
        f"ratio_{name}": result[name]["seconds"]["median"] / ours
        for name in ("paper", "paper_smallest_ring", "paper_from_the_top", "cho")
        if result.get(name)
    }
    times |= {"workers_efficiency": result["ours"]["workers_efficiency"], "us_per_entry": 1e6 * ours / 65536}
    if "batched" in result:
        times["us_per_entry_batched"] = {name: row["us_per_entry"] for name, row in result["batched"].items()}
    return times
