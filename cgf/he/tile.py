"""Where the numbers of whole attentions lie: the family of layouts from many short texts to one long one.

Slot = part * gap + instance * a + place. An instance is a sample's head; a queries of it stand side by side, and b
parts of the slots hold other keys each. So a ciphertext of queries is one feature of query block A, the queries A a to
A a + a - 1, the same in all parts. A ciphertext of keys or values is one feature of the b keys c b to c b + b - 1, the
same for the a queries of an instance. Scores of block A with keys c are then laid out as cgf.he.layout has rows of a
gap of slots / b.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cgf.errors import UserError
from cgf.he.layout import Layout, filled


@dataclass(frozen=True)
class Tile:
    """a queries of each of ``instances`` side by side, b keys in parts of the slots; a is any number, b a power of two.

    Raises UserError where instances * a * b exceed the slots.
    """

    instances: int
    slots: int
    a: int = 1
    b: int = 1

    def __post_init__(self) -> None:
        if self.a < 1 or self.b < 1 or self.b & (self.b - 1) or not 1 <= self.instances * self.a <= self.gap:
            raise UserError(
                f"a tile needs a >= 1, b a power of two and instances * a * b of at most {self.slots} slots, and has "
                f"{self.instances} instances, a = {self.a} and b = {self.b}"
            )

    def __str__(self) -> str:
        return f"{self.slots} slots, a={self.a} b={self.b}"

    @property
    def gap(self) -> int:
        """Slots of a part: each of the b parts holds one key for all instances and their queries."""
        return self.slots // self.b

    def blocks(self, queries: int) -> int:
        """How many blocks of a queries so many queries take."""
        return -(-queries // self.a)

    def columns(self, keys: int) -> int:
        """How many columns of b keys so many keys take."""
        return -(-keys // self.b)

    def block(self, number: int, queries: int) -> np.ndarray:
        """(a,) the queries of a block; past the last one the last one again, whose results nobody reads."""
        return np.minimum(np.arange(number * self.a, (number + 1) * self.a), queries - 1)

    def layout(self, columns: int) -> Layout:
        """Of the scores of one block with so many ciphertexts of keys: rows are (instance, place)."""
        return Layout(self.instances * self.a, columns * self.b, self.slots, self.gap)

    def pack_queries(self, values: np.ndarray) -> np.ndarray:
        """One feature of a block (I, a) -> (slots,), the same in all parts; the last one repeats up to the gap."""
        return np.tile(filled(values.reshape(-1), self.gap), self.b)

    def pack_keys(self, values: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        """One feature of the keys of a column (I, up to b) -> (slots,), the same for the a queries; absent keys: 0.

        mask   (I, a, b) bool: 0 too where a query does not attend to a key
        """
        parts = np.zeros((self.b, self.gap), dtype=values.dtype)
        parts[: values.shape[1]] = filled(np.repeat(values.T, self.a, axis=1), self.gap)
        if mask is not None:
            parts *= filled(mask.transpose(2, 0, 1).reshape(self.b, -1), self.gap)
        return parts.reshape(-1)

    def unpack(self, slots: np.ndarray) -> np.ndarray:
        """One feature of a block's outputs (slots,) -> (I, a), from the first part."""
        return slots[: self.instances * self.a].reshape(self.instances, self.a)


@dataclass(frozen=True)
class OpPrices:
    """Milliseconds of one thread, by which tiles are compared: desilofhe 2.0.0, 8,192 slots, levels 1 to 6.

    What is encrypted pays its preparation too. Outputs are switched and rotated at the last level.
    """

    encrypt_query: float = 14.0
    encrypt_value: float = 8.0
    product: float = 0.55
    switch: float = 14.0
    rotate: float = 20.0
    chain: float = 19.0
    output_switch: float = 6.5
    output_rotate: float = 6.6
    decrypt: float = 12.0
    mask: float = 8.0


PRICES = OpPrices()
DEPTH = 3  # squarings of a core, for a comparison of tiles
# bytes a slot of ciphertexts in memory, desilofhe 2.0.0: of 6 to 7 levels, of about 4, and of 1, which is their least
KEY, SCORE, VALUE = 224, 192, 128
# what an operation costs in a ring, in multiples of 8,192 slots: relinearizations and products, halfway down
RING_FACTORS = {4096: 0.4, 8192: 1.0, 16384: 3.5, 32768: 13.0}
RING_GROWTH = 1.9  # of rings that are not listed, as a power of their slots: that of those listed


class BlockColumns(NamedTuple):
    """Blocks and columns of a tile.

    pairs    of a block and a column, whose scores are computed;  masked: those of them with a mask of their own
    shared   columns whose ciphertexts serve all other blocks;  most_masked: of one block
    """

    pairs: int
    masked: int
    shared: int
    most_masked: int

    @classmethod
    def of(cls, tile: Tile, queries: int, keys: int, pattern: Pattern | None) -> BlockColumns:
        """What a tile of so many queries and keys computes; pattern None: every pair counts, and nothing is masked."""
        if pattern is not None:
            return pattern.met(tile)
        return cls(tile.blocks(queries) * tile.columns(keys), 0, tile.columns(keys), 0)


