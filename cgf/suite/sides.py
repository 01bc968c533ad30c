"""Keys and ciphertexts of both sides as bytes, on desilofhe and on the simulator, which encrypts nothing."""

from __future__ import annotations

import io
import zlib
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol
from zipfile import BadZipFile

import numpy as np

from cgf.errors import UserError
from cgf.he.engines.desilo_files import Decryptor, Encryptor, Evaluator, KeyMaker, evaluation_names, most_bytes
from cgf.he.engines.desilo_library import build
from cgf.he.engines.engine import Engine
from cgf.he.engines.sim import SimCiphertext, SimEngine, SimOwner
from cgf.header import EVALUATION, PUBLIC, SECRET, Terms, key_id
from cgf.parcel import Parcel, ParcelWriter
from cgf.suite.workloads import Keys
from cgf.types import Ciphertext

ENGINES = ("desilo", "sim")


class EncryptingSide(Protocol):
    """Numbers in, bytes out."""

    def encrypt(self, values: np.ndarray, level: int) -> bytes:
        """At most as many numbers as there are slots, at a level, as the bytes of a ciphertext."""


class DecryptingSide(Protocol):
    """Bytes in, complex slots out."""

    def decrypt(self, data: bytes, level: int) -> np.ndarray:
        """The slots (slots,) of a ciphertext of this level, complex."""


class EvaluatingSide(Engine, Protocol):
    """An engine that reads ciphertexts and writes them."""

    def read(self, data: bytes, level: int) -> Ciphertext:
        """The ciphertext of such bytes; level: what their parcel says of it."""

    def export(self, ct: Ciphertext) -> bytes:
        """A ciphertext as bytes, to be decrypted elsewhere."""


def terms_of(engine: str, keys: Keys) -> Terms:
    """What every file of a run says of its engine. UserError for an engine that has no such files."""
    if engine not in ENGINES:
        raise UserError(f"an engine is {' or '.join(ENGINES)} here, and '{engine}' was given")
    return Terms(engine, build() if engine == "desilo" else "sim", keys.slots, keys.max_level)


def make_keys(terms: Terms, keys: Keys, own: Path, shared: Path) -> None:
    """Writes secret.key and public.key into the client's folder, evaluation.keys into the shared one."""
    maker = KeyMaker(terms.max_level, "cpu") if terms.engine == "desilo" else None
    public = b"" if maker is None else maker.public()
    key = key_id(public)
    with ExitStack() as files:
        secret, granted, encrypts = (
            files.enter_context(ParcelWriter(folder / name, kind, terms, key))
            for folder, name, kind in (
                (own, "secret.key", SECRET),
                (shared, "evaluation.keys", EVALUATION),
                (own, "public.key", PUBLIC),
            )
        )
        encrypts.add("public", public)
        secret.add("secret", b"" if maker is None else maker.dump_secret())
        for name, data in () if maker is None else maker.evaluation(keys.rotations, keys.conjugation):
            granted.add(name, data)


def _only(path: Path, kind: str, terms: Terms, name: str) -> tuple[bytes, str]:
    """The one item of a parcel, and the id of the keys. UserError where it holds none, or others."""
    with Parcel(path, kind) as parcel:
        parcel.check(terms)
        parcel.check_items([name], None, most_bytes(terms.max_level))
        return next(data for _, data in parcel.items()), parcel.header.key


def encryptor(terms: Terms, own: Path) -> tuple[EncryptingSide, str]:
    """What encrypts with the client's public key, and the id of the keys."""
    public, key = _only(own / "public.key", PUBLIC, terms, "public")
    return (Encryptor(terms.max_level, public) if terms.engine == "desilo" else SimEncryptor(terms.max_level)), key


def decryptor(terms: Terms, own: Path) -> tuple[DecryptingSide, str]:
    """What decrypts with the client's secret key, and the id of the keys."""
    secret, key = _only(own / "secret.key", SECRET, terms, "secret")
    return (Decryptor(terms.max_level, secret) if terms.engine == "desilo" else SimDecryptor(terms.slots)), key


def evaluator(terms: Terms, keys: Keys, shared: Path) -> tuple[EvaluatingSide, str]:
    """The engine with the keys that the client sent, and their id. UserError where they are not those needed."""
    with Parcel(shared / "evaluation.keys", EVALUATION) as parcel:
        parcel.check(terms)
        if terms.engine == "sim":
            made: EvaluatingSide = SimEvaluator(terms.max_level, rotations=keys.rotations, conjugation=keys.conjugation)
            return made, parcel.header.key
        parcel.check_items(evaluation_names(keys.rotations, keys.conjugation), None, most_bytes(terms.max_level))
        items = ((item.name, data) for item, data in parcel.items())
        return Evaluator.of(terms.max_level, items), parcel.header.key


# -- the simulator: what it calls a ciphertext are its slots in the clear --------------------------------------------


def _written(values: np.ndarray, polynomials: int) -> bytes:
    file = io.BytesIO()
    np.savez(file, slots=values, polynomials=polynomials)
    return file.getvalue()


def _read(data: bytes, count: int) -> tuple[np.ndarray, int]:
    """So many slots, and polynomials. UserError for other bytes, in our words: numpy's own advise to unpickle them."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            slots, polynomials = file["slots"], int(file["polynomials"])
            if slots.shape == (count,) and slots.dtype in (np.float64, np.complex128) and polynomials in (2, 3):
                return slots, polynomials
    except (OSError, ValueError, TypeError, KeyError, EOFError, AttributeError, BadZipFile, zlib.error, RuntimeError):
        pass
    raise UserError(f"a ciphertext of the simulator cannot be read: its bytes hold no {count} slots and polynomials")


class SimEncryptor:
    """Writes slots down as they are."""

    def __init__(self, max_level: int) -> None:
        self.owner = SimOwner(max_level)

    def encrypt(self, values: np.ndarray, level: int) -> bytes:
        """The slots as bytes, with two polynomials; checks of size and level are the simulator's."""
        return _written(self.owner.encrypt(values, level).values, 2)


class SimDecryptor:
    """Reads slots as they are."""

    def __init__(self, slots: int) -> None:
        self.slots = slots

    def decrypt(self, data: bytes, level: int) -> np.ndarray:
        """The slots (slots,) of such bytes, as complex numbers."""
        return np.asarray(_read(data, self.slots)[0], dtype=np.complex128)


class SimEvaluator(SimEngine):
    """The simulator on files."""

    def read(self, data: bytes, level: int) -> SimCiphertext:
        """The ciphertext of such bytes, at a level."""
        values, polynomials = _read(data, self.slots)
        return SimCiphertext(values, level, polynomials)

    def export(self, ct: SimCiphertext) -> bytes:
        """A ciphertext's slots and polynomials as bytes."""
        return _written(ct.values, ct.polynomials)
