"""The report of result files made up here: every figure below is a test input, not a measurement."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from cgf.errors import UserError
from cgf.report import levels_figure, plots, tables
from cgf.report.collect import collect
from cgf.report.page import LICENCE, SCOPE, page, write_page
from cgf.results import append_line, read_json, write_json

ROOT = Path(__file__).resolve().parents[3]
RUN = {
    "command": ["eval_he.py", "ckpt=student"],
    "time_utc": "2001-02-03T04:05:06+00:00",
    "git": {"commit": "c0ffee" * 6 + "abcd", "dirty": True},
    "versions": {"python": "3.11.0", "torch": "0.0.1"},
    "hardware": {"cpu": "Test CPU", "cores": 2, "memory_gib": 8.0, "gpu": None},
    "seed": 42,
    "config": {"softmax": "cgf", "note": "<b>&"},
    "data": {"digits": "test-revision"},
    "model": None,
}
SHARED = {"model": "vit_digits", "task": "digits", "split": "test", "run": RUN}
CLEAR = SHARED | {
    "kind": "eval_plain",
    "softmax": "cgf",
    "approx": "exact",
    "samples": 360,
    "accuracy": 0.9722,
    "outside_domain": 0.0,
    "beyond_guard": 0,
    "levels": None,
    "domain": None,
    "guard": None,
    "range": [-3.5, 4.25],
    "row_sum": {"min": 0.9, "median": 1.0, "max": 1.1},
    "seconds": 1.2,
}
ENCRYPTED = SHARED | {
    "kind": "eval_he",
    "softmax": "cgf",
    "approx": "chebyshev",
    "engine": "desilo",
    "samples": 20,
    "accuracy": 0.95,
    "accuracy_plain": 0.96,
    "accuracy_exact": 0.94,
    "agreement": 1.0,
    "max_error": 3.25e-6,
    "mean_error": 1.5e-7,
    "levels": 11,
    "levels_counted": 11,
    "ring_slots": 16384,
    "entries": 400000,
    "ops": {"add": 1234, "pmult": 567, "cmult": 89, "rotate": 12, "relinearize": 34},
    "seconds": {"total": 80.0, "encrypt": 9.0, "circuit": 60.0, "decrypt": 4.0, "add": 2.0, "cmult": 41.5},
    "outside_domain": 0.00001,
    "beyond_guard": 0,
    "layers": [
        {"layer": 0, "max_error": 3.25e-6, "mean_error": 1.5e-7, "levels": 11, "range": [-3.5, 4.0]},
        {"layer": 1, "max_error": 1e-6, "mean_error": 0.0, "levels": 11, "range": [-2.0, 3.0]},
    ],
}


@pytest.fixture
def root(tmp_path):
    """A teacher, and a student with a plan and three evaluations."""
    for step in range(0, 200, 10):
        append_line(tmp_path / "teacher" / "metrics.jsonl", {"step": step, "loss": 2 / (1 + step / 40), "lr": 1e-3})
        append_line(tmp_path / "student" / "metrics.jsonl", {"step": step, "loss": 1 / (1 + step / 60), "lr": 1e-3})
    for step, accuracy in ((100, 0.9), (200, 0.97)):
        append_line(tmp_path / "teacher" / "metrics.jsonl", {"step": step, "val_accuracy": accuracy})
        append_line(tmp_path / "student" / "metrics.jsonl", {"step": step, "val_accuracy": accuracy - 0.01})
    write_json(tmp_path / "teacher/ckpt-200/eval/exact.json", CLEAR | {"softmax": "exact", "accuracy": 0.9806})
    student = tmp_path / "student" / "ckpt-200"
    plan = {"method": "chebyshev", "exponential": {"coefficients": [0.123456] * 16}, "levels": 10, "range": [-4, 5]}
    write_json(student / "plan.json", plan)
    write_json(student / "eval" / "exact.json", CLEAR)
    write_json(student / "eval" / "cheb.json", CLEAR | {"approx": "chebyshev", "accuracy": 0.9694, "levels": 10})
    write_json(student / "eval" / "he.json", ENCRYPTED)
    return tmp_path


def text_of(html):
    """The page's words, without the embedded images and the tags."""
    return re.sub(r"<[^>]*>", " ", html)


