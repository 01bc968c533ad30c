"""Ring, moduli and secret of desilofhe's engines beside the 128-bit bound: python scripts/bench/parameters.py

Writes results/bench/parameters.json. The keys of the largest engine take 2 GiB of memory for some seconds.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from cgf.bench.parameters import LEVELS, measure
from cgf.errors import UserError
from cgf.report.parameters import TITLES, lines
from cgf.results import run_info, write_json
from cgf.target import result_file


def main(arguments: list[str] | None = None) -> int:
    """Measures, writes and prints; exit code 2, with one sentence, for levels that no engine has."""
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("levels", nargs="*", type=int, help="max_level of engines (default: those of the table)")
    parser.add_argument("--out", type=Path, default=Path("results/bench/parameters.json"))
    given = parser.parse_args(arguments)
    try:
        out = result_file(given.out)
        result = measure(given.levels or LEVELS)
        write_json(out, {**result, "run": run_info({"levels": given.levels})})
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for line in [TITLES, *lines(result)]:
        print("  ".join(cell.ljust(12) for cell in line))
    print(out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
