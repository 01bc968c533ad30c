"""The two bundles as folders: a bundle.json with the agreement and a seal over all files, and the files beside it.

The client's holds what prepares samples and what judges logits; the server's holds the network. The seal finds damage
and mix-ups; it is no signature.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cgf.bundle.agreement import Agreement
from cgf.errors import UserError
from cgf.lock import locked
from cgf.named import plain, short
from cgf.results import read_json, write_json
from cgf.seal import json_hash
from cgf.target import file_hash
from cgf.types import Json, JsonValue

SCHEMA, BUNDLE = 1, "bundle.json"
MOST_BYTES = 2**24  # of a JSON file
CLIENT, SERVER = "client bundle", "server bundle"


def check_free(folder: str | Path) -> Path:
    """The folder; UserError where something is there already."""
    path = Path(folder).expanduser()
    if path.exists() or path.is_symlink():
        raise UserError(f"{path} is there already and is not overwritten: give another name, or remove it")
    return path


def small_json(path: Path) -> JsonValue:
    """What a JSON file of at most 16 MiB holds, plain values alone. UserError, naming the file, for any other."""
    if path.is_file() and (size := path.stat().st_size) > MOST_BYTES:
        raise UserError(f"{path} may have {MOST_BYTES} bytes, and has {size}")
    data = read_json(path)
    plain(data, str(path))
    return data


def write_bundle(
    folder: Path, kind: str, agreement: Agreement, facts: Json, write_files: Callable[[Path], None]
) -> None:
    """Makes a bundle's folder, which is there whole or not at all. UserError where it is there already, or being made.

    facts: of its kind, plain values;  write_files: writes the other files into a folder
    """
    try:
        with draft_of(folder) as part:
            write_files(part)
            facts = {"kind": kind, "schema": SCHEMA, "agreement": agreement.to_json(), **facts, "files": _hashes(part)}
            content = _as_read(facts, part / BUNDLE)
            write_json(part / BUNDLE, {**content, "seal": json_hash(content)})
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error.strerror or error}") from None


@contextmanager
def draft_of(folder: Path) -> Iterator[Path]:
    """Yields a folder to be filled, which takes the place of ``folder`` at the end of a with block that does not fail.

    UserError where ``folder`` is there already, and where another process makes it.
    """
    with locked(folder.with_name(f".{folder.name}.lock"), f"another process makes {folder}: wait for it or stop it"):
        check_free(folder)
        part = folder.with_name(f".{folder.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        try:
            part.mkdir(parents=True)
            yield part
            part.rename(folder)
        finally:
            shutil.rmtree(part, ignore_errors=True)


def read_bundle(folder: str | Path, kind: str, facts: tuple[str, ...]) -> tuple[Agreement, Json, str]:
    """Agreement, facts (exactly these) and seal of a bundle. UserError, naming the file, for whatever does not fit."""
    folder = Path(folder).expanduser()
    path = folder / BUNDLE
    data = small_json(path)
    if not isinstance(data, dict) or data.get("kind") != kind or data.get("schema") != SCHEMA:
        raise UserError(f"{path} must be a {kind} of schema {SCHEMA}, and is {short(data)}")
    seal = data.pop("seal", None)
    if json_hash(data) != seal:
        raise UserError(f"{path} was changed after the bundle was made, its seal does not fit: take it as it was made")
    files = data.pop("files", None)
    expected = {"kind", "schema", "agreement", *facts}
    if set(data) != expected or not isinstance(files, dict) or not isinstance(data["agreement"], dict):
        raise UserError(f"{path} must have {', '.join(sorted(expected))} and files, and has {', '.join(sorted(data))}")
    _check_files(folder, files)
    agreement = Agreement.from_json(data["agreement"], str(path))
    return agreement, {key: data[key] for key in facts}, str(seal)


def _as_read(content: Json, path: Path) -> Json:
    """What is read back of a JSON file of such content: tuples are lists there."""
    write_json(path, content)
    read: Json = read_json(path)
    path.unlink()
    return read


def _there(folder: Path) -> dict[str, Path]:
    """All files but bundle.json by their names. UserError for what is neither a file nor a folder."""
    paths = sorted(path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    if odd := [path for path in paths if path.is_symlink() or not path.is_file()]:
        raise UserError(f"{odd[0]} must be a regular file, and is none")
    return {path.relative_to(folder).as_posix(): path for path in paths if path != folder / BUNDLE}


def _hashes(folder: Path) -> dict[str, Json]:
    """Size and sha256 by name."""
    there = _there(folder)
    return {name: {"bytes": path.stat().st_size, "sha256": file_hash(path)} for name, path in there.items()}


def _check_files(folder: Path, files: Json) -> None:
    """UserError for the first file that is not as the bundle says; sizes are compared before anything is read."""
    there = _there(folder)
    for name in sorted({*files, *there}):
        if name not in there:
            raise UserError(f"{folder} lacks {name}, which belongs to the bundle: take it as it was made")
        if name not in files:
            raise UserError(f"{folder} holds {name}, which does not belong to the bundle: take that file away")
        size = there[name].stat().st_size
        if (
            not isinstance(files[name], dict)
            or files[name].get("bytes") != size
            or (files[name].get("sha256") != file_hash(there[name]))
        ):
            raise UserError(f"{there[name]} was changed after the bundle was made: take it as it was made")
