"""A wrapper that runs two engines side by side and names the first operation where they part."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cgf.errors import UserError
from cgf.he.engines.engine import Engine, Owner
from cgf.he.engines.wrapper import Wrapper
from cgf.types import Ciphertext, Operand


@dataclass(frozen=True)
class Pair:
    """The same value as two engines hold it."""

    first: Ciphertext
    second: Ciphertext


class Divergence(UserError):
    """Two engines gave different values or levels for one operation."""


class Checking(Wrapper):
    """An engine over two others; every result is decrypted on both sides and compared.

    A tool for finding faults: it holds both owners, so an evaluation uses it only where asked to (he.check=true).
    It is an owner of its pairs too: it encrypts on both sides, and decrypts what the second one holds. tolerance is
    the largest absolute difference of a slot, relative to the largest slot value where that exceeds 1.
    Raises Divergence: the number and name of the first operation that differs, its level, the slot and how far off.
    """

    def __init__(self, first: tuple[Owner, Engine], second: tuple[Owner, Engine], tolerance: float) -> None:
        (self.first_owner, self.first), (self.second_owner, self.second) = first, second
        if self.first.slots != self.second.slots:
            raise Divergence(f"the engines have {self.first.slots} and {self.second.slots} slots")
        self.slots = self.first.slots
        self.max_level = min(self.first.max_level, self.second.max_level)
        self.refreshed, self.pairs = self.first.refreshed, self.first.pairs and self.second.pairs
        self.library = self.second_owner.library
        self.tolerance, self.operations = tolerance, 0

    def encrypt(self, values: np.ndarray, level: int) -> Pair:
        """Both sides' ciphertexts of the same numbers, at a level. Raises Divergence where they differ already."""
        return self._same("encrypt", self.first_owner.encrypt(values, level), self.second_owner.encrypt(values, level))

    def decrypt(self, ct: Pair) -> np.ndarray:
        """The real parts (slots,) of the second side's ciphertext."""
        return self.second_owner.decrypt(ct.second)

    def decrypt_pair(self, ct: Pair) -> tuple[np.ndarray, np.ndarray]:
        """Real and imaginary parts (slots,) of the second side's ciphertext."""
        return self.second_owner.decrypt_pair(ct.second)

    @property
    def beyond(self) -> int:
        """Slots that the second engine saw beyond what a ciphertext holds, where it counts them."""
        return getattr(self.second, "beyond", 0)

    def level(self, ct: Pair) -> int:
        """The first side's level."""
        return self.first.level(ct.first)

    def polynomials(self, ct: Pair) -> int:
        """The first side's count of polynomials."""
        return self.first.polynomials(ct.first)

    def _apply(self, name: str, *operands: Operand) -> Pair | list[Pair]:
        first = getattr(self.first, name)(*(_side(x, "first") for x in operands))
        second = getattr(self.second, name)(*(_side(x, "second") for x in operands))
        if name == "bootstrap":
            return [self._same(name, a, b) for a, b in zip(first, second, strict=True)]
        return self._same(name, first, second)

    def _same(self, name: str, first: Ciphertext, second: Ciphertext) -> Pair:
        self.operations += 1
        level, other = self.first.level(first), self.second.level(second)
        if level != other:
            raise Divergence(f"operation {self.operations} ({name}): levels {level} and {other}")
        a, b = self._slots(self.first_owner, first), self._slots(self.second_owner, second)
        apart = np.nan_to_num(np.abs(a - b), nan=np.inf)
        allowed = self.tolerance * max(1.0, float(np.abs(a).max()))
        slot = int(apart.argmax())
        if not apart[slot] <= allowed:
            raise Divergence(
                f"operation {self.operations} ({name}): slot {slot} holds {a[slot]:.6g} and {b[slot]:.6g} at level "
                f"{level}, {apart[slot]:.3g} apart where {allowed:.3g} is allowed"
            )
        return Pair(first, second)

    def _slots(self, owner: Owner, ct: Ciphertext) -> np.ndarray:
        if not self.pairs:
            return owner.decrypt(ct)
        real, imaginary = owner.decrypt_pair(ct)
        return real + 1j * imaginary


def _side(operand: Operand, side: str) -> Operand:
    """What one of the two engines takes: its own ciphertexts of pairs, alone or in a list, else the same."""
    if isinstance(operand, list | tuple):
        return [_side(item, side) for item in operand]
    return getattr(operand, side) if isinstance(operand, Pair) else operand
