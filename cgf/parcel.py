"""A parcel: one file between a client and a server, keys or ciphertexts behind a header that says whether they fit.

The library reads a ciphertext of another engine without an error, so the header is the check. Layout: a start of 56
bytes (magic, format, length of the header, length of the payload, sha256 of those and the header), the payload, item by
item, and the header as JSON. Sizes are held against the file's own before anything is read, and every item has its
sha256. These find damage and mix-ups; they are no signature.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import IO

from cgf.errors import UserError
from cgf.header import (
    FORMAT,
    LONGEST_HEADER,
    MAGIC,
    START,
    Facts,
    Header,
    Item,
    Terms,
    digest_of,
    named,
    parsed,
    start_of,
    text_of,
)
from cgf.lock import locked
from cgf.named import short
from cgf.target import regular

MODE = 0o600  # whoever sends a file copies it, and no other user of the machine has a use for it


class ParcelWriter:
    """Writes a parcel item by item, under a temporary name until it is whole; a with block that fails leaves nothing.

    It is readable by its owner alone. UserError where there is a file already, which is never overwritten, and where
    another process writes it.
    """

    def __init__(
        self, path: str | os.PathLike[str], kind: str, terms: Terms, key: str, facts: Facts | None = None
    ) -> None:
        self.path = regular(path)
        self.kind, self.terms, self.key, self.facts = kind, terms, key, facts or {}
        self._items: list[Item] = []
        self._part = self.path.with_name(f".{self.path.name}.part")
        self._lock = ExitStack()
        refusal = f"another process writes {path}: wait for it or stop it, or give another name"
        self._lock.enter_context(locked(self.path.with_name(f".{self.path.name}.lock"), refusal))
        try:
            self._file = self._draft()
        except BaseException:
            self._lock.close()
            raise
        self._file.write(bytes(START.size))

    def _draft(self) -> IO[bytes]:
        if self.path.exists():
            raise UserError(
                f"{self.path} is there already and is not overwritten: give another name, or remove the file"
            )
        try:
            self._part.unlink(missing_ok=True)  # of a process that was killed
            return os.fdopen(os.open(self._part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, MODE), "wb")
        except OSError as error:
            raise UserError(f"{self.path} cannot be written: {error.strerror}") from None

    def add(self, name: str, data: bytes, level: int | None = None) -> None:
        """Appends an item."""
        self._file.write(data)
        self._items.append(Item(name, level, len(data), hashlib.sha256(data).hexdigest()))

    def __enter__(self) -> ParcelWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        try:
            if error is None:
                self._finish()
        finally:
            self._file.close()
            self._part.unlink(missing_ok=True)
            self._lock.close()

    def _finish(self) -> None:
        text = text_of(Header(self.kind, self.terms, self.key, self.facts, tuple(self._items)))
        self._file.write(text)
        self._file.seek(0)
        self._file.write(start_of(text, sum(item.size for item in self._items)))
        self._file.flush()
        os.fsync(self._file.fileno())
        os.replace(self._part, self.path)

    @property
    def size(self) -> int:
        """Bytes of the payload so far."""
        return sum(item.size for item in self._items)


class Parcel:
    """A parcel that is open for reading: its header is checked, its items are checked as they are read.

    UserError, in one sentence with the file's name, for whatever is no whole parcel of ``kind``.
    """

    def __init__(self, path: str | os.PathLike[str], kind: str) -> None:
        self.path = Path(path)
        self._file = _opened(self.path)
        try:
            self.header = self._header()
            if self.header.kind != kind:
                raise UserError(f"{self.path} must hold {named(kind)}, and holds {named(self.header.kind)}")
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Parcel:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def check(self, terms: Terms, key: str | None = None) -> None:
        """UserError where the parcel is of another engine, build or ring, or belongs to other keys."""
        terms.check(self.header.terms, str(self.path))
        if key is not None and self.header.key != key:
            raise UserError(f"{self.path} must belong to the keys {key}, and belongs to {self.header.key}")

    def check_items(self, names: list[str], level: int | None, most_bytes: int) -> None:
        """UserError unless the items are these in this order, at this level, none beyond ``most_bytes``."""
        for number, want in enumerate(names):
            have = self.header.items[number].name if number < len(self.header.items) else "no more"
            if have != want:
                raise UserError(f"{self.path} must hold {short(want)} as item {number + 1}, and holds {short(have)}")
        if len(self.header.items) > len(names):
            raise UserError(f"{self.path} must hold {len(names)} items, and holds {len(self.header.items)}")
        for item in self.header.items:
            if item.level != level:
                raise UserError(f"{self.path} must hold {item.name} at level {level}, and holds it at {item.level}")
            if item.size > most_bytes:
                raise UserError(f"{self.path} may hold {most_bytes} bytes of {item.name}, and holds {item.size}")

    def items(self) -> Iterator[tuple[Item, bytes]]:
        """Item by item, each held against its sha256 before it is given out."""
        self._file.seek(START.size)
        for item in self.header.items:
            data = self._file.read(item.size)
            if len(data) != item.size or hashlib.sha256(data).hexdigest() != item.sha256:
                raise UserError(f"{self.path} was changed or damaged after it was written: {item.name} does not fit it")
            yield item, data

    def _header(self) -> Header:
        start = self._file.read(START.size)
        if len(start) < START.size or not start.startswith(MAGIC):
            raise UserError(f"{self.path} must be a file of a client or a server, and does not begin as one")
        _, version, header, payload, digest = START.unpack(start)
        if version != FORMAT:
            raise UserError(f"{self.path} must be of format {FORMAT}, and is of format {version}")
        size = os.fstat(self._file.fileno()).st_size
        if header > LONGEST_HEADER or START.size + payload + header != size:
            raise UserError(
                f"{self.path} must have {START.size + payload + header} bytes, as it says itself, and has {size}: it "
                "was cut off or damaged"
            )
        self._file.seek(START.size + payload)
        text = self._file.read(header)
        if digest_of(start, text) != digest:
            raise UserError(f"{self.path} was changed or damaged after it was written: its header does not fit")
        return parsed(text, payload, self.path)


def _opened(path: Path) -> IO[bytes]:
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            raise UserError(f"{path} must be a regular file, and is {'a folder' if stat.S_ISDIR(mode) else 'none'}")
        return path.open("rb")
    except FileNotFoundError:
        raise UserError(f"{path} is needed, and there is no such file") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None
