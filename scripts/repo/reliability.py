"""Payloads, bad inputs, faults and long runs in one file of counts: python scripts/repo/reliability.py seed=3 hours=3

Each part writes its own file into <out>/reliability/ and goes on where it was stopped, so that a second call does what
is left. One that takes longer than its share of the hours is stopped there, and counts what it has. In
<out>/reliability.json are the counts of all, null where a part has no file: OpenFHE's tests (openfhe.json) and Slurm's
jobs (slurm.json) have commands of their own. Exit code 1 unless every bad input was refused, every fault was survived,
and no payload ran. seed is that of the bad inputs. short=1 takes few of each part. count=1 runs none and counts what is
there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from given import about, ends, given  # noqa: E402

from cgf.results import read_json, write_json  # noqa: E402
from cgf.types import Json  # noqa: E402

DEFAULTS: dict[str, int | str] = {"seed": 3, "faults_seed": 1, "hours": 3, "short": 0, "count": 0, "out": "results"}
SHARES = {"bad_inputs": 0.5, "faults": 0.4}  # of the hours; payloads and long runs take minutes
WHOLE = {"cases": 2000, "faults": 200, "evaluations": 2000, "steps": 20_000}
SHORT = {"cases": 6, "faults": 2, "evaluations": 400, "steps": 600}
FIELDS = {  # field: (file, key)
    "payloads_tried": ("payloads", "payloads_tried"),
    "payloads_run": ("payloads", "payloads_run"),
    "bad_inputs": ("bad_inputs", "bad_inputs"),
    "bad_inputs_refused": ("bad_inputs", "bad_inputs_refused"),
    "faults_injected": ("faults", "faults_injected"),
    "faults_survived": ("faults", "faults_survived"),
    "fuzz_cases": ("fuzz", "fuzz_cases"),
    "fuzz_findings_open": ("fuzz", "fuzz_findings_open"),
    "slurm_jobs": ("slurm", "slurm_jobs"),
    "openfhe_tests_run": ("openfhe", "tests_run"),
}
NONE = ("payloads_run", "tracebacks", "hangs", "fuzz_findings_open")
ALIKE = (("bad_inputs_refused", "bad_inputs"), ("faults_survived", "faults_injected"))
Process = Callable[[list[str]], int]


def process(line: list[str]) -> int:
    """A part's own process: its exit code. line: a script below the root, or '-m' and a module, with arguments."""
    where = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.run([sys.executable, *line], cwd=ROOT, env=where).returncode


def main(run: Process = process) -> int:
    """All parts that are not done, then the counts of all; run: what runs a part, an exit code."""
    asked = given(sys.argv[1:], DEFAULTS, {"seed": 0, "faults_seed": 0, "short": 0, "count": 0})
    folder, sizes = (asked["out"] / "reliability").absolute(), SHORT if asked["short"] else WHOLE
    folder.mkdir(parents=True, exist_ok=True)
    if not asked["count"]:
        parts(folder, run, asked, sizes)
    counts = counted(folder)
    write_json(asked["out"] / "reliability.json", counts)
    print(json.dumps(counts, indent=2))
    for line in faults_of(counts):
        print(f"not as promised: {line}", file=sys.stderr)
    return 1 if faults_of(counts) else 0


def parts(folder: Path, run: Process, asked: Json, sizes: dict[str, int]) -> None:
    """Payloads, faults, long runs and bad inputs, each from where it was stopped."""
    seconds = {part: f"seconds={max(1, int(share * asked['hours'] * 3600))}" for part, share in SHARES.items()}
    seed, out = f"seed={asked['seed']}", f"out={folder}"
    payloads(folder, run, bool(asked["short"]))
    faults = [f"seed={asked['faults_seed']}", f"faults={sizes['faults']}", seconds["faults"]]
    run(["scripts/repo/faults.py", *faults, out])
    long_runs = [f"evaluations={sizes['evaluations']}", f"steps={sizes['steps']}"]
    run(["scripts/repo/long_runs.py", *long_runs, *(["engine=sim"] if asked["short"] else []), out])
    run(["scripts/repo/bad_inputs.py", seed, f"cases={sizes['cases']}", seconds["bad_inputs"], out])


def payloads(folder: Path, run: Process, short: bool) -> None:
    """Counts of the payloads that the tests put into every file of a checkpoint; done once a commit."""
    told, path = about(), folder / "payloads.json"
    if path.exists() and not told["dirty"] and read_json(path)["commit"] == told["commit"]:
        return
    with TemporaryDirectory(prefix="cgf-payloads-") as place:
        page = Path(place) / "tests.xml"
        chosen = ["-k", "nested_torch or plan_of_code or auto_map"] if short else []
        options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", f"--junit-xml={page}", *chosen]
        run(["-m", "pytest", "tests/cli/test_payloads.py", *options])
        if page.exists():
            write_json(path, {**payloads_of(page.read_text()), **told})


def payloads_of(page: str) -> dict[str, int]:
    """Payloads tried, those that left their mark, and tests that failed, from JUnit's XML of the tests of payloads."""
    ran, failed = [], 0
    for case in ET.fromstring(page).iter("testcase"):
        marks = [each.get("value") for each in case.iter("property") if each.get("name") == "payload_ran"]
        ran += [mark == "True" for mark in marks]
        failed += any(case.find(kind) is not None for kind in ("failure", "error"))
    return {"payloads_tried": len(ran), "payloads_run": sum(ran), "tests_failed": failed}


def counted(folder: Path) -> Json:
    """The counts of all parts that have a file in the folder; None for those of a part that has none."""
    files = {path.stem: read_json(path) for path in sorted(folder.glob("*.json"))}
    figures: Json = {field: files[name][key] if name in files else None for field, (name, key) in FIELDS.items()}
    for field, verdict in (("tracebacks", "traceback"), ("hangs", "hang")):
        both = [files[name] for name in ("bad_inputs", "faults") if name in files]
        counts = [part[field] if field in part else part["verdicts"].get(verdict, 0) for part in both]
        figures[field] = sum(counts) if len(both) == 2 else None
    parts = files.get("long_runs", {})
    slopes = [part["mib_per_hour"] for part in parts.values()]
    figures["growth_mib_per_hour"] = max(slopes) if len(slopes) == 2 else None
    return {field: figures[field] for field in ORDER}


ORDER = (
    "payloads_tried", "payloads_run", "bad_inputs", "bad_inputs_refused", "tracebacks", "hangs", "faults_injected",
    "faults_survived", "fuzz_cases", "fuzz_findings_open", "growth_mib_per_hour", "slurm_jobs", "openfhe_tests_run",
)  # fmt: skip


def faults_of(counts: Json) -> list[str]:
    """What is not as SECURITY.md promises, a line each; what was not counted is none of it."""
    told = [f"{field} is {counts[field]}" for field in NONE if counts[field]]
    for has, wants in ALIKE:
        if counts[has] != counts[wants]:
            told.append(f"{has} is {counts[has]} of {counts[wants]}")
    return told


if __name__ == "__main__":
    ends(main)
