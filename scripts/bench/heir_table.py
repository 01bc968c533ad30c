"""Writes the operation times as HEIR's cost model: python scripts/bench/heir_table.py OUT.json --bootstrap-ms 41800

HEIR reads it with orbit-cost-model=OUT.json. The bootstrap is not in the table of times: give what yours takes.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from cgf.errors import UserError
from cgf.plan.heir import latency_table
from cgf.plan.op_times import table_of
from cgf.results import write_json
from cgf.target import result_file


def main() -> int:
    """Reads the table of times and writes the other shape."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="file to write (.json)")
    parser.add_argument("--bootstrap-ms", type=float, required=True, help="milliseconds of one bootstrap")
    parser.add_argument("--max-level", type=int, default=10, help="of the engine whose times are taken (default 10)")
    parser.add_argument("--times", help="file of operation times (default: the table that comes with the package)")
    parser.add_argument("--engine", default="desilo", help="whose times they are (default desilo)")
    args = parser.parse_args()
    try:
        times = table_of(args.times, args.engine)
        if times is None:
            raise UserError(f"the table of operation times is of another engine than {args.engine}: --times FILE")
        write_json(result_file(str(args.out)), latency_table(times, args.max_level, args.bootstrap_ms))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(args.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
