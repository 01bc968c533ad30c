"""One evaluation under CKKS: rows of scores shared out over sets of ciphertexts and processes, without torch."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress

import numpy as np

from cgf.he.dryrun import CircuitCost
from cgf.he.engines.engine import Owner
from cgf.he.layer_record import LayerRecord
from cgf.he.network_run import NetworkRecord
from cgf.he.party import Party
from cgf.he.row_sets import blocks_of
from cgf.he.score_rows import Rows, Shape
from cgf.he.side_by_side import together_mib
from cgf.he.workers import Workers
from cgf.memory import peak_mib
from cgf.network.attention import Heads
from cgf.network.layers import Network
from cgf.softmax.base import Softmax


class Session:
    """Shares the rows of one evaluation out: over sets of ciphertexts, and those over processes.

    make_owner  max_level -> Owner, the party with the secret key; its library's rings are those it states
    max_level   fixes the engine's levels; None: as many as each circuit needs
    style       one of cgf.he.circuits.STYLES
    workers     above 1: so many processes share the rows, each a Party with keys of its own
    check       every operation is compared with the simulator's, slot by slot. UserError at the first that is off by
                more than ten times the noise that the library states. The one that evaluates then holds the secret
                key too: for finding faults
    most_mib    of the ciphertexts of one set of whole attentions, in each process
    alone       whole networks: each sample in ciphertexts of its own, in the layout of least latency
    processes   whole networks: so many compute one set, by forks of an engine that has one thread

    Several threads may call ``evaluate``: with workers their sets of ciphertexts run side by side. ``parts``: into
    how many sets the rows of one call are split at least, the workers' number unless many calls keep them busy.
    """

    def __init__(
        self,
        make_owner: Callable[..., Owner],
        max_level: int | None = None,
        style: str = "folded",
        workers: int = 1,
        check: bool = False,
        most_mib: float = math.inf,
        *,
        alone: bool = False,
        processes: int = 1,
    ) -> None:
        make_party = functools.partial(Party, make_owner, max_level, style, check, most_mib, alone, processes)
        self.party = make_party()  # with workers it makes no keys
        self.rings, self.noise, self.workers, self.parts = self.party.rings, self.party.noise, workers, workers
        self._workers = Workers(make_party, workers) if workers > 1 else None

    def needs(self, softmax: Softmax, rows: Rows, columns: int) -> CircuitCost:
        """What the circuit of such rows needs, from a dry run that is remembered."""
        return self.party.needs(softmax, rows, columns)

    def make(self, sizes: dict[int, frozenset[int]]) -> Callable[[], None]:
        """Engines of these max_levels, with keys for these rotation steps; by workers, while the caller goes on.

        Returns what waits for them. An evaluation makes what is missing: this only moves work to the start.
        """
        futures = [] if self._workers is None else self._workers.make(sizes)
        if self._workers is None:
            self.party.make(sizes)

        def wait() -> None:
            for future in futures:
                with suppress(BrokenProcessPool):  # what its keys were for starts the workers anew
                    future.result()

        return wait

    def evaluate(
        self,
        softmax: Softmax,
        matrix: np.ndarray,
        mask: np.ndarray | None,
        counts: np.ndarray,
        shape: Shape,
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
            parts = [self.party.run(softmax, *task) for task in tasks]
        else:
            parts = self._workers.evaluate(softmax, tasks)
        result = np.zeros_like(matrix)
        for place, (weights, part) in zip(places, parts, strict=True):
            result[place] = weights
            record.join(part)
        return result if mask is None else np.where(mask, result, 0.0)

    def attend(self, softmax: Softmax, heads: Heads, record: LayerRecord) -> np.ndarray:
        """Outputs (B, H, Q, E) of a layer's whole attention, its instances shared out over sets of ciphertexts.

        The record takes levels, ops and seconds, those of several workers summed.
        """
        shares = np.array_split(np.arange(heads.instances), min(heads.instances, self.parts))
        tasks = [task for chosen in shares for task in self._sets(softmax, *heads.part(chosen))]
        if self._workers is None:
            done = [self.party.attend(softmax, *task) for task in tasks]
        else:
            done = self._workers.attend(softmax, tasks)
        for _, seen in done:
            record.join(seen)
        return np.concatenate([outputs for outputs, _ in done]).reshape(*heads.shape[:3], heads.value.shape[3])

    def network(self, network: Network, features: np.ndarray) -> tuple[np.ndarray, NetworkRecord]:
        """Logits (B, classes) of features (B, tokens, width) that fit one set of ciphertexts, by whoever is free."""
        return (
            self.party.network(network, features) if self._workers is None else self._workers.network(network, features)
        )

    def _sets(self, softmax: Softmax, heads: Heads, chosen: np.ndarray) -> list[tuple[Heads, np.ndarray]]:
        """Chosen instances in sets that each fit the layout planned for it: fewer of them may be planned another."""
        most = self.party.attention_needs(softmax, heads, chosen).tile.instances
        if len(chosen) <= most:
            return [(heads, chosen)]
        parts = (heads.part(part) for part in np.array_split(chosen, -(-len(chosen) // most)))
        return [task for part in parts for task in self._sets(softmax, *part)]

    def slots(self, softmax: Softmax, mask: np.ndarray | None, counts: np.ndarray, shape: Shape, columns: int) -> int:
        """Rows that one set of ciphertexts takes: the slots of the ring that the first rows ask for."""
        first = slice(0, min(len(counts), self.rings[0].slots))
        return self.needs(
            softmax, Rows(shape, 0, None if mask is None else mask[first], counts[first]), columns
        ).layout.slots

    def peak_mib(self) -> float:
        """The most memory that this process, with the forks that share a set out, and each worker have held, in MiB,
        summed."""
        return max(peak_mib(), together_mib()) + sum(() if self._workers is None else self._workers.peaks_mib())

    def worker_mib(self) -> float:
        """The most memory that one process with ciphertexts has held, in MiB: a worker, or this process without any."""
        return peak_mib() if self._workers is None else max(self._workers.peaks_mib(), default=0.0)

    def close(self) -> None:
        """Ends the workers, if there are any."""
        if self._workers is not None:
            self._workers.close()
