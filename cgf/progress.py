"""Where long work is: one bar on a terminal, plain lines in a log, each with rate and time left."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # CPython 3.10, which OpenFHE's wheel is for, has no Self
    from typing import Self


class Bar:
    """Progress of ``total`` pieces of work, for the length of a with block.

    what      is being done, in a word or two;  unit: what the pieces are
    say       where lines go where there is no terminal
    every_s   seconds between the lines of ``advance`` in a log: short work says nothing there
    terminal  whether standard output is one; None: asked of it
    """

    def __init__(
        self,
        what: str,
        total: int,
        unit: str = "samples",
        *,
        say: Callable[[str], None] = print,
        every_s: float = 20.0,
        terminal: bool | None = None,
    ) -> None:
        self.what, self.total, self.unit = what, total, unit
        self._say, self._every_s = say, every_s
        self._terminal = sys.stdout.isatty() if terminal is None else terminal
        self._done = 0
        self._start = self._told = time.perf_counter()

    def __enter__(self) -> Self:
        self._start = self._told = time.perf_counter()
        if self._terminal:
            from rich.console import Console  # a tenth of a second to load, and a log needs none of it
            from rich.progress import BarColumn, Progress, TextColumn

            columns = ("{task.description}", BarColumn(24), "{task.percentage:3.0f} % {task.fields[text]}")
            texts = [TextColumn(c, markup=False) if isinstance(c, str) else c for c in columns]
            self._rich = Progress(*texts, console=Console(file=sys.stdout))
            self._task = self._rich.add_task(self.what, total=self.total, text="")
            self._rich.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._terminal:
            self._rich.stop()

    def show(self, done: float, text: str) -> None:
        """So much is done: the bar stands there with the text beside it; in a log the text is a line."""
        if self._terminal:
            self._rich.update(self._task, completed=done, text=text)
        else:
            self._say(text)

    def advance(self, count: int) -> None:
        """So many pieces more are done; rate and time left are told, in a log every ``every_s`` seconds."""
        self._done += count
        now = time.perf_counter()
        if not self._terminal and (now - self._told < self._every_s or self._done >= self.total):
            return
        self._told = now
        rate = self._done / max(1e-9, now - self._start)
        told = f"{rate:.1f} {self.unit}/s, {clock((self.total - self._done) / rate)} left"
        self.show(self._done, told if self._terminal else f"{self.what}: {self._done}/{self.total} {self.unit}, {told}")


def clock(seconds: float) -> str:
    """Minutes and seconds as 4:05, from an hour on with hours."""
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def duration(seconds: float) -> str:
    """Seconds in words with their units: 5 s, 4 min 5 s, 2 h 10 min."""
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
