"""The table and the plot of training come from the rows alone, and stale or doubtful ones are noticed."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cgf.errors import UserError
from cgf.former import current_row
from cgf.predictions import Predictions, packed
from cgf.predictions import read as read_predictions
from cgf.predictions import write as write_predictions
from cgf.report import training, training_plot
from cgf.report.blocks import filled
from cgf.report.comparison import Verdict, accuracy_interval
from cgf.report.figure import new_figure
from cgf.report.values import value
from cgf.results import append_lines, read_json, write_json

ROOT = Path(__file__).resolve().parents[3]
TEXT = "<!-- table: training -->\n<!-- end -->\n"

PLANNED = {"accuracy": 0.875}


def write(folder, softmax, seed, accuracy, **more):
    apart = round(100 * (accuracy - more.get("accuracy_exact", 0.9)))  # of 100 samples
    row = {
        "host": "toy",
        "task": "t",
        "softmax": softmax,
        "seed": seed,
        "accuracy": accuracy,
        "accuracy_exact": 0.9,
        "validation": 0.9,
        "epochs": 3,
        "best_epoch": 2.0,
        "train_s": 5.0,
        "total_levels": 3,
        "command": "c",
        "commit": "a",
        "dirty": False,
        "paired": {
            "both": 70,
            "neither": 28 - abs(apart),
            "this_alone": 1 + max(apart, 0),
            "exact_alone": 1 - min(apart, 0),
        },
        **more,
    }
    write_json(folder / "train" / f"{row['host']}-{row['task']}-{softmax}-{seed}.json", row)


def register(folder):
    """Every row in the folder opened once."""
    line = {"figure": "trained", "date": "2026-01-02", "commit": "a", "reason": "first"}
    names = sorted(path.stem for path in (folder / "train").glob("*.json"))
    append_lines(folder / "opened.jsonl", [{"row": f"train/{name}", **line} for name in names])


@pytest.fixture
def folder(tmp_path):
    write(tmp_path, "exact", 42, 0.9, total_levels=None)
    write(tmp_path, "cgf", 42, 0.91, accuracy_planned=0.905, total_levels=6)
    write(tmp_path, "cgf", 43, 0.87, total_levels=5, best_epoch=1.0, accuracy_planned=0.875)
    write(tmp_path, "bpmax", 42, 0.85, trials=[{}, {}])
    return tmp_path


def cells(folder, run, text=TEXT):
    """The cells of a run's line in the table, by the first word or two of their titles."""
    lines = [line.strip("| ").split(" | ") for line in filled(text, folder).splitlines() if line.startswith("|")]
    titles = [title.partition(" [")[0] for title in lines[0]]
    return dict(zip(titles, next(line for line in lines if line[2] == run), strict=True))


def test_a_red_evaluation_of_one_seed_marks_the_run(folder):
    assert "(red)" not in filled(TEXT, folder)
    write(folder, "cgf", 43, 0.87, total_levels=5, accuracy_planned=0.875, evaluation_planned={"red": ["x"], **PLANNED})
    write(folder, "bpmax", 42, 0.85, trials=[{}], evaluation={"red": ["x"], "accuracy": 0.85})
    cgf, bpmax = cells(folder, "cgf"), cells(folder, "bpmax")
    assert cgf["with its polynomial"] == "89.00 % (red)" and "red" not in cgf["accuracy"]
    assert bpmax["accuracy"].endswith("] (red)") and bpmax["with its polynomial"] == "–"


def test_means_over_seeds_and_rows_not_run(folder):
    table, exact, cgf, bpmax = filled(TEXT, folder), *(cells(folder, run) for run in ("exact", "cgf", "bpmax"))
    assert (exact["levels"], exact["seeds"], exact["accuracy"]) == ("–", "42", "90.00 % [82.56, 94.48]")  # Wilson's
    assert (exact["points against exact"], exact["right alone / exact alone"], exact["with its polynomial"]) == (
        "–",
    ) * 3
    assert (cgf["levels"], cgf["seeds"], cgf["with its polynomial"]) == ("5 to 6", "42, 43", "89.00 %")
    assert cgf["accuracy"] == "89.00 % (87.00 to 91.00) [63.59, 100.00]"  # 89 -+ 12.706 * 2
    assert (
        cgf["points against exact"] == "-1.00 [-26.41, +24.41], undecided: 2 seeds; p 0.7"
    )  # of t = 1 / 2, the larger of two
    assert (cgf["right alone / exact alone"], cgf["epochs (best)"]) == ("3 / 5", "3 (2, 1)")
    assert cgf["points against BPMax"] == "+6.00, undecided: 1 seed"
    assert (bpmax["points against BPMax"], bpmax["trials"], cgf["trials"]) == ("–", "at least 2", "at least 1")
    assert table.index("| exact |") < table.index("| cgf |") < table.index("| bpmax |")
    assert table.count("not run here: needs weights and data") == len(training.PAPER)


