"""A wrapper that runs two engines side by side and names the first operation where they part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cgf.he.engines.engine import Engine, Owner


@dataclass(frozen=True)
class Pair:
    """The same value as two engines hold it."""

    first: Any
    second: Any


class Divergence(AssertionError):
    """Two engines gave different values or levels for one operation."""


class Checking:
    """An engine over two others; every result is decrypted on both sides and compared.

    A tool for finding faults: it holds both owners, so it is never used in an evaluation. tolerance is
    the largest absolute difference of a slot, relative to the largest slot value where that exceeds 1.
    """

    def __init__(self, first: tuple[Owner, Engine], second: tuple[Owner, Engine], tolerance: float) -> None:
        (self.first_owner, self.first), (self.second_owner, self.second) = first, second
        if self.first.slots != self.second.slots:
            raise Divergence(f"the engines have {self.first.slots} and {self.second.slots} slots")
        self.slots = self.first.slots
        self.max_level = min(self.first.max_level, self.second.max_level)
        self.refreshed, self.pairs = self.first.refreshed, self.first.pairs and self.second.pairs
        self.tolerance, self.operations = tolerance, 0

    def encrypt(self, values: np.ndarray, level: int) -> Pair:
        return self._same("encrypt", self.first_owner.encrypt(values, level), self.second_owner.encrypt(values, level))

    def _same(self, name: str, first: Any, second: Any) -> Pair:
        self.operations += 1
        levels = self.first.level(first), self.second.level(second)
        if levels[0] != levels[1]:
            raise Divergence(f"operation {self.operations} ({name}): levels {levels[0]} and {levels[1]}")
        a, b = self._slots(self.first_owner, first), self._slots(self.second_owner, second)
        worst = float(np.abs(a - b).max())
        if not worst <= self.tolerance * max(1.0, float(np.abs(a).max())):
            slot = int(np.abs(a - b).argmax())
            raise Divergence(f"operation {self.operations} ({name}): slot {slot} holds {a[slot]:.6g} and {b[slot]:.6g}")
        return Pair(first, second)

    def _slots(self, owner: Owner, ct: Any) -> np.ndarray:
        if not self.pairs:
            return owner.decrypt(ct)
        real, imaginary = owner.decrypt_pair(ct)
        return real + 1j * imaginary

    def _both(self, name: str, a: Pair, *rest: Any) -> Pair:
        left = [r.first if isinstance(r, Pair) else r for r in rest]
        right = [r.second if isinstance(r, Pair) else r for r in rest]
        first = getattr(self.first, name)(a.first, *left)
        return self._same(name, first, getattr(self.second, name)(a.second, *right))

    def level(self, ct: Pair) -> int:
        return self.first.level(ct.first)

    def polynomials(self, ct: Pair) -> int:
        return self.first.polynomials(ct.first)

    def add(self, a: Pair, b: Any) -> Pair:
        return self._both("add", a, b)

    def sub(self, a: Pair, b: Any) -> Pair:
        return self._both("sub", a, b)

    def mul(self, a: Pair, b: Any) -> Pair:
        return self._both("mul", a, b)

    def square(self, a: Pair) -> Pair:
        return self._both("square", a)

    def relinearize(self, a: Pair) -> Pair:
        return self._both("relinearize", a)

    def rotate(self, a: Pair, step: int) -> Pair:
        return self._both("rotate", a, step)

    def times_i(self, a: Pair) -> Pair:
        return self._both("times_i", a)

    def bootstrap(self, cts: Sequence[Pair]) -> list[Pair]:
        first = self.first.bootstrap([ct.first for ct in cts])
        second = self.second.bootstrap([ct.second for ct in cts])
        return [self._same("bootstrap", a, b) for a, b in zip(first, second, strict=True)]
