"""An engine around others: its operations go through one function, which a subclass gives."""

from __future__ import annotations

from collections.abc import Sequence

from cgf.types import Ciphertext, Operand


class Wrapper:
    """An Engine around others: all its operations go through one ``_apply(name, *operands)``."""

    slots: int
    max_level: int
    pairs: bool
    refreshed: int | None

    def _apply(self, name: str, *operands: Operand) -> Ciphertext:
        """The operation of this name; ``bootstrap`` has a sequence of ciphertexts for its operand, and its result."""
        raise NotImplementedError

    def add(self, a: Ciphertext, b: Operand) -> Ciphertext:
        """a + b by ``_apply``."""
        return self._apply("add", a, b)

    def sub(self, a: Ciphertext, b: Operand) -> Ciphertext:
        """a - b by ``_apply``."""
        return self._apply("sub", a, b)

    def mul(self, a: Ciphertext, b: Operand) -> Ciphertext:
        """a b by ``_apply``."""
        return self._apply("mul", a, b)

    def square(self, a: Ciphertext) -> Ciphertext:
        """a^2 by ``_apply``."""
        return self._apply("square", a)

    def relinearize(self, a: Ciphertext) -> Ciphertext:
        """Two polynomials of three, by ``_apply``."""
        return self._apply("relinearize", a)

    def rotate(self, a: Ciphertext, step: int) -> Ciphertext:
        """Slot i + step to slot i, by ``_apply``; the step is its second operand."""
        return self._apply("rotate", a, step)

    def times_i(self, a: Ciphertext) -> Ciphertext:
        """i a by ``_apply``."""
        return self._apply("times_i", a)

    def conjugate(self, a: Ciphertext) -> Ciphertext:
        """The conjugate of each slot, by ``_apply``."""
        return self._apply("conjugate", a)

    def prepare(self, a: Ciphertext) -> Ciphertext:
        """The form for ``dot``, by ``_apply``."""
        return self._apply("prepare", a)

    def dot(self, a: Sequence[Ciphertext], b: Sequence[Ciphertext]) -> Ciphertext:
        """The sum over i of a[i] b[i], by ``_apply``, whose operands are two lists."""
        return self._apply("dot", list(a), list(b))

    def lower(self, a: Ciphertext, level: int) -> Ciphertext:
        """The same values at a lower level, by ``_apply``; the level is its second operand."""
        return self._apply("lower", a, level)

    def combine(self, cts: Sequence[Ciphertext], weights: Sequence[float]) -> Ciphertext:
        """The sum over i of weights[i] cts[i], by ``_apply``, whose operands are a list and one of floats."""
        return self._apply("combine", list(cts), [float(weight) for weight in weights])

    def bootstrap(self, cts: Sequence[Ciphertext]) -> list[Ciphertext]:
        """The same values at level ``refreshed``, by ``_apply``, whose result is a list here."""
        fresh: list[Ciphertext] = self._apply("bootstrap", cts)
        return fresh
