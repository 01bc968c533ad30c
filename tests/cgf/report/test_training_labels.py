"""Labels of the table of training: their correction, their stars, and the predictions behind them."""

import pytest
from test_training_table import cells, folder, kept, three_seeds, write  # noqa: F401

from cgf.errors import UserError
from cgf.predictions import Predictions, packed
from cgf.predictions import write as write_predictions
from cgf.report import glance, training
from cgf.results import read_json, write_json


def test_the_correction_is_one_over_both_columns_of_the_table(tmp_path):
    three_seeds(tmp_path)
    by_run = {entry["run"]: found for entry, *found in training.judged_groups(training.read_results(tmp_path))}
    entries = {g["run"]: g for g in training.groups(training.read_results(tmp_path))}
    p = entries["bpmax"]["exact"].p("above")
    assert 0 < p < 1e-4 and entries["cgf"]["yardstick"].p("above") == pytest.approx(p)
    assert by_run["bpmax"][0].p == pytest.approx(3 * p) and by_run["cgf"][1].p == pytest.approx(3 * p)  # of three
    assert by_run["exact"] == [None, None]  # against BPMax it is BPMax against it, which counts once


def test_figures_with_the_polynomial_are_held_against_their_predictions(tmp_path):
    answers, planned, labels = [1, 1, 0, 0], [1, 0, 0, 0], [1, 1, 1, 1]
    kept(tmp_path, "cgf", 42, answers, answers, labels)
    path = tmp_path / "train" / "toy-t-cgf-42.json"
    arrays = Predictions(*(packed("x", a) for a in (labels, answers, answers, planned)))
    paired = {"both": 1, "neither": 2, "this_alone": 0, "exact_alone": 1}
    row = {**read_json(path), "predictions": write_predictions(path.parent, path.stem, arrays)}
    row |= {"accuracy_planned": 0.25, "paired_planned": paired}
    write_json(path, row)
    assert training.read_results(tmp_path)[0]["accuracy_planned"] == 0.25
    for wrong in ({"accuracy_planned": 0.5}, {"paired_planned": {**paired, "both": 2, "neither": 1}}):
        write_json(path, row | wrong)
        with pytest.raises(UserError, match=rf"toy-t-cgf-42\.json says {next(iter(wrong))} .*, and its predictions"):
            training.read_results(tmp_path)


def test_seeds_of_other_numbers_of_samples_are_refused_without_predictions_too(folder):  # noqa: F811
    for number, samples in ((42, 100), (43, 200)):
        paired = {"both": 0.9 * samples, "neither": 0.1 * samples, "this_alone": 0, "exact_alone": 0}
        write(folder, "relu", number, 0.9, paired={key: round(count) for key, count in paired.items()})
    with pytest.raises(UserError, match="rows of toy on t have other test samples: relu, seed 42, relu, seed 43"):
        training.lines(training.read_results(folder))


def test_starred_labels_say_what_they_are_against(tmp_path):
    three_seeds(tmp_path)
    where = "`cgf` of toy on t is"
    assert glance.starred(tmp_path).split(", ") == [
        f"{where} `within 0.5` against exact softmax",
        f"{where} `above` against BPMax",
        f"{where} `within 0.5` against BPMax",
    ]


def test_trials_are_the_most_of_any_seed_and_at_least_so_many_where_one_does_not_tell_all(tmp_path):
    three_seeds(tmp_path)
    for seed, facts in ((43, {"trials": 30}), (44, {"all_trials": False})):
        path = tmp_path / "train" / f"toy-t-cgf-{seed}.json"
        write_json(path, {**read_json(path), **facts})
    assert cells(tmp_path, "cgf")["trials"] == "at least 30" and cells(tmp_path, "bpmax")["trials"] == "24"
