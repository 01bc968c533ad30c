"""Operations and memory of one attention head by its sizes, run on the simulator's one slot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np

from cgf.approx.fit import chain
from cgf.he.engines.count import Counting
from cgf.he.engines.engine import Ring
from cgf.he.engines.sim import OneSlot
from cgf.he.network_heads import Head, Turned
from cgf.he.network_layout import TokenLayout, rotated
from cgf.he.network_needs import CountingMemory
from cgf.network.layers import Linear, SelfAttention
from cgf.network.shapes import DOMAIN
from cgf.plan.sizes import MASK_LEVELS, Sizes
from cgf.types import Ciphertext


class OneHead:
    """A head of a block, run by cgf.he.network_heads on one slot.

    mapped_high, mapped_low  features of queries and keys, and of values, that were mapped on the way
    """

    def __init__(self, sizes: Sizes, ring: Ring, layout: TokenLayout, held_level: int | None) -> None:
        self.s, self.ring, self.layout, self.held_level = sizes, ring, layout, held_level
        self.mapped_high = self.mapped_low = 0

    def run(
        self, level: int, weights: int, turned: bool, features: int
    ) -> tuple[Counter[tuple[str, int]], set[int], float]:
        """Operations by level, steps of rotation and MiB beside its queries, keys and values."""
        held = CountingMemory(OneSlot(level, rings=(self.ring,)), self.ring.slots, self.held_level)
        engine = Counting(held)
        d = self.s.head_width
        masks = MASK_LEVELS * self.s.causal
        maps: Counter[tuple[str, int]] = Counter()

        def given(top: int) -> Turned:
            cts = [held.new(top) for _ in range(d)]
            return lambda turn, some: [self._placed(engine, ct, turn) for ct in cts[some]]

        def placed(top: int, count: int) -> Iterator[Ciphertext]:
            lowered = [held.new(top) for _ in range(features)]
            yield from (held.new(top - 1) for _ in range(count))
            del lowered

        def mapped(top: int, high: bool) -> Turned:
            def rows(turn: int, some: slice) -> Iterable[Ciphertext]:
                count = len(range(d)[some])
                maps["lower", top] += features
                maps["mac", top] += features * count
                if high:
                    self.mapped_high += count
                else:
                    self.mapped_low += count
                return placed(top, count)

            return rows

        if turned:
            outputs = self._head().outputs(engine, mapped(level, True), mapped(level, True), mapped(weights + 1, False))
        else:
            scored = level - 1 - masks
            query, key = self._rotary(engine, given(scored)), self._rotary(engine, given(scored))
            outputs = self._head().outputs(engine, query, key, given(weights))
        before = held.now
        kept = list(outputs)
        assert {held.level(ct) for ct in kept} == {weights - 1}
        return engine.by_level + maps, engine.rotations, (held.most - before) / 2**20

    def _head(self) -> Head:
        d = self.s.head_width
        map_ = Linear(np.eye(d), np.zeros(d))
        layer = SelfAttention(map_, map_, map_, 1, d**-0.5, chain(*DOMAIN, self.s.k))
        return Head(layer, 0, self.layout)

    def _placed(self, engine: Counting, ct: Ciphertext, turn: int) -> Ciphertext:
        return rotated(engine, ct, turn, self.layout.samples)

    def _rotary(self, engine: Counting, turned: Turned) -> Turned:
        """Each turned feature with its partner: a level, and two multiply-adds."""
        if not self.s.rotary:
            return turned
        return lambda turn, some: [engine.combine([ct, ct], [0.6, 0.8]) for ct in turned(turn, some)]
