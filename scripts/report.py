"""Print the results under a folder and write them as one HTML page.

python scripts/report.py outputs/demo [--out report.html]
"""

from __future__ import annotations

if __name__ == "__main__":
    from cgf.stopping import from_the_start

    from_the_start()  # a signal while the libraries load ends the command in a line, too

import argparse
import sys
from pathlib import Path

from cgf.errors import UserError, sentence, shortage
from cgf.report.collect import collect
from cgf.results import plain_json, write_json

WIDTH_WITHOUT_TERMINAL = 160
EXAMPLES = """examples:
  python scripts/report.py outputs/demo
  python scripts/report.py outputs/demo --out report.html
  python scripts/report.py outputs/demo --cards cards.json
  cgf report outputs"""


def main() -> int:
    """Collects a folder, and writes its page and tables."""
    parser = argparse.ArgumentParser(
        description="Print the results under a folder and write an HTML page.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("root", type=Path, help="folder with training runs and their checkpoints")
    parser.add_argument("--out", type=Path, help="where the page goes (default: report.html in the folder)")
    parser.add_argument("--cards", type=Path, help="JSON file for the four cards of every encrypted evaluation")
    args = parser.parse_args()
    from rich.console import Console  # seconds with what comes below: not for --help

    from cgf.report import cards, page, scopes, tables

    console = Console(width=None if sys.stdout.isatty() else WIDTH_WITHOUT_TERMINAL)
    try:
        inputs = collect(args.root)
        table_rows = tables.table_rows(inputs.results)
        if table_rows:
            console.print(tables.terminal(table_rows, title=page.scope(inputs.results)))
        if (beside := scopes.side_by_side(inputs.results)) is not None:
            console.print(beside)
        for row in tables.other_rows(inputs.results):
            fields = (f"{key} {tables.plain(value)}" for key, value in row.items())
            console.print(", ".join(fields), markup=False)
        if args.cards is not None:
            write_json(args.cards, {"cards": plain_json(cards.all_cards(inputs.results))})
            print(args.cards)
        print(page.write_page(inputs, args.out or args.root / "report.html"))
    except UserError as error:
        print(sentence(error), file=sys.stderr)
        return 2
    except OSError as error:
        if (short_of := shortage(error)) is None:
            raise
        print(sentence(short_of), file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    from cgf.ending import quiet

    with quiet():
        sys.exit(main())
