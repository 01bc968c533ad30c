"""scripts/range.py as users run it: trains, evaluates and gathers, and does nothing twice."""

import json
import os
import sys
from types import SimpleNamespace

import pytest
from digits_checkpoint import ROOT, SCRIPTS, call, spawn

QUICK = [
    "study=digits",
    "seeds=[7]",
    "decides=7",
    "only=[teacher,exact]",
    "outputs=runs",
    "out=range.json",
    "study.common=['model=vit_digits','task=digits','task.limit={train: 64, val: 32, test: 32}']",
    "study.schedules.teacher=['train.epochs=1']",
    "study.schedules.first=['distill=kd','train.epochs=2','train.lr=1e-3']",
]


def in_forks(line, pass_fds, check):
    """What a study asks subprocess.run for, in a real process that does not load the libraries anew."""
    script = next(name for name, path in SCRIPTS.items() if str(ROOT / path) == line[1])
    done = spawn(script, *line[2:], cwd=os.getcwd())
    assert line[0] == sys.executable and pass_fds and not check, "a study's processes are started otherwise"
    return done


def test_a_small_study_from_training_to_the_result_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("cgf.study.seed.subprocess", SimpleNamespace(run=in_forks))
    done = call("range", *QUICK)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "range.json").read_text())["studies"]["digits"]
    assert [(r["run"], r["epochs"], r["samples"]) for r in found["rows"]] == [("teacher", 1, 32), ("exact", 2, 32)]
    for row in found["rows"]:
        assert row["correct"] == row["accuracy"] * 32 and row["seconds"] > 0 and row["val_samples"] == 32
        assert row["config"]["train"]["epochs"] == row["epochs"] and row["seed"] == 7 and row["versions"]["torch"]
    assert found["run"]["config"]["seeds"] == [7] and found["means"][0]["complete"]
    assert "| digits | exact | exact |" in done.stdout
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "runs").rglob("*.json*")}
    again = call("range", *QUICK)
    assert again.returncode == 0 and "train.py" not in again.stdout and "eval_plain.py" not in again.stdout
    assert len(before) > 10 and {p: p.stat().st_mtime_ns for p in before} == before
    (tmp_path / "range.json").unlink()
    gathered = call("range", *QUICK, "collect=true")
    assert gathered.returncode == 0
    assert json.loads((tmp_path / "range.json").read_text())["studies"]["digits"]["rows"] == found["rows"]


def test_names_and_seeds_that_are_none_are_refused(tmp_path):
    for arguments, says in (
        (["only=[cfg]"], "only must be a list of runs (teacher, cgf, exact"),
        (["only=teacher"], "matched), and teacher was given"),
        (["only=5"], "matched), and 5 was given"),
        (["only=[[1]]"], "matched), and [[1]] was given"),
        (["seeds=[]"], "seeds must be"),
        (["seeds=[1,1]"], "whole numbers that differ"),
        (["study=mini"], "unknown study 'mini'"),
    ):
        done = spawn("range", *arguments, cwd=tmp_path)
        assert done.returncode == 2 and says in done.stderr and done.stderr.count("\n") == 1
        assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("content", ["[]", "{}", '{"studies": []}', '{"studies": {"digits": 3}}', '{"kind": "gap"}'])
def test_a_file_of_something_else_is_refused_before_any_training(tmp_path, content):
    out = tmp_path / "other.json"
    out.write_text(content)
    for more in ([], ["collect=true"]):
        done = call("range", "study=digits", f"outputs={tmp_path / 'runs'}", f"out={out}", *more)
        assert done.returncode == 2 and f"{out} needs to hold studies of scripts/range.py" in done.stderr, done.stderr
        assert done.stderr.count("\n") == 1 and [p.name for p in tmp_path.iterdir()] == ["other.json"]
        assert out.read_text() == content


@pytest.mark.parametrize("approx, levels", [("exact", None), ("chain", 6)])
def test_an_evaluation_counts_what_lies_outside_a_domain_given_by_hand(approx, levels, checkpoint):
    shares = []
    for number, domain in enumerate(("[-100,100]", "[-3,0]", "[-2.5,-2]")):
        out = checkpoint / f"out{number}.json"
        done = call("eval_plain", f"ckpt={checkpoint}", f"approx={approx}", f"domain={domain}", f"out={out}")
        assert done.returncode == 0, done.stderr
        found = json.loads(out.read_text())
        assert found["watched"] == json.loads(domain) and found["levels"] == levels
        assert found["correct"] == pytest.approx(found["accuracy"] * found["samples"])
        assert found["entries"] == 60 * 4 * 4 * 16 * 16  # images, layers, heads, rows, columns
        shares.append(found["outside_domain"])
    assert 0 == shares[0] < shares[1] < shares[2] < 1
    refused = call("eval_plain", f"ckpt={checkpoint}", "domain=[1,0]")
    assert refused.returncode == 2 and "domain needs finite lo < hi" in refused.stderr


def test_a_chain_trained_in_the_loop_tells_its_levels(tmp_path):
    trained = call(
        "train",
        "softmax=cgf_chain",
        "softmax.k=2",
        "train.max_steps=1",
        f"outputs={tmp_path}",
        "run=two",
        "task.limit={train: 64, val: 32, test: 32}",
    )
    assert trained.returncode == 0, trained.stderr
    assert call("eval_plain", f"ckpt={tmp_path / 'two'}", f"out={tmp_path / 'out.json'}").returncode == 0
    assert json.loads((tmp_path / "out.json").read_text())["levels"] == 3  # one for the statistics of full rows
