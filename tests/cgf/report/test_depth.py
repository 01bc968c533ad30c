"""Figures of accuracy against depth and the frontier: levels, intervals and choices come from the rows as they are."""

import pytest
from test_training_table import write

from cgf.errors import UserError
from cgf.predictions import Predictions, packed
from cgf.report import depth, depth_plot, frontier
from cgf.report.comparison import KEPT
from cgf.report.figure import is_current
from cgf.results import append_lines, write_json
from cgf.stats.intervals import wilson


@pytest.fixture
def folder(tmp_path):
    planned = {"both": 70, "neither": 21, "this_alone": 2, "exact_alone": 7}
    common = {"host": "digits"}
    write(tmp_path, "exact", 42, 0.9, total_levels=None, validation=0.9, **common)
    write(
        tmp_path,
        "cgf",
        42,
        0.91,
        total_levels=5,
        accuracy_planned=0.85,
        paired_planned=planned,
        validation=0.95,
        **common,
    )
    write(tmp_path, "cgf", 43, 0.89, total_levels=6, validation=0.95, **common)
    write(tmp_path, "relu", 42, 0.93, total_levels=5, validation=0.8, **common)
    write(tmp_path, "bpmax", 42, 0.7, total_levels=2, validation=0.85, **common)
    line = {"figure": "trained", "date": "2026-01-02", "commit": "a", "reason": "first"}
    names = [f"train/{path.stem}" for path in sorted((tmp_path / "train").glob("*.json"))]
    append_lines(tmp_path / "opened.jsonl", [{"row": name, **line} for name in names])
    return tmp_path


def approximated(folder, **more):
    result = {
        "host": "digits",
        "task": "t",
        "softmax": "cho",
        "levels": 45,
        "seed": 42,
        "samples": 100,
        "correct": 88,
        "accuracy": 0.88,
        "loss": 0.1,
        "paired": {"both": 87, "this_alone": 1, "exact_alone": 3, "neither": 9},
        "run": {"git": {"dirty": False}},
        **more,
    }
    write_json(folder / "approximated" / "digits-t-cho-42.json", result)


def test_a_point_has_the_accuracy_that_belongs_to_its_levels_and_what_its_worst_seed_needs(folder):
    found = {p["softmax"]: p for p in depth.points(folder)}
    cgf, relu, exact = found["cgf"], found["relu"], found["exact"]
    assert (cgf["levels"], cgf["least_levels"], cgf["seeds"]) == (6, 5, [42, 43])
    assert cgf["accuracy"] == pytest.approx(87.0)  # 85 with the polynomial, not 91, and 89
    assert cgf["against_exact"] == pytest.approx(-3.0) and not cgf["decided"]
    low, high = wilson(93, 100)
    assert (relu["low"], relu["high"]) == pytest.approx((100 * low, 100 * high))
    assert exact["levels"] is None and exact["against_exact"] is None


def test_a_published_polynomial_stands_against_the_model_that_it_was_put_into(folder):
    approximated(folder)
    cho = next(p for p in depth.points(folder) if p["softmax"] == "cho")
    assert (cho["levels"], cho["kind"], cho["labels"]) == (45, "approximated", ["undecided: 1 seed"])
    assert cho["against_exact"] == pytest.approx(-2.0) and cho["low"] == pytest.approx(100 * wilson(88, 100)[0])
    approximated(folder, run={"git": {"dirty": True}})
    with pytest.raises(UserError, match="must come from a clean tree"):
        depth.points(folder)
    write_json(folder / "approximated" / "digits-t-cho-42.json", {"host": "digits"})
    with pytest.raises(UserError, match=r"lacks task, softmax"):
        depth.points(folder)


