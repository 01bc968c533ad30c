"""What the commands of both sides share: their parsers, the sentence for bad input, and files by their ending."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from cgf.ending import quiet
from cgf.errors import UserError, disk_is_full, inert, sentence, shortage
from cgf.stopping import ends_at_once

Run = Callable[[argparse.Namespace], None]
Command = Callable[[str, str, Run], argparse.ArgumentParser]


def parsers(program: str, about: str, examples: str) -> tuple[argparse.ArgumentParser, Command]:
    """A program's parser, and what adds a command to it: (name, what it does, what runs it)."""
    parser = argparse.ArgumentParser(
        prog=program, description=about, epilog=examples, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, does: str, run: Run) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=does, description=does[:1].upper() + does[1:] + ".")
        made.set_defaults(run=run)
        return made

    return parser, command


def ended_well(given: argparse.Namespace) -> int:
    """Runs the command; its exit code: 2, with one sentence, for bad input and where a file cannot be made."""
    try:
        with quiet(), ends_at_once():
            given.run(given)
    except UserError as error:
        print(sentence(error), file=sys.stderr)
        return 2
    except OSError as error:
        what = "the disk is full" if disk_is_full(error) else error.strerror or str(error)
        print(inert(f"error: {error.filename or 'a file'}: {what}; what was finished before is whole"), file=sys.stderr)
        return 2
    except Exception as error:  # of libraries, which say in a text alone that memory ran out
        if (short_of := shortage(error)) is None:
            raise
        print(sentence(short_of), file=sys.stderr)
        return 2
    return 0


def files_of(path: Path, ending: str) -> list[Path]:
    """The files of a folder that end so, by name, or the one that is named. UserError where there are none."""
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.iterdir() if file.suffix == ending)
    if not files:
        raise UserError(f"{path} must hold files that end in {ending}, and holds none")
    return files