def short(folder, name):
    """Lines of one of the tables at a glance, as cells."""
    text = f"<!-- table: {name} -->\n<!-- end -->\n"
    return [line.strip("| ").split(" | ") for line in filled(text, folder).splitlines() if line.startswith("|")]


def test_at_a_glance_labels_are_those_of_the_table(folder):
    write(folder, "exact", 43, 0.9, total_levels=None)
    titles, _, line = short(folder, "against_exact")
    assert titles[:4] == ["host", "task", "seeds", "exact softmax"] and line[:4] == ["toy", "t", "2", "90.00 %"]
    told = dict(zip(titles[4:], line[4:], strict=True))
    assert told["`cgf`"] == "-1.00 [-26.41, +24.41], undecided (5 to 6)"
    assert told["`bpmax`"].startswith("-5.00 [") and told["`bpmax`"].endswith("undecided (3, 1 seed)")
    assert told["`cgf_tempered`"] == told["`bpmax_calibrated`"] == "–"
    assert short(folder, "against_bpmax")[2:] == [["toy", "t", "+6.00, undecided", "–"]]
    for path in (folder / "train").glob("toy-t-exact-*.json"):
        path.unlink()
    assert short(folder, "against_exact")[2:] == []


def test_at_a_glance_marks_stay_and_reasons_go():
    assert (
        Verdict(1.0, (0.1, 1.9), ("above\\*†", "within 0.5"), 0.01).brief()
        == "+1.00 [+0.10, +1.90], above\\*†, within 0.5"
    )
    small = Verdict(-1.0, (-2.0, 0.5), ("undecided: test too small (power 9 %), seeds too far apart",), 0.2)
    assert small.brief() == "-1.00 [-2.00, +0.50], undecided" and small.whole().endswith("seeds too far apart; p 0.2")


def test_attention_alone_stands_against_attention_alone(folder):
    write(folder, "cgf_attention", 42, 0.8)
    assert cells(folder, "cgf_attention")["points against exact"].startswith("-10.00 [")
    assert cells(folder, "cgf_attention")["points against BPMax"] == "–"
    write(folder, "bpmax_attention", 42, 0.82)
    assert cells(folder, "cgf_attention")["points against BPMax"].startswith("-2.00,")
    write(folder, "cgf_tempered_attention", 42, 0.83)
    assert cells(folder, "cgf_tempered_attention")["points against BPMax"].startswith("+1.00,")


def test_tempered_rows_stand_against_the_best_bpmax_and_untrained_ones_against_none(folder):
    write(folder, "cgf_tempered", 42, 0.88)
    write(folder, "bpmax_tempered", 42, 0.87, validation=0.95)
    write(folder, "cgf_untrained_tempered", 42, 0.8)
    assert cells(folder, "cgf_tempered")["points against BPMax"].startswith("+1.00,")
    assert cells(folder, "cgf_untrained_tempered")["points against BPMax"] == "–"


def test_the_paper_rows_name_configurations_that_exist():
    for _, tasks, names in training.PAPER:
        experiments, _, choice = names.partition(" ")
        stem, _, ends = experiments.rstrip("}").partition("{")
        for end in ends.split(","):
            assert (ROOT / "configs" / "experiment" / f"{stem}{end}.yaml").is_file()
        for task in tasks.split(", "):
            group, _, name = choice.replace("TASK", task).partition("=")
            assert (ROOT / "configs" / group / f"{name}.yaml").is_file()


