"""The register of openings: each time that a test figure of a row was computed, on which day, by which commit and why.

A test figure is opened once a row. Whoever looks twice chooses by what was seen, so a second time needs a reason, which
the table of results then shows. The register is one JSON line an opening, and lines are only ever added.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cgf.errors import UserError
from cgf.results import append_line, read_lines, run_info
from cgf.types import Json

FIELDS = ("row", "figure", "date", "commit", "reason")
FIRST = "first"  # the reason of a first opening
TRAINED, PLANNED, CKKS = "trained", "planned", "ckks"  # figures: with the softmax as trained, with its plan, encrypted
Line = Json


def of_fold(figure: str, fold: int | None) -> str:
    """The name of a figure of one fold of a data set, each of which is opened by itself; None: of its own split."""
    return figure if fold is None else f"{figure} fold {fold}"


@dataclass(frozen=True)
class Register:
    """The file of openings. again: why figures that were opened before are opened once more; None: they are not."""

    path: Path
    again: str | None = None

    def lines(self) -> list[Line]:
        """All openings in the order in which they were written; UserError for a line that lacks a field."""
        lines = read_lines(self.path)
        for number, line in enumerate(lines, start=1):
            if not isinstance(line, dict) or not all(isinstance(line.get(key), str) for key in FIELDS):
                raise UserError(f"{self.path} needs {', '.join(FIELDS)} in each line, and line {number} has not")
        return lines

    def of(self, row: str) -> list[Line]:
        """The openings of a row, whatever figure."""
        return [line for line in self.lines() if line["row"] == row]

    def check_closed(self, names: list[str], figures: list[str] | None = None) -> None:
        """UserError where a figure of one of the rows was opened before, and ``again`` gives no reason.

        figures: those that matter; None: all.
        """
        lines = [line for line in self.lines() if figures is None or line["figure"] in figures]
        opened = {line["row"]: line for line in lines if line["row"] in names}
        if opened and self._reason() is None:
            told = ", ".join(f"{name} ({line['date']})" for name, line in opened.items())
            raise UserError(f'a test figure is opened once a row, and was of {told}: again="REASON" says why once more')

    def open(self, row: str, figure: str, of: str) -> None:
        """Writes down that a figure of a row is about to be computed.

        of: hash of what is evaluated. The same weights and plan give the same figure, so that an evaluation that was
        stopped is the same opening and writes nothing. UserError for another one without a reason.
        """
        before = [line for line in self.of(row) if line["figure"] == figure]
        if before and before[-1].get("of") == of:
            return
        if before:
            self.check_closed([row])
        git = run_info()["git"]
        append_line(
            self.path,
            {
                "row": row,
                "figure": figure,
                "date": datetime.now(UTC).date().isoformat(),
                "commit": git["commit"] or "none",
                "reason": self._reason() if before else FIRST,
                "of": of,
            },
        )

    def _reason(self) -> str | None:
        """What ``again`` says; None where it says nothing."""
        return (self.again or "").strip() or None
