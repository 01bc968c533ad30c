"""A value that counts: its level, and the products that it took part in."""

from __future__ import annotations


class Counting:
    def __init__(self, number: float, level: int, mults: list[int]) -> None:
        self.number, self.level, self.mults = number, level, mults

    def __add__(self, other):
        if isinstance(other, Counting):
            return Counting(self.number + other.number, min(self.level, other.level), self.mults)
        return Counting(self.number + other, self.level, self.mults)

    def __mul__(self, other):
        if isinstance(other, Counting):
            self.mults[0] += 1
            return Counting(self.number * other.number, min(self.level, other.level) - 1, self.mults)
        return Counting(self.number * other, self.level - 1, self.mults)

    __radd__, __rmul__ = __add__, __mul__

    def square(self):
        return self * self


def run(exponential, u: float) -> tuple[float, int, int]:
    """(value, levels used, ciphertext multiplications) of the core at u."""
    mults = [0]
    result = exponential.core(Counting(u, 0, mults))
    return result.number, -result.level, mults[0]
