"""Many rows at once, as an encrypted evaluation runs them: by one process, or by workers with engines of their own."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from cgf.bench.job import rows_of
from cgf.bench.matrix import errors
from cgf.bench.timings import timings
from cgf.he.engines.engine import Owner
from cgf.he.layer_record import LayerRecord
from cgf.he.session import Session
from cgf.softmax.base import Softmax
from cgf.types import Json


def run(
    softmax: Softmax,
    matrix: np.ndarray,
    causal: bool,
    truth: np.ndarray,
    make_owner: Callable[..., Owner],
    *,
    workers: int = 1,
    runs: int = 3,
) -> Json:
    """Seconds (wall, everything included; by operation summed over workers), microseconds an entry (of the median run),
    ops, errors.

    matrix (R, N) scores; causal: row i of every square block sees its entries 0 .. i. truth: the weights by the
    plaintext definition. Engines and keys are made by a first run that does not count.
    """
    rows = rows_of(len(matrix), matrix.shape[1], causal)
    scores = matrix if rows.valid is None else np.where(rows.valid, matrix, 0.0)
    session = Session(make_owner, workers=workers)
    try:
        seconds, records = [], []
        for _ in range(runs + 1):
            record, start = LayerRecord(), time.perf_counter()
            weights = session.evaluate(softmax, scores, rows.valid, rows.counts, rows.shape, record)
            seconds.append(time.perf_counter() - start)
            records.append(record)
    finally:
        session.close()
    wall, kept, entries = seconds[1:], records[1:], int(rows.counts.sum())
    spent = {kind: [record.seconds[kind] for record in kept] for kind in kept[0].seconds}
    told = 1e6 * timings(wall)["median"]
    return {
        "workers": workers,
        "runs": runs,
        "seconds": {
            **timings(wall),
            "runs": wall,
            "by_operation": {kind: timings(each) for kind, each in spent.items()},
        },
        "ops": dict(kept[0].ops),
        "levels": kept[0].levels,
        "ring_slots": max(kept[0].slots),
        "entries": entries,
        "us_per_entry": told / entries,
        "us_per_slot": told / matrix.size,
        **errors(truth, weights),
    }
