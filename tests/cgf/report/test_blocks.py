"""Tables of a document come from result files alone, and a stale one is noticed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cgf.bench.timings import timings
from cgf.errors import UserError
from cgf.report.blocks import MAKERS, filled, grid
from cgf.report.training import NEEDED

ROOT = Path(__file__).resolve().parents[3]


def seconds(mean):
    return {"median": mean, "low": mean - 0.01, "high": mean + 0.01}


def cost_file(folder, ours=0.5, paper=2.0):
    row = {
        "ring_slots": 16384,
        "levels_counted": 7,
        "ops": {"cmult": 29, "rotate": 12, "relinearize": 26, "boot": 0},
        "max_error": 4e-6,
        "eta": 5e-6,
        "peak_mib": 1000.0,
    }
    (folder / "bench").mkdir(exist_ok=True)
    results = {"ours": {**row, "seconds": seconds(ours)}, "paper": {**row, "seconds": seconds(paper)}, "cho": None}
    (folder / "bench" / "softmax.json").write_text(json.dumps(results))


def test_a_block_is_filled_and_the_rest_left_alone(tmp_path):
    cost_file(tmp_path)
    text = "before\n<!-- table: cost -->\nold\n<!-- end -->\nafter\n<!-- table: cost -->\n<!-- end -->\n"
    new = filled(text, tmp_path)
    assert (
        new.startswith("before\n<!-- table: cost -->\n| circuit |") and new.count("| 0.50 (0.49 to 0.51) | 1.0 |") == 2
    )
    assert "| 2.00 (1.99 to 2.01) | 4.0 |" in new and "old" not in new and "\n<!-- end -->\nafter\n" in new
    assert "Cho" not in new  # not measured: no row
    assert filled(new, tmp_path) == new


def test_a_list_within_a_line_comes_from_whoever_asks(tmp_path):
    text = "| softmax | <!-- list: softmax -->`old`<!-- end --> and more |"
    assert filled(text, tmp_path, {"softmax": "`x`", "starred": "none"}) == text.replace("`old`", "`x`")
    with pytest.raises(UserError, match="a list is one of none, and the document asks for 'softmax'"):
        filled(text, tmp_path)


def test_seconds_by_operation(tmp_path):
    cost_file(tmp_path)
    path = tmp_path / "bench" / "softmax.json"
    result = json.loads(path.read_text())
    kinds = ("add", "pmult", "imult", "cmult", "rotate", "relinearize", "boot")
    spent = {kind: timings([0.1 * i, 0.1 * (i + 1), i]) for i, kind in enumerate(kinds)}
    result["ours"]["seconds"]["by_operation"] = spent
    result["paper"]["seconds"]["by_operation"] = {**spent, "boot": timings([83.58, 83.58])}
    path.write_text(json.dumps(result))
    made = MAKERS["cost_by_operation"](tmp_path).splitlines()
    assert made[0] == "| circuit | Add | PMult | IMult | CMult | Rot | relinearize | Boot | total |" and len(made) == 4
    assert made[2].endswith("| 0.60 (0.50 to 5.00) | 83.58 | 2.00 (1.99 to 2.01) |")
    assert made[3].endswith(
        "| 0.00 (0.00 to 0.10) | 0.20 (0.10 to 1.00) | 0.30 (0.20 to 2.00) | 0.40 (0.30 to 3.00) | "
        "0.50 (0.40 to 4.00) | 0.60 (0.50 to 5.00) | 0.70 (0.60 to 6.00) | 0.50 (0.49 to 0.51) |"
    )


def test_depths_state_domain_and_error_or_that_there_is_none(tmp_path):
    row = {
        "method": "m",
        "maximum": "none",
        "division": False,
        "adaptive": True,
        "levels": 7,
        "published_levels": None,
        "ops": {"cmult": 29, "rotate": 12, "boot": None},
    }
    stated, unstated = {"domain": [-128.0, 0.0], "error_bound": 1.9e-6}, {"domain": "none", "error_bound": "none"}
    older, exact = {"domain": None, "error_bound": None}, {"domain": [-8.0, 8.0], "error_bound": 0.0}
    (tmp_path / "bench").mkdir()
    methods = {"methods": [{**row, **more} for more in (stated, unstated, older, exact)]}
    (tmp_path / "bench" / "complexity.json").write_text(json.dumps(methods))
    made = MAKERS["depths"](tmp_path).splitlines()
    assert made[0].endswith("| Boot | domain | error bound |")
    assert [line.split(" | ")[-2:] for line in made[2:]] == [
        ["-128 to 0", "2e-06 |"],
        ["none", "none |"],
        ["none", "none |"],
        ["-8 to 8", "0e+00 |"],
    ]


def test_what_cannot_be_filled_is_named(tmp_path):
    with pytest.raises(UserError, match="the document asks for 'nothing'"):
        filled("<!-- table: nothing -->\n<!-- end -->", tmp_path)
    with pytest.raises(UserError, match=r"softmax\.json, and it is not there"):
        filled("<!-- table: cost -->\n<!-- end -->", tmp_path)


def test_a_grid():
    assert grid(["a", "b"], [["1", "2"]]) == "| a | b |\n| --- | --- |\n| 1 | 2 |"


def test_alternatives_show_accuracies_where_there_are_any(tmp_path):
    row = {"levels": 6, "cmult": 6, "order": "strict", "positive": "yes", "shift_invariant": True, "accuracy": {}}
    blank = dict.fromkeys(row, None)  # a name that only training knew when the file was made
    table = [{**row, "softmax": "cgf"}, {**row, "softmax": "cho"}, {**blank, "softmax": "own"}]
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "alternatives.json").write_text(json.dumps({"table": table}))
    assert MAKERS["alternatives"](tmp_path).splitlines()[0].endswith("| shift invariance |")
    trained = {
        **dict.fromkeys(NEEDED),
        "host": "toy",
        "task": "t",
        "softmax": "cgf",
        "accuracy_exact": 0.95,
        "epochs": 3,
        "best_epoch": 2,
        "total_levels": 6,
        "dirty": False,
    }
    (tmp_path / "train").mkdir()
    for seed, accuracy in ((1, 0.85), (2, 0.95)):
        file = tmp_path / "train" / f"toy-t-cgf-{seed}.json"
        paired = {"both": 85, "neither": 5, "this_alone": 0, "exact_alone": 10}  # of 100 samples
        if seed == 2:
            paired |= {"both": 95, "exact_alone": 0}
        file.write_text(json.dumps({**trained, "seed": seed, "accuracy": accuracy, "paired": paired}))
    made = MAKERS["alternatives"](tmp_path)
    assert made.splitlines()[0].endswith("| shift invariance | toy t (seeds) |")
    assert "| cgf | 6 | 6 | strict | yes | yes | 90.00 % (2) |" in made
    assert made.endswith("| cho | 6 | 6 | strict | yes | yes | – |")


def script(*arguments):
    return subprocess.run(
        [sys.executable, "scripts/repo/tables.py", *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_the_script_refuses_a_stale_table_and_writes_a_fresh_one(tmp_path):
    cost_file(tmp_path)
    document = tmp_path / "d.md"
    document.write_text("<!-- table: cost -->\n<!-- end -->\n")
    stale = script("--check", "--results", tmp_path, document)
    assert stale.returncode == 2 and "d.md has stale tables" in stale.stderr
    assert document.read_text() == "<!-- table: cost -->\n<!-- end -->\n"
    assert script("--results", tmp_path, document).returncode == 0
    assert script("--check", "--results", tmp_path, document).returncode == 0
    cost_file(tmp_path, ours=0.25)
    assert script("--check", "--results", tmp_path, document).returncode == 2


def test_every_table_of_the_readme_has_a_maker_and_every_maker_a_docstring():
    for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        filled(path.read_text(), ROOT / "results", {"softmax": "`x`", "starred": "none"})
    assert all(make.__doc__ for make in MAKERS.values())


def test_cumulants_show_what_was_before_first(tmp_path):
    def kappa(name, std):
        return {"name": name, "count": 12000, "mean": -0.25, "std": std, "quantiles": {"0.001": -3.0, "0.999": 2.5}}

    text = "<!-- table: cumulants -->\n<!-- end -->\n"
    with pytest.raises(UserError, match=r"holds no friendly\.json of a host"):
        filled(text, tmp_path)
    (tmp_path / "friendly" / "host-task").mkdir(parents=True)
    result = {"model": "host", "task": "task", "kappa": [kappa("cgf", 0.125), kappa("teacher", 0.75)]}
    (tmp_path / "friendly" / "host-task" / "friendly.json").write_text(json.dumps(result))
    lines = filled(text, tmp_path).splitlines()
    assert lines[3] == "| host | task | teacher | 12,000 | -0.250 | 0.750 | -3.00 to 2.50 |"
    assert lines[4] == "| host | task | cgf | 12,000 | -0.250 | 0.125 | -3.00 to 2.50 |"
