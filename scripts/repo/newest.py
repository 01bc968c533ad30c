"""What breaks with the newest versions of all that is pinned: bash scripts/repo/supply.sh newest [TESTS ...]

supply.sh calls it in two steps. ``names`` prints the packages of pyproject.toml without their versions, for pip to
install the newest of. ``result REPORT OUT`` runs in the environment that pip made of them: it writes each package's
pinned and newest version, and the tests of pytest's report that failed, to OUT. Exit code 1 where a test failed or none
ran, 2 for bad input.
"""

from __future__ import annotations

import sys
import tomllib
import xml.etree.ElementTree as ET
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from packaging.requirements import Requirement

from cgf.ending import refusals
from cgf.errors import UserError
from cgf.results import run_info, write_json
from cgf.types import Json

ROOT = Path(__file__).resolve().parents[2]
EXTRAS = ("models", "dev", "docs")
LINE = 160  # characters kept of what a failed test says


def pinned() -> dict[str, str]:
    """The version that pyproject.toml pins, by package, of the dependencies and the extras that the tests need."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = project["dependencies"] + [line for extra in EXTRAS for line in project["optional-dependencies"][extra]]
    pins = [Requirement(line) for line in lines]
    return {pin.name: str(pin.specifier).removeprefix("==") for pin in pins}


def installed(name: str) -> str | None:
    """The version of a package in this environment; None where it has none."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def failures(report: ET.Element) -> dict[str, str]:
    """The first line of what each failed test says, by the test's name."""
    told = {}
    for case in report.iter("testcase"):
        for part in [*case.findall("failure"), *case.findall("error")]:
            first = next(iter(part.get("message", "").splitlines()), "")
            told[f"{case.get('classname')}::{case.get('name')}"] = first[:LINE]
    return told


def result(report: ET.Element) -> Json:
    """Packages whose newest version is another than the pinned one, and how the tests ended with all newest ones."""
    cases = list(report.iter("testcase"))
    skipped = sum(case.find("skipped") is not None for case in cases)
    failed = failures(report)
    run = len(cases) - skipped
    versions = {name: {"pinned": pin, "newest": installed(name)} for name, pin in pinned().items()}
    return {
        "packages": len(versions),
        "newer": {name: both for name, both in versions.items() if both["newest"] != both["pinned"]},
        "tests_run": run,
        "tests_passed": run - len(failed),
        "tests_skipped": skipped,
        "failed": failed,
        "python": sys.version.split()[0],
        **run_info()["git"],
    }


def main(words: list[str]) -> int:
    """One of the two steps; the exit code."""
    if words == ["names"]:
        print("\n".join(pinned()))
        return 0
    if len(words) != 3 or words[0] != "result":
        raise UserError(f"newest.py takes names, or result and two files (report, out), and {words} was given")
    try:
        report = ET.parse(words[1]).getroot()
    except (OSError, ET.ParseError) as error:
        raise UserError(f"{words[1]} must be a report of pytest --junitxml, and cannot be read: {error}") from None
    told = result(report)
    Path(words[2]).parent.mkdir(parents=True, exist_ok=True)
    write_json(Path(words[2]), told)
    print(
        f"{words[2]}: {told['tests_passed']} of {told['tests_run']} tests passed, {len(told['newer'])} packages newer"
    )
    return 0 if told["tests_run"] and not told["failed"] else 1


if __name__ == "__main__":
    with refusals():
        sys.exit(main(sys.argv[1:]))
