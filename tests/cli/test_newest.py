"""What scripts/repo/newest.py makes of pytest's report: the versions that differ and the tests that failed, by name."""

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
REPORT = (
    '<testsuites><testsuite><testcase classname="tests.a" name="test_fine"/>{more}'
    '<testcase classname="tests.a" name="test_left"><skipped/></testcase></testsuite></testsuites>'
)
FAILED = (
    '<testcase classname="tests.a" name="test_bad"><failure message="TypeError: no such keyword&#10;more"/></testcase>'
)


def called(folder, *words):
    line = [sys.executable, str(ROOT / "scripts/repo/newest.py"), *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(line, cwd=folder, capture_output=True, text=True, env=environment)


@pytest.mark.parametrize("more, failed", [("", {}), (FAILED, {"tests.a::test_bad": "TypeError: no such keyword"})])
def test_the_result_names_what_failed(tmp_path, more, failed):
    (tmp_path / "tests.xml").write_text(REPORT.format(more=more))
    done = called(tmp_path, "result", "tests.xml", "out/newest.json")
    assert done.returncode == bool(failed), done.stderr
    told = json.loads((tmp_path / "out/newest.json").read_text())
    assert told["failed"] == failed and told["tests_skipped"] == 1
    assert (told["tests_run"], told["tests_passed"]) == (1 + len(failed), 1)
    for name, both in told["newer"].items():
        assert both["newest"] != both["pinned"]
        assert both["newest"] is None or both["newest"] == version(name)


def test_names_are_those_of_the_project_without_versions(tmp_path):
    done = called(tmp_path, "names")
    names = done.stdout.split()
    assert done.returncode == 0 and {"torch", "transformers", "pytest", "gguf"} <= set(names)
    assert not any("=" in name for name in names)


@pytest.mark.parametrize("words", [(), ("result", "none.xml", "out.json"), ("names", "more")])
def test_bad_words_are_refused_in_one_sentence(tmp_path, words):
    done = called(tmp_path, *words)
    assert done.returncode == 2 and done.stderr.startswith("error: ") and len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "out.json").exists()
