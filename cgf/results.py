"""Result files: where they come from (`run_info`), how they are written, read and found.

A result file is one flat JSON object whose key `run` holds `run_info`. A log of a run in progress is a
JSON-lines file. Both survive a kill at any moment: an object is renamed into place whole, and a torn last
line is dropped. Numbers are finite; a NaN is refused by name where it is written, not met later in a table. Only
regular files are written to: a symbolic link is followed, stays a link, and is judged by what it leads to.
"""

from __future__ import annotations

import fcntl
import glob
import json
import math
import os
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO

from cgf.errors import UserError
from cgf.provenance import run_info, without_home
from cgf.target import check_writable, content_of, regular, writing
from cgf.types import JsonValue

__all__ = [
    "append_line",
    "append_lines",
    "check_replaceable",
    "find_results",
    "plain_json",
    "read_json",
    "read_lines",
    "run_info",
    "without_home",
    "write_bytes",
    "write_json",
    "write_text",
]

MOST_LINES = 2**30  # bytes of a file of lines

# ---------------------------------------------------------------- writing


def write_json(path: str | os.PathLike, data: JsonValue, private: bool = False) -> None:
    """Write `data` as one JSON file that is either there whole or not at all; missing folders are made.

    Numpy scalars and arrays become numbers and lists. Raises ValueError for NaN or an infinity and
    TypeError for what JSON cannot hold, each naming the key, before anything on disk is touched. private: nobody else
    may read the file (mode 0600).
    """
    write_bytes(path, (json.dumps(_plain(data, ""), indent=2, ensure_ascii=False) + "\n").encode(), private)


def write_text(path: str | os.PathLike, text: str) -> None:
    """Write a UTF-8 file as `write_bytes` does."""
    write_bytes(path, text.encode())


def write_bytes(path: str | os.PathLike, content: bytes, private: bool = False) -> None:
    """Write a file under a temporary name beside it, then rename: a crash leaves the old one.

    private: nobody else may read it. What processes that were killed left under such names is removed. UserError where
    `path` is something else than a regular file (see `cgf.target.regular`), and where the system refuses to write it.
    """
    path = regular(path)
    _remove_drafts(path)
    part = path.with_name(f".{path.name}.{threading.get_native_id()}.tmp")  # a thread's, on Linux of its process too
    try:
        with writing(path), _draft(part) as file:
            if private:
                os.fchmod(file.fileno(), 0o600)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            os.replace(part, path)
    finally:
        with suppress(OSError):  # of a folder that nothing can be written to
            part.unlink(missing_ok=True)


def _draft(part: Path) -> IO[bytes]:
    """The file under its temporary name, locked for as long as it is open: so others see that its writer is alive."""
    while True:
        file = open(part, "wb")  # noqa: SIM115  (the caller closes it)
        with suppress(OSError):  # a file system without locks: then nobody else has one, and removes nothing
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), os.stat(part)):
                return file
        file.close()  # removed between the opening and the lock


