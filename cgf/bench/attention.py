"""Cost of whole attentions by shape, predicted before they run and measured: one set of ciphertexts each."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from multiprocessing.synchronize import Barrier
from threading import BrokenBarrierError

import numpy as np

from cgf.checks import is_whole
from cgf.errors import UserError
from cgf.he import attention_run
from cgf.he.attention_needs import needs_of
from cgf.he.engines.engine import Owner, complex_slots, rings_of
from cgf.memory import keep_freed_memory, peak_mib, resident_mib
from cgf.network.attention import Heads
from cgf.plan.attention_cost import PredictedAttention, predict_attention
from cgf.plan.op_times import OpTimes
from cgf.softmax.base import Softmax
from cgf.types import Json

READY_S = 600  # how long processes that start together wait for each other's keys


@dataclass(frozen=True)
class Shape:
    """samples of ``heads`` heads, tokens each, features of keys and values; rows: full or causal."""

    samples: int
    heads: int
    tokens: int
    features: int
    rows: str = "full"

    def layer(self, seed: int) -> Heads:
        """Random queries and keys whose scores have a standard deviation of about 1.3, as trained models' have."""
        rng = np.random.default_rng(seed)
        size = (self.samples, self.heads, self.tokens, self.features)
        query, key, value = (spread * rng.normal(size=size) for spread in (1.14, 1.14, 0.6))
        mask = np.tril(np.ones((self.tokens, self.tokens), dtype=bool))[None, None] if self.rows == "causal" else None
        return Heads(query, key, value, self.features**-0.5, mask)


@dataclass(frozen=True)
class Costing:
    """What every shape is measured with.

    make_owner  the engine, by its level
    most_mib    that the ciphertexts of one set may take in a process
    times       what an operation takes, to predict from; None: no prediction
    seed        of the random queries, keys and values
    """

    softmax: Softmax
    make_owner: Callable[..., Owner]
    most_mib: float
    times: OpTimes | None
    seed: int


def measured(shape: Shape, costing: Costing) -> Json:
    """Predicted, then measured, in a process of its own, whose peak of memory is this shape's.

    client_s, server_s  seconds of one thread of the key holder (packing, encryption, decryption) and of the server
    max_error  of an output, against float64 with the same polynomials
    """
    return _in_processes(shape, costing, [None])[0]


def odd(runs: int) -> int:
    """As it is; UserError unless it is an odd number of runs, one of which is the median."""
    if not is_whole(runs) or runs < 1 or runs % 2 == 0:
        raise UserError(f"runs must be an odd number, so that one of them is the median, and is {runs!r}")
    return runs


