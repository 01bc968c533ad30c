"""A wrapper that counts what a circuit asks of an engine; no second truth about depth or operations."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

import numpy as np

from cgf.he.engines.engine import Engine, is_public
from cgf.he.engines.wrapper import Wrapper
from cgf.operations import KINDS
from cgf.types import Ciphertext, Operand

# of the operations of one kind each; a product's is its operand's
KIND = {
    "add": "add",
    "sub": "add",
    "square": "cmult",
    "relinearize": "relinearize",
    "rotate": "rotate",
    "times_i": "imult",
    "conjugate": "conjugate",
    "prepare": "prepare",
    "dot": "cmult",
    "lower": "lower",
    "combine": "pmult",
}
SUMS = {"dot": "prepared", "combine": "mac"}  # operations on lists, and the detail that each pair of theirs counts as


class Counting(Wrapper):
    """An engine around another one: operations and seconds by kind, rotation steps, lowest level met.

    add          sums and differences, with ciphertexts and with public numbers
    pmult        products with a float or a vector (one level)
    imult        products with an integer, or with i (no level)
    cmult        products of ciphertexts, squares included, before relinearization
    boot         bootstraps; one for two ciphertexts that are refreshed together
    prepare      operands of ``dot`` brought into their form, conjugate: conjugations, lower: ciphertexts brought to a
                 lower level; all only where there are any. A dot of m pairs counts as m cmult and m - 1 add, a
                 combination of m ciphertexts as m pmult and m - 1 add
    by_level     operations by (``detail``, level of the lowest operand), for a prediction of seconds
    """

    def __init__(self, engine: Engine) -> None:
        self.engine, self.slots, self.max_level = engine, engine.slots, engine.max_level
        self.refreshed, self.pairs = engine.refreshed, engine.pairs
        self.ops: Counter[str] = Counter(dict.fromkeys(KINDS, 0))
        self.seconds: Counter[str] = Counter(dict.fromkeys(KINDS, 0.0))
        self.by_level: Counter[tuple[str, int]] = Counter()
        self.rotations: set[int] = set()
        self.lowest = engine.max_level

    def level(self, ct: Ciphertext) -> int:
        """The inner engine's level of a ciphertext."""
        return self.engine.level(ct)

    def polynomials(self, ct: Ciphertext) -> int:
        """The inner engine's count of polynomials of a ciphertext."""
        return self.engine.polynomials(ct)

    def _apply(self, name: str, *operands: Operand) -> Ciphertext:
        if name == "bootstrap":
            return self._bootstrap(*operands)
        if name == "rotate":
            self.rotations.add(operands[1] % self.slots)
        kind = KIND.get(name) or _kind_of_product(operands[1])
        operation = getattr(self.engine, name)
        pairs = len(operands[0]) if name in SUMS else 1
        levels = list(map(self.engine.level, _ciphertexts(name, operands)))
        if name in SUMS:
            self.by_level[SUMS[name], min(levels)] += pairs
            self.ops["add"] += pairs - 1
        elif name == "lower":
            self.by_level[name, operands[1]] += 1
        else:
            self.by_level[detail(kind, operands, levels), min(levels)] += 1
        start = time.perf_counter()
        result = operation(*operands)
        spend(self.seconds, kind, time.perf_counter() - start)
        self.ops[kind] += pairs
        self.lowest = min(self.lowest, self.engine.level(result))
        return result

    def _bootstrap(self, cts: Sequence[Ciphertext]) -> list[Ciphertext]:
        start = time.perf_counter()
        fresh = self.engine.bootstrap(cts)
        spend(self.seconds, "boot", time.perf_counter() - start)
        self.ops["boot"] += -(-len(cts) // 2)
        return fresh


def _ciphertexts(name: str, operands: tuple[Operand, ...]) -> list[Ciphertext]:
    """Of the operands those that are no public numbers; a combination has millions."""
    if name == "combine":
        return list(operands[0])
    return [*operands[0], *operands[1]] if name == "dot" else [x for x in operands if not is_public(x)]


def spend(seconds: Counter[str], name: str, spent: float) -> None:
    """Adds to the seconds of a name."""
    seconds[name] += spent  # type: ignore[assignment]  # a Counter adds any numbers, and is typed for whole ones alone


def _kind_of_product(b: Operand) -> str:
    if isinstance(b, int):
        return "imult"
    return "pmult" if isinstance(b, float | np.ndarray | np.floating) else "cmult"


def detail(kind: str, operands: tuple[Operand, ...], levels: list[int]) -> str:
    """The kind, and where it costs another time than the rest of it: which operands.

    prepared, mac      a cmult within a dot, a pmult within a combination, its addition included
    lower              at the level that it goes down to
    *_float, *_vector  with a public number or vector (which is encoded first)
    add_levels         of ciphertexts at different levels: one of them comes down first
    square             a cmult of one operand
    """
    if kind in ("add", "pmult") and len(levels) == 1:
        return f"{kind}_vector" if isinstance(operands[1], np.ndarray) else f"{kind}_float"
    if kind == "add" and levels[0] != levels[1]:
        return "add_levels"
    return "square" if kind == "cmult" and len(operands) == 1 else kind
