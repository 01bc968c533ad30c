"""The server's preprocessing for a network of random weights: python -m cgf.suite.bundles SIZE SEED FOLDER"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from cgf.bundle.command import ended_well
from cgf.suite.network import NETWORKS, NetworkSize


def main(arguments: list[str] | None = None) -> int:
    """Writes both bundles; exit code 2, with one sentence, for bad input."""
    parser = argparse.ArgumentParser(prog="python -m cgf.suite.bundles", description="Makes a network's two bundles.")
    parser.add_argument("size", choices=list(NETWORKS))
    parser.add_argument("seed", type=int)
    parser.add_argument("folder", type=Path)
    parser.set_defaults(run=lambda given: NetworkSize.of(given.size).write_bundles(given.folder, given.seed))
    return ended_well(parser.parse_args(arguments))


if __name__ == "__main__":
    sys.exit(main())
