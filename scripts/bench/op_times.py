"""Measures how long single operations take under CKKS: python scripts/bench/op_times.py   (check=true: the predictions)

Writes results/bench/op_times.json, from which scripts/plan.py predicts seconds.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import numpy as np
from omegaconf import DictConfig

from cgf.config import build, entry, resolved
from cgf.errors import UserError
from cgf.he.engines.desilo import DesiloOwner
from cgf.he.engines.engine import Owner
from cgf.he.layer_record import LayerRecord
from cgf.he.session import Session
from cgf.memory import keep_freed_memory
from cgf.plan.cost import mask_rows, needs_of, predict
from cgf.plan.op_times import OpTimes, levels_to_measure, measure
from cgf.results import read_json, run_info, write_json
from cgf.softmax.cgf import CGF
from cgf.target import result_file
from cgf.types import Config, Json

# softmaxes whose measured seconds are compared with the predicted: (rows, columns, method, lo, degree, k)
CIRCUITS = (
    (256, 256, "chain", -128.0, None, 6),
    (8192, 32, "chain", -16.0, None, 3),
    (256, 256, "chebyshev", -128.0, 15, 4),
    (256, 256, "chain", -128.0, None, 6, "causal"),
)


@entry("op_times")
def main(cfg: DictConfig) -> None:
    """Measures single operations, or compares predictions with measured circuits; writes the result file."""
    path = result_file(cfg.out)
    if cfg.check:
        data = read_json(path)
        check = checked(build(cfg.he.owner), OpTimes.from_json(data), cfg.runs)
        write_json(path, {**data, "check": check, "check_run": run_info(resolved(cfg))})
    else:
        start = time.perf_counter()
        make_owner, owner = desilofhe(build(cfg.he.owner)), cfg.he.owner
        sizes = measured(make_owner, cfg.max_levels, (cfg.repeats, cfg.budget_s, cfg.clock))
        write_json(
            path,
            {
                "engine": cfg.he.engine,
                "mode": owner.mode,
                "threads": threads(owner),
                "sizes": sizes,
                "repeats": cfg.repeats,
                "clock": cfg.clock,
                "seconds": time.perf_counter() - start,
                "run": run_info(resolved(cfg)),
            },
        )
    print(path)


def threads(owner: Config) -> int:
    """Threads that an engine of this owner (he.owner of a configuration) computes with."""
    return 1 if owner.mode == "cpu" else int(owner.get("threads") or len(os.sched_getaffinity(0)))


def desilofhe(make_owner: Callable[..., Owner]) -> Callable[..., DesiloOwner]:
    """The same owner. UserError for one of another engine, or of several: plans know desilofhe's rings alone."""
    made = getattr(make_owner, "func", make_owner)
    if made is not DesiloOwner:
        raise UserError(
            "operation times are those of one engine of desilofhe, by whose rings plans look them up (he=desilo, "
            f"he=desilo_gpu), and he.owner is {made.__name__}"
        )
    return make_owner  # type: ignore[return-value]  # a partial of that class


def measured(make_owner: Callable[..., DesiloOwner], max_levels: list[int], timing: tuple[int, float, str]) -> Json:
    """Sizes of op_times.json, one engine after another: only one's keys are in memory at a time."""
    keep_freed_memory()  # as an evaluation does
    sizes = {}
    for max_level in max_levels:
        start = time.perf_counter()
        owner = make_owner(max_level=max_level)
        size = measure(owner, owner.key_bytes(), levels_to_measure(max_level), *timing)
        sizes[str(max_level)] = size.to_json()
        top = max(size.ms["rotate"])
        print(
            f"{max_level} levels, {size.slots} slots: at the top square {size.at('square', top):.1f} ms, "
            f"relinearize {size.at('relinearize', top):.1f} ms, rotate {size.at('rotate', top):.1f} ms; "
            f"{time.perf_counter() - start:.0f} s",
            flush=True,
        )
        del owner  # or it stays until the next one is there
    return sizes


def checked(make_owner: Callable[..., DesiloOwner], times: OpTimes, runs: int) -> list[Json]:
    """Predicted and measured seconds of CIRCUITS, the measured ones the median of runs after a first one."""
    from cgf.approx import fit

    comparisons = []
    for rows, columns, method, lo, degree, k, *mask in CIRCUITS:
        kind = mask[0] if mask else "full"
        softmax, options = CGF(), (k,) if degree is None else (degree, k)
        softmax.exponential = getattr(fit, method)(lo, 0.0, *options)
        needs = needs_of(softmax.exponential, kind, rows, columns)
        told, facts, session = predict(needs, times), mask_rows(kind, rows, columns), Session(make_owner)
        scores = np.random.default_rng(0).normal(size=(rows, columns)) * (1.0 if facts.valid is None else facts.valid)
        records = [LayerRecord() for _ in range(runs + 1)]
        for record in records:
            session.evaluate(softmax, scores, facts.valid, facts.counts, facts.shape, record)
        seconds = {p: float(np.median([r.seconds[p] for r in records[1:]])) for p in ("circuit", "encrypt", "decrypt")}
        predicted = {"circuit": told.circuit_s, "encrypt": told.encrypt_s, "decrypt": told.decrypt_s}
        seconds["total"], predicted["total"] = sum(seconds.values()), told.total_s
        ratio = {p: predicted[p] / s for p, s in seconds.items()}
        comparisons.append(
            {
                "rows": rows,
                "columns": columns,
                "mask": kind,
                "method": method,
                "degree": degree,
                "k": k,
                "domain": [lo, 0.0],
                "levels": needs[0].levels,
                "ring_slots": needs[0].layout.slots,
                "predicted_s": predicted,
                "measured_s": seconds,
                "ratio": ratio,
            }
        )
        print(
            f"{method} k={k}, {rows} x {columns}, {kind}: predicted {told.total_s:.2f} s, measured "
            f"{seconds['total']:.2f} s, ratio {ratio['total']:.2f} (circuit {ratio['circuit']:.2f})",
            flush=True,
        )
    return comparisons


if __name__ == "__main__":
    main()
