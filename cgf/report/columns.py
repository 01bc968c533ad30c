"""One list of columns a table, with a writer for a README and one for the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from rich.table import Table

from cgf.types import Json

Entry = Json
NONE = "–"  # of a cell that has nothing to say


@dataclass(frozen=True)
class Column:
    """A title and what an entry has under it; ``detail``: shown on the terminal alone."""

    title: str
    cell: Callable[[Entry], str]
    detail: bool = False


def grid(titles: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A markdown table of cells."""
    cells = [titles, ["---"] * len(titles), *lines]
    return "\n".join("| " + " | ".join(line) + " |" for line in cells)


def markdown(columns: Sequence[Column], entries: Iterable[Entry]) -> str:
    """A markdown table of entries, details left out."""
    shown = [column for column in columns if not column.detail]
    return grid([column.title for column in shown], [[column.cell(entry) for column in shown] for entry in entries])


def terminal(columns: Sequence[Column], entries: Iterable[Entry], title: str | None = None) -> Table:
    """A rich table of entries, with every column."""
    table = Table(*(column.title for column in columns), title=title)
    for entry in entries:
        table.add_row(*(column.cell(entry).replace("[", r"\[") for column in columns))
    return table


def yes_or_no(value: bool) -> str:
    """A truth value as a word."""
    return "yes" if value else "no"


def or_none(value: float | str | None, form: str) -> str:
    """A number in a format; a word as it is, and None, of files from before it was stated, as 'none'."""
    return (value or "none") if isinstance(value, str | None) else format(value, form)


def or_dash(value: float | None, form: str = "") -> str:
    """A number in a format; a dash where there is none."""
    return NONE if value is None else format(value, form)


def median_and_range(seconds: dict[str, float], digits: int = 2) -> str:
    """'1.25 (1.20 to 1.44)', in seconds, to so many digits behind the point; the one figure where all are alike."""
    told, low, high = (f"{seconds[name]:.{digits}f}" for name in ("median", "low", "high"))
    return told if low == high else f"{told} ({low} to {high})"


def interval(ends: Sequence[float] | str | None) -> str:
    """'-128 to 0'; a word as it is, and None, of files from before it was stated, as 'none'."""
    return (ends or "none") if isinstance(ends, str | None) else f"{ends[0]:g} to {ends[1]:g}"
