"""The table of what replaced parts cost: its runs, and its figures from results made by hand."""

import json

import pytest

from cgf.config import compose, resolved
from cgf.errors import UserError
from cgf.study.network_cost import ROWS, Case, carry_out, lines, table


def case(name="digits", **more):
    return Case.of({**resolved(compose("network_cost", [f"case={name}"])), **more})


def written(script, arguments, accuracies):
    """Stands in for training and evaluating: accuracy by the name of the run."""
    given = dict(a.split("=", 1) for a in arguments)
    from pathlib import Path

    if script == "train.py":
        folder = Path(given["outputs"]) / given["run"]
        (folder / "ckpt-1").mkdir(parents=True)
        (folder / "best.json").write_text(json.dumps({"checkpoint": "ckpt-1"}))
        (folder / "ckpt-1" / "run.json").write_text(json.dumps({"progress": {"seconds": 7.0}}))
        return
    out = Path(given["out"])
    out.write_text(json.dumps({"accuracy": accuracies.pop(0), "samples": 100}))


def test_each_row_replaces_what_it_says_alone():
    made = case()
    told = {row: made.arguments(row) for row in ROWS}
    assert "softmax=exact" in told["norm"] and "norm=batch" in told["norm"]
    assert not any(a.startswith(("activation", "penalty", "softmax.")) for a in told["norm"])
    assert "softmax=exact" not in told["softmax"] and "softmax.k=2" in told["softmax"]
    assert {"norm=batch", "activation=square", "softmax.k=2"} <= set(told["all"]) and "softmax=exact" not in told["all"]
    assert not any(a.startswith(("norm", "activation")) for a in told["own"])


@pytest.mark.parametrize("name", ["digits", "clinc150", "sst2"])
def test_the_overrides_compose(name):
    for row in ROWS:
        cfg = compose("train", case(name).arguments(row))
        assert (cfg.norm["_target_"] == "cgf.norm.base.ExactNorms") == ("norm" not in ROWS[row])


def test_what_is_done_is_not_done_again_and_the_table_is_right(tmp_path):
    accuracies, called = [0.90, 0.89, 0.88, 0.91, 0.80, 0.94, 0.89, 0.90, 0.95, 0.90], []

    def execute(script, arguments):
        called.append(script)
        written(script, arguments, accuracies)

    carry_out(case(), [1, 2], tmp_path, execute)
    assert called.count("train.py") == 11 and called.count("eval_plain.py") == 10  # the teacher once
    carry_out(case(), [1, 2], tmp_path, lambda *_: pytest.fail("everything is done"))
    made = table(case(), [1, 2], tmp_path)
    by_name = {"+".join(row["replaced"]): row for row in made["rows"]}
    assert by_name[""]["mean"] == pytest.approx(0.92) and by_name[""]["difference_to_own"] is None
    assert by_name["softmax"]["difference_to_own"] == pytest.approx(-0.03)
    assert by_name["softmax+norm+activation"]["accuracy"] == {"1": 0.80, "2": 0.90}
    assert by_name["norm"]["train_s"] == 7.0 and by_name["norm"]["samples"] == 100
    assert lines(made)[1].endswith("-3.00 points") and len(lines(made)) == 5


def test_nothing_done_is_said_so(tmp_path):
    with pytest.raises(UserError, match="nothing of case digits is trained"):
        table(case(), [1], tmp_path)


def test_a_teacher_that_is_there_is_not_trained(tmp_path):
    called = []

    def execute(script, arguments):
        called.append(arguments)
        written(script, arguments, accuracies)

    accuracies = [0.9] * 5
    carry_out(case(teacher_path="runs/minilm"), [1], tmp_path, execute)
    trained = [a for a in called if any(x.startswith("run=") for x in a)]
    assert len(trained) == 5 and all("distill.teacher=runs/minilm" in a for a in trained)
