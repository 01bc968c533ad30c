"""Files that only save work: several runs share their folder, and each file appears whole."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from pathlib import Path

from cgf.errors import UserError


def keep(path: Path, save: Callable[[Path], None], setting: str) -> None:
    """``save`` to a name of its own beside ``path``, then renamed; UserError, naming the setting, where that fails."""
    part = path.with_name(f".{path.stem}.{uuid.uuid4().hex}{path.suffix}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save(part)
        os.replace(part, path)
    except OSError as error:
        raise UserError(
            f"{setting} must be a folder that can be written, and {path.parent} is not: {error.strerror}"
        ) from None
    finally:
        if part.parent.is_dir():
            part.unlink(missing_ok=True)
