"""Local data files: find, read, check, hash. Every fault is a UserError that names the file."""

import csv
import gzip
import hashlib
import io
import json
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cgf.errors import UserError

Row = tuple[str, str]  # text, label as the file writes it


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


def sha256(path: Path) -> str:
    """Hex digest of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def sha256_of_all(files: Iterable[tuple[str, Path]]) -> str:
    """Hex digest of names and contents, in the order given."""
    digest = hashlib.sha256()
    for name, path in files:
        digest.update(f"{name} {sha256(path)}\n".encode())
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
        raw = path.read_bytes()
        return (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8-sig")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise UserError(f"{path} needs to be UTF-8 text that can be read, and reading it failed: {error}") from error


def read_json(path: Path) -> Any:
    """The content of a JSON file. UserError if it is none."""
    try:
        return json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise UserError(f"{path} needs to be JSON, and it is not: {error}") from error


def read_table(path: Path, text: str, label: str) -> list[Row]:
    """Rows of a .csv (quoted as usual) or .tsv (quotes are plain characters) file with a header line.

    UserError for missing columns, a row without a value, a file without rows.
    """
    tabs = ".tsv" in path.suffixes
    content = read_text(path)
    lines: Iterable[str] = content.split("\n") if tabs else io.StringIO(content, newline="")
    options: dict[str, Any] = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if tabs else {"strict": True}
    reader = csv.DictReader(lines, **options)
    rows = []
    try:
        have = reader.fieldnames or []
        if text not in have or label not in have:
            raise UserError(f"{path} needs the columns {text}, {label}, and it has {', '.join(have) or 'none'}")
        for row in reader:
            if not (row[text] or "").strip() or not (row[label] or "").strip():
                raise UserError(
                    f"{path} needs a {text} and a {label} in every row, and line {reader.line_num} lacks one"
                )
            rows.append((row[text].strip(), row[label].strip()))
    except csv.Error as error:
        raise UserError(f"{path} needs to be a table, and line {reader.line_num} is not: {error}") from error
    if not rows:
        raise UserError(f"{path} needs rows below its header, and it has none")
    return rows


def read_intents(path: Path, out_of_scope: str) -> dict[str, list[Row]]:
    """Train, val and test of a JSON file in CLINC150's layout, out-of-scope rows at the end of each.

    The file is one object: split -> list of [text, intent], with the out-of-scope rows in `oos_<split>`.
    UserError where it is not, or where a split is missing or empty.
    """
    data = read_json(path)
    if not isinstance(data, dict):
        raise UserError(f"{path} needs to be an object of splits, and it is a {type(data).__name__}")
    splits = {}
    for split in ("train", "val", "test"):
        if not data.get(split):
            raise UserError(f"{path} needs rows in {split!r}, and it has {', '.join(data) or 'nothing'}")
        rows = [*data[split], *data.get(f"oos_{split}", [])]
        for i, row in enumerate(rows):
            if not (isinstance(row, list) and len(row) == 2 and all(isinstance(v, str) and v.strip() for v in row)):
                raise UserError(f"{path} needs [text, intent] in every row, and row {i} of {split!r} is {row!r}")
        splits[split] = [(text.strip(), intent.strip()) for text, intent in rows]
        if {intent for _, intent in splits[split]} == {out_of_scope}:
            raise UserError(f"{path} needs intents in {split!r}, and it has out-of-scope rows only")
    return splits
