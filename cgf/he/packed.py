"""Rows of scores in ciphertexts, with the operators that a softmax formula uses."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from cgf.he.engines.engine import Engine
from cgf.he.layout import Layout
from cgf.he.not_on_ciphertexts import NotOnCiphertexts
from cgf.he.pairwise import pairwise
from cgf.he.score_rows import Rows
from cgf.types import Ciphertext, Operand


def _numbers(array: ArrayLike) -> np.ndarray:
    """Public numbers in float64; those of a parameter without its gradient, which no ciphertext has."""
    detach = getattr(array, "detach", None)  # a tensor's, without loading torch
    return np.asarray(array if detach is None else detach().cpu(), dtype=np.float64)


@dataclass(frozen=True)
class Packed(NotOnCiphertexts):
    """A value of cgf.softmax.value.Value over ciphertexts.

    cts     the ciphertexts of the entries; one ciphertext, equal along each row, for a row value
    dirty   entries that do not count may be other than zero (after an addition, say): row_sum masks them
            first, at the price of a level

    Ciphertexts stay unrelinearized (three polynomials) until something needs two, so that sums of
    squares relinearize once. A product with a vector needs two: with three, its error on desilofhe is a hundred times
    as large and more. One with a number has them made too, where a later use finds them done.
    Levels: a product costs one, with an int none, an addition none.
    """

    engine: Engine
    layout: Layout
    rows: Rows
    cts: tuple[Ciphertext, ...]
    is_row: bool = False
    dirty: bool = False

    @property
    def queries(self) -> int:
        """Rows of one head of one sample, Q."""
        return self.rows.shape[2]

    @property
    def count(self) -> int | None:
        """The entries that count, n, where all rows have as many; else None."""
        return self.rows.uniform

    @property
    def has_invalid(self) -> bool:
        """Whether some slot of a row holds an entry that does not count: masked, or of a padding column."""
        return self.rows.valid is not None or self.layout.padding_columns > 0

    @property
    def level(self) -> int:
        """The products that are left: the lowest of its ciphertexts' levels."""
        return min(self.engine.level(ct) for ct in self.cts)

    # -- additions ---------------------------------------------------------------------------------

    def __add__(self, other: Packed | float) -> Packed:
        return self._sum(other, self.engine.add)

    __radd__ = __add__

    def __sub__(self, other: Packed | float) -> Packed:
        if isinstance(other, Packed) and self.is_row and not other.is_row:
            return other * -1 + self
        return self._sum(other, self.engine.sub)

    def _sum(self, other: Packed | float, operation: Callable[[Ciphertext, Operand], Ciphertext]) -> Packed:
        if not isinstance(other, Packed):
            if isinstance(other, int | float) and other == 0:
                return self
            cts = tuple(operation(ct, float(other)) for ct in self.cts)
            return self._entries(cts, dirty=True)
        if self.is_row and not other.is_row:
            return other._sum(self, operation)  # only reached for add: sub turned round above
        cts = tuple(operation(a, b) for a, b in zip(self.cts, self._beside(other), strict=True))
        return self._entries(cts, dirty=self.dirty or other.dirty or (other.is_row and not self.is_row))

    def _beside(self, other: Packed) -> tuple[Ciphertext, ...]:
        """Of another value the ciphertext that goes with each of these: a row's with all."""
        return other.cts * len(self.cts) if other.is_row else other.cts

    def add_vector(self, vectors: list[np.ndarray]) -> Packed:
        """Sum with public vectors, one a ciphertext."""
        return self._entries(tuple(map(self.engine.add, self.cts, vectors)), dirty=True)

    def _entries(self, cts: tuple[Ciphertext, ...], dirty: bool) -> Packed:
        return replace(self, cts=cts, dirty=dirty and self.has_invalid and not self.is_row)

    # -- products ----------------------------------------------------------------------------------

    def relinearized(self) -> Packed:
        """This value with two polynomials a ciphertext; kept here too, so that a later use finds them done."""
        if any(self.engine.polynomials(ct) != 2 for ct in self.cts):
            cts = tuple(ct if self.engine.polynomials(ct) == 2 else self.engine.relinearize(ct) for ct in self.cts)
            object.__setattr__(self, "cts", cts)  # the same value: nobody can tell but by the clock
        return self

    def __mul__(self, other: Packed | float) -> Packed:
        if isinstance(other, Packed):
            if self.is_row and not other.is_row:
                return other * self
            a, b = self.relinearized(), other.relinearized()
            cts = tuple(self.engine.mul(x, y) for x, y in zip(a.cts, a._beside(b), strict=True))
            return replace(self, cts=cts, dirty=a.dirty and b.dirty if not b.is_row else a.dirty)
        number = other if isinstance(other, int) else float(other)
        if number == 1:
            return self
        factor = self if isinstance(number, int) else self.relinearized()
        return replace(self, cts=tuple(self.engine.mul(ct, number) for ct in factor.cts))

    __rmul__ = __mul__

    def times_vector(self, vectors: list[np.ndarray], clean: bool = False) -> Packed:
        """Product with public vectors, one a ciphertext; clean: they are zero where entries do not count."""
        cts = tuple(map(self.engine.mul, self.relinearized().cts, vectors))
        return replace(self, cts=cts, dirty=self.dirty and not clean)

    def square(self) -> Packed:
        """Entry by entry; one level, three polynomials."""
        return replace(self, cts=tuple(map(self.engine.square, self.relinearized().cts)))

    def each(self, work: Callable[[Packed], Packed]) -> Packed:
        """``work`` on one ciphertext after the other, each to its end: what it makes on the way stays in the cache.

        For work without row sums, and with public numbers that are equal along a row.
        """
        parts = [work(replace(self, cts=(ct,))) for ct in self.cts]
        return replace(parts[0], cts=tuple(part.cts[0] for part in parts), dirty=any(part.dirty for part in parts))

    def sum_each(self, work: Callable[[Packed], Packed]) -> Packed:
        """The row sum of ``each(work)``, added up on the way, two by two as ``pairwise`` does: few stay in memory.

        A binary counter of partial sums: after n ciphertexts there is one sum for each bit of n that is set.
        """
        waiting: list[tuple[int, Ciphertext]] = []  # (how many it is the sum of, sum), sizes falling
        for ct in self.cts:
            # 1. one ciphertext through the work: a sum of one
            part = work(replace(self, cts=(ct,)))
            assert not part.dirty
            size, total = 1, part.cts[0]
            # 2. the carry: as long as a sum of the same size waits, both become one of twice the size
            while waiting and waiting[-1][0] == size:
                total, size = self.engine.add(waiting.pop()[1], total), 2 * size
            waiting.append((size, total))
        # 3. what is left is added from the smallest on; then the slots of the total, as any row sum
        while len(waiting) > 1:
            (_, a), (size, b) = waiting[-2:]
            waiting[-2:] = [(size, self.engine.add(a, b))]
        return replace(self, cts=(waiting[0][1],)).row_sum()

    # -- rows --------------------------------------------------------------------------------------

    def mask(self) -> list[np.ndarray]:
        """1 where an entry counts, 0 elsewhere, one vector a ciphertext."""
        valid = self.rows.valid
        ones = np.ones((self.layout.rows, self.layout.columns)) if valid is None else valid
        return self.layout.pack(ones)

    def row_sum(self) -> Packed:
        """The sum of a row's valid entries, at each of its slots; no level, or one where they are ``dirty``."""
        entries = self.times_vector(self.mask(), clean=True) if self.dirty else self
        total = pairwise(list(entries.cts), self.engine.add)
        if self.layout.rotations and self.engine.polynomials(total) != 2:
            total = self.engine.relinearize(total)
        for step in self.layout.rotations:
            total = self.engine.add(total, self.engine.rotate(total, step))
        return replace(self, cts=(total,), is_row=True, dirty=False)

    def row_mean(self) -> Packed:
        """row_sum over the row's own count; one level more than row_sum."""
        total = self.row_sum()
        if self.rows.uniform is not None:
            return total * (1.0 / self.rows.uniform)
        return total.times_vector([self.layout.spread(1.0 / self.rows.counts)])

    def centred(self) -> Packed:
        """The entries less their row's mean; the levels of row_mean."""
        return self - self.row_mean()

    def minus_log_count(self, factor: float = 1.0) -> Packed:
        """self - factor * ln n, n the row's count; no level."""
        if self.rows.uniform is not None:
            return self - factor * float(np.log(self.rows.uniform))
        vector = -self.layout.spread(factor * np.log(self.rows.counts))
        return self.add_vector([vector] * len(self.cts))

    def plus_count(self, power: float) -> Packed:
        """self + n^power, n the row's count; no level."""
        if self.rows.uniform is not None:
            number: float = float(self.rows.uniform) ** power
            return self + number
        return self.add_vector([self.layout.spread(self.rows.counts**power)] * len(self.cts))

    def times_count(self, power: float) -> Packed:
        """self * n^power, n the row's count; one level."""
        if self.rows.uniform is not None:
            factor: float = float(self.rows.uniform) ** power
            return self * factor
        return self.times_vector([self.layout.spread(self.rows.counts**power)] * len(self.cts))

    def at_invalid(self, point: float) -> Packed:
        """``point`` where an entry does not count; one level where those slots are ``dirty``, else none."""
        if not self.has_invalid or self.is_row or (point == 0 and not self.dirty):
            return self
        clean = self.times_vector(self.mask(), clean=True) if self.dirty else self
        return clean if point == 0 else clean.add_vector([point * (1.0 - m) for m in self.mask()])

    def times_public(self, array: ArrayLike) -> Packed:
        """Product with public numbers that broadcast to (B, H, Q, K); zero where entries do not count.

        Of a value by row and numbers by row, (B, H, Q, 1), it is one by row; of other numbers it has every entry.
        """
        array = _numbers(array)
        if array.ndim == 0 and (self.is_row or not self.has_invalid):
            return self * float(array)
        if self.is_row and array.shape[-1] == 1:
            return self.times_vector([self.by_row(array)])
        part, valid = self._part(array), self.rows.valid
        vectors = self.layout.pack(part if valid is None else part * valid)
        if self.is_row:
            row = self.relinearized()
            whole = replace(row, cts=row.cts * len(vectors), is_row=False)
            return whole.times_vector(vectors, clean=True)
        return self.times_vector(vectors, clean=True)

    def row_fold(self, combine: Callable[[Packed, Packed], Packed]) -> Packed:
        """As Value says. Pairs of ciphertexts first, then of slots; padding columns take part with what they hold.

        Levels: those of ``combine``, ceil(log2 of the ciphertexts) + log2(columns a ciphertext) times.
        """
        row = replace(self.relinearized(), is_row=True, dirty=False)

        def meet(a: Ciphertext, b: Ciphertext) -> Ciphertext:
            return combine(replace(row, cts=(a,)), replace(row, cts=(b,))).relinearized().cts[0]

        total = pairwise(list(row.cts), meet)
        for step in self.layout.rotations:
            total = meet(total, self.engine.rotate(total, step))
        return replace(row, cts=(total,))

    def refresh(self, levels: int, most: float = 1.0) -> Packed:
        """As Value says: bootstrapped where fewer levels are left, for slots in [-most, most]."""
        if self.engine.refreshed is None or self.level >= levels:
            return self
        whole = 1 << max(0, math.ceil(math.log2(most)))  # a bootstrap takes slots of at most 1
        small = (self * (1.0 / whole)).relinearized()
        return replace(small, cts=tuple(self.engine.bootstrap(small.cts))) * whole

    def plus_public(self, array: ArrayLike) -> Packed:
        """Sum with public numbers that broadcast to (B, H, Q, K); no level."""
        array = _numbers(array)
        if array.ndim == 0:
            return self + float(array)
        if array.shape[-1] == 1:  # one number a row: padding columns take the row's, and stay in its domain
            return self.add_vector([self.by_row(array)] * len(self.cts))
        return self.add_vector(self.layout.pack(self._part(array)))

    def by_row(self, array: ArrayLike) -> np.ndarray:
        """Public numbers that broadcast to (B, H, Q, 1) as a vector of slots, each at every column of its row."""
        return self.layout.spread(self.rows.part(array, 1)[:, 0])

    def _part(self, array: np.ndarray) -> np.ndarray:
        """These rows of numbers that broadcast to (B, H, Q, K), as many columns as are packed."""
        return self.rows.part(array, self.rows.shape[3])[:, : self.layout.columns]
