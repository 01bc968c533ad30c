"""Results that a table may show: made from a tree whose every change is in a commit."""

from __future__ import annotations

from pathlib import Path

from cgf.errors import UserError
from cgf.results import read_json
from cgf.types import Json


def clean(path: Path) -> Json:
    """A result under CKKS; UserError where it, or any batch of it, came from a changed tree.

    One that says why that changed nothing (``dirty_corrected``) is taken.
    """
    result = read_json(path)
    git = result.get("run", {}).get("git", {})
    parts = [git, *(result.get("made_by") or [])]
    if "dirty_corrected" not in result and any(part.get("dirty") for part in parts):
        raise UserError(f"{path} must come from a clean tree to be shown, and its tree was changed: evaluate it anew")
    return dict(result)
