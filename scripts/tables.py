"""Writes the tables of the README from results/: python scripts/tables.py   (--check: fails where one is stale)"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from cgf.errors import UserError
from cgf.report.blocks import filled
from cgf.report.whole import draw
from cgf.results import write_text

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a table is stale")
    parser.add_argument("--results", type=Path, default=ROOT / "results")
    parser.add_argument("documents", nargs="*", type=Path, default=[ROOT / "README.md"])
    arguments = parser.parse_args()
    for path in arguments.documents:
        if not path.is_file():
            raise UserError(f"a document with tables is needed, and {path} is not there")
        text = path.read_text(encoding="utf-8")
        new = filled(text, arguments.results)
        if arguments.check and new != text:
            raise UserError(f"{path.name} has stale tables: python scripts/tables.py")
        if new != text:
            write_text(path, new)
        print(path)
    if not arguments.check and (arguments.results / "he").is_dir():
        figure = arguments.results / "he" / "cost_accuracy.png"
        figure.write_bytes(draw(arguments.results))
        print(figure)


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
