"""scripts/range.py as users run it: trains, evaluates and gathers, and does nothing twice."""

import json

from digits_checkpoint import spawn

QUICK = ["study=digits", "seeds=[7]", "decides=7", "only=[teacher,exact]", "outputs=runs", "out=range.json",
         "study.common=['model=vit_digits','task=digits','task.limit={train: 64, val: 32, test: 32}']",
         "study.schedules.teacher=['train.epochs=1']",
         "study.schedules.first=['distill=kd','train.epochs=2','train.lr=1e-3']"]  # fmt: skip


def test_a_small_study_from_training_to_the_result_file(tmp_path):
    done = spawn("range", *QUICK, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "range.json").read_text())["studies"]["digits"]
    assert [(r["run"], r["epochs"], r["samples"]) for r in found["rows"]] == [("teacher", 1, 32), ("exact", 2, 32)]
    for row in found["rows"]:
        assert row["correct"] == row["accuracy"] * 32 and row["seconds"] > 0 and row["val_samples"] == 32
        assert row["config"]["train"]["epochs"] == row["epochs"] and row["seed"] == 7 and row["versions"]["torch"]
    assert found["run"]["config"]["seeds"] == [7] and found["means"][0]["complete"]
    assert "| digits | exact | exact |" in done.stdout
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "runs").rglob("*.json*")}
    again = spawn("range", *QUICK, cwd=tmp_path)
    assert again.returncode == 0 and "train.py" not in again.stdout and "eval_plain.py" not in again.stdout
    assert len(before) > 10 and {p: p.stat().st_mtime_ns for p in before} == before
    (tmp_path / "range.json").unlink()
    gathered = spawn("range", *QUICK, "collect=true", cwd=tmp_path)
    assert gathered.returncode == 0
    assert json.loads((tmp_path / "range.json").read_text())["studies"]["digits"]["rows"] == found["rows"]


def test_names_and_seeds_that_are_none_are_refused(tmp_path):
    for arguments, says in ((["only=[cfg]"], "only names runs (teacher, cgf, exact"), (["seeds=[]"], "seeds must be"),
                            (["seeds=[1,1]"], "whole numbers that differ"), (["study=mini"], "unknown study 'mini'")):
        done = spawn("range", *arguments, cwd=tmp_path)
        assert done.returncode == 2 and says in done.stderr and done.stderr.count("\n") == 1
        assert not list(tmp_path.iterdir())
