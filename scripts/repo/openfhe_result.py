"""What ran and passed on OpenFHE, from pytest's report: python scripts/repo/openfhe_result.py TESTS.xml OUT.json

Called by scripts/repo/test_openfhe.sh in its environment (numpy and scipy, no torch). Exit code 1 where a test failed
or none ran, 2 for bad input.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from pathlib import Path

from cgf.ending import refusals
from cgf.errors import UserError
from cgf.results import run_info, write_json
from cgf.types import Json


def counts(report: ET.Element) -> Json:
    """Tests by how they ended; those that were skipped did not run."""
    cases = list(report.iter("testcase"))
    skipped = sum(case.find("skipped") is not None for case in cases)
    failed = sum(case.find("failure") is not None or case.find("error") is not None for case in cases)
    run = len(cases) - skipped
    return {"tests_run": run, "tests_passed": run - failed, "tests_skipped": skipped}


def noted(report: ET.Element) -> Json:
    """What tests noted under dotted names beside passing: errors, levels, slots, seconds with keys."""
    figures: Json = {}
    for each in report.iter("property"):
        *above, last = str(each.get("name")).split(".")
        place = figures
        for part in above:
            place = place.setdefault(part, {})
        place[last] = _number(str(each.get("value")))
    return figures


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def main(words: list[str]) -> int:
    """Writes the file named; the exit code."""
    if len(words) != 2:
        raise UserError(f"openfhe_result.py takes pytest's report and a file to write, and {words} was given")
    try:
        report = ET.parse(words[0]).getroot()
    except (OSError, ET.ParseError) as error:
        raise UserError(f"{words[0]} must be a report of pytest --junitxml, and cannot be read: {error}") from None
    info = run_info()
    ended = counts(report)
    result = {
        **ended,
        "noted": noted(report),
        "versions": {k: v for k, v in info["versions"].items() if k in ("python", "openfhe", "desilofhe", "numpy")},
        "commit": info["git"]["commit"],
        "dirty": info["git"]["dirty"],
        "date": info["time_utc"][:10],
    }
    write_json(Path(words[1]), result)
    print(f"{words[1]}: {ended['tests_passed']} of {ended['tests_run']} tests passed, {ended['tests_skipped']} skipped")
    return int(ended["tests_passed"] < ended["tests_run"] or not ended["tests_run"])


if __name__ == "__main__":
    with refusals():
        sys.exit(main(sys.argv[1:]))
