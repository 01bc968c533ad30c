"""One set of ciphertexts of a whole attention: encrypted, computed on and decrypted, one block of queries at a time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from cgf.he.attention import BlockQueries, Scales, circuit_of, complex_pairs, outputs_of
from cgf.he.attention_blocks import AttentionTask, Block
from cgf.he.attention_needs import AttentionCost
from cgf.he.circuits import Circuit
from cgf.he.engines.count import Counting
from cgf.he.engines.engine import Engine, KeyHolder, decrypt_all
from cgf.he.laps import Laps
from cgf.he.layer_record import LayerRecord
from cgf.network.attention import DISTANCE, score_of
from cgf.softmax.base import Softmax
from cgf.types import Ciphertext


@dataclass(frozen=True)
class _Column:
    """Keys and values of b keys, prepared, a ciphertext a feature or pair; norm: |k|^2 where distances need it."""

    keys: list[Ciphertext]
    values: list[Ciphertext]
    norm: Ciphertext | None


def run(
    needs: AttentionCost, owner: KeyHolder, evaluator: Engine, softmax: Softmax, task: AttentionTask
) -> tuple[np.ndarray, LayerRecord]:
    """Outputs (I, Q, E) of the chosen instances, and what was seen.

    1. The owner encrypts keys and values, feature by feature, when a block first needs them; the evaluator prepares
       them.
    2. For each block of queries: the owner encrypts it, the evaluator computes its outputs, the owner decrypts them. So
       the ciphertexts of one block alone are held beside those of keys and values.
    3. Keys and values of which a block's queries attend to some alone are encrypted for that block, zero elsewhere.
    """
    work = _Run(needs, owner, evaluator, softmax, task)
    for block in task.blocks:
        work.attend(block)
    return work.outputs, work.record(getattr(evaluator, "beyond", 0))


def with_means(key: np.ndarray, value: np.ndarray, task: AttentionTask) -> tuple[np.ndarray, np.ndarray]:
    """Keys (I, K, D) with the mean of each instance's own in every other place, K and those that columns have beyond;
    values (I, K, E) with zeros there."""
    real = task.real[..., None]
    mean = np.where(real, key, 0.0).sum(1, keepdims=True) / real.sum(1, keepdims=True)  # whatever padding holds
    key = np.concatenate([np.where(real, key, mean), np.repeat(mean, task.absent, 1)], 1)
    return key, np.where(real, value, 0.0)


class _Run:
    """Keys and values of a task as ciphertexts, prepared, and what its blocks gave so far."""

    def __init__(
        self, needs: AttentionCost, owner: KeyHolder, evaluator: Engine, softmax: Softmax, task: AttentionTask
    ) -> None:
        self.needs, self.owner, self.softmax, self.task = needs, owner, softmax, task
        self.engine, self.lap = Counting(evaluator), Laps()
        self.lowest, self.circuits = needs.input_level, Counter[str]()
        score = score_of(softmax)
        last = circuit_of(softmax, task.blocks[-1], needs.style)  # of causal rows the longest
        self.scales = Scales.of(task.heads.scaling, last, score, task.pairs)
        self.query, key, value = task.heads.flat(task.chosen)
        if task.zeroed is not None:
            gone = task.zeroed[:, : task.keys, None]
            key, value = np.where(gone, 0.0, key), np.where(gone, 0.0, value)
        if task.centred:
            key, value = with_means(key, value, task)
        self.outputs = np.zeros((*self.query.shape[:2], value.shape[2]))
        key = key * self.scales.keys
        self.key, self.value = (complex_pairs(x, 1.0) if task.pairs else x for x in (key, value))
        self.shared: dict[int, _Column] = {}

    def _column(self, number: int, mask: np.ndarray | None) -> _Column:
        """One column of keys and values, (I, b) of each feature or pair of features a ciphertext.

        mask   as of Block.masks; without one the same for all blocks, and kept
        """
        if mask is None and number in self.shared:
            return self.shared[number]
        tile, engine = self.task.tile, self.engine
        place = slice(number * tile.b, (number + 1) * tile.b)
        keys, values = (
            [self._encrypt(tile.pack_keys(part[..., x], mask), level) for x in range(part.shape[-1])]
            for part, level in (
                (self.key[:, place], self.needs.input_level),
                (self.value[:, place], self.needs.value_level),
            )
        )
        distant = score_of(self.softmax) == DISTANCE
        column = _Column(keys, values, engine.relinearize(engine.dot(keys, keys)) if distant else None)
        self.lap("circuit")
        if mask is None:
            self.shared[number] = column
        return column

    def _encrypt(self, vector: np.ndarray, level: int) -> Ciphertext:
        """Encrypted by the owner, prepared by the evaluator; seconds of each go to its own."""
        self.lap("pack")
        ct = self.owner.encrypt(vector, level)
        self.lap("encrypt")
        prepared = self.engine.prepare(ct)
        self.lap("circuit")
        return prepared

    def attend(self, block: Block) -> None:
        """The outputs of one block of queries, in their places of ``outputs``."""
        circuit, task = circuit_of(self.softmax, block, self.needs.style), self.task
        query = self.query[:, block.queries] * self._by_place(self.scales.queries(circuit))[..., None]
        query = complex_pairs(query, -1.0) if task.pairs else query
        packed = [task.tile.pack_queries(query[..., x]) for x in range(query.shape[-1])]
        columns = [self._column(*which) for which in zip(block.columns, block.masks, strict=True)]
        meeting = BlockQueries(
            self.engine,
            block,
            task.tile,
            [self._encrypt(vector, self.needs.input_level) for vector in packed],
            [column.keys for column in columns],
            task.pairs,
            [column.norm for column in columns],
        )
        answers = list(outputs_of(meeting, self.softmax, circuit, [column.values for column in columns]))
        self.lowest = min(self.lowest, *map(self.engine.level, answers))
        self.lap("circuit")
        self._open(answers, block, circuit)
        self.lap("decrypt")
        self.circuits[circuit.style] += self._entries(block)

    def _entries(self, block: Block) -> int:
        """Score entries of a block that count: its repeated queries and those of padding are left out."""
        queries, heads, tile = np.unique(block.queries), self.task.heads, self.task.tile
        counted = np.ones((tile.instances, len(queries), block.rows.shape[3]), dtype=bool)
        if self.task.centred:
            counted = np.repeat(self.task.real[:, None], len(queries), 1)
        elif block.rows.valid is not None:
            counted &= block.rows.valid.reshape(tile.instances, tile.a, -1)[:, : len(queries)]
        if heads.real is not None:
            counted &= heads.real[self.task.chosen // heads.shape[1]][:, queries, None]
        return int(counted.sum())

    def _by_place(self, factor: float | np.ndarray) -> np.ndarray:
        """(I, a) of a circuit's public factor, one number or (R, 1)."""
        places = self.task.tile.instances, self.task.tile.a
        return factor.reshape(places) if isinstance(factor, np.ndarray) else np.full(places, factor)

    def _open(self, answers: list[Ciphertext], block: Block, circuit: Circuit) -> None:
        """A block's decrypted outputs, times the circuit's public scale."""
        queries = np.unique(block.queries)  # the last block repeats its last query
        if self.task.pairs:
            parts = [part for pair in decrypt_all(self.owner, answers, pairs=True) for part in pair]
        else:
            parts = decrypt_all(self.owner, answers)
        scale = self._by_place(circuit.output_scale)[:, : len(queries)]
        for feature, slots in enumerate(parts[: self.outputs.shape[2]]):  # an odd last feature had no partner
            unpacked = self.task.tile.unpack(slots)[:, : len(queries)]
            self.outputs[:, queries, feature] = unpacked * scale

    def record(self, overflow: int) -> LayerRecord:
        """What was seen; overflow: slots of the simulator beyond what a ciphertext holds."""
        return LayerRecord(
            levels=self.needs.input_level - self.lowest,
            levels_counted=self.needs.levels,
            slots={self.task.tile.slots},
            ops=Counter({kind: n for kind, n in self.engine.ops.items() if n}),
            seconds=Counter({**self.engine.seconds, **self.lap.seconds}),
            circuits=self.circuits,
            layouts=Counter([str(self.task.tile)]),
            overflow=overflow,
        )
