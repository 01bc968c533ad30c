"""Scores of one head along token diagonals, with the operators that a softmax formula uses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cgf.he.engines.engine import Engine
from cgf.he.layout import Layout
from cgf.he.network_layout import Steps, TokenLayout, rotated
from cgf.he.packed import Packed
from cgf.he.pairwise import pairwise
from cgf.he.score_rows import Rows
from cgf.types import Ciphertext

ALONE = Steps(1, 1)


@dataclass(frozen=True)
class Diagonals(Packed):
    """A Packed value whose columns are diagonals, each in its frame (see cgf.he.network_layout.Steps).

    A row value has a ciphertext a frame: the same numbers, turned into it. A row sum takes 2 (giants - 1) rotations.
    A mask is a vector for each (cgf.he.network_causal): no operation of Packed that makes one is reached.

    frames   of each ciphertext;  steps, samples: how frames are turned
    """

    frames: tuple[int, ...] = ()
    steps: Steps = ALONE
    samples: int = 1

    @classmethod
    def of(cls, engine: Engine, layout: TokenLayout, steps: Steps, cts: Sequence[Ciphertext]) -> Diagonals:
        """Scores of all diagonals, in order."""
        n = layout.tokens
        rows = Rows((1, 1, n, n), 0, None, np.full(n, float(n)))
        flat = Layout(layout.slots, n, layout.slots, layout.slots)
        return cls(engine, flat, rows, tuple(cts), frames=steps.frames, steps=steps, samples=layout.samples)

    def _beside(self, other: Packed) -> tuple[Ciphertext, ...]:
        if other.is_row and not self.is_row:
            return tuple(other.cts[frame] for frame in self.frames)
        return other.cts

    def each(self, work: Callable[[Packed], Packed]) -> Packed:
        """As Packed.each, every ciphertext in its frame."""
        parts = [work(self._one(ct, frame)) for ct, frame in zip(self.cts, self.frames, strict=True)]
        return replace(self, cts=tuple(part.cts[0] for part in parts))

    def sum_each(self, work: Callable[[Packed], Packed]) -> Packed:
        """The row sum of ``each(work)``, added up frame by frame on the way."""
        totals: dict[int, Ciphertext] = {}
        for ct, frame in zip(self.cts, self.frames, strict=True):
            part = work(self._one(ct, frame)).cts[0]
            totals[frame] = self.engine.add(totals[frame], part) if frame in totals else part
        return self._row([totals[frame] for frame in range(self.steps.giants)])

    def row_sum(self) -> Packed:
        """The sum over all diagonals, in every frame; no level."""
        own = [[ct for ct, f in zip(self.cts, self.frames, strict=True) if f == g] for g in range(self.steps.giants)]
        return self._row([pairwise(cts, self.engine.add) for cts in own])

    def _one(self, ct: Ciphertext, frame: int) -> Diagonals:
        return replace(self, cts=(ct,), frames=(frame,))

    def _row(self, totals: list[Ciphertext]) -> Diagonals:
        """Each frame's total turned into the first and summed, then the sum turned into each.

        Turned as they come, without a rescale before: the integers that amplify the sum would amplify its rounding.
        """
        engine, turns = self.engine, self.steps.query_turns
        if engine.polynomials(totals[0]) != 2 and len(totals) > 1:
            totals = [engine.relinearize(ct) for ct in totals]
        home = [rotated(engine, ct, -turn, self.samples) for ct, turn in zip(totals, turns, strict=True)]
        total = pairwise(home, engine.add)
        return replace(
            self,
            cts=tuple(rotated(engine, total, turn, self.samples) for turn in turns),
            frames=tuple(range(len(turns))),
            is_row=True,
        )
