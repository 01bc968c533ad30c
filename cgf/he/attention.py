"""A whole attention on ciphertexts: queries, keys and values in, outputs out, and no decryption between.

Levels: one for the products of queries and keys, those of the softmax's own circuit (1 + k for CGF-softmax with k
squarings on full rows), one for the product with the values: 3 + k. Public factors ride on the encodings: the root of
the scale on the keys, the rest of it on the queries. Where slots are complex, two features share a ciphertext: q' =
q1 - i q2 and k' = k1 + i k2 have q1 k1 + q2 k2 for the real part of their product, and v1 + i v2 weighs as two values.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from cgf.errors import UserError
from cgf.he.circuits import Circuit, circuit_for
from cgf.he.engines.count import Counting
from cgf.he.engines.engine import BOOTSTRAPPABLE, RINGS, Ciphertext, Engine, Ring, ring_for
from cgf.he.engines.rules import OutOfLevels
from cgf.he.engines.sim import OneSlot, SimCiphertext
from cgf.he.packed import Packed, Rows
from cgf.he.tile import Pattern, Tile, tiles
from cgf.network.attention import DISTANCE, Heads, attention, score_of
from cgf.softmax.base import Softmax


@dataclass(frozen=True)
class Block:
    """One block of queries of a tile, and the ciphertexts of keys that it meets.

    queries  (a,) indices;  columns: which ciphertexts of keys any of them attends to
    rows     public facts of its score rows (instance, place), in the order of the slots
    dirty    a score that does not count may be other than zero, or its value may be: it takes a mask, and a level,
             before the softmax and another one after it
    """

    queries: np.ndarray
    columns: list[int]
    rows: Rows
    dirty: bool

    @property
    def kind(self) -> tuple[int, bool, int | None, bool]:
        """What its levels and operations depend on."""
        return len(self.columns), self.rows.valid is None, self.rows.uniform, self.dirty


@dataclass(frozen=True)
class AttentionTask:
    """Chosen instances of a layer in one set of ciphertexts.

    chosen (I,) instances b H + h;  tile: where they lie;  pairs: two features a ciphertext
    """

    heads: Heads
    chosen: np.ndarray
    tile: Tile
    pairs: bool

    @cached_property
    def valid(self) -> np.ndarray | None:
        """(I, Q, keys of all columns) bool, False for keys that are not there; None: all count."""
        mask, absent = self.heads.mask, self.tile.columns(self.keys) * self.tile.b - self.keys
        if mask is None and not absent:
            return None
        own = np.ones((len(self.chosen), *self.heads.shape[2:]), dtype=bool)
        if mask is not None:
            own = mask[np.divmod(self.chosen, self.heads.shape[1])]
        return np.pad(own, ((0, 0), (0, 0), (0, absent)))

    @property
    def keys(self) -> int:
        return self.heads.shape[3]

    @cached_property
    def zeroed(self) -> np.ndarray | None:
        """(I, keys) bool: keys that no query of the instance attends to; they are encrypted as zeros."""
        return None if self.valid is None else ~np.any(self.valid, 1)

    @cached_property
    def blocks(self) -> list[Block]:
        return [self._block(number) for number in range(self.tile.blocks(self.heads.shape[2]))]

    def _block(self, number: int) -> Block:
        (batch, heads, queries, _), tile = self.heads.shape, self.tile
        chosen = tile.block(number, queries)
        index = (self.chosen[:, None] * queries + chosen).reshape(-1)
        every = list(range(tile.columns(self.keys)))
        if self.valid is None:
            columns, valid, dirty = every, None, False
        else:
            assert self.zeroed is not None
            own = self.valid[:, chosen]  # (I, a, keys)
            columns = [c for c in every if own[..., c * tile.b : (c + 1) * tile.b].any()] or every[:1]
            places = np.concatenate([np.arange(c * tile.b, (c + 1) * tile.b) for c in columns])
            valid = own[..., places].reshape(len(index), -1)
            dirty = bool((~own[..., places] & ~self.zeroed[:, None, places]).any())
            valid = None if valid.all() else valid
        width = len(columns) * tile.b
        counts = np.full(len(index), float(width)) if valid is None else np.maximum(valid.sum(1), 1).astype(np.float64)
        return Block(chosen, columns, Rows((batch, heads, queries, width), index, valid, counts), dirty)


@dataclass(frozen=True)
class Scales:
    """Public factors of the encodings, so that products of queries and keys are what the circuit takes.

    keys: the same for all blocks;  scaling: of the scores;  score: as cgf.network.attention
    """

    keys: float
    scaling: float
    score: str
    pairs: bool

    @classmethod
    def of(cls, scaling: float, circuit: Circuit, score: str, pairs: bool) -> Scales:
        """Balanced for this circuit: noise of a product is relative to the other operand."""
        half = 0.5 if pairs or score == DISTANCE else 1.0  # a real part comes doubled, and so do distances
        return cls(math.sqrt(abs(scaling * circuit.input_scale) * half), scaling, score, pairs)

    def queries(self, circuit: Circuit) -> float:
        """Raises UserError for distances in a circuit whose scale is another than the keys'."""
        half = 0.5 if self.pairs or self.score == DISTANCE else 1.0
        factor = self.scaling * circuit.input_scale * half / self.keys
        if self.score == DISTANCE and not math.isclose(factor, self.keys, rel_tol=1e-12):
            raise UserError(
                "an encrypted attention of squared distances needs one positive scale for queries and keys: "
                "he.scope=softmax"
            )
        return factor


