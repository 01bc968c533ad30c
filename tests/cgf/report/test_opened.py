"""The register of openings beside result files and their history, in a repository made for it."""

import json
import subprocess

import pytest

from cgf.errors import UserError
from cgf.report.opened import CORRECTED, FILE, WITHDRAWN, check, history, missing, withdrawn_table
from cgf.results import append_lines, read_lines, write_json

ROW = "train/toy-t-cgf-42"


def row(accuracy, planned=None):
    evaluations = {"evaluation": accuracy, "evaluation_planned": planned}
    return {k: None if a is None else {"samples": 10, "accuracy": a, "loss": 1 - a} for k, a in evaluations.items()}


@pytest.fixture
def results(tmp_path):
    def git(*arguments):
        subprocess.run(["git", "-C", str(tmp_path), *arguments], check=True, capture_output=True)

    def commit(subject):
        git("add", "results")
        git("-c", "user.name=n", "-c", "user.email=e", "commit", "-q", "--allow-empty", "-m", subject)

    git("init", "-q")
    folder = tmp_path / "results"
    write_json(folder / "train" / "toy-t-cgf-42.json", row(0.8, 0.7))
    commit("a row")
    write_json(folder / "train" / "toy-t-cgf-42.json", {**row(0.8, 0.7), "note": "the same figures"})
    commit("a note")
    write_json(folder / "train" / "toy-t-cgf-42.json", row(0.9, 0.7))
    write_json(folder / "he" / "toy-t-cgf.json", {"kind": "eval_he", "samples": 10, "accuracy": 0.8})
    commit("better")
    return folder, commit


def test_the_history_tells_each_figure_once_a_value(results):
    folder, _ = results
    told = [line for line, _ in history(folder.parent)]
    assert [(line["row"], line["figure"], line["reason"]) for line in told] == [
        ("train/toy-t-cgf-42", "trained", "first"),
        ("train/toy-t-cgf-42", "planned", "first"),
        ("he/toy-t-cgf", "ckks", "first"),
        ("train/toy-t-cgf-42", "trained", "better (read off the history)"),
    ]
    assert all(len(line["commit"]) == 40 and len(line["date"]) == 10 for line in told)


def test_other_weights_of_the_same_accuracy_are_another_opening(results):
    folder, commit = results
    other = row(0.9, 0.7)
    other["evaluation"]["loss"] = 0.3
    write_json(folder / "train" / "toy-t-cgf-42.json", other)
    commit("other weights")
    assert [line["reason"] for line, _ in history(folder.parent)][4:] == ["other weights (read off the history)"]


def test_whole_networks_and_tables_of_costs_are_opened_too(results):
    folder, commit = results
    parts = {"replaced": ["norm", "softmax"], "samples": 10, "accuracy": {"42": 0.5, "43": 0.6}}
    write_json(folder / "network" / "cost-toy.json", {"rows": [parts, {**parts, "replaced": []}]})
    write_json(folder / "he" / "network" / "toy-t.json", {"kind": "eval_network", "samples": 10, "accuracy": 0.8})
    commit("a network and what it costs")
    told = [(line["row"], line["figure"]) for line, _ in history(folder.parent)][4:]
    wanted = [("network/cost-toy", f"{name} {seed}") for name in ("norm and softmax", "own parts") for seed in (42, 43)]
    assert sorted(told) == sorted([("he/network/toy-t", "ckks"), *wanted])


def test_what_the_register_lacks_or_lost_is_noticed(results):
    folder, commit = results
    with pytest.raises(UserError, match=r"lacks the opening of train/toy-t-cgf-42 \(trained, planned\)"):
        check(folder)
    lines = missing(folder)
    append_lines(folder / FILE, lines[:-1])
    with pytest.raises(UserError, match="lacks 1 openings of the history, of train/toy-t-cgf-42 first"):
        check(folder)
    append_lines(folder / FILE, lines[-1:])
    check(folder)
    commit("register")
    append_lines(folder / FILE, [{**lines[0], "reason": "asked for again"}])
    check(folder)
    commit("once more")
    (folder / FILE).write_text("".join(json.dumps(line) + "\n" for line in lines))  # a line taken out again
    with pytest.raises(UserError, match="is only added to"):
        check(folder)


