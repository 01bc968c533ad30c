"""Engines, keys and dry runs of one evaluation: scores in, decrypted weights out, without torch."""

from __future__ import annotations

import functools
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from cgf.errors import UserError
from cgf.he.delivery import handed_over, opened
from cgf.he.dryrun import CircuitCost, dry_run
from cgf.he.engines.count import Counting
from cgf.he.engines.engine import BOOTSTRAPPABLE, Owner, encrypt_all, finish, library_of, rings_of
from cgf.he.layer_record import LayerRecord
from cgf.he.packed import Packed, Rows
from cgf.he.row_sets import blocks_of
from cgf.he.workers import Workers
from cgf.memory import keep_freed_memory, peak_mib

NOISE = 1e-4  # of an owner that a function hands out: that of the libraries that encrypt
KEPT = 64  # dry runs that a session remembers


class Session:
    """Engines, keys and dry runs of one evaluation, made when first needed and kept.

    make_owner  max_level -> Owner, the party with the secret key; its library's rings are those it states
    max_level   fixes the engine's levels; None: as many as each circuit needs
    style       'folded' or 'paper', see cgf.he.circuits
    workers     above 1: so many processes share the rows, each with a session like this one

    Several threads may call ``evaluate``: with workers their sets of ciphertexts run side by side. ``parts``: into
    how many sets the rows of one call are split at least, the workers' number unless many calls keep them busy.
    """

    def __init__(
        self, make_owner: Callable[..., Owner], max_level: int | None = None, style: str = "folded", workers: int = 1
    ) -> None:
        if max_level is not None and not isinstance(max_level, int):
            raise UserError(f"he.max_level must be a whole number or null, and {max_level!r} was given")
        self._make_owner, self.max_level, self.style, self.workers = make_owner, max_level, style, workers
        alone = functools.partial(Session, make_owner, max_level, style)
        self._workers = Workers(alone, workers) if workers > 1 else None
        self.rings, library = rings_of(make_owner), library_of(make_owner)
        self.noise = NOISE if library is None else library.noise  # as the library states it
        self._owners: dict[int, Owner] = {}
        self._rotations: dict[int, frozenset[int]] = {}
        self._needs: dict[Any, CircuitCost] = {}
        self._lock = threading.Lock()
        self.parts = workers

    def needs(self, softmax: Any, rows: Rows, columns: int) -> CircuitCost:
        # a layout, and with it the operations, follows from these facts alone; circuits carry coefficients
        # and row counts, so rows that differ there have runs of their own (the softmax itself, not its id:
        # an id comes back once its object is gone)
        masks = None if rows.valid is None else rows.valid.tobytes()
        place = rows.first if isinstance(rows.first, int) else rows.first.tobytes()
        key = (softmax, softmax.exponential, columns, rows.shape, place, masks, rows.counts.tobytes())
        with self._lock:
            if key not in self._needs:
                while len(self._needs) >= KEPT:  # a circuit keeps its rows' masks: megabytes each
                    self._needs.pop(next(iter(self._needs)))
                self._needs[key] = dry_run(softmax, rows, columns, self.style, self.max_level, self.rings)
            return self._needs[key]

    def owner(self, max_level: int) -> Owner:
        if max_level not in self._owners:
            keep_freed_memory()
            self._owners[max_level] = self._make_owner(max_level=max_level)
        return self._owners[max_level]

    def make(self, sizes: dict[int, frozenset[int]]) -> Callable[[], None]:
        """Engines of these max_levels, with keys for these rotation steps; by workers, while the caller goes on.

        Returns what waits for them. An evaluation makes what is missing: this only moves work to the start.
        """
        under_way = [] if self._workers is None else self._workers.make(sizes)
        if self._workers is None:
            for max_level, rotations in sizes.items():
                self._evaluator(max_level, rotations)

        def wait() -> None:
            for future in under_way:
                future.result()

        return wait

    def _evaluator(self, max_level: int, rotations: frozenset[int]) -> Any:
        """One with the keys asked for so far."""
        self._rotations[max_level] = self._rotations.get(max_level, frozenset()) | rotations
        return self.owner(max_level).evaluator(self._rotations[max_level])

    def evaluate(
        self,
        softmax: Any,
        matrix: np.ndarray,
        mask: np.ndarray | None,
        counts: np.ndarray,
        shape: tuple[int, int, int, int],
        record: LayerRecord,
    ) -> np.ndarray:
        """Weights (R, N) of scores (R, N) through as many sets of ciphertexts as they take, by all workers.

        mask (R, N) bool or None, counts (R,) and shape (B, H, Q, K) as in Rows, of all rows; weights are zero where
        the mask is. The record takes levels, ops and seconds, those of several workers summed.
        """
        rows, columns = matrix.shape
        blocks = blocks_of(rows, columns, self.slots(softmax, mask, counts, shape, columns), mask, self.parts)
        places = [np.ix_(block.order, np.arange(block.columns)) for block in blocks]
        tasks = [
            (matrix[place], Rows(shape, block.order, None if mask is None else mask[place], counts[block.order]))
            for block, place in zip(blocks, places, strict=True)
        ]
        if self._workers is None:
            done = [self.one(softmax, *task) for task in tasks]
        else:
            done = self._workers.evaluate(softmax, tasks)
        result = np.zeros_like(matrix)
        for place, (weights, seen) in zip(places, done, strict=True):
            result[place] = weights
            record.join(seen)
        return result if mask is None else np.where(mask, result, 0.0)

    def slots(self, softmax: Any, mask: np.ndarray | None, counts: np.ndarray, shape: Any, columns: int) -> int:
        """Rows that one set of ciphertexts takes: the slots of the ring that the first rows ask for."""
        first = slice(0, min(len(counts), self.rings[0].slots))
        return self.needs(
            softmax, Rows(shape, 0, None if mask is None else mask[first], counts[first]), columns
        ).layout.slots

    def peak_mib(self) -> float:
        """The most memory that this process and each worker have held, in MiB, summed."""
        return peak_mib() + (0.0 if self._workers is None else self._workers.peak_mib())

    def close(self) -> None:
        """Ends the workers, if there are any."""
        if self._workers is not None:
            self._workers.close()

    def one(self, softmax: Any, matrix: np.ndarray, rows: Rows) -> tuple[np.ndarray, LayerRecord]:
        """Weights (R, N) of one set of ciphertexts, in this process, and its levels, ops and seconds."""
        needs = self.needs(softmax, rows, matrix.shape[1])
        layout = needs.layout
        if needs.bootstrap and self.rings != (BOOTSTRAPPABLE,):
            raise UserError(
                f"softmax '{softmax.name}' needs bootstraps here, and the engine has no key for them: "
                "he.owner.bootstrap=small (13 GiB) or medium (21.5 GiB), with he.workers=1"
            )
        owner = self.owner(needs.max_level)
        if owner.slots != layout.slots:
            raise UserError(f"the plan needs {layout.slots} slots, and the engine has {owner.slots}")
        evaluator = self._evaluator(needs.max_level, needs.rotations)
        engine = Counting(evaluator)
        start = time.perf_counter()
        vectors = layout.pack(matrix * needs.circuit.input_scale)
        packed = time.perf_counter()
        cts = tuple(encrypt_all(owner, vectors, needs.max_level))
        encrypted = time.perf_counter()
        result = needs.circuit.run(Packed(engine, layout, rows, cts))
        answers = handed_over(engine, result.cts)
        spent = finish(evaluator, answers) or engine.seconds
        computed = time.perf_counter()
        answered = opened(owner, answers, len(result.cts))
        decrypted = time.perf_counter()
        weights = needs.circuit.opened(layout.unpack(answered))
        unpacked = time.perf_counter()
        seconds = {
            **spent,
            "pack": packed - start + unpacked - decrypted,
            "encrypt": encrypted - packed,
            "circuit": computed - encrypted,
            "decrypt": decrypted - computed,
        }
        ran = {needs.circuit.style: int(rows.valid.sum()) if rows.valid is not None else matrix.size}
        return weights, LayerRecord(
            levels=needs.max_level - result.level,
            levels_counted=needs.levels,
            slots={layout.slots},
            ops=Counter(engine.ops),
            seconds=Counter(seconds),
            circuits=Counter(ran),
            overflow=getattr(evaluator, "beyond", 0),
        )
