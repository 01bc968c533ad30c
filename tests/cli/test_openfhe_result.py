"""What scripts/repo/openfhe_result.py makes of pytest's report, and the one line where there is no CPython 3.10."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CASE = """<testcase classname="a" name="{name}">{inside}</testcase>"""
NOTED = """<properties><property name="attention.full.error_of_largest" value="2.5e-07"/>
<property name="attention.full.levels" value="6"/><property name="other" value="1"/></properties>"""


def made(folder, *inside):
    cases = "".join(CASE.format(name=f"test_{i}", inside=text) for i, text in enumerate(inside))
    (folder / "tests.xml").write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
    line = [sys.executable, str(ROOT / "scripts/repo/openfhe_result.py"), "tests.xml", "out.json"]
    return subprocess.run(
        line, cwd=folder, capture_output=True, text=True, env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    )


@pytest.mark.parametrize(
    "inside, run, passed, code",
    [
        (["", NOTED, "<skipped/>"], 2, 2, 0),
        (["", "<failure/>", "<error/>"], 3, 1, 1),
        (["<skipped/>"], 0, 0, 1),  # nothing ran: that is no pass
    ],
)
def test_counts_are_those_of_the_report(tmp_path, inside, run, passed, code):
    done = made(tmp_path, *inside)
    assert done.returncode == code, done.stderr
    result = json.loads((tmp_path / "out.json").read_text())
    assert (result["tests_run"], result["tests_passed"]) == (run, passed) and {"commit", "date"} <= set(result)
    expected = {"full": {"error_of_largest": 2.5e-07, "levels": 6}} if NOTED in inside else {}
    assert result["noted"].get("attention", {}) == expected


def test_a_file_that_is_no_report_is_refused(tmp_path):
    (tmp_path / "tests.xml").write_text("<testsuites>")
    line = [sys.executable, str(ROOT / "scripts/repo/openfhe_result.py"), "tests.xml", "out.json"]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, env={"PYTHONPATH": str(ROOT)})
    assert done.returncode == 2 and "must be a report of pytest" in done.stderr and done.stderr.count("\n") == 1


def test_without_cpython_3_10_one_line_says_so(tmp_path):
    nothing = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYENV_ROOT": str(tmp_path)}
    done = subprocess.run(
        ["bash", str(ROOT / "scripts/repo/test_openfhe.sh")], capture_output=True, text=True, env=nothing
    )
    if "skipped" not in done.stdout and done.stdout:
        pytest.skip("the system's own python3 is CPython 3.10")
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout.count("\n") == 1 and done.stdout.startswith("skipped: openfhe needs CPython 3.10")
