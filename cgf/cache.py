"""Files that only save work: several runs share their folder, and each file appears whole."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import IO

from cgf.errors import UserError
from cgf.results import write_bytes


def keep(path: Path, save: Callable[[IO[bytes]], object], setting: str) -> None:
    """Writes what ``save`` puts into a file, whole or not at all; UserError, naming ``setting``, where that fails."""
    buffer = io.BytesIO()
    save(buffer)
    try:
        write_bytes(path, buffer.getvalue())
    except UserError as error:
        raise UserError(f"{setting} must be a folder that can be written: {error}") from None
