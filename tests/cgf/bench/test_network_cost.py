"""The table of what replaced parts cost: its runs, and its figures from results made by hand."""

import json
import shutil
import subprocess

import pytest
import torch

from cgf.checkpoint import read, save
from cgf.config import compose, resolved
from cgf.errors import UserError
from cgf.report.whole_network import costs
from cgf.softmax.cgf import CGF
from cgf.study.network_cost import VARIANTS, Case, carry_out, checked_variants, lines, table
from cgf.study.seed import execute


def case(name="digits", **more):
    return Case.of({**resolved(compose("network_cost", [f"case={name}"])), **more})


def written(script, arguments, accuracies):
    """Stands in for training and evaluating: accuracy by the name of the run."""
    given = dict(a.split("=", 1) for a in arguments)
    from pathlib import Path

    if script == "train.py":
        folder = Path(given["outputs"]) / given["run"]
        run = {"model": "m", "task": "t", "num_classes": 2, "family": "vit", "source": {}}
        progress = {"seconds": 7.0, "finished": True}
        if not folder.exists():  # a finished run is left as it is
            weights = {"w": torch.full((1,), float(len(accuracies)))}
            save(folder / "ckpt-1", weights, [CGF()], {**run, "config": {}, "progress": progress})
            (folder / "best.json").write_text(json.dumps({"checkpoint": "ckpt-1"}))
        return
    out = Path(given["out"])
    right = round(100 * accuracies.pop(0))
    hardware = {"cpu_model": "family 1", "gpu": None, "cores": 2}
    result = {"run": {"git": {"commit": "abc", "dirty": False}, "hardware": hardware}}
    result["checkpoint_sha256"] = read(given["ckpt"]).digest
    result |= {"split": "test", "predictions": [1] * right + [0] * (100 - right), "labels": [1] * 100}
    assert {"predictions=true", "not_finite=wrong"} <= set(arguments)
    out.write_text(json.dumps({"accuracy": right / 100, "samples": 100, **result}))


def test_each_row_replaces_what_it_says_alone():
    made = case()
    told = {variant: made.arguments(variant) for variant in VARIANTS}
    assert "softmax=exact" in told["norm"] and "norm=batch" in told["norm"]
    assert not any(a.startswith(("activation", "penalty", "softmax.")) for a in told["norm"])
    assert "softmax=exact" not in told["softmax"] and "softmax.k=2" in told["softmax"]
    assert {"norm=batch", "activation=square", "softmax.k=2"} <= set(told["all"]) and "softmax=exact" not in told["all"]
    assert not any(a.startswith(("norm", "activation")) for a in told["own"])


@pytest.mark.parametrize("name", ["digits", "cifar10", "clinc150", "sst2"])
def test_the_overrides_compose(name):
    for variant in VARIANTS:
        cfg = compose("train", case(name).arguments(variant))
        assert (cfg.norm["_target_"] == "cgf.norm.base.ExactNorms") == ("norm" not in VARIANTS[variant])


def test_what_is_done_is_not_done_again_and_the_table_is_right(tmp_path):
    accuracies, called = [0.90, 0.89, 0.88, 0.91, 0.80, 0.94, 0.89, 0.90, 0.95, 0.90], []

    def execute(script, arguments):
        called.append(script)
        written(script, arguments, accuracies)

    carry_out(case(), list(VARIANTS), [1, 2], tmp_path, execute)
    assert called.count("train.py") == 11 and called.count("eval_plain.py") == 10  # the teacher once
    called.clear()
    carry_out(case(), list(VARIANTS), [1, 2], tmp_path, execute)
    assert called == ["train.py"] * 11, "train.py is asked whether it is another training; nothing is evaluated again"
    made = table(case(), list(VARIANTS), [1, 2], tmp_path)
    by_name = {"+".join(row["replaced"]): row for row in made["rows"]}
    assert by_name[""]["mean"] == pytest.approx(0.92) and by_name[""]["against_own"] is None
    apart = by_name["softmax"]["against_own"]
    assert apart["points"] == pytest.approx(-3) and apart["labels"] == ["undecided: 2 seeds"]
    assert apart["interval"][0] < -3 < apart["interval"][1]
    assert by_name["softmax+norm+activation"]["accuracy"] == {"1": 0.80, "2": 0.90}
    assert by_name["norm"]["train_s"] == 7.0 and by_name["norm"]["samples"] == 100
    assert "  -3.00 points [" in lines(made)[1] and len(lines(made)) == 5