@dataclass(frozen=True)
class Meeting:
    """A block's queries and the keys that they meet, as ciphertexts (see cgf.network.attention.Queries).

    query  prepared, one a feature or pair of features;  keys: of each column the same
    norms  of each column |k|^2 of its keys, relinearized; needed for distances alone
    """

    engine: Engine
    block: Block
    tile: Tile
    query: Sequence[Ciphertext]
    keys: Sequence[Sequence[Ciphertext]]
    pairs: bool
    norms: Sequence[Ciphertext] = ()

    def products(self) -> Packed:
        return self._packed(self._products())

    def distances(self) -> Packed:
        """2 q k - |q|^2 - |k|^2, of which the scales take half."""
        own = self.engine.relinearize(self.engine.dot(self.query, self.query))
        sums = (self.engine.sub(self.engine.mul(qk, 2), own) for qk in self._products())
        return self._packed(self.engine.sub(s, norm) for s, norm in zip(sums, self.norms, strict=True))

    def _products(self) -> Iterator[Ciphertext]:
        for key in self.keys:
            score = self.engine.relinearize(self.engine.dot(self.query, key))
            yield self.engine.add(score, self.engine.conjugate(score)) if self.pairs else score

    def _packed(self, cts: Iterator[Ciphertext]) -> Packed:
        layout = self.tile.layout(len(self.block.columns))
        return Packed(self.engine, layout, self.block.rows, tuple(cts), dirty=self.block.dirty)


def weigh(circuit: Circuit, x: Packed) -> Packed:
    """The softmax: weights less the circuit's output scale, which decryption takes; zero where a value is not.

    1. Scores that do not count become zero, where they might not be: the statistics must not see them.
    2. The softmax's own circuit.
    3. The last public constant, which a softmax alone leaves to decryption: here values are weighed by it.
    4. Weights that do not count become zero, where values do not.
    """
    dirty = x.dirty
    weights = circuit.run(x.at_invalid(0.0)).relinearized()
    offset = circuit.output_offset
    if isinstance(offset, np.ndarray):
        vector = weights.layout.spread(offset[:, 0])
        weights = weights.add_vector([vector] * len(weights.cts))
    else:
        weights = weights + offset
    return replace(weights, dirty=True).at_invalid(0.0) if dirty else weights


