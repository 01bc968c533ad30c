"""What SIGINT, SIGTERM and SIGHUP do to a command: one line and an end at once, no traceback, its lock files removed.

Every file of this project is written so that a kill at any moment leaves it whole, so nothing is waited for: a command
in the middle of a circuit or of a training step ends as soon as a thread of its own gets its turn.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache

from cgf.lock import let_go

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
FLUSH_S = 1.0  # what was printed before has so long to reach a reader that may be gone


def from_the_start() -> None:
    """From here on SIGINT, SIGTERM and SIGHUP end this process as in ``ends_at_once``: while its libraries load, too.

    For the first lines of a command's own file, before it imports anything else, and for no library: a program that
    imports this project keeps its handlers. A signal that comes while one library loads waits for the end of that.
    One that is ignored, as SIGHUP under nohup, stays ignored.
    """
    _register()
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _at_once)


@contextmanager
def ends_at_once() -> Iterator[None]:
    """In a with block SIGINT, SIGTERM and SIGHUP end this process with exit code 128 + their number.

    A signal that is ignored stays ignored. Without effect outside the main thread, which alone may take signals, and
    within another such block. Processes that are forked here have the system's own ends back.
    """
    numbers = [n for n in SIGNALS if signal.getsignal(n) not in (signal.SIG_IGN, _noted)]
    if threading.current_thread() is not threading.main_thread() or not numbers:
        yield
        return
    _register()
    read, write = os.pipe()
    os.set_blocking(write, False)
    before = {number: signal.signal(number, _noted) for number in numbers}
    woken = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(read,), daemon=True).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(woken)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(write)


def _at_once(number: int, frame: object) -> None:
    """The handler before any work begins: the main thread's own."""
    _end(number)


def _noted(number: int, frame: object) -> None:
    """The thread that watches does the rest: this one may be in a library for minutes."""


def _watch(read: int) -> None:
    """Waits for a signal's number in the pipe; ends where the pipe is closed."""
    while told := os.read(read, 1):
        if told[0] in SIGNALS:
            _end(told[0])
    os.close(read)


def _end(number: int) -> None:
    """The line, and the end of this process."""
    flushing = threading.Thread(target=_flush, daemon=True)
    flushing.start()
    flushing.join(FLUSH_S)
    name = signal.Signals(number).name
    with suppress(OSError):
        os.write(2, f"stopped by {name}: what was finished is whole, and the same command goes on from it\n".encode())
    let_go()
    os._exit(128 + number)


def _flush() -> None:
    with suppress(OSError, ValueError):
        sys.stdout.flush()


_masks = threading.local()  # of the thread that forks: its signals' mask before


@cache
def _register() -> None:
    os.register_at_fork(before=_held_back, after_in_parent=_let_through, after_in_child=_as_before)


def _held_back() -> None:
    """A signal that a fork gets before its handlers are its own waits: noted there, it would end the parent."""
    _masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)


def _let_through() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _masks.before)


def _as_before() -> None:
    """In a fork: a signal that it gets is its own, and none of its parent's."""
    if any(signal.getsignal(number) is _noted for number in SIGNALS):
        signal.set_wakeup_fd(-1)
    for number in SIGNALS:
        if signal.getsignal(number) in (_noted, _at_once):
            signal.signal(number, signal.SIG_DFL)
    _let_through()
