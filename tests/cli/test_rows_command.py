"""scripts/rows.py as users run it: trains, evaluates, writes a row a softmax, and does nothing twice."""

import json

from digits_checkpoint import spawn

QUICK = ["host=digits", "softmaxes=[exact,cgf,bpmax]", "seeds=[7]", "decides=7", "outputs=runs", "out=rows",
         "study.common=['model=vit_digits','task=digits','task.limit={train: 64, val: 32, test: 32}']",
         "study.schedules.teacher=['train.epochs=1']",
         "study.schedules.student=['distill=kd','train.epochs=2','train.lr=1e-3']",
         "runs.bpmax.choices=[['softmax.p=3'],['softmax.p=5']]"]  # fmt: skip
NEEDED = {"host", "task", "softmax", "seed", "accuracy", "accuracy_exact", "validation", "epochs", "best_epoch",
          "train_s", "total_levels", "command", "commit", "dirty"}


def test_rows_from_training_to_their_files(tmp_path):
    done = spawn("rows", *QUICK, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = {p.stem: json.loads(p.read_text()) for p in (tmp_path / "rows").iterdir()}
    assert sorted(rows) == ["digits-digits-bpmax-7", "digits-digits-cgf-7", "digits-digits-exact-7"]
    for row in rows.values():
        assert set(row) >= NEEDED and row["epochs"] == 2 and row["best_epoch"] in (1, 2) and row["train_s"] > 0
        assert sum(row["paired"].values()) == 32 and row["accuracy_exact"] == rows["digits-digits-exact-7"]["accuracy"]
        gain = row["paired"]["this_alone"] - row["paired"]["exact_alone"]
        assert abs(32 * (row["accuracy"] - row["accuracy_exact"]) - gain) < 1e-9
        assert row["run"]["config"]["train"]["epochs"] == 2 and row["run"]["versions"]["torch"]
    exact, cgf, bpmax = (rows[f"digits-digits-{name}-7"] for name in ("exact", "cgf", "bpmax"))
    assert exact["total_levels"] is None and exact["trials"] == [] and exact["paired"]["this_alone"] == 0
    assert cgf["total_levels"] > 2 and cgf["accuracy_planned"] is not None and cgf["approx"] != "exact"
    chosen = [t["options"] for t in bpmax["trials"] if t["chosen"]]
    assert len(bpmax["trials"]) == 2 and len(chosen) == 1 and bpmax["trials_s"] > bpmax["train_s"]
    assert bpmax["total_levels"] == {"softmax.p=3": 2, "softmax.p=5": 3}[chosen[0][0]]
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*.json*")}
    again = spawn("rows", *QUICK, cwd=tmp_path)
    assert again.returncode == 0 and again.stdout == ""
    (tmp_path / "rows" / "digits-digits-cgf-7.json").unlink()
    collected = spawn("rows", *QUICK, "collect=true", cwd=tmp_path)
    assert collected.returncode == 0 and collected.stdout == "rows/digits-digits-cgf-7.json\n"
    assert json.loads((tmp_path / "rows" / "digits-digits-cgf-7.json").read_text()) == cgf
    assert {p: p.stat().st_mtime_ns for p in before if p.parent.name != "rows"} == {
        p: t for p, t in before.items() if p.parent.name != "rows"}


def test_names_that_are_none_are_refused(tmp_path):
    for arguments, says in ((["softmaxes=[cfg]"], "softmaxes names runs (exact, cgf"), (["softmaxes=[]"], "names runs"),
                            (["seeds=[1,1]"], "whole numbers that differ"), (["host=mini"], "unknown host 'mini'")):
        done = spawn("rows", *arguments, cwd=tmp_path)
        assert done.returncode == 2 and says in done.stderr and done.stderr.count("\n") == 1
        assert not list(tmp_path.iterdir())