def weighted(weights: Packed, values: Sequence[Sequence[Ciphertext]], tile: Tile) -> Iterator[Ciphertext]:
    """Outputs of a block, feature by feature: sums over the columns, and over the parts of the slots."""
    engine = weights.engine
    prepared = [engine.prepare(ct) for ct in weights.cts]
    for feature in zip(*values, strict=True):
        output = engine.dot(prepared, feature)
        if tile.b > 1:
            output = engine.relinearize(output)
            for step in weights.layout.rotations:
                output = engine.add(output, engine.rotate(output, step))
        yield output


def outputs_of(
    meeting: Meeting, softmax: Softmax, circuit: Circuit, values: Sequence[Sequence[Ciphertext]]
) -> Iterator[Ciphertext]:
    """The encrypted outputs of one block, without the circuit's output scale."""
    score = score_of(softmax)
    return attention(meeting, score, lambda x: weigh(circuit, x), lambda w: weighted(w, values, meeting.tile))


@dataclass(frozen=True)
class AttentionCost:
    """What a set of ciphertexts needs; levels from encryption to the outputs.

    input_level  at which queries and keys are encrypted: the levels, or the engine's where the circuit bootstraps
    value_level  at which values are encrypted: what the weights have left;  polynomials: of an output
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
    encrypted: dict[int, int]  # level -> ciphertexts
    decrypted: int
    rotations: frozenset[int]
    style: str
    circuits: dict[tuple[int, bool, int | None, bool], str] = field(default_factory=dict)


def circuit_of(softmax: Softmax, block: Block, style: str) -> Circuit:
    return circuit_for(softmax, block.rows, False, style)


def needs_of(
    softmax: Softmax,
    heads: Heads,
    chosen: np.ndarray,
    style: str,
    rings: tuple[Ring, ...] = RINGS,
    pairs: bool = True,
    max_level: int | None = None,
    most_mib: float = math.inf,
) -> AttentionCost:
    """Levels, operations, tile and ring of chosen instances (I,), or of as many of them as fit one set of ciphertexts.

    They are read off a dry run on one slot.

    pairs: the engine has complex slots;  max_level fixes the engine;  most_mib: see
    cgf.he.tile.tiles. Raises UserError where the levels do not suffice.
    """
    pairs = pairs and score_of(softmax) != DISTANCE
    if max_level is not None:
        rings_asked: tuple[Ring, ...] = (ring_for(max_level, rings),)
    else:
        rings_asked = rings
    for _, ring, tile in options(heads, len(chosen), rings_asked, pairs, most_mib):
        task = AttentionTask(heads, chosen[: tile.instances], tile, pairs)
        used = _dry_run(softmax, task, style, max_level or ring.max_level, rings)
        if used is None:
            continue
        if max_level is not None or ring == BOOTSTRAPPABLE:  # the library builds that one at its full size alone
            return used
        below = max([r.max_level for r in rings if r.max_level < ring.max_level], default=0)
        for level in range(max(used.levels - 1, below + 1), ring.max_level):
            if (smaller := _dry_run(softmax, task, style, level, rings)) is not None:
                return smaller
        return used
    most = rings[-1].max_level if max_level is None else max_level
    raise UserError(
        f"the attention with softmax '{softmax.name}' needs more levels than there are ({most}), and does not bootstrap"
    )


def options(
    heads: Heads, instances: int, rings: tuple[Ring, ...], pairs: bool, most_mib: float
) -> list[tuple[float, Ring, Tile]]:
    """Rings and tiles for so many instances of a layer, the cheapest first; whether the levels suffice is not asked."""
    pattern, features = Pattern.of(heads.mask), max(heads.query.shape[3], heads.value.shape[3])
    found = [
        (cost, ring, tile)
        for ring in rings
        for cost, tile in tiles(instances, *heads.shape[2:], features, ring.slots, pairs, pattern, most_mib)
    ]
    return sorted(found, key=lambda option: option[0])


def _dry_run(
    softmax: Softmax, task: AttentionTask, style: str, max_level: int, rings: tuple[Ring, ...]
) -> AttentionCost | None:
    """None where the levels do not suffice. Blocks of one kind are run once, and counted as often as there are."""
    engine = Counting(OneSlot(max_level, rings=rings))
    queries = SimCiphertext(np.zeros(1), max_level)
    width = _width(task.heads.query.shape[3], task.pairs)
    out_width = _width(task.heads.value.shape[3], task.pairs)
    columns = task.tile.columns(task.keys)
    kinds: dict[tuple[int, bool, int | None, bool], tuple[Block, int]] = {}
    for block in task.blocks:
        kinds[block.kind] = (block, kinds.get(block.kind, (block, 0))[1] + 1)
    lowest, polynomials, weight_level = max_level, 2, max_level
    names: dict[tuple[int, bool, int | None, bool], str] = {}
    score = score_of(softmax)
    try:
        for kind, (block, times) in kinds.items():
            before, before_levels = engine.ops.copy(), engine.by_level.copy()
            circuit = circuit_of(softmax, block, style)
            names[kind] = circuit.style
            met = [[queries] * width] * len(block.columns)
            norms = [engine.relinearize(engine.dot(met[0], met[0]))] * len(met) if score == DISTANCE else ()
            meeting = Meeting(engine, block, task.tile, [engine.prepare(queries)] * width, met, task.pairs, norms)
            scores = meeting.products() if score != DISTANCE else meeting.distances()
            weights = weigh(circuit, scores)
            weight_level = min(weight_level, weights.level)
            value = SimCiphertext(np.zeros(1), max(weights.level, 1))
            for output in weighted(weights, [[value] * out_width] * len(block.columns), task.tile):
                lowest, polynomials = min(lowest, engine.level(output)), engine.polynomials(output)
            engine.by_level["prepare", max_level] += width - 1
            engine.ops["prepare"] += width - 1
            _repeat(engine.ops, before, times)
            _repeat(engine.by_level, before_levels, times)
    except OutOfLevels:
        return None
    levels, bootstraps = max_level - lowest, engine.ops["boot"] > 0
    spare = 0 if bootstraps else lowest  # levels that encryption leaves out
    inputs = (task.tile.blocks(task.heads.shape[2]) + columns) * width
    encrypted = Counter({max_level - spare: inputs})
    encrypted[weight_level - spare] += columns * out_width
    engine.ops["prepare"] += columns * (width + out_width)
    engine.by_level["prepare", max_level] += columns * width
    engine.by_level["prepare", weight_level] += columns * out_width
    return AttentionCost(
        task.tile,
        task.pairs,
        max_level,
        levels,
        max_level - spare,
        weight_level - spare,
        polynomials,
        {kind: n for kind, n in engine.ops.items() if n},
        dict(engine.by_level),
        dict(encrypted),
        task.tile.blocks(task.heads.shape[2]) * out_width,
        frozenset(engine.rotations),
        style,
        names,
    )


def _repeat(counts: dict, before: dict, times: int) -> None:  # type: ignore[type-arg]
    """What was added since ``before`` counts ``times`` times."""
    for key in list(counts):
        counts[key] += (times - 1) * (counts[key] - before.get(key, 0))


def _width(features: int, pairs: bool) -> int:
    return -(-features // 2) if pairs else features


def complex_pairs(values: np.ndarray, sign: float) -> np.ndarray:
    """Features (..., D) -> (..., ceil(D / 2)): x1 + sign i x2; an odd one has no partner."""
    if values.shape[-1] % 2:
        values = np.concatenate([values, np.zeros_like(values[..., :1])], axis=-1)
    return values[..., ::2] + sign * 1j * values[..., 1::2]
