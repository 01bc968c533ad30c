"""Rows: what counts as an opening, and which predictions are kept."""

import pytest
from test_rows import Machine, folds, seed

from cgf.checkpoint import resolve
from cgf.errors import UserError
from cgf.openings import Register
from cgf.results import write_json
from cgf.study import row_content
from cgf.study.folded_row import folded
from cgf.study.opened import keep


def test_a_row_of_folds_has_the_most_levels_and_is_of_a_changed_tree_where_one_fold_is(tmp_path):
    made = []
    for one in folds(tmp_path, Machine(), Register(tmp_path / "opened.jsonl")):
        one.carry_out()
        made.append(row_content.row(one, one.study.run("exact"), "t"))
    row = folded([made[0] | {"total_levels": 5}, made[1] | {"total_levels": 6, "dirty": True}])
    assert (row["total_levels"], row["dirty"]) == (6, True)


def test_predictions_on_other_samples_are_not_kept(tmp_path):
    one, other = {"labels": [0, 1], "predictions": [0, 1]}, {"labels": [1, 0], "predictions": [0, 1]}
    for against, planned in ((other, None), (one, other)):
        with pytest.raises(UserError, match="predictions are kept of results on the same samples"):
            keep(tmp_path, "a", one, against, planned)
    assert not list(tmp_path.iterdir())


def test_a_plan_is_an_opening_of_its_own_and_another_plan_of_the_same_weights_one_more(tmp_path):
    register = Register(tmp_path / "opened.jsonl")
    one = seed(tmp_path / "runs", Machine(), register=register)
    one.carry_out(["teacher", "exact"])
    asked = one.study.run("exact"), one.chosen("exact"), True
    plan = resolve(one.chosen("exact")) / "plan.json"
    write_json(plan, {"k": 3})
    one.opening(*asked)
    one.opening(*asked)  # of the same plan: stopped and gone on with
    opened = register.of("train/toy-t-exact-42")
    assert [(line["figure"], line["reason"]) for line in opened] == [("trained", "first"), ("planned", "first")]
    write_json(plan, {"k": 4})
    with pytest.raises(UserError, match="opened once a row, and was of train/toy-t-exact-42"):
        one.opening(*asked)
