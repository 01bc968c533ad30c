"""Softmax, attention and a whole network, stage by stage: python scripts/bench/fhe_suite.py softmax attention network

In the shape of the FHE benchmarking suite of HomomorphicEncryption.org: each stage is a process, files lie between the
client and the server, and each workload and size ends in PASS or FAIL. Exit code 1 where one fails, 2 for bad input.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from cgf.bundle.command import ended_well
from cgf.bundle.sides import ClientBundle
from cgf.errors import UserError
from cgf.results import run_info, write_json
from cgf.suite.harness import WORKLOADS, carried_out, check
from cgf.suite.sides import ENGINES
from cgf.suite.workloads import SIZES
from cgf.target import result_file
from cgf.types import Json


def main(arguments: list[str] | None = None) -> int:
    """Runs the workloads that the command line names; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="+", metavar="WORKLOAD", help=f"of {', '.join(WORKLOADS)}")
    parser.add_argument("--sizes", nargs="+", choices=SIZES, help="of random data and weights (default: toy)")
    parser.add_argument("--engine", default="desilo", choices=ENGINES, help="sim encrypts nothing (default: desilo)")
    parser.add_argument("--seed", type=int, help="of the data and random weights (default: 42)")
    parser.add_argument(
        "--runs", type=int, default=1, help="of each workload and size, random data of the next seed each (default: 1)"
    )
    parser.add_argument("--io", type=Path, help="new folder that keeps all files (default: none is kept)")
    parser.add_argument("--bundles", type=Path, help="client/ and server/ of a trained network, with images.npy")
    parser.add_argument("--out", help="result file (.json)")
    given = parser.parse_args(arguments)
    failed: list[str] = []
    given.run = lambda _: failed.extend(measured(given))
    return ended_well(given) or int(bool(failed))


def measured(given: argparse.Namespace) -> list[str]:
    """Writes the result where one is asked for, as far as it is, after each workload; names of what failed."""
    if given.bundles is not None and (
        idle := [f"--{key}" for key in ("sizes", "seed") if getattr(given, key) is not None]
    ):
        raise UserError(f"{idle[0]} is of random data, and --bundles gives a network and its images: leave one out")
    seed, sizes = (42 if given.seed is None else given.seed), given.sizes or ["toy"]
    if given.runs < 1 or seed < 0:
        raise UserError(f"--runs must be at least 1 and --seed at least 0, and they are {given.runs} and {seed}")
    if given.bundles is not None:
        sizes = [ClientBundle.read(given.bundles / "client").agreement.name]
    out = None if given.out is None else result_file(given.out)
    results: list[Json] = []
    with tempfile.TemporaryDirectory(prefix="fhe_suite_") as scratch:
        folder = given.io or Path(scratch)
        every = [
            (workload, size, folder / f"{workload}-{size.replace('/', '-')}-{run + 1}", seed + run)
            for workload in given.workloads
            for size in sizes
            for run in range(given.runs)
        ]
        for workload, size, place, _ in every:  # all of them before the first takes its minutes
            check(workload, size, given.engine, place, given.bundles)
        for workload, size, place, own in every:
            results.append(carried_out(workload, size, given.engine, own, place, say, bundles=given.bundles))
            if out is not None:
                run = run_info(vars(given) | {"run": None, "sizes": sizes}, seed)
                write_json(out, {"kind": "fhe_suite", "rows": results, "run": run})
    if out is not None:
        say(str(out))
    return [f"{row['workload']} {row['size']}" for row in results if row["verdict"] != "PASS"]


def say(line: str) -> None:
    """A line, at once where it goes to a file too."""
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
