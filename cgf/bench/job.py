"""One circuit on one matrix, several times, by worker processes with engines and keys of their own."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from queue import Empty
from threading import BrokenBarrierError
from typing import TYPE_CHECKING

import numpy as np

from cgf.bench.matrix import errors
from cgf.bench.timings import timings
from cgf.errors import UserError, reason
from cgf.he.circuits import Circuit
from cgf.he.engines.count import Counting
from cgf.he.engines.desilo import DesiloOwner
from cgf.he.engines.engine import KeyHolder, decrypt_all, encrypt_all, finish
from cgf.he.engines.lanes import LanesOwner
from cgf.he.layout import Layout, choose_layout
from cgf.he.packed import Packed
from cgf.he.score_rows import Rows
from cgf.memory import keep_freed_memory, peak_mib
from cgf.types import Ciphertext, Json, Options

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess
    from multiprocessing.queues import Queue
    from multiprocessing.synchronize import Barrier

POLL_S = 1.0  # how long an answer is waited for before the workers are looked at


@dataclass(frozen=True)
class Job:
    """A circuit, a matrix and an engine.

    make    (rows, padding columns?) -> circuit, built in each worker
    level   of the fresh ciphertexts; owner: arguments of DesiloOwner
    truth   the weights by the plaintext definition
    """

    name: str
    make: Callable[[Rows, bool], Circuit]
    level: int
    owner: Options
    truth: np.ndarray
    matrix: np.ndarray
    runs: int
    lanes: int = 1  # engines and threads of a worker, on one set of ciphertexts (cgf.he.engines.lanes)
    whole: bool = False  # time encryption and decryption too
    causal: bool = False  # row i of every square block sees its entries 0 .. i alone


def rows_of(rows: int, columns: int, causal: bool = False) -> Rows:
    """Rows of a matrix (rows, columns); causal: row i of every square block sees its entries 0 .. i."""
    shape = (1, 1, rows, columns)
    if not causal:
        return Rows(shape, 0, None, np.full(rows, float(columns)))
    counts = np.arange(rows) % columns + 1
    return Rows(shape, 0, np.arange(columns) < counts[:, None], counts.astype(np.float64))


def run(job: Job, workers: int = 1) -> Json:
    """seconds (wall, median and range of the runs, and by operation, summed over workers), ops, levels, errors, memory.

    Each worker takes an equal share of the rows, with engine and keys of its own: ciphertexts are not shared.
    """
    if workers < 1 or len(job.matrix) % workers:
        raise UserError(f"the rows must divide among the workers, and {len(job.matrix)} rows have {workers}")
    context = get_context("fork")
    barrier, queue = context.Barrier(workers), context.Queue()
    parts = np.array_split(np.arange(len(job.matrix)), workers)
    processes = [context.Process(target=_worker, args=(job, part, i, barrier, queue)) for i, part in enumerate(parts)]
    for process in processes:
        process.start()
    answers = collected(job.name, processes, queue)
    answers.sort(key=lambda a: a["worker"])
    spans = np.array([a["spans"] for a in answers])  # (workers, runs, 2)
    wall = spans[:, :, 1].max(0) - spans[:, :, 0].min(0)
    weights = np.concatenate([a["weights"] for a in answers])
    kinds = answers[0]["seconds"][0]
    by_operation = {kind: [sum(a["seconds"][r][kind] for a in answers) for r in range(job.runs)] for kind in kinds}
    return {
        "name": job.name,
        "workers": workers,
        "lanes": job.lanes,
        "runs": job.runs,
        "engine": job.owner,
        "seconds": {
            **timings(wall.tolist()),
            "runs": wall.tolist(),
            "by_operation": {kind: timings(spent) for kind, spent in by_operation.items()},
        },
        "ops": {kind: sum(a["ops"][kind] for a in answers) for kind in answers[0]["ops"]},
        "levels": answers[0]["levels"],
        "ring_slots": answers[0]["slots"],
        "ciphertexts": sum(a["ciphertexts"] for a in answers),
        "peak_mib": sum(a["peak_mib"] for a in answers),
        "setup_s": max(a["setup_s"] for a in answers),
        **errors(job.truth, weights),
    }


def collected(name: str, processes: Sequence[BaseProcess], queue: Queue[Json]) -> list[Json]:
    """One answer of each process, which then ends. UserError where one fails, or ends without an answer (killed)."""
    answers: dict[int, Json] = {}
    try:
        while len(answers) < len(processes):
            ended = [i for i, p in enumerate(processes) if p.exitcode is not None and i not in answers]
            try:
                answer = queue.get(timeout=POLL_S)
            except Empty:
                if ended:  # before the queue was found empty: an answer of theirs would have been in it
                    code = processes[ended[0]].exitcode
                    raise UserError(
                        f"{name}: worker {ended[0]} of {len(processes)} ended with exit code {code} before "
                        "its work was done (out of memory?)"
                    ) from None
                continue
            if "failed" in answer:
                raise UserError(answer["failed"])
            answers[answer["worker"]] = answer
        for process in processes:
            process.join()
    finally:
        for process in processes:
            process.terminate()
    return list(answers.values())


def _worker(job: Job, part: np.ndarray, index: int, barrier: Barrier, queue: Queue[Json]) -> None:
    try:
        queue.put(_work(job, part, index, barrier))
    except BrokenBarrierError:  # another worker failed, and tells why
        pass
    except Exception as error:
        queue.put({"failed": f"{job.name}: {error if isinstance(error, UserError) else reason(error)}"})
        barrier.abort()  # the others would wait for this one


def _work(job: Job, part: np.ndarray, index: int, barrier: Barrier) -> Json:
    start = time.perf_counter()
    keep_freed_memory()
    owner = owner_for(job)
    matrix = job.matrix[part]
    rows = rows_of(len(matrix), matrix.shape[1], job.causal)
    if rows.valid is not None:  # circuits take zeros where an entry does not count
        matrix = np.where(rows.valid, matrix, 0.0)
    layout = choose_layout(len(matrix), matrix.shape[1], owner.slots, masked=job.causal)
    circuit = job.make(rows, layout.padding_columns > 0)
    engine = owner.evaluator(frozenset(layout.rotations))
    setup_s = time.perf_counter() - start
    spans, seconds = [], []
    for _ in range(job.runs):
        vectors = layout.pack(matrix * circuit.input_scale)
        cts = None if job.whole else encrypted(owner, vectors, job.level)
        counting = Counting(engine)
        barrier.wait()
        began = time.perf_counter()
        fresh = cts or encrypted(owner, vectors, job.level)
        ready = time.perf_counter()
        result = circuit.run(Packed(counting, layout, rows, fresh)).relinearized()
        spent = finish(engine, result.cts) or counting.seconds
        done = time.perf_counter()
        weights = decrypted(owner, layout, result, circuit) if job.whole else None
        ended = time.perf_counter()
        spans.append((began, ended))
        seconds.append({**spent, "encrypt": ready - began, "decrypt": ended - done})
    weights = decrypted(owner, layout, result, circuit) if weights is None else weights
    if rows.valid is not None:
        weights = np.where(rows.valid, weights, 0.0)
    return {
        "worker": index,
        "spans": spans,
        "seconds": seconds,
        "ops": dict(counting.ops),
        "weights": weights,
        "levels": None if counting.ops["boot"] else job.level - result.level,
        "slots": owner.slots,
        "ciphertexts": layout.ciphertexts,
        "peak_mib": peak_mib(),
        "setup_s": setup_s,
    }


def owner_for(job: Job) -> DesiloOwner | LanesOwner:
    """DesiloOwner of the job's arguments, or so many on one secret."""
    if job.lanes == 1:
        return DesiloOwner(**job.owner)
    rest = {k: v for k, v in job.owner.items() if k != "max_level"}
    return LanesOwner(job.owner["max_level"], partial(DesiloOwner, **rest), job.lanes)


def encrypted(owner: KeyHolder, vectors: list[np.ndarray], level: int) -> tuple[Ciphertext, ...]:
    """Ciphertexts of the vectors, fresh at a level."""
    return tuple(encrypt_all(owner, vectors, level))


def decrypted(owner: KeyHolder, layout: Layout, result: Packed, circuit: Circuit) -> np.ndarray:
    """Weights (rows, columns) out of the ciphertexts of a circuit's result."""
    return circuit.opened(layout.unpack(decrypt_all(owner, result.cts)))
