"""How a command ends that refuses, that its user stops (Ctrl-C) or no longer reads (`| head`): in a line at most."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

from cgf.errors import UserError, sentence

STOPPED, UNREAD = 130, 141  # as a shell reports a process that SIGINT or SIGPIPE ended
GOES_ON = "stopped: what was finished before is whole, and the same command goes on from there or starts anew"


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Turns KeyboardInterrupt and BrokenPipeError into an exit code: one line for the first, none for the second.

    A pipe that is closed is often met when Python flushes stdout at its very end, so it is flushed here. Raises
    SystemExit.
    """
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:
        with contextlib.suppress(OSError):
            print(GOES_ON, file=sys.stderr)
        _no_more_output()
        sys.exit(STOPPED)
    except BrokenPipeError:
        _no_more_output()
        sys.exit(UNREAD)


@contextlib.contextmanager
def refusals() -> Iterator[None]:
    """Turns a UserError into its sentence on stderr and exit code 2. Raises SystemExit."""
    try:
        yield
    except UserError as error:
        print(sentence(error), file=sys.stderr)
        sys.exit(2)


def _no_more_output() -> None:
    """What is still in the buffer of stdout goes nowhere, or Python would complain of it at its end."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
