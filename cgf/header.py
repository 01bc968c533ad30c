"""What a parcel says of itself before its payload is read: kind, engine, library, ring, keys, and an entry an item."""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import asdict, dataclass
from pathlib import Path

from cgf.errors import UserError
from cgf.named import arguments, short
from cgf.types import Json, JsonValue

MAGIC, FORMAT = b"CGF-CKKS", 1
START = struct.Struct("<8sIIQ32s")  # magic, format, bytes of the header, bytes of the payload, sha256
LONGEST_HEADER = 2**24
SECRET, PUBLIC, EVALUATION, UPLOAD, RESULT, STATE = (
    "secret key",
    "public key",
    "evaluation keys",
    "upload",
    "result",
    "state",
)
Facts = Json


@dataclass(frozen=True)
class Terms:
    """What both sides must share: the engine's name, the library's name and version, slots and levels of the ring."""

    engine: str
    build: str
    slots: int
    max_level: int

    def check(self, other: Terms, where: str) -> None:
        """UserError naming the first that differs in ``other``, the terms of a file."""
        for name, what in (("engine", "engine"), ("build", "library"), ("slots", "slots"), ("max_level", "levels")):
            own, theirs = getattr(self, name), getattr(other, name)
            if own != theirs:
                raise UserError(f"{where} must be of {what} {own}, and is of {theirs}")


@dataclass(frozen=True)
class Item:
    """A key or ciphertext of a parcel: its name, level (None: a key), bytes, and their sha256."""

    name: str
    level: int | None
    size: int
    sha256: str


@dataclass(frozen=True)
class Header:
    """What a parcel says of itself. key: the id of the keys that it belongs to (``key_id``); facts: of its kind."""

    kind: str
    terms: Terms
    key: str
    facts: Facts
    items: tuple[Item, ...]

    def digest(self) -> str:
        """sha256 of all that the header says, and through its items of the whole parcel."""
        return hashlib.sha256(text_of(self)).hexdigest()


def key_id(public: bytes) -> str:
    """The id of a set of keys, from its public key as it is in a parcel."""
    return hashlib.sha256(public).hexdigest()[:32]


def named(kind: str) -> str:
    """A kind with its article, where it takes one."""
    return kind if kind == EVALUATION else f"{'an' if kind[:1] in 'aeiou' else 'a'} {short(kind)[1:-1]}"


def text_of(header: Header) -> bytes:
    """The header as JSON: one text for one header."""
    items = [[item.name, item.level, item.size, item.sha256] for item in header.items]
    content = {"kind": header.kind, **asdict(header.terms), "key": header.key, "facts": header.facts, "items": items}
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def start_of(text: bytes, payload: int) -> bytes:
    """The start of a parcel with this header's text and so many bytes of payload."""
    start = START.pack(MAGIC, FORMAT, len(text), payload, bytes(32))
    return start[:-32] + digest_of(start, text)


def digest_of(start: bytes, text: bytes) -> bytes:
    """sha256 of a start, without its own place, and the header's text."""
    return hashlib.sha256(start[:-32] + text).digest()


def _made(
    *,
    kind: str,
    engine: str,
    build: str,
    slots: int,
    max_level: int,
    key: str,
    facts: Json,
    items: list[list[JsonValue]],
) -> Header:
    """A header of plain values, each item as [name, level, size, sha256]."""
    made = tuple(Item(**arguments(Item, dict(zip(Item.__match_args__, row, strict=True)), "an item")) for row in items)
    return Header(kind, Terms(engine, build, slots, max_level), key, facts, made)


def parsed(text: bytes, payload: int, path: Path) -> Header:
    """The header of its text. UserError for what is none: it may be of another's making, with a sha256 that fits."""
    try:
        header = _made(**arguments(_made, json.loads(text), "the header"))
    except (ValueError, TypeError, RecursionError) as error:  # UserError too
        raise UserError(f"{path} has a header that is none: {error}") from None
    if any(item.size < 0 for item in header.items) or sum(item.size for item in header.items) != payload:
        raise UserError(f"{path} has a header that is none: its items do not fill the payload")
    return header
