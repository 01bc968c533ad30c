"""One stage of a workload: python -m cgf.suite client_key_generation softmax toy --own client --shared shared"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from cgf.bundle.command import ended_well
from cgf.suite.sides import ENGINES
from cgf.suite.stages import STAGES, Place
from cgf.suite.workloads import SIZES


def main(arguments: list[str] | None = None) -> int:
    """Runs the stage that the command line names; exit code 2, with one sentence, for bad input."""
    parser = argparse.ArgumentParser(prog="python -m cgf.suite", description="Runs one stage of a workload.")
    parser.add_argument("stage", choices=list(STAGES))
    parser.add_argument("workload", choices=("softmax", "attention"))
    parser.add_argument("size", choices=SIZES)
    parser.add_argument("--engine", default="desilo", choices=ENGINES, help="default: desilo")
    parser.add_argument("--own", type=Path, required=True, help="folder of the client, or of the server, alone")
    parser.add_argument("--shared", type=Path, required=True, help="folder of what goes from one to the other")
    parser.set_defaults(run=run)
    return ended_well(parser.parse_args(arguments))


def run(given: argparse.Namespace) -> None:
    """The stage."""
    STAGES[given.stage](Place.of(given.workload, given.size, given.engine, given.own, given.shared))


if __name__ == "__main__":
    sys.exit(main())
