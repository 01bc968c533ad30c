"""Evaluation trees: the order in which a polynomial is evaluated at least depth and with few products.

A polynomial on coefficient indices [start, stop) is a constant, or low + u^g * high with high on
[start + g, stop), low on [start, start + g) and u^g one of the shared powers. A power costs one product
each, a product with a high that is not a constant one more; a product with a constant costs a level only.
Level-optimal: a term c u^i with i a power of two has depth log2(i) + 1, and a leading odd power takes its
coefficient early, as (c u + c') u^2, so degree d takes ceil(log2(d + 1)) levels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import combinations

from cgf.errors import UserError

ZERO, ONE, ANY = 0, 1, 2  # what a tree needs to know of a coefficient: a factor of 1 is no product
MAX_DEGREE = 63
Pattern = tuple[int, ...]


@dataclass(frozen=True)
class Node:
    """sum of low and u^power * high on a range of indices; high None: a constant at index ``at``."""

    at: int
    power: int = 0
    high: Node | None = None
    low: Node | None = None


@dataclass(frozen=True)
class Tree:
    """A whole evaluation.

    depth     levels
    products  of two values, those of the powers included
    powers    (e, a, b) with u^e = u^a u^b, in the order in which they are made
    root      the sum
    """

    depth: int
    products: int
    powers: tuple[tuple[int, int, int], ...]
    root: Node


def power_depth(exponent: int) -> int:
    """Levels of u^exponent: ceil(log2(exponent))."""
    return (exponent - 1).bit_length()


def _factors(exponent: int, powers: set[int]) -> tuple[int, int] | None:
    """(a, b) in powers with a + b = exponent at least depth, squares preferred; None if there is none."""
    pairs = [(abs(2 * a - exponent), a, exponent - a) for a in sorted(powers) if exponent - a in powers]
    pairs = [p for p in pairs if 1 + max(power_depth(p[1]), power_depth(p[2])) == power_depth(exponent)]
    return min(pairs)[1:] if pairs else None


def _power_sets(degree: int) -> Iterator[tuple[tuple[int, int, int], ...]]:
    """Sets of shared powers, fewest first, each as the products that make it."""
    small = list(range(2, min(degree, 8) + 1))
    giant = [2**i for i in range(4, 6) if 2**i <= degree]
    for count in range(len(small) + len(giant) + 1):
        for chosen in combinations(small + giant, count):
            have, steps = {1}, []
            for exponent in chosen:
                pair = _factors(exponent, have)
                if pair is None:
                    break
                steps.append((exponent, *pair))
                have.add(exponent)
            else:
                yield tuple(steps)


def _best(pattern: Pattern, powers: tuple[int, ...], depth: int) -> tuple[int, Node] | None:
    """(products beside the powers, root) of the cheapest tree within depth, or None."""

    # Coefficients [start, stop) within depth: split at each shared power u^g into low + u^g high, and keep the split of
    # fewest products. Both parts are smaller instances of the same question, so each is solved once.
    @cache
    def solve(start: int, stop: int, depth: int) -> tuple[int, Node | None] | None:
        # 1. Zero coefficients at the top do not count; nothing, or one coefficient, takes no product.
        while stop > start and pattern[stop - 1] == ZERO:
            stop -= 1
        if stop == start:
            return 0, None
        if stop == start + 1:
            return 0, Node(start)
        # 2. Every shared power that is short enough and shallow enough.
        best: tuple[int, Node | None] | None = None
        for g in powers:
            if g >= stop - start or power_depth(g) > depth:
                continue
            # 3. High: a coefficient costs a level beside the power's, unless it is 1; a sum one level for the product.
            constant = start + g == stop - 1
            if constant:
                levels = power_depth(g) + (pattern[stop - 1] != ONE)
                high: tuple[int, Node | None] | None = (0, Node(stop - 1)) if levels <= depth else None
            else:
                high = solve(start + g, stop, depth - 1) if power_depth(g) < depth else None
            # 4. Low is added, which costs no level; the product of u^g with a sum is one of two values.
            low = solve(start, start + g, depth) if high else None
            if high is None or low is None:
                continue
            cost = high[0] + low[0] + (not constant)
            if best is None or cost < best[0]:
                best = cost, Node(start, g, high[1], low[1])
        return best

    cheapest = solve(0, len(pattern), depth)
    return (cheapest[0], cheapest[1]) if cheapest and cheapest[1] else None


@cache
def least_depth(pattern: Pattern) -> Tree:
    """The tree of least depth for these coefficients (each ZERO, ONE or ANY) and, there, fewest products.

    Products for a full polynomial of degree 1..8: 0 1 2 2 3 4 5 4; of degree 15: 8, of degree 31: 13
    (the plain balanced tree takes 10 and 19 for these two). Exhaustive over shared powers up to 8 and powers of two.
    Raises UserError for a degree outside 1 to 63.
    """
    degree = len(pattern) - 1
    while degree > 0 and pattern[degree] == ZERO:
        degree -= 1
    if not 1 <= degree <= MAX_DEGREE:
        raise UserError(f"a polynomial here needs a degree from 1 to {MAX_DEGREE}, and has degree {degree}")
    pattern = pattern[: degree + 1]
    # 1. Depths from the least up, each with sets of shared powers from the fewest up: the first that has a tree is it.
    sets = list(_power_sets(degree))
    for depth in range(power_depth(degree + 1) + 1):
        best: Tree | None = None
        for steps in sets:
            # 2. A set that alone takes as many products as the best tree cannot be part of a better one.
            if best is not None and len(steps) >= best.products:
                break
            cheapest = _best(pattern, (1, *(s[0] for s in steps)), depth)
            if cheapest is not None and (best is None or cheapest[0] + len(steps) < best.products):
                best = Tree(depth, cheapest[0] + len(steps), steps, cheapest[1])
        if best is not None:
            return best
    raise AssertionError("the balanced tree always fits")