def test_the_frontier_is_chosen_on_validation_among_what_the_levels_allow(folder):
    approximated(folder, levels=2, accuracy=0.99, correct=99)  # put into exact softmax: no softmax that was trained
    entries = {row["levels"]: row for row in frontier.entries(depth.points(folder))}
    assert [entries[levels]["softmax"] for levels in (2, 3, 4, 5)] == [
        "bpmax"
    ] * 4  # relu tests better, validates worse
    assert (
        entries[5]["accuracy"] == pytest.approx(0.7) and entries[5]["own_levels"] == 2 and not entries[5]["supported"]
    )
    write(folder, "taylor", 42, 0.6, total_levels=3, validation=0.99, host="digits")
    entries = {row["levels"]: row for row in frontier.entries(depth.points(folder))}
    assert [entries[levels]["softmax"] for levels in (2, 3, 5)] == ["bpmax", "taylor", "taylor"]


def test_a_red_run_says_so_in_its_name_and_is_no_part_of_the_frontier(folder):
    red = {"evaluation": {"accuracy": 0.6, "red": ["x"]}}
    write(folder, "taylor", 42, 0.6, total_levels=3, validation=0.99, host="digits", **red)
    points = depth.points(folder)
    assert [p["softmax"] for p in points if p.get("red")] == ["taylor (red)"]
    assert {row["softmax"] for row in frontier.entries(points)} == {"bpmax"}


def point(softmax, levels, **validations):
    return {"softmax": softmax, "levels": levels, "seeds": sorted(validations), "validations": validations}


def test_runs_are_judged_by_the_seeds_that_they_share():
    few = point("taylor", 2, a=0.9, b=0.8, c=0.7)
    many = point("bpmax", 3, a=0.9, b=0.81, c=0.7, d=0.1)  # better on the seeds of both, worse on all of its own
    lucky = point("relu", 2, a=0.99)  # a seed alone is left out where others have three
    assert frontier.best([few, many, lucky]) is many
    assert frontier.best([lucky, point("quad", 2, a=0.98, b=1.0)]) is lucky
    assert frontier.best([point("quad", 2, b=0.98), lucky]) is lucky  # none is shared: each by its own


def test_of_equals_the_one_of_fewer_levels_is_taken_whatever_the_rounding():
    one, other = point("a", 5, x=0.1, y=0.2, z=0.3), point("b", 2, x=0.3, y=0.2, z=0.1)
    assert frontier.best([one, other]) is frontier.best([other, one]) is other
    assert frontier.best([other, point("c", 2, x=0.3, y=0.2, z=0.1)]) is other  # then the first by name


def test_the_table_comes_from_the_file(folder):
    with pytest.raises(UserError, match=r"needs .*frontier\.json"):
        frontier.table(folder)
    write_json(folder / "frontier.json", {"rows": frontier.entries(depth.points(folder))})
    assert "| digits | t | 2 | `bpmax` | 2 | 42 | 70.00 % [" in frontier.table(folder)


def test_a_figure_tells_what_it_shows(folder, tmp_path):
    approximated(folder)
    figure = depth.of_family(depth.points(folder), "vit")
    assert [(p["host"], p["task"]) for p in figure["panels"]] == [("digits", "t")]
    assert figure["published_levels"]["cho"] == 52
    path = tmp_path / "figure.png"
    path.write_bytes(depth_plot.plot(figure))
    assert is_current(path, depth_plot.shown(figure))
    assert not is_current(path, depth_plot.shown({**figure, "published_levels": {}}))
    with pytest.raises(UserError, match="the figure of llama needs rows of stories260k, smollm2"):
        depth.of_family(depth.points(folder), "llama")


def test_a_row_that_lacks_the_counts_of_its_plan_is_refused(folder):
    write(folder, "power", 42, 0.9, host="digits", total_levels=4, validation=0.9, accuracy_planned=0.8)
    with pytest.raises(UserError, match="row power of digits, seed 42, has accuracy_planned and lacks paired_planned"):
        depth.points(folder)


def test_a_row_that_lacks_the_predictions_of_its_plan_is_refused():
    told = packed("labels", [0, 1])
    row = {"host": "digits", "run": "cgf", "seed": 42, "accuracy_planned": 0.5, "paired_planned": {"both": 2}}
    with pytest.raises(UserError, match="has accuracy_planned and lacks predictions with the plan"):
        depth.with_its_polynomial({**row, KEPT: Predictions(told, told, told, None)})
