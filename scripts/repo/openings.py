"""Adds to results/opened.jsonl what the history of the result files tells and the register lacks: --check only counts

Rows of before the register, and results of commands that do not write it (whole test sets under CKKS), get in so.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from cgf.ending import refusals
from cgf.errors import UserError
from cgf.report.opened import FILE, missing
from cgf.results import append_lines

ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    """Appends the openings; with --check refuses where there are any to append."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split(":")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail where openings are missing")
    arguments = parser.parse_args()
    absent = missing(ROOT / "results")
    if absent and arguments.check:
        raise UserError(f"{FILE} lacks {len(absent)} openings: python scripts/repo/openings.py")
    if absent:
        append_lines(ROOT / "results" / FILE, absent)
    print(f"{len(absent)} openings added")


if __name__ == "__main__":
    with refusals():
        main()
