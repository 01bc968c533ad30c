"""Local data files: find, read, check, hash. Every fault is a UserError that names the file."""

import gzip
import hashlib
import io
import json
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from cgf.errors import UserError
from cgf.target import content_of, file_hash
from cgf.types import Json, JsonValue

MOST_TEXT = 2**30  # bytes of a table, which is read whole
FULLEST, FREE = 100, 2**26  # a packed file holds at most so many times its own size, or so many bytes
Record = tuple[str, str]  # text, label as the file writes it


def find_file(root: Path, name: str, task: str) -> Path:
    """`root/name`, or the same with .gz. UserError when there is neither."""
    path = root / name
    for candidate in (path, path.with_name(path.name + ".gz")):
        if candidate.is_file():
            return candidate
    raise UserError(
        f"task {task} needs the file {path} (or {path.name}.gz), and there is no such file; "
        f"data.root or CGF_DATA_ROOT must name the folder that holds {Path(name).parts[0]}/"
    )


def sha256_of_all(files: Iterable[tuple[str, Path]]) -> str:
    """Hex digest of names and contents, in the order given."""
    return sha256_of_hashes((name, file_hash(path, MOST_TEXT)) for name, path in files)


def sha256_of_hashes(files: Iterable[tuple[str, str]]) -> str:
    """The same of files by their names and hashes."""
    digest = hashlib.sha256()
    for name, content in files:
        digest.update(f"{name} {content}\n".encode())
    return digest.hexdigest()


def check_own(where: Mapping[str, Path], hashes: Mapping[str, str], kept: Mapping[str, str] | None) -> None:
    """UserError where two splits hold the same data, or a split other data than a checkpoint kept the hash of.

    where, hashes: of each split; kept: split -> hash, None where there is no checkpoint.
    """
    for split, digest in hashes.items():
        other = next(s for s in hashes if hashes[s] == digest)
        if other != split:
            raise UserError(
                f"each split needs data of its own, and {where[other]} for {other} and {where[split]} for {split} hold "
                "the same"
            )
        if kept is not None and kept.get(split) != digest:
            raise UserError(
                f"{where[split]} is not what the checkpoint was trained with: its sha256 is {digest[:12]}..., and "
                f"{str(kept.get(split))[:12]}... was kept"
            )


def read_text(path: Path) -> str:
    """A UTF-8 file, unpacked if it ends in .gz, newlines as they are. UserError if it cannot be read."""
    try:
        raw = content_of(path, MOST_TEXT)
        return (_unpacked(path, raw) if path.suffix == ".gz" else raw).decode("utf-8-sig")
    except UserError:
        raise
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise UserError(f"{path} needs to be UTF-8 text that can be read, and reading it failed: {error}") from error


def most_unpacked(packed: int) -> int:
    """How many bytes a packed file of so many bytes may hold: texts take a tenth when packed, a bomb a thousandth."""
    return max(FREE, min(MOST_TEXT, FULLEST * packed))


def _unpacked(path: Path, raw: bytes) -> bytes:
    most = most_unpacked(len(raw))
    with gzip.GzipFile(fileobj=io.BytesIO(raw)) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise UserError(f"{path} has {len(raw)} bytes and may hold {most} when unpacked, and holds more")
    return content


def parsed_json(text: str) -> JsonValue:
    """What a JSON text holds. ValueError for none, one nested too deep to be read, and an object with a key twice."""
    try:
        return json.loads(text, object_pairs_hook=_once)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def _once(pairs: list[tuple[str, JsonValue]]) -> Json:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for i, (key, _) in enumerate(pairs) if key in {name for name, _ in pairs[:i]})
        raise ValueError(f"an object has '{twice}' twice")
    return found


def read_data_json(path: Path) -> JsonValue:
    """The content of a JSON file, which may be packed (.gz). UserError if it is none."""
    try:
        return parsed_json(read_text(path))
    except UserError:
        raise
    except ValueError as error:
        raise UserError(f"{path} needs to be JSON, and it is not: {error}") from error


def read_intents(path: Path, out_of_scope: str) -> dict[str, list[Record]]:
    """Train, val and test of a JSON file in CLINC150's layout, out-of-scope records at the end of each.

    The file is one object: split -> list of [text, intent], with the out-of-scope records in `oos_<split>`.
    UserError where it is not, or where a split is missing or empty.
    """
    data = read_data_json(path)
    if not isinstance(data, dict):
        raise UserError(f"{path} needs to be an object of splits, and it is a {type(data).__name__}")
    splits = {}
    for split in ("train", "val", "test"):
        if not data.get(split):
            raise UserError(f"{path} needs rows in {split!r}, and it has {', '.join(data) or 'nothing'}")
        records = [*data[split], *data.get(f"oos_{split}", [])]
        for i, record in enumerate(records):
            if not (
                isinstance(record, list) and len(record) == 2 and all(isinstance(v, str) and v.strip() for v in record)
            ):
                raise UserError(f"{path} needs [text, intent] in every row, and row {i} of {split!r} is {record!r}")
        splits[split] = [(text.strip(), intent.strip()) for text, intent in records]
        if {intent for _, intent in splits[split]} == {out_of_scope}:
            raise UserError(f"{path} needs intents in {split!r}, and it has out-of-scope rows only")
    return splits
