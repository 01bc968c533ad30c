"""What a circuit may ask of a CKKS engine, and the two parties that an evaluation has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, overload

import numpy as np

from cgf.errors import UserError
from cgf.he.engines.library import Library
from cgf.types import Ciphertext, Operand

Public = int | float | np.ndarray | np.number  # an operand in the clear


@dataclass(frozen=True)
class Ring:
    """Slots of a ciphertext, the most levels the ring holds, and up to which level keys can switch.

    Above ``key_switch_level`` a rotation or relinearization works but its result drops to that level.
    """

    slots: int
    max_level: int
    key_switch_level: int


# desilofhe 2.0.0, measured with Engine(max_level=1..36): the ring follows from the levels alone
RINGS = (Ring(4096, 2, 2), Ring(8192, 7, 6), Ring(16384, 17, 16), Ring(32768, 36, 35))
# desilofhe 2.0.0 with bootstrap=True: encryption at up to 17 levels, and as many after a bootstrap
BOOTSTRAPPABLE = Ring(32768, 17, 16)
# no ring holds so many levels: the simulator counts the depth of a circuit here as if it were never refreshed
ENDLESS = Ring(32768, 4096, 4096)


def ring_for(levels: int, rings: tuple[Ring, ...] = RINGS) -> Ring:
    """The smallest ring that holds so many levels; UserError if none does."""
    for ring in rings:
        if levels <= ring.max_level:
            return ring
    raise UserError(f"the circuit needs {levels} levels, and the largest ring holds {rings[-1].max_level}")


def rings_of(make_owner: Callable[..., Owner]) -> tuple[Ring, ...]:
    """The rings that an owner class states as ``rings``, also where a partial or a function hands it out.

    With a bootstrap key there is one: the library builds it in no other.
    """
    if getattr(make_owner, "keywords", {}).get("bootstrap") is not None:
        return (BOOTSTRAPPABLE,)
    return getattr(make_owner, "rings", getattr(getattr(make_owner, "func", None), "rings", RINGS))


def complex_slots(make_owner: Callable[..., Owner]) -> bool:
    """Whether the slots of an owner class are complex, also where a partial hands it out."""
    inner = getattr(make_owner, "func", make_owner)
    return bool(getattr(inner, "pairs", True))


PUBLIC = (int, float, np.ndarray, np.number)


def is_public(operand: Operand) -> bool:
    """Whether an operand is in the clear: a number or a vector."""
    return isinstance(operand, PUBLIC)


class Engine(Protocol):
    """The party that evaluates: public, relinearization and rotation keys, never the secret key.

    Levels: a fresh ciphertext has at most ``max_level``; a product with a ciphertext, a float or a vector
    takes one, with an int none; operands of different levels meet at the lower one. mul of two
    ciphertexts and square leave three polynomials: relinearize before the next product or rotation.
    rotate(ct, step) moves slot i + step to slot i, cyclically, and step may be negative.
    times_i multiplies by the imaginary unit and takes no level, where slots are complex (``pairs``).
    prepare gives the same values in the form that multiplies fastest; what is prepared goes into ``dot`` alone.
    lower gives the same values at a lower level, in the form that public numbers multiply fastest, for ``combine``.
    """

    slots: int
    max_level: int
    pairs: bool  # slots are complex, so that two real results can share a ciphertext
    refreshed: int | None  # level after a bootstrap; None: this engine cannot bootstrap

    def level(self, ct: Ciphertext) -> int:
        """The products that a ciphertext has left."""

    def polynomials(self, ct: Ciphertext) -> int:
        """2, or 3 after a product of ciphertexts."""

    def add(self, a: Ciphertext, b: Ciphertext | float | np.ndarray) -> Ciphertext:
        """a + b, slot by slot; no level."""

    def sub(self, a: Ciphertext, b: Ciphertext | float | np.ndarray) -> Ciphertext:
        """a - b, slot by slot; no level."""

    def mul(self, a: Ciphertext, b: Ciphertext | float | int | np.ndarray) -> Ciphertext:
        """a b, slot by slot; one level, but none where b is an int."""

    def square(self, a: Ciphertext) -> Ciphertext:
        """a^2, slot by slot; one level, for less time than ``mul`` takes."""

    def relinearize(self, a: Ciphertext) -> Ciphertext:
        """The same slots in two polynomials, from three."""

    def rotate(self, a: Ciphertext, step: int) -> Ciphertext:
        """Slot i + step to slot i, with the key of that step."""

    def times_i(self, a: Ciphertext) -> Ciphertext:
        """i a, slot by slot; no level."""

    def conjugate(self, a: Ciphertext) -> Ciphertext:
        """The complex conjugate of each slot, two polynomials; needs complex slots and a conjugation key."""

    def prepare(self, a: Ciphertext) -> Ciphertext:
        """The same values at the same level, for products of ``dot``; pays for an operand that is used twice."""

    def dot(self, a: Sequence[Ciphertext], b: Sequence[Ciphertext]) -> Ciphertext:
        """The sum over i of a[i] b[i], of prepared operands: three polynomials, one level below the lowest."""

    def lower(self, a: Ciphertext, level: int) -> Ciphertext:
        """The same values at a level of at most their own, in two polynomials."""

    def combine(self, cts: Sequence[Ciphertext], weights: Sequence[float]) -> Ciphertext:
        """The sum over i of weights[i] cts[i]: two polynomials, one level below the lowest."""

    def bootstrap(self, cts: Sequence[Ciphertext]) -> list[Ciphertext]:
        """The same values at level ``refreshed``, two ciphertexts a bootstrap; slots in [-1, 1], two polynomials."""


class Portable(Engine, Protocol):
    """An engine whose ciphertexts go to other engines of the same size and secret, as bytes."""

    def dump(self, ct: Ciphertext) -> bytes:
        """A ciphertext as bytes."""

    def load(self, data: bytes) -> Ciphertext:
        """The ciphertext of such bytes."""


class KeyHolder(Protocol):
    """Whoever encrypts, and decrypts with the secret key."""

    slots: int
    max_level: int
    library: Library
    pairs: bool  # slots are complex

    def encrypt(self, values: np.ndarray, level: int) -> Ciphertext:
        """At most ``slots`` numbers at a level of 0 to max_level; the other slots are zero.

        They are real, or complex where slots are (``pairs``).
        """

    def decrypt(self, ct: Ciphertext) -> np.ndarray:
        """The real parts (slots,) of two or three polynomials, which stay as they are."""

    def decrypt_pair(self, ct: Ciphertext) -> tuple[np.ndarray, np.ndarray]:
        """Real and imaginary parts (slots,)."""


class Owner(KeyHolder, Protocol):
    """The party that owns the secret key: encrypts, decrypts, and makes the keys that it grants."""

    def evaluator(self, rotations: frozenset[int], conjugation: bool = False) -> Engine:
        """An engine with the keys for exactly these rotation steps, and for conjugation where it is asked for."""


class PortableOwner(Owner, Protocol):
    """An owner that another one of the same size can share its secret with, so that they share ciphertexts."""

    def dump_secret(self) -> bytes:
        """The secret key as bytes, which the other one is made with."""

    def evaluator(self, rotations: frozenset[int], conjugation: bool = False) -> Portable:
        """As Owner.evaluator."""


def encrypt_all(owner: KeyHolder, vectors: Sequence[np.ndarray], level: int) -> list[Ciphertext]:
    """A ciphertext a vector; side by side where the owner can."""
    several = getattr(owner, "encrypt_all", None)
    return [owner.encrypt(v, level) for v in vectors] if several is None else several(vectors, level)


@overload
def decrypt_all(owner: KeyHolder, cts: Sequence[Ciphertext], pairs: Literal[False] = False) -> list[np.ndarray]: ...


@overload
def decrypt_all(
    owner: KeyHolder, cts: Sequence[Ciphertext], pairs: Literal[True]
) -> list[tuple[np.ndarray, np.ndarray]]: ...


def decrypt_all(
    owner: KeyHolder, cts: Sequence[Ciphertext], pairs: bool = False
) -> list[np.ndarray] | list[tuple[np.ndarray, np.ndarray]]:
    """The slots of each ciphertext, or their real and imaginary parts; side by side where the owner can."""
    several = getattr(owner, "decrypt_all", None)
    if several is not None:
        together: list[np.ndarray] | list[tuple[np.ndarray, np.ndarray]] = several(cts, pairs)
        return together
    return [owner.decrypt_pair(ct) for ct in cts] if pairs else [owner.decrypt(ct) for ct in cts]


def finish(engine: Engine, cts: Sequence[Ciphertext]) -> Counter[str] | None:
    """Runs what an engine has only noted so far; its seconds by operation, None for an engine that notes nothing.

    Ciphertexts other than ``cts`` are forgotten.
    """
    wait = getattr(engine, "wait", None)
    return None if wait is None else wait(cts, forget=True)
