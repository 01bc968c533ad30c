"""Gathers the evaluations of a host's runs into one file below results/ (scripts/repo/tables.py makes the table of it).

python scripts/repo/collect.py outputs/results digits results/digits.json
"""

from __future__ import annotations

import sys
from pathlib import Path

from cgf.ending import refusals
from cgf.errors import UserError
from cgf.results import find_results, write_json


def gather(outputs: Path, host: str) -> list[dict]:
    """Every evaluation of the runs '<host>-*', each named by its run."""
    evaluations = []
    for run in sorted(outputs.glob(f"{host}-*")):
        for result in find_results(run):
            result.pop("_path")
            evaluations.append({"name": run.name, **result})
    if not evaluations:
        raise UserError(f"{outputs} holds no evaluation of a run named {host}-*: bash scripts/results.sh {host}")
    return evaluations


def main(arguments: list[str]) -> None:
    """Gathers the evaluations of the arguments: folder of runs, host, target."""
    if len(arguments) != 3:
        raise UserError(f"usage: {__doc__.splitlines()[2]}")
    outputs, host, target = arguments
    write_json(Path(target), {"evaluations": gather(Path(outputs), host)})
    print(target)


if __name__ == "__main__":
    with refusals():
        main(sys.argv[1:])
