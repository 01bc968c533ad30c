"""Small hosts of each library through the five commands, as results/hosts.json has them for every host."""

import contextlib
import io
import json
import os

import pytest
from digits_checkpoint import call

from scripts import report
from scripts.repo import host_commands
from scripts.repo.host_commands import OK, UNREACHED, outcome, tried

CASES = {case.label: case for case in host_commands.all_cases()}


def in_process(command, given, folder):
    """A command in this process, in the folder of the host; the report is no command of Hydra's."""
    with contextlib.chdir(folder):
        if command != "report":
            done = call(command, *given)
            return done.returncode, done.stderr
        with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()):
            patch.setattr("sys.argv", ["report.py", *given])
            return report.main(), ""


@pytest.mark.parametrize("label", ["transformers GPT2", "timm deit3_small_patch16_224"])
def test_a_host_goes_through_all_five_commands(label):
    record = tried(CASES[label], in_process)
    assert {key: done["outcome"] for key, done in record["commands"].items()} == dict.fromkeys(
        host_commands.SCRIPTS, OK
    )
    assert record["agreement"] == 1.0 and record["samples"] == 4 and not record["red"]
    assert 0 < record["levels_planned"] <= record["levels_used"] <= record["levels_planned"] + 1
    assert record["rows"] == ("masked" if "GPT2" in label else "full")


def test_a_host_that_is_refused_is_refused_by_the_first_command_and_the_file_is_gone_on_with(tmp_path, monkeypatch):
    label = "transformers Gemma2 soft cap of 2"
    record = tried(CASES[label], in_process)
    first, *others = [done["outcome"] for done in record["commands"].values()]
    assert first.startswith("refused: Gemma2Attention caps its scores") and others == [UNREACHED] * 4
    seen = []
    monkeypatch.setattr(host_commands, "tried", lambda case: seen.append(case.label) or record)
    monkeypatch.setattr(host_commands, "all_cases", lambda: [CASES[label], CASES["transformers GPT2"]])
    out = tmp_path / "hosts.json"
    out.write_text(json.dumps({"kind": "hosts", "hosts": [record]}))
    host_commands.main(["--out", str(out)])
    assert seen == ["transformers GPT2"]
    host_commands.main(["--out", str(out), "Gemma2"])
    assert seen == ["transformers GPT2", label] and len(json.loads(out.read_text())["hosts"]) == 1


def test_what_a_command_ended_with():
    assert outcome(0, "a warning") == OK
    assert (
        outcome(2, "a warning\nerror: model=host cannot be taken as a host: it looks ahead\n")
        == "refused: it looks ahead"
    )
    assert outcome(1, "error: 3 entries lay beyond the guard") == "red: 3 entries lay beyond the guard"
    assert outcome(1, "Traceback\nValueError: no\n") == "failed: ValueError: no"
    assert outcome(-9, "") == "failed: exit code -9" and os.sep in str(host_commands.OUT)
