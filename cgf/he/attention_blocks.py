"""Which instances of a layer share a set of ciphertexts, block of queries by block, and which keys each block meets."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cgf.he.score_rows import Rows
from cgf.he.tile import Tile
from cgf.network.attention import Heads

Kind = tuple[int, bool, int | None, int]  # of a block: what its levels and operations depend on


@dataclass(frozen=True)
class Block:
    """One block of queries of a tile, and the ciphertexts of keys that it meets.

    queries  (a,) indices;  columns: which ciphertexts of keys any of them attends to
    rows     public facts of its score rows (instance, place), in the order of the slots
    masks    of each of these columns the pairs (I, a, b) that count, where its keys and values are encrypted for this
             block alone, zero where a query does not attend to them; None: the ciphertexts that all blocks share
    """

    queries: np.ndarray
    columns: list[int]
    rows: Rows
    masks: list[np.ndarray | None]

    @property
    def kind(self) -> Kind:
        """(columns, full rows, their common count, columns with masks of their own)."""
        return len(self.columns), self.rows.valid is None, self.rows.uniform, self.masked

    @property
    def masked(self) -> int:
        """Columns whose keys and values are encrypted for this block alone."""
        return sum(mask is not None for mask in self.masks)


@dataclass(frozen=True)
class AttentionTask:
    """Chosen instances of a layer in one set of ciphertexts.

    chosen (I,) instances b H + h;  tile: where they lie;  pairs: two features a ciphertext
    means    the mean of an instance's keys stands in the places of columns that have no key of it, be they absent or
             padding: all its queries meet the same keys. The score there is the mean of the row's scores, since scores
             are linear in the key; values there are zero
    """

    heads: Heads
    chosen: np.ndarray
    tile: Tile
    pairs: bool
    means: bool = False

    @property
    def absent(self) -> int:
        """Places of columns that have no key."""
        return self.tile.columns(self.keys) * self.tile.b - self.keys

    @property
    def centred(self) -> bool:
        """Whether means of keys stand somewhere."""
        return self.means and (self.heads.mask is not None or self.absent > 0)

    @cached_property
    def real(self) -> np.ndarray:
        """(I, K) bool: keys that count, the same for all queries of an instance, where means stand for the others."""
        return real_keys(self.heads, self.chosen)

    @cached_property
    def valid(self) -> np.ndarray | None:
        """(I, Q, keys of all columns) bool, False for keys that are not there; None: all count."""
        mask, absent = self.heads.mask, self.absent
        if self.centred or (mask is None and not absent):
            return None
        own = np.ones((len(self.chosen), *self.heads.shape[2:]), dtype=bool)
        if mask is not None:
            own = mask[np.divmod(self.chosen, self.heads.shape[1])]
        return np.pad(own, ((0, 0), (0, 0), (0, absent)))

    @property
    def keys(self) -> int:
        """Keys of each instance, K, those that are masked included."""
        return self.heads.shape[3]

    @cached_property
    def zeroed(self) -> np.ndarray | None:
        """(I, keys) bool: keys that no query of the instance attends to; they are encrypted as zeros."""
        return None if self.valid is None else ~np.any(self.valid, 1)

    @cached_property
    def shared(self) -> set[int]:
        """Columns of keys and values whose ciphertexts serve several blocks, or one of them whole."""
        return {c for block in self.blocks for c, mask in zip(block.columns, block.masks, strict=True) if mask is None}

    @property
    def encodings(self) -> int:
        """Columns of keys, and of values, that are encrypted in all."""
        return len(self.shared) + sum(block.masked for block in self.blocks)

    @property
    def held(self) -> int:
        """The most columns of keys, and of values, that are kept at once."""
        return len(self.shared) + max(block.masked for block in self.blocks)

    @cached_property
    def blocks(self) -> list[Block]:
        """Every block, in the order of its queries; made once, with the columns that it meets and their masks."""
        return [self._block(number) for number in range(self.tile.blocks(self.heads.shape[2]))]

    def _block(self, number: int) -> Block:
        (batch, heads, queries, _), tile = self.heads.shape, self.tile
        chosen = tile.block(number, queries)
        index = (self.chosen[:, None] * queries + chosen).reshape(-1)
        every = list(range(tile.columns(self.keys)))
        if self.valid is None:
            columns, valid = every, None
            masks: list[np.ndarray | None] = [None] * len(every)
        else:
            assert self.zeroed is not None
            own = self.valid[:, chosen]  # (I, a, keys)
            columns = [c for c in every if own[..., c * tile.b : (c + 1) * tile.b].any()] or every[:1]
            places = np.concatenate([np.arange(c * tile.b, (c + 1) * tile.b) for c in columns])
            valid = own[..., places].reshape(len(index), -1)
            masks = [self._mask(own, c) for c in columns]
            valid = None if valid.all() else valid
        width = len(columns) * tile.b
        if self.centred:
            counts = np.repeat(self.real.sum(1), len(chosen)).astype(np.float64)
        elif valid is None:
            counts = np.full(len(index), float(width))
        else:
            counts = np.maximum(valid.sum(1), 1).astype(np.float64)
        centred = width if self.centred else None
        return Block(chosen, columns, Rows((batch, heads, queries, width), index, valid, counts, centred), masks)

    def _mask(self, own: np.ndarray, column: int) -> np.ndarray | None:
        """(I, a, b) of a column, from (I, a, keys); None where its keys without a query are all that does not count."""
        assert self.zeroed is not None
        place = slice(column * self.tile.b, (column + 1) * self.tile.b)
        mask = own[..., place]
        return mask if bool((~mask & ~self.zeroed[:, None, place]).any()) else None


def real_keys(heads: Heads, chosen: np.ndarray) -> np.ndarray:
    """(I, K) bool: the keys that the first query of each instance attends to."""
    if heads.mask is None:
        return np.ones((len(chosen), heads.shape[3]), dtype=bool)
    return heads.mask[:, :, 0][np.divmod(chosen, heads.shape[1])]


def spread_of(heads: Heads, chosen: np.ndarray) -> float:
    """How many times the keys of the shortest instance the longest has, where all queries of each meet the same keys;
    infinite where they do not, or an instance has no key."""
    if heads.mask is None:
        return 1.0
    own = heads.mask[np.divmod(chosen, heads.shape[1])]
    counts = own[:, 0].sum(1)
    if not bool((own == own[:, :1]).all()) or not counts.min():
        return math.inf
    return float(counts.max() / counts.min())
