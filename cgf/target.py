"""Where a result may be written to, and what may be read whole."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from cgf.errors import UserError, disk_is_full, memory_is_out, with_reason

if TYPE_CHECKING:
    from torch import Tensor


def regular(path: str | os.PathLike) -> Path:
    """The file that is written where ``path`` is given: a symbolic link's target, else ``path``; its folder is made.

    UserError where it is there and no regular file (a folder, a device, a fifo, a socket), and where its folder
    cannot be made.
    """
    target = Path(os.path.realpath(path)) if os.path.islink(path) else Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = target.stat().st_mode
    except FileNotFoundError:
        return target
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}") from None
    if not stat.S_ISREG(mode):
        kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a fifo", stat.S_IFSOCK: "a socket"}
        raise UserError(
            f"{path} must be a regular file to be written to, and is {kinds.get(stat.S_IFMT(mode), 'a device')}"
        )
    return target


@contextmanager
def writing(path: str | os.PathLike) -> Iterator[None]:
    """For what writes to ``path``: UserError with the system's reason where it cannot.

    A disk or a memory that is full passes as it is (see ``cgf.errors.shortage``).
    """
    try:
        yield
    except OSError as error:
        if error.errno is None or disk_is_full(error) or memory_is_out(error):
            raise
        raise UserError(f"{path} cannot be written: {error.strerror}") from None


def check_writable(path: str | os.PathLike) -> None:
    """Before the work whose result goes to ``path``: UserError where no file can be made there.

    A file without a name is made in the folder, or in the first one above it that is there, since root may write to
    everything by its rights, and yet to neither /sys nor a disk that is mounted read-only.
    """
    target = Path(os.path.realpath(path))
    there = next(folder for folder in target.parents if os.path.lexists(folder))
    with writing(path), tempfile.TemporaryFile(dir=there):
        pass


def content_of(path: str | os.PathLike, most: int = 2**28) -> bytes:
    """All bytes of a file, which must be a regular one of at most ``most`` bytes.

    UserError for any other: a fifo would wait without end, a device and a file of holes take all memory. OSError where
    it cannot be opened, as for any file.
    """
    check_regular(path, most)
    return Path(path).read_bytes()


def check_regular(path: str | os.PathLike, most: int | None = None) -> None:
    """UserError where ``path`` is there and no regular file, or of more than ``most`` bytes; folders say so on opening.

    OSError where nothing is known of it.
    """
    about = os.stat(path)
    if not stat.S_ISREG(about.st_mode) and not stat.S_ISDIR(about.st_mode):
        raise UserError(f"{path} must be a regular file to be read, and is none")
    if most is not None and about.st_size > most:
        raise UserError(f"{path} may have {most} bytes, and has {about.st_size}: it is not what it should be")


def file_hash(path: str | os.PathLike, most: int | None = None) -> str:
    """sha256 of a file, read piece by piece. UserError where it cannot be read, or is no regular file."""
    try:
        check_regular(path, most)
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None


def tensors_of(path: str | os.PathLike) -> dict[str, Tensor]:
    """The tensors of a safetensors file by their names. UserError for what is no such file, or cannot be read."""
    from safetensors.torch import load_file

    with with_reason(f"{path} cannot be read"):
        check_regular(path)
        return load_file(path)


def result_file(out: str | os.PathLike) -> Path:
    """The path of a result file that a setting ``out`` gives; UserError unless it ends in .json and can be written."""
    if not isinstance(out, str | os.PathLike):
        raise UserError(f"out must name a file that ends in .json, and {out!r} was given")
    path = Path(out).expanduser()
    if path.suffix != ".json":
        raise UserError(f"out must name a file that ends in .json, and {str(out)!r} was given")
    if path.exists() or path.is_symlink():
        regular(path)
    check_writable(path)
    return path
