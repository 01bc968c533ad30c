"""Settings key=value of the commands beside it that count: defaults, whole numbers and a folder for results."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from cgf.checks import whole
from cgf.errors import UserError
from cgf.results import run_info
from cgf.types import Json

Given = Json


def given(arguments: list[str], defaults: dict[str, int | str], least: dict[str, int] | None = None) -> Given:
    """The defaults with what was given in their place: numbers where the default is one, a Path for ``out``.

    least: the smallest value of a number, 1 where it names none. UserError for whatever else is given.
    """
    settings: Given = dict(defaults)
    for text in arguments:
        key, equals, value = text.partition("=")
        if not equals or key not in defaults:
            told = ", ".join(f"{name}={default}" for name, default in defaults.items())
            raise UserError(f"settings are {told}, and {text!r} was given")
        if isinstance(defaults[key], int):
            number = int(value) if value.isdecimal() and len(value) < 12 else value
            settings[key] = whole(key, number, (least or {}).get(key, 1), 10**9)
        else:
            settings[key] = value
    return settings | {"out": Path(settings["out"])}


def about(seed: int | None = None) -> Given:
    """Commit, whether anything was changed since, and the day; the seed, where there is one."""
    told = {**run_info()["git"], "date": datetime.now(UTC).date().isoformat()}
    return told if seed is None else {"seed": seed, **told}
