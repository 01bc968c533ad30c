"""Damaged and hostile files below a report: a sentence that names the file, or a page, and never a traceback."""

import json

import pytest
from fine_result import FINE, HEADS

from cgf.errors import UserError
from cgf.report import cards, page, plots, scopes, tables
from cgf.report.collect import collect
from cgf.report.figure import new_figure, svg
from cgf.report.shapes import EVALUATION, FRIENDLY, RUN

RESULT = {
    **{key: value for key, value in FINE.items() if key != "_path"},
    "layers": [{"layer": 0, "max_error": 3e-6, "heads": HEADS}],
    "seconds": {"total": 2.0, "encrypt": 1.0},
    "ops": {"cmult": 4},
    "run": {"command": ["eval_he.py"], "hardware": {"cpu": "x"}, "git": {"commit": "a", "dirty": False}},
}


def shown(folder, **files):
    """Everything that scripts/report.py makes of a folder with these files."""
    for name, content in files.items():
        path = folder / {"result": "ckpt-1/eval/a.json", "metrics": "metrics.jsonl"}.get(name, f"{name}.json")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    inputs = collect(folder)
    scopes.side_by_side(inputs.results)
    tables.terminal(tables.table_rows(inputs.results))
    return page.page(inputs), tables.other_rows(inputs.results), cards.all_cards(inputs.results)


@pytest.mark.parametrize("field", [*RUN, *EVALUATION, "layers.heads"])
def test_a_field_of_another_shape_is_named_with_its_file(tmp_path, field):
    assert "cgf" in shown(tmp_path, result=RESULT)[0]
    outer, _, inner = field.rpartition(".")
    wrong = "x"
    change = {field: wrong} if not outer else {outer: {inner: wrong}} if outer == "run" else {outer: [{inner: wrong}]}
    with pytest.raises(UserError, match=rf"a\.json needs an? .* as '{field}', and has 'x'"):
        shown(tmp_path, result={**RESULT, **change})


@pytest.mark.parametrize(
    "change", [{"layers": [5]}, {"run": 5}, {"run": {"command": 5}}, {"run": {"hardware": 5}}, {"ops": [1]}]
)
def test_what_was_seen_to_end_in_a_traceback_is_a_sentence(tmp_path, change):
    with pytest.raises(UserError, match=r"a\.json needs "):
        shown(tmp_path, result={**RESULT, **change})


def test_a_network_that_says_next_to_nothing_is_shown(tmp_path):
    assert "network" in shown(tmp_path, result={"kind": "eval_network", "encrypted": True})[0]


def test_a_name_that_begins_a_formula_is_shown_as_it_is(tmp_path):
    name = r"$\frac$"
    assert name in shown(tmp_path, result={**RESULT, "model": name, "seconds": {name: 1.0}})[0]
    assert plots.training_curves({name: [{"step": 1, "loss": 2.0}, {"step": 2, "loss": 1.0}]})
    figure, (ax,) = new_figure(2.0)
    ax.plot([1, 2], [1e-3, 1e3], label=name)
    ax.set_yscale("log")
    ax.set_title(name)
    ax.legend()
    assert svg(figure).count(name.encode()) == 2


@pytest.mark.parametrize(("content", "says"), [({}, "lacks layers, one_plan"), ([], "needs to hold an object")])
def test_a_report_of_friendliness_is_whole(tmp_path, content, says):
    with pytest.raises(UserError, match=rf"friendly\.json .*{says}"):
        shown(tmp_path, friendly=content)
    assert set(FRIENDLY) >= {"layers", "one_plan", "kappa"}


@pytest.mark.parametrize(
    ("files", "says"),
    [
        (
            {"metrics": '{"step": 1, "loss": 2.0}\n5\n'},
            r"metrics\.jsonl needs an object in each line, and line 2 has 5",
        ),
        ({"plan": [], "result": RESULT}, r"plan\.json needs to hold an object, and holds a list"),
    ],
)
def test_lines_and_plans_are_objects(tmp_path, files, says):
    with pytest.raises(UserError, match=says):
        shown(tmp_path, **files)