def _remove_drafts(path: Path) -> None:
    """Removes temporary files of `path` whose writer is gone."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        with suppress(OSError):
            file = os.open(left, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if stat.S_ISREG(os.fstat(file).st_mode):
                    left.unlink()
            finally:
                os.close(file)


def append_line(path: str | os.PathLike, record: dict) -> None:
    """Append one JSON line (same rules as `write_json`), after cutting off a line that a kill left torn."""
    append_lines(path, [record])


def append_lines(path: str | os.PathLike, records: list[dict]) -> None:
    """Append JSON lines in one write, as `append_line` does. Processes that append to one file wait for each other."""
    lines = b"".join(json.dumps(_plain(record, ""), ensure_ascii=False).encode() + b"\n" for record in records)
    with writing(path), open(regular(path), "a+b") as file:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0, os.SEEK_END)
        if end := file.tell():
            file.seek(end - 1)
            if file.read(1) != b"\n":
                file.seek(0)
                last = file.read().split(b"\n")[-1]
                if _is_whole(last):
                    lines = b"\n" + lines
                else:
                    file.truncate(end - len(last))
        file.write(lines)


def _is_whole(line: bytes) -> bool:
    """Whether a line without a line feed is a whole record all the same, as an editor leaves the last one."""
    try:
        return isinstance(_parse(line), dict)
    except ValueError:
        return False


def plain_json(data: JsonValue) -> JsonValue:
    """`data` as `write_json` writes it and `read_json` reads it. Raises what `write_json` raises."""
    return _plain(data, "")


def _plain(value: JsonValue, key: str) -> JsonValue:
    """`value` in JSON's own types; `key` is its dotted place in the whole, for the message."""
    if isinstance(value, dict):
        return {str(name): _plain(item, f"{key}.{name}".lstrip(".")) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, f"{key}[{index}]") for index, item in enumerate(value)]
    if hasattr(value, "tolist"):  # numpy scalars and arrays, and tensors, without importing either
        return _plain(value.tolist(), key)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"a result must be a finite number, but {key or 'the value'} is {value}")
    if value is None or isinstance(value, str | int | float):
        return value
    raise TypeError(f"{key or 'the value'} is a {type(value).__name__}, which a JSON file cannot hold")


# ---------------------------------------------------------------- reading


def read_json(path: str | os.PathLike) -> JsonValue:
    """The content of a JSON file; UserError if it is missing, half-written or holds NaN."""
    try:
        return _parse(content_of(path))
    except UserError:
        raise
    except FileNotFoundError:
        raise UserError(f"{path} is needed, and there is no such file") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise UserError(f"{path} should be a JSON file, but is damaged or half-written ({error})") from None


def read_lines(path: str | os.PathLike) -> list[dict]:
    """The records of a JSON-lines file, [] if there is none; without a torn last line.

    A last line that lacks its line feed counts where it is a whole record. UserError, with the line's number, for any
    other damage.
    """
    try:
        content = content_of(path, MOST_LINES)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None
    *lines, last = content.split(b"\n")
    records = []
    for number, line in enumerate([*lines, last] if _is_whole(last) else lines, start=1):
        try:
            records.append(_parse(line))
        except ValueError as error:
            raise UserError(f"{path} should hold one JSON object a line; line {number}: {error}") from None
    return records


def _parse(text: bytes) -> JsonValue:
    def refuse(name: str) -> None:
        raise ValueError(f"it holds {name}, not a number")

    def finite(number: str) -> float:
        if not math.isfinite(value := float(number)):
            raise ValueError(f"it holds {number[:40]}, which is beyond any float")
        return value

    try:
        return json.loads(text.decode("utf-8"), parse_constant=refuse, parse_float=finite)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def check_replaceable(path: str | os.PathLike, same: Callable[[dict], bool]) -> None:
    """UserError where there is a file already that is no result for which ``same`` holds: it is not overwritten.

    UserError, too, where nothing can be written.
    """
    path = Path(path)
    check_writable(path)
    if not path.exists():
        return
    try:
        there = _parse(content_of(path))
    except (OSError, ValueError):
        there = None
    if isinstance(there, dict) and "kind" in there:
        if same(there):
            return
        told = [f"{key} {there[key]}" for key in ("checkpoint", "softmax", "split", "samples") if key in there]
        what = f"another result ({', '.join([str(there['kind']), *told])})"
    else:
        what = "something else than a result"
    raise UserError(f"{path} holds {what} and is not overwritten: give another out=, or remove the file")


def find_results(root: str | os.PathLike) -> list[dict]:
    """Every eval/*.json at any depth under `root`, by path; each gets its file as `_path`.

    UserError if `root` is no folder, or, naming the file, if one cannot be read. [] if there are none.
    """
    root = Path(root)
    if not root.is_dir():
        raise UserError(f"a folder with results is needed, and {root} is none")
    results = []
    for path in sorted(root.rglob("eval/*.json")):
        result = read_json(path)
        if not isinstance(result, dict):
            raise UserError(f"{path} should hold one JSON object, but holds a {type(result).__name__}")
        results.append({**result, "_path": str(path)})
    return results
