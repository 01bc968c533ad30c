"""What the commands beside it that count have in common: settings key=value, lines to go on from, and an end."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

from cgf.checks import whole
from cgf.ending import quiet, refusals
from cgf.errors import UserError
from cgf.results import read_lines, run_info
from cgf.types import Json

Given = Json


def ends(main: Callable[[], int]) -> NoReturn:
    """Runs a command to its exit code: 2 after one sentence for bad input; quietly where it is stopped.

    Its processes compute on one core each, unless OMP_NUM_THREADS says otherwise.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with quiet(), refusals():
        sys.exit(main())


def help_of(text: str, defaults: dict[str, int | str]) -> NoReturn:
    """Prints what a command says of itself and its settings, and ends it."""
    print(f"{text.strip()}\n\nsettings: {' '.join(f'{name}={default}' for name, default in defaults.items())}")
    sys.exit(0)


def given(arguments: list[str], defaults: dict[str, int | str], least: dict[str, int] | None = None) -> Given:
    """The defaults with what was given in their place: numbers where the default is one, a Path for ``out``.

    least: the smallest value of a number, 1 where it names none. UserError for whatever else is given.
    """
    settings: Given = dict(defaults)
    if set(arguments) & {"--help", "-h"}:
        help_of(sys.modules["__main__"].__doc__ or "", defaults)
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


def kept(lines: Path, of: Given) -> dict[int, Given]:
    """The records of a file of lines that hold all of ``of``, by number; of several of one number the last counts."""
    return {
        record["number"]: record
        for record in read_lines(lines)
        if all(record.get(key) == value for key, value in of.items())
    }


def done(records: dict[int, Given], fine: Callable[[Given], bool], commit: str | None) -> set[int]:
    """The numbers that need not be run again: what was not ``fine`` at another commit may have been mended since."""
    return {number for number, record in records.items() if fine(record) or record["commit"] == commit}


def commits(records: list[Given]) -> dict[str, int]:
    """How many of the records are of each commit: a count that was gone on with may rest on several."""
    return dict(Counter(str(record["commit"]) for record in records))
