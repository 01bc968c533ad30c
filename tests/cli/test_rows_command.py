"""scripts/rows.py as users run it: trains, evaluates, writes a row, and does nothing twice."""

import json
import os

import pytest
from digits_checkpoint import call, spawn

from cgf.predictions import read

QUICK = [
    "host=digits",
    "softmaxes=[cgf]",
    "seeds=[7]",
    "decides=7",
    "outputs=runs",
    "out=rows",
    "opened=opened.jsonl",
    "study.common=['model=vit_digits','task=digits','task.limit={train: 64, val: 32, test: 32}']",
    "study.schedules.teacher=['train.epochs=1']",
    "study.schedules.student=['distill=kd','train.epochs=2','train.lr=1e-3']",
]
NEEDED = {
    "host",
    "task",
    "softmax",
    "seed",
    "accuracy",
    "accuracy_exact",
    "validation",
    "epochs",
    "best_epoch",
    "train_s",
    "total_levels",
    "command",
    "commit",
    "dirty",
}


@pytest.mark.skipif(not os.environ.get("CGF_SLOW"), reason="a dozen real processes: two minutes (CGF_SLOW=1)")
def test_rows_from_training_to_their_files(tmp_path):
    done = spawn("rows", *QUICK, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    path = tmp_path / "rows" / "digits-digits-cgf-7.json"
    assert done.stdout.endswith(f"{path.relative_to(tmp_path)}\n")
    assert sorted(p.name for p in path.parent.iterdir()) == [path.name, "predictions"]
    row = json.loads(path.read_text())
    kept = read(path.parent, path.stem, row["predictions"])
    assert kept.right("this").mean() == row["accuracy"] and kept.right("against").mean() == row["accuracy_exact"]
    assert [line["figure"] for line in row["opened"]] == ["trained", "planned"]
    assert set(row) >= NEEDED and row["epochs"] == 2 and row["best_epoch"] in (1, 2) and row["train_s"] > 0
    assert sum(row["paired"].values()) == 32 and row["made"]["config"]["train"]["epochs"] == 2
    gain = row["paired"]["this_alone"] - row["paired"]["exact_alone"]
    assert abs(32 * (row["accuracy"] - row["accuracy_exact"]) - gain) < 1e-9
    assert row["total_levels"] > 2 and row["accuracy_planned"] is not None and row["approx"] != "exact"
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*.json*")}
    again = spawn("rows", *QUICK, cwd=tmp_path)
    assert again.returncode == 0 and again.stdout == f"{path.relative_to(tmp_path)}: there already, and left as it is\n"
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*.json*")} == before
    elsewhere = spawn("rows", *QUICK, "outputs=others", "out=more", cwd=tmp_path)
    assert elsewhere.returncode == 2 and "a test figure is opened once a row" in elsewhere.stderr
    path.unlink()
    collected = spawn("rows", *QUICK, "collect=true", cwd=tmp_path)
    assert collected.returncode == 0 and collected.stdout == "rows/digits-digits-cgf-7.json\n"
    assert json.loads(path.read_text()) == row
    exact = spawn("rows", *QUICK, "softmaxes=[exact]", cwd=tmp_path)
    assert exact.returncode == 0 and exact.stdout.endswith("rows/digits-digits-exact-7.json\n"), exact.stderr
    later = spawn("rows", *QUICK, "softmaxes=[relu]", "outputs=later", "again=a later softmax", cwd=tmp_path)
    assert later.returncode == 0 and later.stdout.count("\ntrain.py ") == 2, later.stderr  # the teacher and itself
    added = json.loads((path.parent / "digits-digits-relu-7.json").read_text())
    assert (added["exact_of_row"], added["accuracy_exact"]) == ("digits-digits-exact-7", row["accuracy_exact"])
    assert (read(path.parent, "digits-digits-relu-7", added["predictions"]).against == kept.against).all()


def test_names_that_are_none_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for arguments, says in (
        (["softmaxes=[cfg]"], "softmaxes names runs (exact, cgf"),
        (["softmaxes=[]"], "names runs"),
        (["seeds=[1,1]"], "whole numbers that differ"),
        (["host=mini"], "unknown host 'mini'"),
        (["study.task=../../other"], "study.task becomes part of a path: it must be one name without '/', and '../.."),
        (["study.name=.."], "study.name becomes part of a path: it must be one name without '/', and '..' was given"),
    ):
        done = call("rows", *arguments)
        assert done.returncode == 2 and says in done.stderr and done.stderr.count("\n") == 1
        assert not list(tmp_path.iterdir())


def test_rows_are_looked_for_that_a_later_one_is_compared_with(tmp_path):
    """The settings of exact softmax are composed within the command, to be held against its row of before."""
    out = tmp_path / "rows"
    out.mkdir()
    (out / "digits-digits-exact-9.json").write_text('{"schema": 3}')
    places = [f"outputs={tmp_path / 'runs'}", f"out={out}", f"opened={tmp_path / 'opened.jsonl'}"]
    done = call("rows", *QUICK, "seeds=[9]", "collect=true", *places)
    assert done.returncode == 0 and "rows/" not in done.stdout, done.stderr
    assert [path.name for path in out.iterdir()] == ["digits-digits-exact-9.json"]


def test_a_place_that_cannot_be_written_is_refused_before_a_teacher_is_trained(tmp_path):
    places = [f"outputs={tmp_path / 'runs'}", "out=/proc/rows", f"opened={tmp_path / 'opened.jsonl'}"]
    done = call("rows", *QUICK, "seeds=[8]", *places)
    assert done.returncode == 2 and "/proc/rows/digits-digits-cgf-8.json cannot be written" in done.stderr, done.stderr
    assert not any(tmp_path.iterdir())


def test_a_row_that_is_there_is_named_and_left(tmp_path):
    out = tmp_path / "rows"
    path = out / "digits-digits-cgf-8.json"
    out.mkdir()
    path.write_text("{}")
    places = [f"outputs={tmp_path / 'runs'}", f"out={out}", f"opened={tmp_path / 'opened.jsonl'}"]
    done = call("rows", *QUICK, "seeds=[8]", *places)
    *repeated, last = done.stdout.splitlines()  # QUICK has places of its own
    assert done.returncode == 0 and last == f"{path}: there already, and left as it is"
    assert len(repeated) == 4 and all(line.split(" ", 1)[1].startswith("was given more") for line in repeated)
    assert path.read_text() == "{}" and not (tmp_path / "runs").exists()