def middle(runs: Sequence[Json]) -> Json:
    """Of an odd number of measurements of one shape that of median seconds, with the range of all of them.

    runs  {"count": how many, "least_s", "most_s": seconds of key holder and server together}. peak_mib and
    max_error are the greatest of all runs.
    """
    by_seconds = sorted(runs, key=_seconds)
    span = {"count": len(runs), "least_s": _seconds(by_seconds[0]), "most_s": _seconds(by_seconds[-1])}
    greatest = {name: max(run[name] for run in runs) for name in ("peak_mib", "max_error")}
    return {**by_seconds[len(runs) // 2], **greatest, "runs": span}


def _seconds(measurement: Json) -> float:
    return float(measurement["client_s"] + measurement["server_s"])


def side_by_side(shape: Shape, costing: Costing, workers: int) -> dict[str, float]:
    """A set of the shape in each of several processes at once, which start together once all have their keys.

    seconds  of the slowest, from the start to the last decryption
    ms_per_head  of that time, by instance of all the sets
    peak_mib  of all the processes together
    """
    return _of_all(_in_processes(shape, costing, [None] * workers))


def shared_out(shape: Shape, costing: Costing, workers: int) -> dict[str, float]:
    """One layer whose instances are shared out over several processes, as an evaluation with so many workers does it.

    Fields as those of ``side_by_side``. An instance is the attention of one head of one sample, so that a layer of one
    sample is shared out by heads.
    Raises UserError where the layer has fewer instances than there are workers, or more than fit a set a worker.
    """
    measurements = _in_processes(shape, costing, [(part, workers) for part in range(workers)])
    instances = shape.samples * shape.heads
    if sum(one["instances"] for one in measurements) != instances:
        raise UserError(f"{instances} instances do not fit one set of ciphertexts for each of {workers} workers")
    return _of_all(measurements)


def shareable(shape: Shape, workers: int) -> bool:
    """Whether it pays to share a layer out: one sample alone, and a head for each worker at least."""
    return shape.samples == 1 and shape.heads >= workers > 1


def _of_all(measurements: list[Json]) -> dict[str, float]:
    seconds = max(map(_seconds, measurements))
    return {
        "workers": len(measurements),
        "seconds": seconds,
        "ms_per_head": 1e3 * seconds / sum(one["instances"] for one in measurements),
        "peak_mib": sum(one["peak_mib"] for one in measurements),
    }


_ready: Barrier | None = None  # of the processes that measure side by side


def _wait_with(barrier: Barrier) -> None:
    global _ready
    _ready = barrier


def _in_processes(shape: Shape, costing: Costing, parts: Sequence[tuple[int, int] | None]) -> list[Json]:
    """A process for each (part, of how many parts) of a layer's instances; None: all of them."""
    context, count = multiprocessing.get_context("spawn"), len(parts)
    with ProcessPoolExecutor(count, context, _wait_with, (context.Barrier(count),)) as pool:
        futures = [pool.submit(_measured_beside, shape, costing, part) for part in parts]
        wait(futures)
    failed = [error for future in futures if (error := future.exception()) is not None]
    if any(isinstance(error, BrokenProcessPool) for error in failed):
        raise UserError(f"one of {count} processes ended before its work was done (out of memory?)")
    if failed:  # those that waited for the one that failed have failed too
        raise next((error for error in failed if not isinstance(error, BrokenBarrierError)), failed[0])
    return [future.result() for future in futures]


def _measured_beside(shape: Shape, costing: Costing, part: tuple[int, int] | None) -> Json:
    try:
        return _measured(shape, costing, part)
    except BaseException:
        if _ready is not None:
            _ready.abort()  # the others would wait for this one
        raise


def _measured(shape: Shape, costing: Costing, part: tuple[int, int] | None) -> Json:
    keep_freed_memory()
    softmax, make_owner, most_mib = costing.softmax, costing.make_owner, costing.most_mib
    heads = shape.layer(costing.seed)
    every = np.arange(heads.instances)
    if part is not None:
        every = np.array_split(every, part[1])[part[0]]
    needs = needs_of(
        softmax, heads, every, rings=rings_of(make_owner), pairs=complex_slots(make_owner), most_mib=most_mib
    )
    chosen = every[: needs.tile.instances]
    before = resident_mib()
    predicted = None if costing.times is None else predict_attention(needs, heads, costing.times)
    started = time.perf_counter()
    owner = make_owner(max_level=needs.max_level)
    evaluator = owner.evaluator(needs.rotations, needs.pairs)
    keys_s = time.perf_counter() - started
    task = needs.task(heads, chosen)
    if _ready is not None:
        _ready.wait(READY_S)
    cpu = time.process_time()
    outputs, seen = attention_run.run(needs, owner, evaluator, softmax, task)
    cpu, peak = time.process_time() - cpu, peak_mib()
    client = seen.seconds["pack"] + seen.seconds["encrypt"] + seen.seconds["decrypt"]
    server, count = seen.seconds["circuit"], len(chosen)
    macs = heads.macs() * count // heads.instances
    return {
        **asdict(shape),
        "layout": str(needs.tile),
        "instances": count,
        "instances_asked": heads.instances,
        "levels": seen.levels,
        "levels_counted": needs.levels,
        "ciphertexts": {"encrypted": sum(needs.encrypted.values()), "decrypted": needs.decrypted},
        "client_s": client,
        "server_s": server,
        "cpu_s": cpu,
        "keys_s": keys_s,
        "ms_per_head": 1e3 * (client + server) / count,
        "us_per_mac": 1e6 * (client + server) / macs,
        "us_per_entry": 1e6 * (client + server) * (heads.query.shape[3] + heads.value.shape[3]) / macs,
        "peak_mib": peak,
        "max_error": float(np.abs(outputs - _clear(softmax, heads, chosen)).max()),
        "largest": float(np.abs(outputs).max()),
        "ops": dict(seen.ops),
        "threads": int(os.environ.get("OMP_NUM_THREADS", 0)) or None,
        **({} if predicted is None else {"predicted": _told(predicted, before)}),
    }


def _told(predicted: PredictedAttention, before: float) -> dict[str, float]:
    """With what the process held before, as the measured peak has it."""
    return {**asdict(predicted), "mib": predicted.mib + before, "total_s": predicted.total_s}


def _clear(softmax: Softmax, heads: Heads, chosen: np.ndarray) -> np.ndarray:
    """Outputs (I, Q, E) in float64 with the same polynomials."""
    import torch

    query, key, value = (torch.from_numpy(np.ascontiguousarray(x)) for x in heads.flat(chosen))
    valid = None if heads.mask is None else torch.from_numpy(heads.mask[np.divmod(chosen, heads.shape[1])])
    scores = softmax.scores(query[:, None], key[:, None], heads.scaling)[:, 0]
    weights = softmax.reading(scores[:, None], None if valid is None else valid[:, None])[:, 0]
    return (weights @ value).numpy()