def test_rows_hold_the_figures_of_the_files(root):
    shown = tables.table_rows(collect(root).results)
    assert [(row["softmax"], row["exponential"], row["engine"]) for row in shown] == [
        ("exact", "exact", "clear"),
        ("cgf", "exact", "clear"),
        ("cgf", "chebyshev", "clear"),
        ("cgf", "chebyshev", "CKKS (desilo)"),
    ]
    encrypted = shown[-1]
    assert (encrypted["accuracy"], encrypted["accuracy_ckks"], encrypted["agreement"]) == (0.96, 0.95, 1.0)
    assert encrypted["entries_per_s"] == 5000.0
    assert tables.cells(encrypted)[5:] == [
        "11",
        "96.00 %",
        "95.00 %",
        "100.00 %",
        "3.25e-06",
        "5,000",
        "<0.01 %",
        "20 (test)",
    ]
    assert shown[0]["accuracy_ckks"] is None


def test_a_shard_is_marked_and_is_none_beside_what_it_was_merged_into(tmp_path):
    eval_ = tmp_path / "student" / "ckpt-200" / "eval"
    for number in (1, 2):
        part = {"digest": "d", "shard": f"{number}/2", "samples": 10, "samples_of_all_shards": 20}
        write_json(eval_ / f"part{number}.json", ENCRYPTED | part)
    assert [tables.samples(row) for row in collect(tmp_path).results] == [
        "10 (test, shard 1/2)",
        "10 (test, shard 2/2)",
    ]
    write_json(eval_ / "merged.json", ENCRYPTED | {"digest": "d", "shards": 2})
    assert [tables.samples(row) for row in collect(tmp_path).results] == ["20 (test)"]


def test_the_simulator_is_never_shown_as_ckks(root):
    simulated = ENCRYPTED | {"engine": "sim"}
    (row,) = tables.table_rows([simulated])
    assert row["accuracy_ckks"] is None
    assert row["engine"] == "simulator"
    assert [bar[0] for _, bars in plots._accuracy_groups([simulated]) for bar in bars] == [
        "exact",
        "polynomial",
        "simulator",
    ]


def test_the_page_contains_the_figures_it_was_given(root):
    path = write_page(collect(root), root / "report.html")
    html = path.read_text()
    words = text_of(html)
    for figure in (
        "98.06 %",
        "97.22 %",
        "96.94 %",
        "95.00 %",
        "96.00 %",
        "3.25e-06",
        "5,000",
        "1,234",
        "16,384",
        "41.5",
        "c0ffee" * 6 + "abcd with uncommitted changes",
        "torch 0.0.1",
        "Test CPU",
        "eval_he.py ckpt=student",
        "digits test-revision",
        "[-4, 5]",
        "test split, 20 to 360 samples",
        "student/ckpt-200/eval/he.json",
    ):
        assert figure in words, figure
    assert SCOPE in html
    assert LICENCE in html
    assert html.count("data:image/svg+xml;base64,") == 4
    assert str(root) not in html
    assert not re.search(r'(src|href)="(?!data:)', html)


def test_the_data_stand_beside_the_page(root):
    found = collect(root)
    write_page(found, root / "report.html")
    data = read_json(root / "report.data.json")
    assert (
        data["results"] == found.results and data["plans"] == found.plans and set(data["curves"]) == set(found.curves)
    )
    assert len(collect(root).results) == len(found.results)  # it is no result itself


def test_accuracy_against_levels_has_a_point_a_result_with_its_row(root):
    results = [ENCRYPTED, CLEAR | {"levels": 7, "approx": "plan"}, CLEAR, ENCRYPTED | {"model": "<b>"}]
    drawn = levels_figure.points(results)
    assert [(p[0], p[1], p[4]) for p in drawn] == [(11, 0.95, "ckks"), (7, 0.9722, "clear"), (11, 0.95, "ckks")]
    low, high = drawn[0][2:4]
    centre, spread = (0.95 + 1.96**2 / 40) / (1 + 1.96**2 / 20), 1.96 / (1 + 1.96**2 / 20)
    half = spread * (0.95 * 0.05 / 20 + 1.96**2 / 1600) ** 0.5
    assert low == pytest.approx(centre - half, abs=1e-4) and high == pytest.approx(centre + half, abs=1e-4)
    image = levels_figure.figure(results)
    assert image.count("<circle") == 3 and "cgf, chebyshev, CKKS (desilo), vit_digits on digits: 95.00 %" in image
    assert "11 levels" in image
    assert "<b>" not in image and "&lt;b&gt;" in image
    assert levels_figure.figure([CLEAR]) is None and '<svg class="levels"' in page(collect(root))


def test_values_from_files_are_escaped(root):
    write_json(root / "x" / "eval" / "evil.json", CLEAR | {"model": "<script>alert(1)</script>"})
    html = page(collect(root))
    assert "<script>" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert "&lt;b&gt;&amp;" in html  # the configuration