@dataclass(frozen=True)
class Pattern:
    """Which of Q x K pairs count: ``any`` in some instance, ``all`` in every one that has the key at all.

    A key that no query of an instance attends to is encrypted as zero once and for all, and needs no mask.
    """

    any: np.ndarray
    all: np.ndarray

    @classmethod
    def of(cls, mask: np.ndarray | None) -> Pattern | None:
        """The pattern of a mask (B, H, Q, K) bool; None where there is no mask."""
        if mask is None:
            return None
        return cls(np.any(mask, (0, 1)), np.all(mask | ~np.any(mask, 2, keepdims=True), (0, 1)))

    def met(self, tile: Tile) -> BlockColumns:
        """What a tile computes of it."""
        some, every = (self._blocked(array, tile, fill) for array, fill in ((self.any, False), (self.all, True)))
        met, whole = some.any((1, 3)), every.all((1, 3))
        own = (met & ~whole).sum(1)
        return BlockColumns(int(met.sum()), int(own.sum()), int((met & whole).any(0).sum()), int(own.max()))

    @staticmethod
    def _blocked(array: np.ndarray, tile: Tile, fill: bool) -> np.ndarray:
        """(blocks, a, columns, b); what is not there is ``fill``."""
        queries, keys = array.shape
        blocks, columns = tile.blocks(queries), tile.columns(keys)
        whole = np.pad(array, ((0, blocks * tile.a - queries), (0, columns * tile.b - keys)), constant_values=fill)
        return whole.reshape(blocks, tile.a, columns, tile.b)


def price(
    tile: Tile,
    queries: int,
    keys: int,
    features: int,
    pairs: bool,
    pattern: Pattern | None = None,
    *,
    means: bool = False,
) -> float:
    """Milliseconds of one thread for one set of ciphertexts, by the counts of the layout family.

    features   of a key and of a value;  pairs: two features a ciphertext
    means      means of keys stand where there are none (cgf.he.attention_blocks): rows are then full
    """
    blocks, columns = tile.blocks(queries), tile.columns(keys)
    width = -(-features // 2) if pairs else features
    met, masked, shared, _ = BlockColumns.of(tile, queries, keys, pattern)
    doublings = int(math.log2(tile.b))
    # rows of the masked circuit: public vectors in its statistics
    uneven = masked > 0 or (columns * tile.b > keys and not means)
    p = PRICES
    encrypted = blocks * width * p.encrypt_query + (shared + masked) * width * (p.encrypt_query + p.encrypt_value)
    scores = met * (2 * width * p.product + (2 if pairs else 1) * p.switch + DEPTH * p.chain) + masked * p.mask
    statistics = blocks * (p.switch + 2 * doublings * p.rotate + (3 * p.mask if uneven else 0.0))
    outputs = blocks * width * (p.decrypt + (p.output_switch + doublings * p.output_rotate if tile.b > 1 else 0.0))
    in_ring = RING_FACTORS.get(tile.slots, math.pow(tile.slots / 8192, RING_GROWTH))
    return (encrypted + scores + statistics + outputs) * in_ring


def memory_mib(tile: Tile, keys: int, features: int, pairs: bool, held: int) -> float:
    """MiB of the ciphertexts that one set holds at once: keys, values and one block of queries with its scores.

    held   columns of keys, and of values, that are kept
    Prepared keys and queries take KEY bytes a slot, values and prepared weights VALUE, scores SCORE.
    """
    width, columns = -(-features // 2) if pairs else features, tile.columns(keys)
    kept = held * width * (KEY + VALUE) + width * KEY + columns * (2 * SCORE + VALUE)
    return kept * tile.slots / 2**20


def tiles(
    instances: int,
    queries: int,
    keys: int,
    features: int,
    *,
    slots: int,
    pairs: bool,
    pattern: Pattern | None,
    most_mib: float = math.inf,
    absent: bool = False,
    means: bool = False,
) -> list[tuple[float, Tile]]:
    """(price of all instances, tile), the cheapest first: of each b the cheapest a, and a = 1, which needs no masks.

    instances   in as many sets as they take;  most_mib: of the ciphertexts of one set; none where no tile keeps to it.
    absent      full rows keep b to divisors of the keys, since absent keys may cost a level; True: to all other b
    means       as of ``price``
    """

    def of(b: int) -> list[tuple[float, Tile]]:
        options = []
        for a in range(1, min(queries, slots // b) + 1):
            one = min(instances, slots // (a * b))
            tile = Tile(one, slots, a, b)
            met = BlockColumns.of(tile, queries, keys, pattern)
            if memory_mib(tile, keys, features, pairs, met.shared + met.most_masked) <= most_mib:
                cost = price(tile, queries, keys, features, pairs, pattern, means=means)
                options.append((cost * -(-instances // one), tile))
        cheapest = [min(options, key=lambda option: option[0])] if options else []
        return cheapest + [option for option in options if option[1].a == 1]

    parts = [1 << j for j in range(slots.bit_length()) if j == 0 or 1 << j < 2 * keys]
    whole = [b for b in parts if pattern is not None or keys % b == 0]
    candidates = [option for b in parts if (b in whole) != absent for option in of(b)]
    return sorted({tile: (cost, tile) for cost, tile in candidates}.values(), key=lambda option: option[0])
