"""The rules that every engine and owner keeps, checked once: a new one is its bare operations."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence

import numpy as np

from cgf.errors import UserError
from cgf.he.engines.engine import Public, is_public
from cgf.types import Ciphertext, Operand


class OutOfLevels(UserError):
    """A multiplication met a ciphertext at level 0."""


def need_level(level: int, max_level: int) -> None:
    """OutOfLevels where a product has none to take."""
    if level < 1:
        raise OutOfLevels(f"a multiplication needs a level, and the ciphertext has none of {max_level} left")


def need_polynomials(have: int, need: int, what: str) -> None:
    """UserError for a ciphertext of more or fewer polynomials than ``what`` takes."""
    if have != need:
        raise UserError(f"{what} needs a ciphertext of {need} polynomials, and this one has {have}")


def need_pairs(pairs: bool, what: str) -> None:
    """UserError where slots are real, for ``what`` takes complex ones."""
    if not pairs:
        raise UserError(f"{what} needs complex slots, and this engine has real ones")


def need_conjugation(conjugates: bool) -> None:
    """UserError for an engine without a conjugation key."""
    if not conjugates:
        raise UserError("a conjugation needs its key, and the engine has none")


def need_bootstrap(refreshed: int | None) -> None:
    """UserError for an engine that cannot refresh a ciphertext."""
    if refreshed is None:
        raise UserError("a bootstrap needs an engine built with bootstrap keys, and this one has none")


def need_size(values: Public, most: float, what: str) -> None:
    """UserError for a NaN, an infinity or a size beyond ``most``: libraries make other numbers of them, silently.

    An infinity makes desilofhe 2.0.0 take memory until there is none.
    """
    worst = np.max(np.abs(values), initial=0.0)
    if not worst <= most:  # also where it is NaN
        need = f"numbers of at most {most:.3g}" if most < sys.float_info.max else "finite numbers"
        raise UserError(f"{what} needs {need}, and the largest is {worst:.3g}")


def check_fits(values: np.ndarray, slots: int, most: float = sys.float_info.max) -> None:
    """UserError for more values than slots, and for sizes as need_size says."""
    if len(values) > slots:
        raise UserError(f"a ciphertext takes at most {slots} values, and {len(values)} were given")
    need_size(values, most, "encryption")


class CheckedEngine:
    """An Engine whose operations are checked here, and then done by the bare ones that a subclass gives.

    A subclass gives ``level``, ``polynomials`` and the bare operations _add, _sub, _mul, _square, _relinearize,
    _rotate, _dot, _lower and _combine. It gives _prepare where another form of a ciphertext multiplies faster, _times_i
    and _conjugate where its slots are complex (``pairs``), and _bootstrap where it can refresh (``refreshed``). A bare
    operation finds polynomials, levels and rotation keys in order. What a library alone asks for, such as the size of
    a public number, is checked there. Raises UserError, OutOfLevels where a product meets level 0.

    rotations  the steps (modulo slots) whose keys it holds; None: all
    conjugates whether it holds the conjugation key
    """

    slots: int
    max_level: int
    pairs: bool
    refreshed: int | None = None
    rotations: Collection[int] | None = None
    conjugates: bool = False

    def level(self, ct: Ciphertext) -> int:
        """The products that a ciphertext has left; a subclass gives it."""
        raise NotImplementedError

    def polynomials(self, ct: Ciphertext) -> int:
        """2, or 3 after a product of ciphertexts; a subclass gives it."""
        raise NotImplementedError

    def add(self, a: Ciphertext, b: Operand) -> Ciphertext:
        """a + b, slot by slot; no level, and any count of polynomials."""
        return self._add(a, b)

    def sub(self, a: Ciphertext, b: Operand) -> Ciphertext:
        """a - b, slot by slot; no level, and any count of polynomials."""
        return self._sub(a, b)

    def mul(self, a: Ciphertext, b: Operand) -> Ciphertext:
        """a b, slot by slot; one level, but none where b is an int. Ciphertexts need two polynomials."""
        if isinstance(b, int):  # a product with an integer is a sum of copies: no level
            return self._mul(a, b)
        if not is_public(b):
            need_polynomials(self.polynomials(a), 2, "a product")
            need_polynomials(self.polynomials(b), 2, "a product")
            need_level(self.level(b), self.max_level)
        need_level(self.level(a), self.max_level)
        return self._mul(a, b)

    def square(self, a: Ciphertext) -> Ciphertext:
        """a^2, slot by slot; one level, of two polynomials."""
        need_polynomials(self.polynomials(a), 2, "a square")
        need_level(self.level(a), self.max_level)
        return self._square(a)

    def relinearize(self, a: Ciphertext) -> Ciphertext:
        """The same slots in two polynomials; UserError for other than three."""
        need_polynomials(self.polynomials(a), 3, "a relinearization")
        return self._relinearize(a)

    def rotate(self, a: Ciphertext, step: int) -> Ciphertext:
        """Slot i + step to slot i; UserError for a step without its key, and for other than two polynomials."""
        need_polynomials(self.polynomials(a), 2, "a rotation")
        if self.rotations is not None and step % self.slots not in self.rotations:
            raise UserError(f"a rotation by {step} needs its key, and the engine has {sorted(self.rotations)}")
        return self._rotate(a, step)

    def times_i(self, a: Ciphertext) -> Ciphertext:
        """i a, slot by slot; no level. UserError where slots are real."""
        need_pairs(self.pairs, "a product with the imaginary unit")
        return self._times_i(a)

    def conjugate(self, a: Ciphertext) -> Ciphertext:
        """The conjugate of each slot; UserError without the key for it, and where slots are real."""
        need_pairs(self.pairs, "a conjugation")
        need_conjugation(self.conjugates)
        need_polynomials(self.polynomials(a), 2, "a conjugation")
        return self._conjugate(a)

    def prepare(self, a: Ciphertext) -> Ciphertext:
        """The same values for products of ``dot``; UserError for other than two polynomials."""
        need_polynomials(self.polynomials(a), 2, "a product")
        return self._prepare(a)

    def dot(self, a: Sequence[Ciphertext], b: Sequence[Ciphertext]) -> Ciphertext:
        """The sum over i of a[i] b[i], of prepared operands; one level. UserError where their counts differ."""
        if len(a) != len(b) or not a:
            raise UserError(f"a sum of products needs as many left as right operands, and has {len(a)} and {len(b)}")
        for ct in (*a, *b):
            need_polynomials(self.polynomials(ct), 2, "a product")
            need_level(self.level(ct), self.max_level)
        return self._dot(a, b)

    def lower(self, a: Ciphertext, level: int) -> Ciphertext:
        """The same values at ``level``; UserError for one above their own, or below 0."""
        need_polynomials(self.polynomials(a), 2, "a lower level")
        if not 0 <= level <= self.level(a):
            raise UserError(f"a ciphertext of level {self.level(a)} goes down to 0 at most, and {level} was asked")
        return self._lower(a, level)

    def combine(self, cts: Sequence[Ciphertext], weights: Sequence[float]) -> Ciphertext:
        """The sum over i of weights[i] cts[i]; one level. UserError where counts differ or a weight is not finite."""
        if len(cts) != len(weights) or not cts:
            raise UserError(f"a sum needs as many weights as ciphertexts, and has {len(weights)} and {len(cts)}")
        need_size(np.asarray(weights, dtype=np.float64), sys.float_info.max, "a sum")
        for ct in cts:
            need_polynomials(self.polynomials(ct), 2, "a product")
            need_level(self.level(ct), self.max_level)
        return self._combine(cts, weights)

    def bootstrap(self, cts: Sequence[Ciphertext]) -> list[Ciphertext]:
        """The same values at level ``refreshed``; UserError for an engine that cannot, before any is refreshed."""
        need_bootstrap(self.refreshed)
        for ct in cts:  # before the first of them took a minute
            need_polynomials(self.polynomials(ct), 2, "a bootstrap")
        return self._bootstrap(cts)

    # -- the bare operations ---------------------------------------------------------------------

    def _add(self, a: Ciphertext, b: Operand) -> Ciphertext:
        raise NotImplementedError

    def _sub(self, a: Ciphertext, b: Operand) -> Ciphertext:
        raise NotImplementedError

    def _mul(self, a: Ciphertext, b: Operand) -> Ciphertext:
        raise NotImplementedError

    def _square(self, a: Ciphertext) -> Ciphertext:
        raise NotImplementedError

    def _relinearize(self, a: Ciphertext) -> Ciphertext:
        raise NotImplementedError

    def _rotate(self, a: Ciphertext, step: int) -> Ciphertext:
        raise NotImplementedError

    def _times_i(self, a: Ciphertext) -> Ciphertext:
        raise NotImplementedError

    def _conjugate(self, a: Ciphertext) -> Ciphertext:
        raise NotImplementedError

    def _prepare(self, a: Ciphertext) -> Ciphertext:
        return a

    def _dot(self, a: Sequence[Ciphertext], b: Sequence[Ciphertext]) -> Ciphertext:
        raise NotImplementedError

    def _lower(self, a: Ciphertext, level: int) -> Ciphertext:
        raise NotImplementedError

    def _combine(self, cts: Sequence[Ciphertext], weights: Sequence[float]) -> Ciphertext:
        raise NotImplementedError

    def _bootstrap(self, cts: Sequence[Ciphertext]) -> list[Ciphertext]:
        raise NotImplementedError


class CheckedOwner:
    """An Owner whose encryption is checked here, and then done by ``_encrypt``, the bare one that a subclass gives."""

    slots: int
    max_level: int
    pairs: bool = True  # whether slots are complex

    def encrypt(self, values: np.ndarray, level: int) -> Ciphertext:
        """At most ``slots`` numbers, the rest zeros, at a level; UserError for what slots and level do not hold."""
        if not 0 <= level <= self.max_level:
            raise UserError(f"encryption needs a level of 0 to {self.max_level}, and {level} was asked")
        if np.iscomplexobj(values):
            need_pairs(self.pairs, "encryption of complex numbers")
        check_fits(values, self.slots, self._holds(level))
        return self._encrypt(values, level)

    def _holds(self, level: int) -> float:
        """The largest size of a number that can be encrypted at a level."""
        return sys.float_info.max

    def _encrypt(self, values: np.ndarray, level: int) -> Ciphertext:
        raise NotImplementedError
