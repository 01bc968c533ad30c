"""Half of a run: what the other side would give is a placeholder, what goes to it is written, what came is read.

A run encrypts and decrypts in an order that its public shapes alone decide. So the client's process runs it with a
``Sender`` on ciphertexts of one slot of zero, the server's with a ``Receiver`` on the real engine and zeros for data,
and the client's again with an ``Opener``. What is between is files.
"""

from __future__ import annotations

import numpy as np

from cgf.errors import UserError
from cgf.he.engines.library import Library
from cgf.he.engines.sim import OneSlot, SimCiphertext
from cgf.header import Item, Terms
from cgf.parcel import Parcel, ParcelWriter
from cgf.suite.sides import DecryptingSide, EncryptingSide, EvaluatingSide
from cgf.types import Ciphertext


class _Half:
    """An owner in whose place files stand; it decrypts to zeros."""

    pairs = True
    library = Library("files", encrypts=True, noise=1e-4)

    def __init__(self, terms: Terms) -> None:
        self.slots, self.max_level = terms.slots, terms.max_level

    def placeholder(self, level: int) -> SimCiphertext:
        """A ciphertext of one slot of zero."""
        return SimCiphertext(np.zeros(1), level)

    def encrypt(self, values: np.ndarray, level: int) -> Ciphertext:
        """A placeholder."""
        return self.placeholder(level)

    def decrypt(self, ct: Ciphertext) -> np.ndarray:
        """The real parts of ``decrypt_pair``."""
        return self.decrypt_pair(ct)[0]

    def decrypt_pair(self, ct: Ciphertext) -> tuple[np.ndarray, np.ndarray]:
        """Zeros (slots,)."""
        return np.zeros(self.slots), np.zeros(self.slots)


def nothing(terms: Terms) -> OneSlot:
    """The engine of a half that computes nothing."""
    return OneSlot(terms.max_level)


class Sender(_Half):
    """The client encrypts: each ciphertext goes into the upload."""

    def __init__(self, terms: Terms, encrypts: EncryptingSide, upload: ParcelWriter) -> None:
        super().__init__(terms)
        self.encrypts, self.upload, self.count = encrypts, upload, 0

    def encrypt(self, values: np.ndarray, level: int) -> SimCiphertext:
        """Encrypts at a level and writes the ciphertext into the upload; returns one that stands in for it."""
        self.upload.add(str(self.count), self.encrypts.encrypt(values, level), level)
        self.count += 1
        return self.placeholder(level)


class Receiver(_Half):
    """The server computes: ciphertexts come from the upload, and results go into the download."""

    def __init__(self, terms: Terms, engine: EvaluatingSide, upload: Parcel, download: ParcelWriter) -> None:
        super().__init__(terms)
        self.engine, self.items, self.download, self.count = engine, _Items(upload), download, 0
        self.lowest = terms.max_level

    def encrypt(self, values: np.ndarray, level: int) -> Ciphertext:
        """The next ciphertext of the upload, which must be of this level; the numbers given are not looked at."""
        return self.engine.read(self.items.next(level)[1], level)

    def decrypt_pair(self, ct: Ciphertext) -> tuple[np.ndarray, np.ndarray]:
        """Writes a result into the download, and returns zeros (slots,) in place of what only the client can read."""
        level = self.engine.level(ct)
        self.lowest = min(self.lowest, level)
        self.download.add(str(self.count), self.engine.export(ct), level)
        self.count += 1
        return super().decrypt_pair(ct)


class Opener(_Half):
    """The client decrypts: results come from the download."""

    def __init__(self, terms: Terms, decrypts: DecryptingSide, download: Parcel) -> None:
        super().__init__(terms)
        self.decrypts, self.items = decrypts, _Items(download)

    def decrypt_pair(self, ct: Ciphertext) -> tuple[np.ndarray, np.ndarray]:
        """Real and imaginary parts (slots,) of the next result in the download."""
        item, data = self.items.next(None)
        assert item.level is not None
        slots = self.decrypts.decrypt(data, item.level)
        return slots.real.copy(), slots.imag.copy()


class _Items:
    """The items of a parcel in order. UserError where one is missing, is left over, or is of another level."""

    def __init__(self, parcel: Parcel) -> None:
        self.path, self.rest = parcel.path, parcel.items()

    def next(self, level: int | None) -> tuple[Item, bytes]:
        """level: that it must have; None: any."""
        item = next(self.rest, None)
        if item is None:
            raise UserError(f"{self.path} must hold a ciphertext for each step of the run, and ends early")
        if item[0].level is None or level not in (None, item[0].level):
            raise UserError(f"{self.path} must hold ciphertexts of level {level}, and holds one of {item[0].level}")
        return item

    def done(self) -> None:
        """UserError where the run took fewer than there are."""
        if next(self.rest, None) is not None:
            raise UserError(f"{self.path} holds more ciphertexts than the run takes")


def read_to_the_end(half: Receiver | Opener) -> None:
    """UserError where ciphertexts are left over."""
    half.items.done()
