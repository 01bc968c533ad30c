"""The table of all softmaxes: properties by trial, costs off the circuits, accuracies from result files."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from cgf.approx import fit
from cgf.bench.alternatives import table, training_results, with_accuracies
from cgf.bench.properties import kept
from cgf.errors import UserError
from cgf.former import current_row
from cgf.report.alternatives import plot, print_alternatives, shown
from cgf.report.figure import is_current
from cgf.softmax.bpmax import BPMax
from cgf.softmax.cgf import CGF
from cgf.softmax.exact import Exact
from cgf.softmax.published.pointwise import ScaledReLU
from cgf.softmax.published.quotient import Quad

ROOT = Path(__file__).parents[3]


class Made:
    """A softmax that is any function of the scores."""

    def __init__(self, weights):
        self.weights = weights


@pytest.mark.parametrize(
    ("function", "order", "positive", "shift"),
    [
        (lambda x: x.softmax(-1), "strict", "yes", True),
        (torch.relu, "weak", "not negative", False),
        (lambda x: x, "strict", "no", False),
        (lambda x: x.square() + 1, "no", "yes", False),
        (lambda x: x - x.mean(-1, keepdim=True), "strict", "no", True),
        (torch.ones_like, "weak", "yes", True),
        (lambda x: (-x).softmax(-1), "no", "yes", True),
    ],
    ids=["softmax", "relu", "identity", "square", "centred", "ones", "reversed"],
)
def test_properties_are_found_by_trying(function, order, positive, shift):
    found = kept(Made(function))
    assert (found.order, found.positive, found.shift_invariant) == (order, positive, shift)


def result(softmax="cgf", seed=42, accuracy=0.9, levels=8, **more):
    row = {"host": "minilm", "task": "sst2", "softmax": softmax, "seed": seed, "accuracy": accuracy}
    return current_row({**row, "total_levels": levels, **more}, "a.json")


def made(results):
    softmaxes = {"exact": Exact(), "cgf": CGF(), "quad": Quad(), "relu": ScaledReLU(), "bpmax": BPMax()}
    return table(softmaxes, fit.chain(-32.0, 1.0, 5), 64, 32, results)


def test_costs_and_accuracies_meet_in_one_table(tmp_path):
    lines = made(
        [result(), result(seed=43, accuracy=0.8), result("own-variant", levels=4), result("exact", levels=None)]
    )
    by_name = {row["softmax"]: row for row in lines}
    assert list(by_name) == ["exact", "cgf", "quad", "relu", "bpmax", "own-variant"]
    assert by_name["exact"]["levels"] is None and by_name["cgf"]["levels"] == 6 and by_name["cgf"]["stand_in_for_exp"]
    assert by_name["relu"]["levels"] == 5 and by_name["bpmax"]["levels"] == 3 and by_name["quad"]["levels"] == 11
    assert by_name["cgf"]["accuracy"] == {
        "minilm sst2": {"accuracy": pytest.approx(0.85), "seeds": [42, 43], "levels": 8}
    }
    assert by_name["quad"]["order"] == "no" and by_name["relu"]["order"] == "weak" and by_name["cgf"]["shift_invariant"]
    whole = {"table": lines, "rows": 64, "columns": 32, "exponential": "a chain"}
    print_alternatives(whole)
    (tmp_path / "plot.png").write_bytes(plot(whole))
    assert (tmp_path / "plot.png").stat().st_size > 10_000 and is_current(tmp_path / "plot.png", shown(whole))
    assert with_accuracies(lines, []) == made([])  # rows of now take the place of those of before
    now = {"table": with_accuracies(lines, [result(accuracy=0.5)])}
    assert now["table"][1]["accuracy"]["minilm sst2"]["accuracy"] == 0.5
    assert not is_current(tmp_path / "plot.png", shown(now))


def test_result_files(tmp_path):
    assert training_results(tmp_path / "none") == []
    (tmp_path / "a.json").write_text(json.dumps(result()))
    assert training_results(tmp_path)[0]["accuracy"] == 0.9
    (tmp_path / "b.json").write_text(json.dumps({"host": "minilm"}))
    with pytest.raises(
        UserError, match=r"b\.json is to be a training result, and lacks task, run, softmax, seed, accuracy"
    ):
        training_results(tmp_path)


def test_the_command(tmp_path):
    command = [sys.executable, "scripts/bench/alternatives.py", f"out={tmp_path}/t.json", f"train={tmp_path}/train"]
    done = subprocess.run([*command, "names=[cgf,sigmoid,gaussian]"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    written = json.loads((tmp_path / "t.json").read_text())
    assert [row["softmax"] for row in written["table"]] == ["cgf", "sigmoid", "gaussian"]
    assert [row["levels"] for row in written["table"]] == [6, 5, 5] and (tmp_path / "t.png").is_file()
    wrong = subprocess.run([*command, "names=[sofmax]"], cwd=ROOT, capture_output=True, text=True)
    assert wrong.returncode == 2 and "unknown softmax 'sofmax'" in wrong.stderr