def test_rows_that_lack_a_field_or_come_from_a_changed_tree_are_refused(folder):
    write(folder, "relu", 42, 0.8, dirty=True)
    with pytest.raises(UserError, match=r"relu-42\.json must come from a clean tree"):
        training.read_results(folder)
    write_json(folder / "train" / "toy-t-relu-42.json", {"host": "toy"})
    with pytest.raises(UserError, match=r"relu-42\.json .* lacks task, softmax"):
        training.read_results(folder)
    with pytest.raises(UserError, match="holds no row of training"):
        training.read_results(folder / "none")


def test_the_plot_is_drawn_once_and_a_stale_one_is_noticed(folder):
    write(folder, "cgf", 42, 0.91, total_levels=6)  # without a plan, whose counts these rows lack
    write(folder, "cgf", 43, 0.87, total_levels=5)
    register(folder)
    document = folder / "d.md"
    document.write_text(TEXT)
    found = folder / training_plot.PLOT

    def tables(*more):
        return subprocess.run(
            [sys.executable, "scripts/repo/tables.py", *more, "--results", str(folder), str(document)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
        )

    assert tables().returncode == 0 and found.read_bytes().startswith(b"\x89PNG")
    assert tables("--check").returncode == 0
    drawn = found.stat().st_mtime_ns
    assert tables().returncode == 0 and found.stat().st_mtime_ns == drawn
    write(folder, "cgf", 43, 0.88, total_levels=5)
    document.write_text(filled(TEXT, folder))
    stale = tables("--check")
    assert stale.returncode == 2 and "accuracy.png is stale" in stale.stderr and stale.stderr.count("\n") == 1


def test_rows_stand_against_the_form_of_bpmax_that_is_best_on_validation(folder):
    write(folder, "bpmax_calibrated", 42, 0.88)
    assert cells(folder, "cgf")["points against BPMax"].startswith("+6.00,")  # of equals the paper's form
    write(folder, "bpmax_calibrated", 42, 0.88, validation=0.95)
    assert cells(folder, "cgf")["points against BPMax"].startswith("+3.00,")
    assert cells(folder, "bpmax_calibrated")["points against BPMax"] == "–"
    write(folder, "bpmax", 43, 0.88)  # now that form shares more seeds, and the mean is over both
    assert cells(folder, "cgf")["points against BPMax"].startswith("+2.50 [")


def test_students_of_two_teachers_are_not_compared(folder):
    write(folder, "cgf", 42, 0.91, accuracy_planned=0.905, total_levels=6, accuracy_teacher=0.92)
    write(folder, "bpmax", 42, 0.85, accuracy_teacher=0.93)
    assert cells(folder, "cgf")["points against BPMax"] == "–"
    with pytest.raises(
        UserError, match="toy-t-cgf and bpmax need one teacher and one exact student a seed, and have two on seed 42"
    ):
        write(folder, "bpmax", 43, 0.85)
        value(["points", "toy", "t", "cgf", "bpmax"], folder)
    write(folder, "bpmax", 42, 0.85, accuracy_teacher=0.92)
    assert cells(folder, "cgf")["points against BPMax"].startswith("+4.00 [")
    assert value(["points", "toy", "t", "cgf", "bpmax"], folder) == "-4.0"


def test_rows_of_another_teacher_stand_against_bpmax_of_that_teacher():
    def row(run, yardstick=False, made=None, **teacher):
        alike = {"host": "toy", "task": "t", "tuning": "full", "trained": True, "made": made}
        return {**alike, "run": run, "yardstick": yardstick, **teacher}

    own, large = row("bpmax", True), row("bpmax_large_teacher", True, teacher="teacher_large")
    by = {("toy", "t", r["run"]): [r] for r in (own, large)}
    assert training.rivals(row("cgf"), by) == training.rivals(row("cgf", teacher="teacher"), by) == [[own]]
    assert training.rivals(row("cgf_large_teacher", teacher="teacher_large"), by) == [[large]]
    paths = {"config": {"model": {"drop_path": 0.1}, "distill": {"hidden": 0.0}}}
    assert training.rivals(row("exact_drop_path", made=paths), by) == []
    dropped = row("bpmax_drop_path", True, made=paths)
    by["toy", "t", "bpmax_drop_path"] = [dropped]
    assert training.rivals(row("exact_drop_path", made=paths), by) == [[dropped]]
    for matched in ("hidden", "attention"):
        assert training.rivals(row("cgf_matched", made={"config": {"distill": {matched: 1.0}}}), by) == []


def test_adapters_beside_distillation(folder):
    text = "<!-- table: pipelines -->\n<!-- end -->\n"
    assert "toy" not in filled(text, folder)
    write(folder, "exact_lora", 42, 0.8, total_levels=None)
    write(folder, "lora", 42, 0.81, total_levels=7, epochs=6, best_epoch=5.0, accuracy_exact=0.8)
    table = filled(text, folder)
    one = "+1.00 [-2.00, +5.00], undecided: 1 seed; p 1"  # 2 right alone and 1 exact alone, of 100
    assert f"| toy | t | 42 | SFT, then KD | 90.00 % | 91.00 % | {one} | 6 | 3 (2) |" in table
    assert f"| toy | t | 42 | LoRA SFT | 80.00 % | 81.00 % | {one} | 7 | 6 (5) |" in table
    assert cells(folder, "lora")["points against BPMax"] == "–"  # BPMax has no adapters
    assert "scaled" not in table
    write(folder, "lora_tempered", 43, 0.7)  # of another seed alone: not beside them
    assert filled(text, folder) == table
    write(folder, "lora_tempered", 42, 0.82, total_levels=5, epochs=6, best_epoch=4.0, accuracy_exact=0.8)
    assert "| toy | t | 42 | LoRA SFT, scaled queries | 80.00 % | 82.00 % | +2.00 [" in filled(text, folder)
    before = filled(text, folder)
    write(folder, "exact_lora", 42, 0.85, total_levels=None)  # trained anew: not what the others were trained beside
    assert filled(text, folder) == before


def test_points_of_one_level_stand_side_by_side_in_a_panel_a_task(folder, monkeypatch):
    write(folder, "taylor", 42, 0.85, total_levels=3)
    for softmax in ("exact", "cgf"):
        write(folder, softmax, 42, 0.8, total_levels=None if softmax == "exact" else 5, task="u")
    figures = []
    monkeypatch.setattr(training_plot, "png", lambda figure, metadata: figures.append(figure))
    training_plot.plot(training.read_results(folder))
    first, second = figures[0].axes
    assert (first.get_title(), second.get_title()) == ("toy, t", "toy, u")
    places = sorted(float(line.get_xdata()[0]) for line in first.lines if line.get_marker() == "o")
    assert places == [3.0, 3.0 + training_plot.APART, 6.0]  # bpmax and taylor; cgf of 5 and 6 levels
    shown = [text.get_text() for text in figures[0].legends[0].texts]
    assert shown == ["exact", "bpmax", "cgf", "taylor"]


def test_seeds_that_are_all_alike_are_drawn_though_their_mean_is_off_by_a_rounding():
    alike = 0.9860724233983287
    group = {
        "run": "cgf",
        "accuracy": alike - 2e-16,
        "least": alike,
        "most": alike,
        "levels": [5],
        "seeds": [42, 43, 44],
    }
    assert group["accuracy"] < group["least"]
    (ax,) = new_figure(2.0)[1]
    assert set(training_plot._panel(ax, [group], {"cgf": ("C0", "o")})) == {"cgf"}


def test_rows_of_today_and_of_before_make_one_table(folder):
    """A file of schema 1 says in the name of its run what one of today says in fields of its own."""
    for softmax in ("cgf_tempered_hidden", "bpmax_attention", "cgf_attention", "cgf_untrained", "lora"):
        write(folder, softmax, 42, 0.8, run={"config": {}})
    before = filled(TEXT, folder)
    for path in (folder / "train").iterdir():
        row = current_row(read_json(path), path)
        assert row["made"] is None or row["made"] == {"config": {}}
        path.unlink()
        row["run"] = row["run"] if row["run"] == "exact" else f"my-{row['run']}"
        write_json(path.with_name(f"toy-t-{row['run']}-{row['seed']}.json"), row)
    assert filled(TEXT, folder).replace("my-", "") == before
    facts = {row["run"]: row for row in training.read_results(folder)}
    kept = ("softmax", "tuning", "tempered", "trained", "yardstick", "within")
    assert [facts["my-lora"][key] for key in kept] == ["cgf", "lora", False, True, False, 0.5]
    assert [facts["my-cgf_tempered_hidden"][key] for key in kept] == ["cgf", "full", True, True, False, 0.5]
    assert [facts["my-bpmax_attention"][key] for key in kept] == ["bpmax", "attention", False, True, True, None]
    assert [facts["my-cgf_untrained"][key] for key in kept] == ["cgf", "full", False, False, False, None]


def test_a_copy_of_a_row_is_refused(folder):
    (folder / "train" / "toy-t-cgf-42-copy.json").write_text((folder / "train" / "toy-t-cgf-42.json").read_text())
    with pytest.raises(
        UserError, match=r"cgf-42-copy\.json holds the row toy-t-cgf-42, which belongs into a file of that name"
    ):
        training.read_results(folder)


def test_a_row_of_a_later_schema_is_refused(folder):
    write(folder, "relu", 42, 0.8, schema=4)
    with pytest.raises(UserError, match=r"relu-42\.json is of schema 4, and this version reads rows up to schema 3"):
        training.read_results(folder)


def kept(folder, softmax, seed, this, against, labels):
    """A row of today with predictions, and their file."""
    right = [np.array(answers) == labels for answers in (this, against)]
    row = f"toy-t-{softmax}-{seed}"
    told = write_predictions(folder / "train", row, Predictions(*(packed("x", a) for a in (labels, this, against))))
    counts = {"this_alone": int((right[0] & ~right[1]).sum()), "exact_alone": int((right[1] & ~right[0]).sum())}
    counts |= {"both": int((right[0] & right[1]).sum()), "neither": int((~right[0] & ~right[1]).sum())}
    facts = {"run": softmax, "schema": 3, "tuning": "full", "tempered": False, "trained": True, "within": None}
    facts |= {"yardstick": softmax == "bpmax", "predictions": told, "trials": 24, "tried": [], "all_trials": True}
    shares = [float(answers.mean()) for answers in right]
    write(folder, softmax, seed, shares[0], accuracy_exact=shares[1], paired=counts, **facts)


def three_seeds(folder):
    """Of 2,000 samples, cgf as good as exact softmax but for two each way, bpmax 3 points below; three seeds."""
    labels, rng = [1] * 2000, np.random.default_rng(0)
    for seed in (42, 43, 44):
        exact = (rng.random(2000) < 0.9).astype(int)
        cgf, bpmax = exact.copy(), exact.copy()
        ones, zeros = np.flatnonzero(exact), np.flatnonzero(exact == 0)
        cgf[ones[:2]], cgf[zeros[:2]], bpmax[ones[-60:]] = 0, 1, 0
        for name, answers in (("exact", exact), ("cgf", cgf), ("bpmax", bpmax)):
            kept(folder, name, seed, answers.tolist(), exact.tolist(), labels)


def test_a_row_beside_another_exact_softmax_is_compared_with_no_yardstick(tmp_path):
    """Known by its answers where these are kept, though it has as many right; else by how many it has right."""
    three_seeds(tmp_path)
    assert cells(tmp_path, "cgf")["points against BPMax"] != "–"
    rng = np.random.default_rng(1)
    for seed in (42, 43, 44):
        row = read_json(tmp_path / "train" / f"toy-t-bpmax-{seed}.json")
        exact = rng.permutation(2000) < round(2000 * row["accuracy_exact"])
        kept(tmp_path, "bpmax", seed, exact.astype(int).tolist(), exact.astype(int).tolist(), [1] * 2000)
        assert read_json(tmp_path / "train" / f"toy-t-bpmax-{seed}.json")["accuracy_exact"] == row["accuracy_exact"]
    assert cells(tmp_path, "cgf")["points against BPMax"] == "–"
    folder = tmp_path / "before"
    for softmax, exact in (("exact", 0.9), ("cgf", 0.9), ("bpmax", 0.9)):
        write(folder, softmax, 42, exact)
    assert cells(folder, "cgf")["points against BPMax"] == "+0.00, undecided: 1 seed"
    write(
        folder,
        "bpmax",
        42,
        0.93,
        accuracy_exact=0.93,
        paired={"both": 93, "neither": 7, "this_alone": 0, "exact_alone": 0},
    )
    assert cells(folder, "cgf")["points against BPMax"] == "–"


@pytest.mark.parametrize("change", ["other samples", "another order", "fewer"])
def test_seeds_that_were_tested_on_other_samples_are_refused(tmp_path, change):
    three_seeds(tmp_path)
    labels = {"other samples": [0] + [1] * 1999, "another order": [1] * 1999 + [0], "fewer": [1] * 1000}[change]
    first = [0] + [1] * 1999 if change == "another order" else [1] * 2000
    for seed, truth in ((42, first), (43, labels), (44, first)):
        kept(tmp_path, "cgf", seed, truth, truth, truth)
    with pytest.raises(UserError, match="rows of toy on t have other test samples: cgf, seed 42, cgf, seed 43"):
        training.lines(training.read_results(tmp_path))


def test_labels_of_rows_that_kept_their_predictions(tmp_path):
    three_seeds(tmp_path)
    cgf, bpmax = cells(tmp_path, "cgf"), cells(tmp_path, "bpmax")
    assert cgf["points against exact"].startswith("+0.00 [") and ", within 0.5\\*; p 1" in cgf["points against exact"]
    assert (
        cgf["points against BPMax"].startswith("+3.00 [")
        and ", above\\*, within 0.5\\*; p" in cgf["points against BPMax"]
    )
    assert bpmax["points against exact"].startswith("-3.00 [") and ", below\\*; p" in bpmax["points against exact"]
    assert cgf["trials"] == "24"
    path = tmp_path / "train" / "toy-t-cgf-42.json"
    write_json(path, {**read_json(path), "accuracy": 0.95})
    with pytest.raises(UserError, match=r"toy-t-cgf-42\.json says accuracy 0\.95, and its predictions have"):
        training.read_results(tmp_path)


@pytest.mark.parametrize("change", ["twice", "shifted"])
def test_counts_that_are_not_the_predictions_are_refused(tmp_path, change):
    """Every answer twice, with its new hash, gave narrower intervals and a higher power; shares stayed as they were."""
    three_seeds(tmp_path)
    path = tmp_path / "train" / "toy-t-cgf-42.json"
    row = read_json(path)
    if change == "twice":
        told = read_predictions(path.parent, path.stem, row["predictions"])
        double = Predictions(*(np.tile(answers, 2) for answers in (told.labels, told.this, told.against)))
        row["predictions"] = write_predictions(path.parent, path.stem, double)
    else:
        row["paired"] = {key: count + (1 if "alone" in key else -1) for key, count in row["paired"].items()}
    write_json(path, row)
    with pytest.raises(UserError, match=r"toy-t-cgf-42\.json says paired \{.*\}, and its predictions have \{"):
        training.read_results(tmp_path)


def test_the_interval_of_an_accuracy_is_the_wider_of_seeds_and_samples(tmp_path):
    answers, labels = [1] * 1800 + [0] * 200, [1] * 2000
    for seed in (42, 43, 44):  # that do not differ: what samples leave open is all there is, 1.96 sqrt(0.9 0.1 / 2000)
        kept(tmp_path, "cgf", seed, answers, answers, labels)
    low, high = accuracy_interval(training.read_results(tmp_path))
    assert (low, high) == pytest.approx((88.69, 91.31), abs=0.15)


def test_one_row_without_predictions_leaves_its_run_undecided(tmp_path):
    three_seeds(tmp_path)
    path = tmp_path / "train" / "toy-t-cgf-43.json"
    write_json(path, {**read_json(path), "predictions": None})
    assert "undecided: no predictions kept" in cells(tmp_path, "cgf")["points against exact"]
    assert "below" in cells(tmp_path, "bpmax")["points against exact"]


def test_counts_that_are_not_the_accuracies_are_refused(folder):
    write(folder, "relu", 42, 0.8, paired={"both": 79, "neither": 18, "this_alone": 1, "exact_alone": 2})
    with pytest.raises(UserError, match="row relu of toy, seed 42, has counts that are not its accuracies'"):
        filled(TEXT, folder)


def test_reasons_of_second_openings_stand_below_the_table(folder):
    register(folder)
    assert "Opened once more" not in filled(TEXT, folder)
    again = {"figure": "trained", "date": "2026-02-03", "commit": "b", "reason": "its guard was wrong"}
    append_lines(folder / "opened.jsonl", [{"row": "train/toy-t-cgf-43", **again}])
    assert cells(folder, "cgf")["opened"] == "2026-01-02 to 2026-02-03 (1)"
    assert cells(folder, "exact")["opened"] == "2026-01-02"
    assert filled(TEXT, folder).count("- (1) its guard was wrong\n") == 1