def test_what_was_trained_anew_is_evaluated_anew_and_other_samples_are_not_compared(tmp_path):
    accuracies, called = [0.9, 0.8, 0.7], []

    def execute(script, arguments):
        called.append(script)
        written(script, arguments, accuracies)

    carry_out(case(), checked_variants(["all"]), [1], tmp_path, execute)
    shutil.rmtree(tmp_path / "all-1" / "ckpt-1")
    stale = (tmp_path / "all-1" / "test.json").read_text()
    shutil.rmtree(tmp_path / "all-1")
    written("train.py", [f"outputs={tmp_path}", "run=all-1"], accuracies)
    (tmp_path / "all-1" / "test.json").write_text(stale)  # of the weights of before
    called.clear()
    carry_out(case(), checked_variants(["all"]), [1], tmp_path, execute)
    assert called == ["train.py", "train.py", "train.py", "eval_plain.py"] and not accuracies
    assert table(case(), ["own", "all"], [1], tmp_path)["rows"][1]["mean"] == 0.7
    changed = json.loads((tmp_path / "all-1" / "test.json").read_text())
    (tmp_path / "all-1" / "test.json").write_text(json.dumps({**changed, "labels": [0] + [1] * 99}))
    with pytest.raises(UserError, match="only be compared on the same samples"):
        table(case(), ["own", "all"], [1], tmp_path)


@pytest.mark.parametrize(
    "change, says", [({"checkpoint_sha256": "f" * 64}, "is of other weights"), ({"split": "val"}, "is on val")]
)
def test_an_evaluation_of_other_weights_or_another_split_is_in_no_table(tmp_path, change, says):
    """The table took whatever lay beside the run; an evaluation on another split was not made anew either."""
    accuracies = [0.9, 0.8, 0.7]
    carry_out(case(), checked_variants(["all"]), [1], tmp_path, lambda *call: written(*call, accuracies))
    path = tmp_path / "all-1" / "test.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(UserError, match=rf"all-1/test\.json must be an evaluation of its run on test, and {says}"):
        table(case(), ["own", "all"], [1], tmp_path)
    carry_out(case(), checked_variants(["all"]), [1], tmp_path, lambda *call: written(*call, accuracies))
    assert table(case(), ["own", "all"], [1], tmp_path)["rows"][1]["mean"] == 0.7


def test_an_evaluation_whose_weights_were_removed_is_taken_as_it_is(tmp_path):
    accuracies = [0.9, 0.8]
    carry_out(case(), checked_variants(["all"]), [1], tmp_path, lambda *call: written(*call, accuracies))
    (tmp_path / "all-1" / "ckpt-1" / "model.safetensors").unlink()
    assert table(case(), ["own", "all"], [1], tmp_path)["rows"][1]["mean"] == 0.8


def test_nothing_done_is_said_so(tmp_path):
    with pytest.raises(UserError, match="nothing of case digits is trained"):
        table(case(), list(VARIANTS), [1], tmp_path)


def test_a_teacher_that_is_there_is_not_trained(tmp_path):
    called = []

    def execute(script, arguments):
        called.append(arguments)
        written(script, arguments, accuracies)

    accuracies = [0.9] * 5
    carry_out(case(teacher_path="runs/minilm"), list(VARIANTS), [1], tmp_path, execute)
    trained = [a for a in called if any(x.startswith("run=") for x in a)]
    assert len(trained) == 5 and all("distill.teacher=runs/minilm" in a for a in trained)


def test_folds_have_a_teacher_each_and_their_samples_count_together(tmp_path):
    accuracies, called = [0.9, 0.8, 1.0, 0.7], []

    def execute(script, arguments):
        called.append((script, arguments))
        written(script, arguments, accuracies)

    in_folds, variants = case(folds=2), checked_variants(["all"])
    assert variants == ["own", "all"]
    carry_out(in_folds, variants, [1], tmp_path, execute)
    trained = [" ".join(arguments) for script, arguments in called if script == "train.py"]
    assert len(trained) == 6 and all(f"task.fold={i // 3} task.folds=2" in line for i, line in enumerate(trained))
    assert all(f"distill.teacher={tmp_path}/fold-1/teacher" in line for line in trained[4:])
    own, every = table(in_folds, variants, [1], tmp_path)["rows"]
    assert (own["samples"], own["mean"], every["mean"]) == (200, 0.95, 0.75)
    assert every["against_own"]["points"] == pytest.approx(-20)
    (tmp_path / "fold-1" / "all-1" / "test.json").unlink()
    assert [row["replaced"] for row in table(in_folds, variants, [1], tmp_path)["rows"]] == [[]]  # a fold is missing
    with pytest.raises(UserError, match="folds need a teacher each"):
        case(folds=2, teacher_path="runs/one")
    with pytest.raises(UserError, match=r"name becomes part of a path.*'\.\./elsewhere' was given"):
        Case.of({**resolved(compose("network_cost", ["case=digits"])), "name": "../elsewhere"})
    with pytest.raises(UserError, match=r"rows names rows of the table \(own, .*, and mlp was given"):
        checked_variants(["mlp"])


