"""Affine maps of one sample's ciphertexts: products with vectors, and sums over slots by rotations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from cgf.he.alone_layout import AloneLayout, Numbers, Place
from cgf.he.engines.engine import Engine
from cgf.types import Ciphertext

Entry = Callable[[np.ndarray, Place], np.ndarray]  # of a matrix, by the lane that comes out and the place that goes in


@dataclass(frozen=True)
class AloneMaps:
    """Maps on an engine in a layout. Levels: one for a product with a vector, none for a sum."""

    engine: Engine
    layout: AloneLayout

    def lowered(self, cts: Sequence[Ciphertext], level: int) -> list[Ciphertext]:
        """The same at a level of at most their own: products with vectors take less time there."""
        return [self.engine.lower(ct, min(level, self.engine.level(ct))) for ct in cts]

    def times(self, ct: Ciphertext, numbers: Numbers) -> Ciphertext:
        """The product with a vector."""
        return self.engine.mul(ct, self.layout.vector(numbers))

    def plus(self, ct: Ciphertext, numbers: Numbers) -> Ciphertext:
        """The sum with a vector."""
        return self.engine.add(ct, self.layout.vector(numbers))

    def total(self, cts: Sequence[Ciphertext]) -> Ciphertext:
        """The sum of one or more ciphertexts."""
        total = cts[0]
        for ct in cts[1:]:
            total = self.engine.add(total, ct)
        return total

    def products(self, cts: Sequence[Ciphertext], numbers: Sequence[Numbers]) -> Ciphertext:
        """The sum of products with a vector each."""
        return self.total([self.times(ct, own) for ct, own in zip(cts, numbers, strict=True)])

    def summed(self, ct: Ciphertext, step: int, count: int) -> Ciphertext:
        """The sum of ``count`` slots, a power of two, ``step`` apart: at the first of them, at the last if negative."""
        size = 1
        while size < count:
            ct, size = self.engine.add(ct, self.engine.rotate(ct, step * size)), 2 * size
        return ct

    def along_lanes(self, ct: Ciphertext, entry: Entry) -> Ciphertext:
        """At each lane ``out`` the sum over all lanes of entry(out, place) times the lane; one level.

        1. Baby steps: the ciphertext turned by 0 to baby - 1 lanes.
        2. For each giant step, by ``giant`` lanes, the sum of baby steps times their diagonals, turned home at the end.
        Diagonals of zeros are left out. Source: Halevi and Shoup 2014.
        """
        layout, lanes = self.layout, self.layout.lanes
        baby = 1 << ((lanes.bit_length() - 1) // 2)
        turned: dict[int, Ciphertext] = {0: ct}
        parts: list[Ciphertext] = []
        for giant in range(0, lanes, baby):
            inner: list[Ciphertext] = []
            for b in range(baby):
                vector = layout.vector(self._diagonal(entry, b, giant))
                if not vector.any():
                    continue
                if b not in turned:
                    turned[b] = self.engine.rotate(ct, b * layout.lane)
                inner.append(self.engine.mul(turned[b], vector))
            if inner:
                home = self.total(inner)
                parts.append(self.engine.rotate(home, giant * layout.lane) if giant else home)
        return self.total(parts)

    def _diagonal(self, entry: Entry, b: int, giant: int) -> Numbers:
        """What a ciphertext turned by b lanes is multiplied by, before the sum is turned by ``giant``."""
        lanes = self.layout.lanes
        return lambda place: entry((place.lane - giant) % lanes, place._replace(lane=(place.lane + b) % lanes))
