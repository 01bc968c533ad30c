"""desilofhe on two machines: keys and ciphertexts as bytes, each side with the keys that are its own.

Keys travel whole: no byte of theirs is unused (measured at max_level 2 to 17). A ciphertext's serialized form holds
rows of memory that the library never wrote to, a tenth to a half of its bytes: other residues and addresses of the
process. ``exported`` clears them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from cgf.errors import UserError
from cgf.he.engines.desilo import Ct, DesiloEngine, DesiloOwner, Key
from cgf.he.engines.desilo_library import Vendor, build_engine, holds
from cgf.he.engines.engine import ring_for
from cgf.he.engines.rules import CheckedOwner
from cgf.memory import filled_memory

RELINEARIZATION, CONJUGATION, ROTATION = "relinearization", "conjugation", "rotation "
UNUSED, OTHER = 0x00, 0x5A  # what unused rows hold when a ciphertext leaves; what they are told by
CHECKSUM = 64  # bytes of a serialized ciphertext's start: the library's checksum lies there
SPARE_ROWS = 6  # of a ciphertext beyond its level's: measured 2 to 4


def evaluation_names(rotations: frozenset[int], conjugation: bool = False) -> list[str]:
    """Names of the keys that an evaluation takes, in the order in which they are made and read."""
    names = [RELINEARIZATION, *([CONJUGATION] if conjugation else [])]
    return names + [f"{ROTATION}{step}" for step in sorted(rotations)]


def most_bytes(max_level: int, level: int | None = None) -> int:
    """More than any ciphertext at a level takes serialized, or, for level None, any key of an engine; no such object.

    A row is a residue of each of 2 slots numbers, 8 bytes each. A ciphertext has 3 polynomials at most; a key has two
    for each of as many digits as there are levels at most.
    """
    row, rows = 2 * ring_for(max_level).slots * 8, max_level + SPARE_ROWS
    return 2 * rows * rows * row if level is None else 3 * (level + SPARE_ROWS) * row + 2**12


class KeyMaker(DesiloOwner):
    """A new secret and all keys that belong to it, as bytes, one after the other: none is kept."""

    def public(self) -> bytes:
        """The key that encrypts."""
        return bytes(self._engine.serialize_public_key(self._public))

    def evaluation(self, rotations: frozenset[int], conjugation: bool = False) -> Iterator[tuple[str, bytes]]:
        """(name, key) in the order of ``evaluation_names``."""
        yield RELINEARIZATION, bytes(self._engine.serialize_relinearization_key(self._relinearization))
        if conjugation:
            key = self._engine.create_conjugation_key(self._secret)
            yield CONJUGATION, bytes(self._engine.serialize_conjugation_key(key))
        for step in sorted(rotations):
            key = self._rotation_key(step)
            yield f"{ROTATION}{step}", bytes(self._engine.serialize_fixed_rotation_key(key))
            self._rotations.pop(step)


class Encryptor(CheckedOwner):
    """Encrypts with the public key, which is all that it holds."""

    def __init__(self, max_level: int, public: bytes, mode: str = "cpu", threads: int | None = None) -> None:
        self._engine, self.max_level = build_engine(max_level, mode, threads), max_level
        self.slots = int(self._engine.slot_count)
        self._public = read(self._engine.deserialize_public_key, public, "the public key")

    def _holds(self, level: int) -> float:
        return holds(level)

    def _encrypt(self, values: np.ndarray, level: int) -> bytes:
        """The ciphertext as bytes without unused rows."""
        kind = np.complex128 if np.iscomplexobj(values) else np.float64
        slots = np.ascontiguousarray(values, dtype=kind)
        return exported(self._engine, self._engine.encrypt(slots, self._public, level))


class Decryptor:
    """Decrypts with the secret key, which is all that it holds."""

    def __init__(self, max_level: int, secret: bytes, mode: str = "cpu", threads: int | None = None) -> None:
        self._engine = build_engine(max_level, mode, threads)
        self._secret = read(self._engine.deserialize_secret_key, secret, "the secret key")

    def decrypt(self, data: bytes, level: int) -> np.ndarray:
        """The complex slots of a serialized ciphertext; imaginary parts of a real one are noise. UserError for none."""
        ct = ciphertext(self._engine, data, level)
        return np.asarray(self._engine.decrypt(ct, self._secret), dtype=np.complex128)


class Evaluator(DesiloEngine):
    """The engine of a party that has only the keys that were sent to it."""

    @classmethod
    def of(
        cls, max_level: int, keys: Iterable[tuple[str, bytes]], mode: str = "cpu", threads: int | None = None
    ) -> Evaluator:
        """The engine with these keys, in the order of ``evaluation_names``, the relinearization key first."""
        engine = build_engine(max_level, mode, threads)
        relinearization: Key = None
        conjugation: Key = None
        rotations: dict[int, Key] = {}
        for name, data in keys:
            if name == RELINEARIZATION:
                relinearization = read(engine.deserialize_relinearization_key, data, name)
            elif name == CONJUGATION:
                conjugation = read(engine.deserialize_conjugation_key, data, name)
            else:
                step = int(name.removeprefix(ROTATION))
                rotations[step] = read(engine.deserialize_fixed_rotation_key, data, name)
        return cls(engine, max_level, relinearization, rotations, conjugation=conjugation)

    def read(self, data: bytes, level: int) -> Ct:
        """A ciphertext of two polynomials at a level. UserError for what is none."""
        return ciphertext(self._engine, data, level)

    def export(self, ct: Ct) -> bytes:
        """A ciphertext as bytes without unused rows, for another party; ``dump`` is for this one's own files."""
        return exported(self._engine, ct)


def ciphertext(engine: Vendor, data: bytes, level: int) -> Ct:
    """The ciphertext of serialized bytes. UserError where they are none, or of another level."""
    ct = read(engine.deserialize_ciphertext, data, "a ciphertext")
    if ct.level != level or ct.polynomial_count not in (2, 3):
        raise UserError(f"a ciphertext of level {level} is needed, and its bytes hold one of level {ct.level}")
    return ct


def read(reader: Vendor, data: bytes, what: str) -> Vendor:
    """What the library reads from bytes. UserError where it refuses them."""
    try:
        return reader(data)
    except (RuntimeError, ValueError, TypeError) as error:
        raise UserError(f"{what} cannot be read by desilofhe: {error}") from None


def exported(engine: Vendor, ct: Ct) -> bytes:
    """A ciphertext as bytes in which what the library did not write is zero.

    1. A clone made in memory full of zeros: the library copies the rows that are used, and the others stay zero.
    2. Another clone in memory full of another byte. Where the two differ, behind the checksum, nothing was written.
    3. UserError where a byte differs and is not what the memory held: then it is not known what leaves.
    """
    zeros, others = (_in_filled_memory(engine, ct, byte) for byte in (UNUSED, OTHER))
    same = len(zeros) == len(others)
    if same:
        a, b = (np.frombuffer(data, np.uint8)[CHECKSUM:] for data in (zeros, others))
        differ = a != b
        same = bool((a[differ] == UNUSED).all() and (b[differ] == OTHER).all())
    if not same:
        raise UserError("a ciphertext could not be cleared of memory that is not its own, and is not given out")
    return zeros


def _in_filled_memory(engine: Vendor, ct: Ct, byte: int) -> bytes:
    with filled_memory(byte):
        return bytes(engine.serialize_ciphertext(engine.clone(ct)))