def test_a_seed_without_result_is_named_and_rows_say_where_they_ran(tmp_path):
    accuracies = [0.9, 0.8, 0.9, 0.8, 0.9, 0.8]
    carry_out(case(), ["own", "all"], [1, 2, 3], tmp_path, lambda *call: written(*call, accuracies))
    (tmp_path / "all-2" / "test.json").unlink()
    made = table(case(), ["own", "all"], [1, 2, 3], tmp_path)
    own, every = made["rows"]
    assert (own["missing"], every["missing"]) == ([], [2])
    assert every["against_own"]["seeds"] == 2 and every["against_own"]["labels"][0].startswith("undecided")
    assert every["ran"] == [{"commit": "abc", "dirty": False, "cpu_model": "family 1", "gpu": None}]
    assert "no result of seed 2" in lines(made)[1]
    (tmp_path / "network").mkdir()
    (tmp_path / "network" / "cost-digits.json").write_text(json.dumps(made))
    shown = costs(tmp_path).splitlines()
    assert "| digits | softmax + norms + activations | 1, 3 (no result: 2) | 100 |" in shown[3]
    with pytest.raises(UserError, match=r"holds no costs: python scripts/network_cost.py"):
        costs(tmp_path / "network")


def test_samples_of_no_finite_logits_are_told_by_seed_over_all_folds(tmp_path):
    in_folds = case(folds=2)
    carry_out(in_folds, ["own", "all"], [1], tmp_path, lambda *call: written(*call, [0.9]))
    for fold in (0, 1):
        path = tmp_path / f"fold-{fold}" / "all-1" / "test.json"
        result = json.loads(path.read_text())
        red = {"kind": "eval_plain", "red": ["3 entries lay beyond the guard"] if fold else []}
        path.write_text(json.dumps({**result, **red, "predictions": [None] * 2 + result["predictions"][2:]}))
    made = table(in_folds, ["own", "all"], [1], tmp_path)
    own, every = made["rows"]
    assert own["not_finite"] == {"1": 0} and every["not_finite"] == {"1": 4}
    assert own["mean"] == 0.9 and every["mean"] == pytest.approx(0.88)  # those four were right, and are wrong
    assert every["against_own"]["points"] == pytest.approx(-2)
    assert "4 predictions of no finite logits, counted as wrong" in lines(made)[1] and "finite" not in lines(made)[0]
    (tmp_path / "network").mkdir()
    (tmp_path / "network" / "cost-digits.json").write_text(json.dumps(made))
    shown = costs(tmp_path).splitlines()
    assert every["red"] == {"1": ["3 entries lay beyond the guard"]} and own["red"] == {"1": []}
    assert "red: seed 1" in lines(made)[1] and "red" not in lines(made)[0]
    assert "| 88.00 % (4 not finite, red) |" in shown[3] and "| 90.00 % |" in shown[2]


@pytest.mark.parametrize(
    ("code", "red", "ends"),
    [
        (0, [], False),
        (1, ["3 entries lay beyond the guard"], False),  # a red evaluation is a result
        (1, [], True),
        (1, None, True),  # a crash writes none
        (2, ["3 entries lay beyond the guard"], True),
    ],
)
def test_a_red_evaluation_is_a_result_and_a_crash_is_none(tmp_path, monkeypatch, code, red, ends):
    out = tmp_path / "test.json"

    def run(command, **more):
        assert command[1].endswith("eval_plain.py") and command[2:] == ["ckpt=x", f"out={out}"]
        if red is not None:
            out.write_text(json.dumps({"red": red}))
        return subprocess.CompletedProcess(command, code)

    monkeypatch.setattr(subprocess, "run", run)
    if ends:
        with pytest.raises(UserError, match=f"eval_plain.py ended with code {code}"):
            execute("eval_plain.py", ["ckpt=x", f"out={out}"])
    else:
        execute("eval_plain.py", ["ckpt=x", f"out={out}"])
