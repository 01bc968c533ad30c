"""A value that knows what it has cost so far: a core run on it counts its own levels and products."""

from __future__ import annotations

from cgf.types import Operand


class CostCounter:
    """Depth of a value, with the operators that a core uses; ``products`` is shared by all that come of one input.

    As under CKKS (cgf/he/packed.py): a product of two values or with a float costs one level, with an int or with 1
    none; a sum costs none. products[0] counts those of two values, squares included.
    """

    def __init__(self, depth: int, products: list[int]) -> None:
        self.depth, self.products = depth, products

    def __add__(self, other: Operand) -> CostCounter:
        return CostCounter(max(self.depth, other.depth), self.products) if isinstance(other, CostCounter) else self

    def __mul__(self, other: Operand) -> CostCounter:
        if isinstance(other, CostCounter):
            self.products[0] += 1
            return CostCounter(max(self.depth, other.depth) + 1, self.products)
        return self if isinstance(other, int) or other == 1 else CostCounter(self.depth + 1, self.products)

    __radd__, __rmul__ = __add__, __mul__

    def square(self) -> CostCounter:
        """One level and one product."""
        return self * self
