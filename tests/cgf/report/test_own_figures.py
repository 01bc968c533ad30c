"""A result file whose figures contradict what it keeps beneath them is refused by file and field."""

import copy
import json
import shutil
from pathlib import Path

import pytest

from cgf.errors import UserError
from cgf.report import cost, whole
from cgf.report.own_figures import check_clear, check_row
from cgf.report.training import read_results
from cgf.results import read_json, write_json

RESULTS = Path(__file__).resolve().parents[3] / "results"
ENCRYPTED = "vit_digits-digits-cgf"


@pytest.mark.parametrize(
    "field", ["accuracy", "accuracy_plain", "accuracy_exact", "agreement", "agreement_exact", "samples"]
)
def test_a_result_under_ckks_has_the_figures_of_its_predictions(tmp_path, field):
    (tmp_path / "predictions").mkdir()
    shutil.copy(RESULTS / "he" / "predictions" / f"{ENCRYPTED}.npz", tmp_path / "predictions")
    result = read_json(RESULTS / "he" / f"{ENCRYPTED}.json")
    path = tmp_path / f"{ENCRYPTED}.json"
    write_json(path, result)
    assert whole.read(path)["accuracy"] == result["accuracy"]
    write_json(path, {**result, field: result[field] - 1 / 359})
    with pytest.raises(UserError, match=f"{ENCRYPTED}.json says {field} .*, and its predictions have "):
        whole.read(path)


@pytest.mark.parametrize("field, value", [("accuracy", 0.999), ("correct", 358), ("samples", 300)])
def test_exact_softmax_has_the_figures_of_the_predictions_that_it_lists(tmp_path, field, value):
    exact = read_json(RESULTS / "he" / "exact" / f"{ENCRYPTED}.json")
    (tmp_path / "he" / "exact").mkdir(parents=True)
    write_json(tmp_path / "he" / "exact" / f"{ENCRYPTED}.json", {**exact, field: value})
    with pytest.raises(UserError, match=f"{ENCRYPTED}.json says {field} {value}, and its predictions have "):
        whole.exact_result(tmp_path, {"file": ENCRYPTED})
    with pytest.raises(UserError, match="needs a label for each of them"):
        check_clear(tmp_path, {**exact, "labels": exact["labels"][1:]})


ROW = {
    "accuracy": 0.8,
    "accuracy_planned": 0.7,
    "evaluation": {"samples": 10, "correct": 8, "accuracy": 0.8},
    "evaluation_planned": {"samples": 10, "correct": 7, "accuracy": 0.7},
    "paired": {"both": 6, "this_alone": 2, "exact_alone": 1, "neither": 1},
    "paired_planned": {"both": 6, "this_alone": 1, "exact_alone": 1, "neither": 2},
}


@pytest.mark.parametrize(
    "place, value, says",
    [
        (["accuracy"], 0.9, "says accuracy 0.9, and its evaluation has 0.8"),
        (["accuracy_planned"], 0.8, "says accuracy_planned 0.8, and its evaluation_planned has 0.7"),
        (["evaluation", "correct"], 9, "says evaluation.accuracy 0.8, and its evaluation.correct has 0.9"),
        (["paired", "both"], 7, "says paired 9 right answers, and its evaluation has 8 right answers"),
        (["paired", "neither"], 2, "says paired 11 samples, and its evaluation has 10 samples"),
        (["paired_planned", "both"], 5, "says paired_planned 6 right answers, and its evaluation_planned has 7"),
    ],
)
def test_a_row_of_training_has_the_figures_of_its_evaluations(place, value, says):
    check_row(Path("a.json"), ROW)
    check_row(Path("a.json"), {"accuracy": 0.8, "paired": ROW["paired"]})  # of before evaluations were kept
    row = copy.deepcopy(ROW)
    *outer, last = place
    (row[outer[0]] if outer else row)[last] = value
    with pytest.raises(UserError, match=f"a.json {says}"):
        check_row(Path("a.json"), row)


def test_the_table_of_training_refuses_a_row_that_contradicts_its_evaluation(tmp_path):
    row = read_json(RESULTS / "train" / "digits-digits-cgf-42.json")
    (tmp_path / "train").mkdir()
    write_json(tmp_path / "train" / "digits-digits-cgf-42.json", {**row, "accuracy": 1.0, "predictions": None})
    with pytest.raises(UserError, match=r"says accuracy 1\.0, and its evaluation has "):
        read_results(tmp_path)


@pytest.mark.parametrize(
    "place, says",
    [
        (("ours", "seconds", "median"), "says ours.seconds.median .*, and its runs have "),
        (("cho", "seconds", "low"), "says cho.seconds.low .*, and its runs have "),
        (("paper", "ways", "lanes", "seconds", "high"), "says paper.ways.lanes.seconds.high "),
        (("ratio_cho",), "says ratio_cho .*, and its medians have "),
    ],
)
def test_seconds_are_those_of_the_runs(tmp_path, place, says):
    (tmp_path / "bench").mkdir()
    shutil.copy(RESULTS / "bench" / "softmax.json", tmp_path / "bench")
    path = tmp_path / "bench" / "softmax.json"
    content = cost.read(tmp_path)
    *outer, last = place
    within = content
    for part in outer:
        within = within[part]
    within[last] *= 0.99
    path.write_text(json.dumps(content))
    with pytest.raises(UserError, match=says):
        cost.read(tmp_path)
