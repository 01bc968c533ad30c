"""scripts/friendly.py on a small checkpoint and on models that were never trained."""

import json
from html import escape

import pytest
from digits_checkpoint import call

from cgf.report.collect import collect
from cgf.report.page import page

QUICK = ["samples=40", "tolerance=1e-2"]
PNG = b"\x89PNG\r\n"


def report(folder):
    return json.loads((folder / "friendly.json").read_text())


def test_a_model_before_any_training(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = call("friendly", "model=vit_digits", "task=digits", "heads=true", *QUICK)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "outputs" / "friendly" / "vit_digits-digits"
    found = report(folder)
    assert found["kind"] == "friendly" and found["samples"] == 40 and found["rows"] == "full"
    assert (found["softmax"], found["forward"], found["split"]) == ("cgf", "exact", "train")
    assert found["run"]["config"]["samples"] == 40 and len(found["layers"]) >= 4
    for row in found["layers"]:
        assert row["levels"] and row["outside_domain"] == 0 and row["slots"]["range"] == row["range"]
        assert [head["head"] for head in row["heads"]] == list(range(len(row["heads"])))
        assert row["range"][0] == min(head["range"][0] for head in row["heads"])
        assert row["entries"] * 40 * len(row["heads"]) == row["kappa"]["count"] ** 2  # images: every row is full
        assert f"layer {row['layer']}: {row['verdict']}" in done.stdout
    assert "standard deviation" in done.stdout and "layers are CGF-friendly" in done.stdout
    for name in ("kappa.png", "ranges.png"):
        assert (folder / name).read_bytes().startswith(PNG)
        assert name in done.stdout
    text = page(collect(tmp_path / "outputs"))  # the report page shows it, though nothing was trained
    assert "Is vit_digits" in text and text.count("data:image/png;base64,") == 2
    assert all(escape(row["verdict"]) in text for row in found["layers"])


def test_names_that_lead_out_of_the_folder_are_refused_before_anything_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = call("friendly", "model=vit_digits", "task=digits", "task.name=../../elsewhere", *QUICK)
    assert done.returncode == 2 and not list(tmp_path.iterdir())
    assert done.stderr == (
        "error: task.name becomes part of a path: it must be one name without '/', and '../../elsewhere' was given\n"
    )


def test_a_checkpoint_beside_another(checkpoint, trained_run, tmp_path):
    done = call("friendly", f"ckpt={checkpoint}", f"compare={trained_run}", *QUICK, "outside=0.01")
    assert done.returncode == 0, done.stderr
    found = report(checkpoint / "friendly")
    assert found["forward"] == found["softmax"] == "cgf"
    assert 0 < found["outside_domain"] <= 0.01
    own, other = found["kappa"]  # the same weights twice
    assert own["name"] != other["name"] and own["std"] == other["std"] > 0
    assert done.stdout.count("standard deviation") == 2
    plan = json.loads((checkpoint / "plan.json").read_text())
    assert found["range"][0] >= plan["calibrated"][0] - 2  # of 200 samples; these are 40 of the same split


def test_a_domain_to_judge_by(checkpoint):
    done = call("friendly", f"ckpt={checkpoint}", "domain=[-3,1]", "out=" + str(checkpoint / "x"), *QUICK)
    assert done.returncode == 0, done.stderr
    found = report(checkpoint / "x")
    assert found["outside_domain"] > 0.01 and all(row["domain"] == [-3, 1] for row in found["layers"])


def test_stories_with_its_rows_of_padding(data_root, tmp_path):
    done = call(
        "friendly",
        "model=stories260k",
        "task=clinc150",
        f"data.root={data_root}",
        "samples=24",
        "domain=[-12,14]",
        "tolerance=1e-2",
        f"out={tmp_path / 'out'}",
    )  # no plan: said without a search
    assert done.returncode == 0, done.stderr
    found = report(tmp_path / "out")
    assert found["rows"] == "masked" and len(found["layers"]) == 5 and len(found["layers"][0]["heads"]) == 8
    for row in found["layers"]:
        assert row["slots"]["range"][0] <= row["range"][0] and row["slots"]["entries"] > 3 * row["entries"]
        assert row["outside_domain"] > 0
    assert any(row["slots"]["range"][0] < row["range"][0] - 1 for row in found["layers"])
    assert not found["friendly"] and "needs range control" in done.stdout


def test_a_plan_has_heads_and_the_share_outside(checkpoint):
    done = call("plan", f"ckpt={checkpoint}", "samples=60", "tolerance=1e-2", "outside=0.01")
    assert done.returncode == 0, done.stderr
    plan = json.loads((checkpoint / "plan.json").read_text())
    assert 0 < plan["share_outside"] <= 0.01
    for row in plan["layers"]:
        assert row["range"][0] == min(head["range"][0] for head in row["heads"])
        assert plan["guard"][0] <= row["slots"]["range"][0] and row["slots"]["range"][1] <= plan["guard"][1]
        assert row["outside_domain"] == pytest.approx(
            sum(h["outside_domain"] * h["entries"] for h in row["heads"]) / row["entries"]
        )
