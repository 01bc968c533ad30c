"""Files that a command makes of others: written where they differ, or named where a check finds them stale."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def write_or_check(made: Mapping[Path, str], command: str, check: bool) -> int:
    """Writes each text to its path where the file holds another; with ``check`` it writes nothing.

    command: what writes them, for the message. Returns the exit code: 1 where a check found a stale file, else 0.
    """
    code = 0
    for path, new in made.items():
        if path.is_file() and path.read_text(encoding="utf-8") == new:
            continue
        name = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
        if check:
            code = 1
            print(f"error: {name} is stale: python {command}", file=sys.stderr)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(new, encoding="utf-8")
            print(name)
    return code


def maker(
    make: Callable[[], Mapping[Path, str]], about: str, command: str, arguments: Sequence[str] | None = None
) -> int:
    """A maker's whole command line: writes what ``make`` gives by path, or with --check refuses what is stale.

    about: the description for --help. arguments: the command line's, without them. Returns the exit code, 1 with one
    sentence where ``make`` raises LookupError: something that the files are made of is missing.
    """
    parser = argparse.ArgumentParser(prog=command.rpartition("/")[2], description=about)
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 where a file is stale")
    check = parser.parse_args(arguments).check
    try:
        made = make()
    except LookupError as error:
        print(f"error: {error.args[0]}", file=sys.stderr)
        return 1
    return write_or_check(made, command, check)
