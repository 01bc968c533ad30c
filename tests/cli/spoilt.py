"""Files spoilt in one way: cut, flipped, swapped, of another kind, or with one value of their content changed.

A change is plain values ({"do": name, "at": share of the file, ...}), so that a line of a log repeats it. Every
function takes the file and the change, and says whether the file is another one afterwards.
"""

import json
import math
import os
import pickle
import shutil
from pathlib import Path

SPARSE = 10 * 2**30
DEEP = 5000  # levels of nested lists
OTHERS = {  # contents of another type
    "nothing": b"",
    "object": b"{}",
    "list": b"[]",
    "null": b"null",
    "number": b"7",
    "text": b'"text"',
    "png": b"\x89PNG\r\n\x1a\n" + bytes(64),
    "gzip": b"\x1f\x8b\x08\x00" + bytes(32),
    "zip": b"PK\x03\x04" + bytes(64),
    "pickle": pickle.dumps({"a": 1}),
    "nul": bytes(4096),
    "latin-1": "café,\xe9\n".encode("latin-1"),
    "utf-16": "text,label\n".encode("utf-16"),
    "deep": b"[" * DEEP + b"]" * DEEP,
    "infinite": b'{"a": 1e999, "b": NaN, "c": -Infinity}',
    "surrogate": b'{"a": "\\ud800"}',
    "digits": b'{"a": ' + b"9" * 5000 + b"}",
}
VALUES = (
    None, True, False, -1, 0, 1, 2, 0.5, -0.5, 10**9, -(10**9), 10**30, 1e300, -1e300, 1e-300, float("nan"),
    float("inf"), "", "x", "../x", "/etc/passwd", "\x1b[2J\x1b]0;x\x07", "<script>alert(1)</script>", "nan", "\x00",
    "x" * 70_000, [], {}, [[]], [None], [1], ["x"], {"a": 1}, {"_target_": "os.mkdir"}, [0.0] * 70_000,
)  # fmt: skip


def spoil(path: Path, change: dict, other: Path | None = None) -> bool:
    """Changes a file; other: a file to swap in. False where the change leaves the file as it was."""
    before = path.read_bytes()
    DOING[change["do"]](path, change, before, other)
    return not path.is_file() or path.stat().st_size >= SPARSE or path.read_bytes() != before


def replace(path, content):
    """The file may be one of several links to the same: it is replaced, not written to."""
    mode = path.stat().st_mode
    path.unlink()
    path.write_bytes(content)
    path.chmod(mode)


def _place(change, length):
    return min(int(change["at"] * length), max(0, length - 1))


def cut(path, change, before, other):
    replace(path, before[: int(change["at"] * len(before))])


def flip(path, change, before, other):
    content = bytearray(before)
    if content:
        content[_place(change, len(content))] ^= 1 << (change["bit"] % 8)
    replace(path, bytes(content))


def block(path, change, before, other):
    """Sixteen bytes are overwritten."""
    start = _place(change, len(before))
    replace(path, before[:start] + bytes([change["bit"] * 31 % 256]) * 16 + before[start + 16 :])


def inserted(path, change, before, other):
    start = _place(change, len(before))
    replace(path, before[:start] + bytes([change["bit"] * 31 % 256]) * 7 + before[start:])


def repeated(path, change, before, other):
    """What comes from a place on is there twice."""
    replace(path, before + before[_place(change, len(before)) :])


def another_type(path, change, before, other):
    replace(path, OTHERS[change["type"]])


def gone(path, change, before, other):
    path.unlink()


def a_folder(path, change, before, other):
    path.unlink()
    path.mkdir()


def a_fifo(path, change, before, other):
    path.unlink()
    os.mkfifo(path)


def a_loop(path, change, before, other):
    path.unlink()
    path.symlink_to(path.name)


def a_device(path, change, before, other):
    path.unlink()
    path.symlink_to("/dev/zero" if change["bit"] % 2 else "/dev/null")


def sparse(path, change, before, other):
    replace(path, b"")
    os.truncate(path, SPARSE)


def swapped(path, change, before, other):
    if other is not None:
        path.unlink()
        shutil.copy(other, path)


def a_line(path, change, before, other):
    """A line of a text is taken away, there twice, or in another place."""
    lines = before.split(b"\n")
    index = _place(change, len(lines))
    line = lines.pop(index)
    way = change["bit"] % 3
    if way == 1:
        lines[index:index] = [line, line]
    elif way == 2:
        lines.insert(0, line)
    replace(path, b"\n".join(lines))


def a_value(path, change, before, other):
    """One value of a JSON file, or of one of its lines, is another, is nudged, or is taken away."""
    lines = before.splitlines(keepends=True) if path.suffix == ".jsonl" else [before]
    index = _place(change, len(lines))
    try:
        data = json.loads(lines[index])
    except ValueError:
        flip(path, change, before, other)
        return
    places = list(_places(data))
    if places:
        holder, key = places[_place({"at": change["where"]}, len(places))]
        _change(holder, key, change)
    lines[index] = json.dumps(data).encode() + b"\n" * (path.suffix == ".jsonl")
    replace(path, b"".join(lines))


def _change(holder, key, change):
    value = change["value"]
    if value == "remove":
        del holder[key]
    elif value == "nudge":
        holder[key] = _nudged(holder[key])
    else:
        holder[key] = VALUES[value % len(VALUES)]


def _nudged(value):
    """Nearly the same: the next number, another last letter."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return math.nextafter(value, math.inf) if abs(value) > 1 else value + 1e-9
    if isinstance(value, str):
        return f"{value[:-1]}{'0' if value[-1:] != '0' else '1'}"
    if isinstance(value, list):
        return [*value, *value[-1:]]
    return {**value, "further": 1} if isinstance(value, dict) else 0


def _places(data):
    """(what holds a value, its key) of every value, from the top down."""
    keys = list(data) if isinstance(data, dict) else range(len(data)) if isinstance(data, list) else ()
    for key in keys:
        yield data, key
        if not (isinstance(data[key], list) and len(data[key]) > 64):  # weights and random states: as a whole
            yield from _places(data[key])


DOING = {
    each.__name__: each
    for each in (cut, flip, block, inserted, repeated, another_type, gone, a_folder, a_fifo, a_loop, a_device, sparse,
                 swapped, a_line, a_value)
}  # fmt: skip