def test_a_row_that_tells_of_other_openings_is_refused(results):
    folder, _ = results
    append_lines(folder / FILE, missing(folder))
    own = [line for line in read_lines(folder / FILE) if line["row"] == "train/toy-t-cgf-42"]
    write_json(folder / "train" / "toy-t-cgf-42.json", {**row(0.9, 0.7), "opened": own[:1]})
    check(folder)
    write_json(folder / "train" / "toy-t-cgf-42.json", {**row(0.9, 0.7), "opened": [{**own[0], "date": "1999-01-01"}]})
    with pytest.raises(UserError, match="tells of other openings"):
        check(folder)


def test_a_row_that_was_opened_is_not_left_out_in_silence(results):
    """An inconvenient seed: without it a label may hold that did not."""
    folder, commit = results
    append_lines(folder / FILE, [*missing(folder), {**missing(folder)[0], "row": "train/toy-t-teacher-42"}])
    check(folder)
    kept = (folder / f"{ROW}.json").read_bytes()
    (folder / f"{ROW}.json").unlink()
    for committed in (False, True):
        if committed:
            commit("tables")
        with pytest.raises(UserError, match=f"{ROW} was opened and has no file: put it back, or say in"):
            check(folder)
    reason = {"row": ROW, "date": "2026-12-01", "reason": "made with a wrong setting"}
    append_lines(folder / WITHDRAWN, [reason])
    check(folder)
    assert withdrawn_table(folder).splitlines()[2:] == [f"| `{ROW}` | 2026-12-01 | made with a wrong setting |"]
    (folder / f"{ROW}.json").write_bytes(kept)
    with pytest.raises(UserError, match=f"says that {ROW} is shown no more, and its file is there"):
        check(folder)
    (folder / WITHDRAWN).write_text('{"row": "train/toy-t-cgf-42"}\n')
    with pytest.raises(UserError, match="needs row, date, reason in each line, and line 1 has not"):
        check(folder)


@pytest.mark.parametrize(
    ("field", "before", "now", "allowed"),
    [
        ("validation", 0.9, 0.8, None),
        ("total_levels", 5, 4, 5),
        ("trials", 36, 1, 71),
        ("predictions", {"sha256": "a"}, {"sha256": "b"}, {"sha256": "a"}),
        ("predictions", {"sha256": "a"}, None, {"sha256": "a"}),
        ("yardstick", False, True, False),
        ("within", 0.5, 1.0, 0.5),
        ("tuning", "a", None, "a"),
        ("trained", True, False, True),
        ("accuracy_teacher", 0.9, 0.8, 0.9),
        ("teacher", None, "other", "teacher"),
        ("teacher", "teacher", "other", None),
    ],
)
def test_what_labels_hang_on_does_not_change_beside_the_same_test_figures(results, field, before, now, allowed):
    folder, commit = results
    append_lines(folder / FILE, missing(folder))
    for value in (before, before if allowed is None else allowed):
        write_json(folder / f"{ROW}.json", {**row(0.9, 0.7), field: value})
        check(folder)
        commit("a row")
    write_json(folder / f"{ROW}.json", {**row(0.9, 0.7), field: now})
    for committed in (False, True):
        if committed:
            commit("a better one")
        with pytest.raises(UserError, match=f"{ROW} has the test figure of a version before and another '{field}'"):
            check(folder)
    if field != "total_levels":  # a figure with a plan that is added is no excuse
        write_json(folder / f"{ROW}.json", {**row(0.9, 0.6), field: now})
        with pytest.raises(UserError, match=r"and another|lacks"):
            check(folder)
        write_json(folder / f"{ROW}.json", {**row(0.9, 0.7), field: now})
    append_lines(folder / CORRECTED, [{"row": ROW, "field": field, "date": "2026-12-01", "reason": "counted wrong"}])
    check(folder)
    write_json(folder / f"{ROW}.json", {**row(0.9, 0.7), field: before})
    if field != "trials" and now is not None:  # the line was for one change
        with pytest.raises(UserError, match="and another"):
            check(folder)
    write_json(folder / f"{ROW}.json", {**row(0.9, 0.7), field: now})
    commit("told")
    (folder / CORRECTED).write_text((folder / CORRECTED).read_text().replace("counted wrong", "no reason"))
    with pytest.raises(UserError, match=r"corrected\.jsonl is only added to"):
        check(folder)


def test_outside_a_checkout_the_files_alone_are_looked_at(tmp_path, results):
    folder = tmp_path.parent / f"{tmp_path.name}-bare" / "results"
    write_json(folder / "train" / "toy-t-cgf-42.json", row(0.8))
    assert history(folder.parent) is None and missing(folder) == []
    with pytest.raises(UserError, match="lacks the opening"):
        check(folder)