def test_bars_stand_together_only_on_the_same_samples(root):
    groups = plots._accuracy_groups(collect(root).results)
    assert [(label.splitlines()[0], [bar[2] for bar in bars]) for label, bars in groups] == [
        ("exact softmax", [0.9806]),
        ("cgf softmax", [0.9722, 0.9694]),
        ("cgf softmax", [0.94, 0.96, 0.95]),
    ]
    assert groups[0][0].endswith("samples: 360 (test)")
    assert groups[2][0].endswith("samples: 20 (test)")


def test_bars_of_other_samples_of_one_split_stand_apart():
    some = {**CLEAR, "samples": 50, "run": {**CLEAR.get("run", {}), "seed": 1}}
    others = {**some, "approx": "chebyshev", "accuracy": 0.5, "run": {**some["run"], "seed": 2}}
    assert [len(bars) for _, bars in plots._accuracy_groups([some, others])] == [1, 1]
    assert [len(bars) for _, bars in plots._accuracy_groups([some, {**others, "run": some["run"]}])] == [2]


def test_plots_are_svg_the_same_each_time_and_are_left_out_without_data(root):
    found = collect(root)
    drawn = (plots.accuracy_bars, plots.error_by_layer, plots.seconds_by_operation)
    for image in (plots.training_curves(found.curves), *(plot(found.results) for plot in drawn)):
        assert b"<svg" in image[:600]
    assert plots.accuracy_bars(found.results) == plots.accuracy_bars(found.results)
    assert plots.training_curves({"run": [{"step": 1, "loss": 1.0}], "empty": []}) is None
    assert plots.accuracy_bars([{"kind": "bench"}]) is None
    assert plots.error_by_layer([ENCRYPTED | {"layers": [{"layer": 0, "max_error": 0.0}]}]) is None
    assert plots.seconds_by_operation([ENCRYPTED | {"seconds": {"total": 3.0}}]) is None


def test_a_resumed_run_counts_its_later_lines():
    lines = [{"step": 1, "loss": 5.0}, {"step": 2, "loss": 4.0}, {"step": 2, "loss": 3.0}, {"step": 2, "epoch": 1.0}]
    assert plots._series({"run": lines}, "loss") == {"run": {1: 5.0, 2: 3.0}}


def test_an_unknown_kind_is_listed_and_breaks_nothing(root):
    bench = {"kind": "bench_rings", "ring": "N15", "ms": 12.5, "nested": {"a": 1}, "run": RUN}
    write_json(root / "bench" / "eval" / "rings.json", bench)
    write_json(root / "bench" / "eval" / "bare.json", {"value": 7})
    write_json(root / "bench" / "eval" / "thin.json", {"kind": "eval_he", "run": None})
    found = collect(root)
    assert {"result": "bench/eval/rings.json", "kind": "bench_rings", "ring": "N15", "ms": 12.5} in tables.other_rows(
        found.results
    )
    words = text_of(page(found))
    assert "bench_rings" in words
    assert "12.5" in words
    assert "bench/eval/bare.json" in words


def test_a_training_run_alone_makes_a_report(tmp_path):
    for step in (1, 2):
        append_line(tmp_path / "metrics.jsonl", {"step": step, "loss": 1 / step})
    html = page(collect(tmp_path))
    assert html.count("data:image/svg+xml;base64,") == 1
    assert "1 training run," in html


def test_markdown_has_a_line_a_row(root):
    lines = tables.markdown(tables.table_rows(collect(root).results)).splitlines()
    assert len(lines) == 2 + 4
    assert {line.count("|") for line in lines} == {len(tables.COLUMNS) + 1}
    assert "95.00 %" in lines[-1]


def test_shares_are_never_rounded_to_none_or_all():
    assert [tables.percent(share) for share in (0, 1e-9, 0.5, 0.999999, 1, None)] == [
        "0.00 %",
        "<0.01 %",
        "50.00 %",
        ">99.99 %",
        "100.00 %",
        "–",
    ]


def test_an_empty_folder_is_a_user_error(tmp_path):
    with pytest.raises(UserError, match="holds none"):
        collect(tmp_path)


def script(*args):
    command = [sys.executable, "scripts/report.py", *map(str, args)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def test_the_script_prints_the_table_and_the_path_last(root):
    done = script(root, "--out", root / "out.html")
    assert (done.returncode, done.stderr) == (0, "")
    assert SCOPE in done.stdout
    assert "95.00 %" in done.stdout
    assert done.stdout.splitlines()[-1] == str(root / "out.html")
    assert (root / "out.html").read_text().startswith("<!DOCTYPE html>")


def test_the_script_says_in_one_sentence_what_is_missing(tmp_path):
    done = script(tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert str(tmp_path) in done.stderr
    assert not list(tmp_path.iterdir())
