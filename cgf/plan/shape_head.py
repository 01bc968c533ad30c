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
from cgf.network.layers import Linear, Rotary, SelfAttention
from cgf.network.shapes import DOMAIN
from cgf.plan.sizes import Sizes
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
        d, head = self.s.head_width, self._head()
        maps: Counter[tuple[str, int]] = Counter()

        def given(top: int, positions: bool = False) -> Turned:
            cts: list[Ciphertext] = [held.new(top) for _ in range(d)]
            if positions:
                cts = head.with_positions(engine, cts)
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
            outputs = head.outputs(engine, mapped(level, True), mapped(level, True), mapped(weights + 1, False))
        else:
            query, key = (given(level - 1, self.s.rotary) for _ in range(2))
            outputs = head.outputs(engine, query, key, given(weights))
            del query, key
        before = held.now
        kept = list(outputs)
        assert {held.level(ct) for ct in kept} == {weights - 1}
        return engine.by_level + maps, engine.rotations, (held.most - before) / 2**20

    def _head(self) -> Head:
        d = self.s.head_width
        map_, turns = Linear(np.eye(d), np.zeros(d)), np.ones((self.s.tokens, d))
        rotary = Rotary(turns, turns) if self.s.rotary else None
        layer = SelfAttention(map_, map_, map_, 1, d**-0.5, chain(*DOMAIN, self.s.k), self.s.causal, rotary)
        return Head(layer, 0, self.layout)

    def _placed(self, engine: Counting, ct: Ciphertext, turn: int) -> Ciphertext:
        return rotated(engine, ct, turn, self.layout.samples)
