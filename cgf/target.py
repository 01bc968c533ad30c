"""Where a result may be written to."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from cgf.errors import UserError


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


def result_file(out: str | os.PathLike) -> Path:
    """The path of a result file that a setting ``out`` gives; UserError unless it ends in .json and can be written."""
    path = Path(out).expanduser()
    if path.suffix != ".json":
        raise UserError(f"out must name a file that ends in .json, and {str(out)!r} was given")
    if path.exists() or path.is_symlink():
        regular(path)
    return path
