"""Which instances of a layer share a set of ciphertexts, block of queries by block, and which keys each block meets."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cgf.he.packed import Rows
from cgf.he.tile import Tile
from cgf.network.attention import Heads

Kind = tuple[int, bool, int | None, bool]  # of a block: what its levels and operations depend on


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
    def kind(self) -> Kind:
        """(columns, full rows, their common count, dirty)."""
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
