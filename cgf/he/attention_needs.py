"""What a whole attention needs, read off the circuit itself: levels, operations, keys, ring and tile."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from cgf.errors import UserError
from cgf.he.attention import BlockQueries, circuit_of, weigh, weighted, width_of
from cgf.he.attention_blocks import AttentionTask, Block, Kind, spread_of
from cgf.he.circuits import takes_means
from cgf.he.engines.count import Counting
from cgf.he.engines.engine import BOOTSTRAPPABLE, RINGS, Ring, ring_for
from cgf.he.engines.rules import OutOfLevels
from cgf.he.engines.sim import OneSlot, SimCiphertext
from cgf.he.tile import Pattern, Tile, tiles
from cgf.network.attention import DISTANCE, DOT, Heads, score_of
from cgf.softmax.base import Softmax


@dataclass(frozen=True)
class AttentionCost:
    """What a set of ciphertexts needs; levels from encryption to the outputs.

    input_level  at which queries and keys are encrypted: the levels, or the engine's where the circuit bootstraps
    value_level  at which values are encrypted: what the weights have left;  polynomials: of an output
    ops, by_level   operations by kind, and by (detail, level): see cgf.he.engines.count
    means        means of keys stand where there are none: see cgf.he.attention_blocks.AttentionTask
    held         columns of keys, and of values, that are kept at once
    encrypted    ciphertexts by level;  circuits: the softmax's circuit for each kind of block
    """

    tile: Tile
    pairs: bool
    max_level: int
    levels: int
    input_level: int
    value_level: int
    polynomials: int
    ops: dict[str, int]
    by_level: dict[tuple[str, int], int]
    held: int
    encrypted: dict[int, int]
    decrypted: int
    rotations: frozenset[int]
    style: str
    circuits: dict[Kind, str] = field(default_factory=dict)
    means: bool = False

    def task(self, heads: Heads, chosen: np.ndarray) -> AttentionTask:
        """Chosen instances, as many as the tile has, as they lie by these needs."""
        return AttentionTask(heads, chosen, self.tile, self.pairs, self.means)


def needs_of(
    softmax: Softmax,
    heads: Heads,
    chosen: np.ndarray,
    style: str = "folded",
    *,
    rings: tuple[Ring, ...] = RINGS,
    pairs: bool = True,
    max_level: int | None = None,
    most_mib: float = math.inf,
) -> AttentionCost:
    """Levels, operations, tile and ring of chosen instances (I,), or of as many of them as fit one set of ciphertexts.

    pairs: the engine has complex slots;  max_level fixes the engine;  most_mib: see cgf.he.tile.tiles.
    1. Rings and tiles are listed with a price, the cheapest first.
    2. The first whose dry run ends within its levels is taken.
    3. In its ring an engine of fewer levels is taken, where that has enough.
    Raises UserError where the levels do not suffice.
    """
    pairs = pairs and score_of(softmax) != DISTANCE
    asked = rings if max_level is None else (ring_for(max_level, rings),)
    grown = takes_means(softmax, style) if score_of(softmax) == DOT else 0.0
    means = spread_of(heads, chosen) <= grown
    for _, ring, tile in options(heads, len(chosen), asked, pairs, most_mib, means):
        task = AttentionTask(heads, chosen[: tile.instances], tile, pairs, means)
        used = dry_run(softmax, task, style, max_level or ring.max_level, rings)
        if used is None:
            continue
        if max_level is not None or ring == BOOTSTRAPPABLE:  # the library builds that one at its full size alone
            return used
        below = max([r.max_level for r in rings if r.max_level < ring.max_level], default=0)
        for level in range(max(used.levels - 1, below + 1), ring.max_level):
            if (smaller := dry_run(softmax, task, style, level, rings)) is not None:
                return smaller
        return used
    most = rings[-1].max_level if max_level is None else max_level
    bound = (
        "" if most_mib == math.inf else f", or more memory than he.memory_mib={most_mib:g} for {heads.shape[3]} keys"
    )
    raise UserError(
        f"the attention with softmax '{softmax.name}' needs more levels than there are ({most}), and does not "
        f"bootstrap{bound}"
    )


def options(
    heads: Heads, instances: int, rings: tuple[Ring, ...], pairs: bool, most_mib: float, means: bool = False
) -> list[tuple[float, Ring, Tile]]:
    """(price, ring, tile) for so many instances, the cheapest first; whether the levels suffice is not asked.

    Layouts with absent keys come last: they take a level more than full rows need, and are for lack of memory. With
    means of keys in their places they take none, and come where their price puts them.
    """
    pattern, features = None if means else Pattern.of(heads.mask), max(heads.query.shape[3], heads.value.shape[3])
    queries, keys = heads.shape[2:]

    def priced(absent: bool) -> list[tuple[float, Ring, Tile]]:
        every = [
            (cost, ring, tile)
            for ring in rings
            for cost, tile in tiles(
                instances,
                queries,
                keys,
                features,
                slots=ring.slots,
                pairs=pairs,
                pattern=pattern,
                most_mib=most_mib,
                absent=absent,
                means=means,
            )
        ]
        return sorted(every, key=lambda option: option[0])

    if means:
        return sorted([*priced(False), *priced(True)], key=lambda option: option[0])
    return [*priced(False), *priced(True)]


def dry_run(
    softmax: Softmax, task: AttentionTask, style: str, max_level: int, rings: tuple[Ring, ...] = RINGS
) -> AttentionCost | None:
    """The needs of a task in an engine of so many levels, on one slot; None where the levels do not suffice."""
    run = _DryRun(softmax, task, style, Counting(OneSlot(max_level, rings=rings)))
    try:
        for block, times in _kinds(task.blocks).values():
            run.repeated(block, times)
    except OutOfLevels:
        return None
    return run.cost()


def _kinds(blocks: list[Block]) -> dict[Kind, tuple[Block, int]]:
    """Of each kind of block the first one, and how many there are."""
    counts = Counter(block.kind for block in blocks)
    firsts = {block.kind: block for block in reversed(blocks)}
    return {kind: (firsts[kind], times) for kind, times in counts.items()}


class _DryRun:
    """Blocks of a task on one slot of zeros, at the top level of an engine; what they use is counted."""

    def __init__(self, softmax: Softmax, task: AttentionTask, style: str, engine: Counting) -> None:
        self.softmax, self.task, self.style, self.engine = softmax, task, style, engine
        self.top = self.lowest = self.weight_level = engine.max_level
        self.polynomials = 2
        self.width = width_of(task.heads.query.shape[3], task.pairs)
        self.value_width = width_of(task.heads.value.shape[3], task.pairs)
        self.circuits: dict[Kind, str] = {}

    def repeated(self, block: Block, times: int) -> None:
        """A block of one kind, counted as often as there are such blocks."""
        ops, by_level = self.engine.ops.copy(), self.engine.by_level.copy()
        self._block(block)
        for kind in self.engine.ops:
            self.engine.ops[kind] += (times - 1) * (self.engine.ops[kind] - ops[kind])
        for detail in self.engine.by_level:
            self.engine.by_level[detail] += (times - 1) * (self.engine.by_level[detail] - by_level[detail])

    def _block(self, block: Block) -> None:
        engine, ct, columns = self.engine, SimCiphertext(np.zeros(1), self.top), len(block.columns)
        circuit, score = circuit_of(self.softmax, block, self.style), score_of(self.softmax)
        self.circuits[block.kind] = circuit.style
        self._prepared(self.width, self.top)
        keys = [[ct] * self.width] * columns
        norms = [engine.relinearize(engine.dot(keys[0], keys[0]))] * columns if score == DISTANCE else ()
        meeting = BlockQueries(engine, block, self.task.tile, keys[0], keys, self.task.pairs, norms)
        weights = weigh(circuit, meeting.distances() if score == DISTANCE else meeting.products())
        self.weight_level = min(self.weight_level, weights.level)
        value = SimCiphertext(np.zeros(1), max(weights.level, 1))
        for output in weighted(weights, [[value] * self.value_width] * columns, self.task.tile):
            self.lowest = min(self.lowest, engine.level(output))
            self.polynomials = engine.polynomials(output)

    def _prepared(self, cts: int, level: int) -> None:
        self.engine.ops["prepare"] += cts
        self.engine.by_level["prepare", level] += cts

    def cost(self) -> AttentionCost:
        """Of all blocks, and of the keys and values, which are prepared once, or once for a block of their own."""
        engine, tile = self.engine, self.task.tile
        blocks, columns = tile.blocks(self.task.heads.shape[2]), self.task.encodings
        self._prepared(columns * self.width, self.top)
        self._prepared(columns * self.value_width, self.weight_level)
        spare = 0 if engine.ops["boot"] else self.lowest  # levels that encryption leaves out
        encrypted = Counter({self.top - spare: (blocks + columns) * self.width})
        encrypted[self.weight_level - spare] += columns * self.value_width
        return AttentionCost(
            tile,
            self.task.pairs,
            max_level=self.top,
            levels=self.top - self.lowest,
            input_level=self.top - spare,
            value_level=self.weight_level - spare,
            polynomials=self.polynomials,
            ops={kind: n for kind, n in engine.ops.items() if n},
            by_level=dict(engine.by_level),
            held=self.task.held,
            encrypted=dict(encrypted),
            decrypted=blocks * self.value_width,
            rotations=frozenset(engine.rotations),
            style=self.style,
            circuits=self.circuits,
            means=self.task.means,
        )
