"""One process at a time: a lock that the kernel takes back from a process however that ends."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO

from cgf.errors import UserError

TRIES = 100  # of a lock file whose folder others make and remove meanwhile

_held: dict[IO[str], Path] = {}


@contextmanager
def locked(path: Path, refusal: str) -> Iterator[IO[str]]:
    """Holds the lock file ``path`` for the length of a with block; yields the open file.

    The file and the folders above it are made where they are missing, and removed at the end (folders: those made here,
    where they are empty). A process that was killed leaves its file behind, and nobody is kept out by it. A forked
    process lets go of the lock; one that is started holds it too where it is given the file (``pass_fds``).
    Raises UserError(refusal) at once where another process, or another with block, holds the lock.
    """
    made = [folder for folder in path.parents if not folder.exists()]
    file = None
    try:
        file = _take(path, refusal)
        _held[file] = path
        yield file
    finally:
        if file is not None and not file.closed:  # closed: this is a fork of the process that holds it
            if _is_at(file, path):
                path.unlink()  # before it is let go of: whoever opened it meanwhile sees that it is gone
            file.close()
        if file is not None:
            _held.pop(file, None)
        for folder in made:
            with suppress(OSError):
                folder.rmdir()


def let_go() -> None:
    """Removes the lock files that this process holds, which is about to end without unwinding."""
    for file, path in list(_held.items()):
        with suppress(OSError, ValueError):
            if _is_at(file, path):
                path.unlink()


def _take(path: Path, refusal: str) -> IO[str]:
    """The lock file, open and locked."""
    _register()
    missed = 0
    while True:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = open(path, "a")  # noqa: SIM115  (it is open for as long as the lock is held)
        except OSError as error:
            # whoever made the folder may just have removed it again, but not time after time
            if isinstance(error, FileNotFoundError) and (missed := missed + 1) < TRIES:
                continue
            raise UserError(f"{path} cannot be made, and with it nothing beside it: {error.strerror}") from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.close()
            if isinstance(error, BlockingIOError):
                raise UserError(refusal) from None
            raise UserError(f"{path} needs a file system that locks files, and it does not: {error.strerror}") from None
        if _is_at(file, path):
            return file
        file.close()  # its holder removed it before it let go of it


def _is_at(file: IO[str], path: Path) -> bool:
    """Whether ``path`` still is the file that is open."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False


@cache
def _register() -> None:
    """A fork would hold the lock of a process that was killed for as long as it lives on itself."""
    os.register_at_fork(after_in_child=lambda: [file.close() for file in _held])
