"""The search: drawn the same each time, halved on validation, resumed without training twice, counted into rows."""

import itertools
import json
import os
import threading
import time
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from cgf.config import CONFIGS
from cgf.distill.step import check_finite
from cgf.errors import UserError
from cgf.results import append_lines, read_lines
from cgf.search_file import finished
from cgf.study.grid import Budget, Grid
from cgf.study.search import Search, other_schedules, process, teacher_of, with_searches, with_searches_of_study
from cgf.study.study import Study

STUDY = {
    "name": "toy",
    "task": "t",
    "common": ["model=m"],
    "schedules": {"teacher": ["train.epochs=9"], "student": ["distill=kd", "train.epochs=10", "train.lr=2.0e-3"]},
}
NODE = {
    "name": "cgf",
    "options": ["softmax=cgf"],
    "axes": {"penalty.weight": [0.1, 1.0], "softmax.ceiling": [None, 1.5], "train.batch_size": [32, 64]},
    "factors": {"train.lr": [0.5, 1.0, 2.0]},
}


def trained(validation):
    """A train.py that finishes at once, with the validation accuracy that ``validation`` gives of its overrides."""
    calls = []

    def execute(script, arguments, pass_fds=()):
        given = dict(a.split("=", 1) for a in arguments)
        calls.append((script, given))
        folder = Path(given["outputs"]) / given["run"]
        value = validation(given)
        if isinstance(value, str):
            return value
        checkpoint = folder / "ckpt-1"
        checkpoint.mkdir(parents=True)
        best = {"val_accuracy": value, "val_samples": 100, "step": 1, "checkpoint": "ckpt-1"}
        (folder / "best.json").write_text(json.dumps(best))
        run = {
            "progress": {"epoch": int(given["train.epochs"]), "seconds": 1.0, "finished": True},
            "git": {"commit": "a", "dirty": False},
            "hardware": {"cpu_model": "c"},
        }
        (checkpoint / "run.json").write_text(json.dumps(run))
        return None

    execute.calls = calls
    return execute


def search(tmp_path, execute, seed=5, rounds=((6, 1), (3, 3), (2, None)), node=NODE, workers=1):
    study = Study.of({"study": STUDY, "runs": {}})
    grid, budget = Grid.of(node, "toy"), Budget(rounds, seed)
    path = tmp_path / "toy-t-cgf.jsonl"
    place = (lambda: tmp_path / "teacher"), tmp_path / "trials", path
    return Search(study, "student", grid, budget, *place, {"host": "toy", "task": "t"}, execute, workers)


@pytest.mark.parametrize(
    "schedule, rounds, told",
    [
        ("nope", ((6, 1),), "schedule nope is none of study toy, which has bare, named, student, teacher"),
        ("teacher", ((6, 1),), r"factor train\.lr of grid cgf needs a schedule that sets train\.lr"),
        ("bare", ((6, None),), r"null in rounds needs a schedule that sets train\.epochs to a whole number, and bare"),
        ("named", ((6, None),), r"needs a schedule that sets train\.epochs to a whole number, and named"),
        ("student", ((6, 3), (3, 1)), r"no fewer epochs than the one before, and rounds have \[3, 1\]"),
        ("student", ((6, None), (3, 9)), r"no fewer epochs than the one before, and rounds have \[10, 9\]"),
    ],
)
def test_what_cannot_be_searched_is_refused_before_anything_is_trained(schedule, rounds, told, tmp_path):
    bare = ["train.lr=1.0e-3"]
    schedules = {**STUDY["schedules"], "bare": bare, "named": [*bare, "train.epochs=many"]}
    study = Study.of({"study": {**STUDY, "schedules": schedules}, "runs": {}})
    file, never = tmp_path / "a.jsonl", lambda *_: pytest.fail("it was to be refused")
    with pytest.raises(UserError, match=told):
        Search(study, schedule, Grid.of(NODE, "toy"), Budget(rounds, 5), never, tmp_path / "trials", file, {}, never)
    without = Study.of({"study": {**STUDY, "schedules": {"student": schedules["student"]}}, "runs": {}})
    with pytest.raises(UserError, match="schedule teacher is none of study toy, which has student"):
        Search(without, "student", Grid.of(NODE, "toy"), Budget(((6, 1),), 5), never, tmp_path, file, {}, never)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "rounds, told",
    [([[3]], r"\[3\] was"), ([[3, None, 1]], "was"), (["ab"], "ab was"), ([], "empty"), (None, "None was")],
)
def test_rounds_are_pairs(rounds, told):
    with pytest.raises(UserError, match=rf"\[configurations, epochs\].* {told}"):
        Budget.of(rounds, 42)
    assert Budget.of([[3, 1], [2, None]], 42) == Budget(((3, 1), (2, None)), 42)


def quality(given):
    """Best at the largest rate and the small penalty; the batch tells equal ones apart."""
    return float(given["train.lr"]) * 100 - float(given["penalty.weight"]) / 10 + int(given["train.batch_size"]) / 1e4


def test_each_round_keeps_the_best_on_validation_and_trains_them_for_longer(tmp_path):
    execute = trained(quality)
    best = search(tmp_path, execute).carry_out()
    lines = read_lines(tmp_path / "toy-t-cgf.jsonl")
    rounds = [[line for line in lines[1:] if line["round"] == n] for n in range(3)]
    assert [len(r) for r in rounds] == [6, 3, 2]
    assert [{line["epochs"] for line in r} for r in rounds] == [{1}, {3}, {10}]
    for before, after in pairwise(rounds):
        kept = sorted((line["validation"] for line in before), reverse=True)[: len(after)]
        assert sorted((line["validation"] for line in after), reverse=True) == kept
    assert best["validation"] == max(line["validation"] for line in rounds[2])
    assert lines[0]["drawn"] == [line["configuration"] for line in rounds[0]] and lines[0]["size"] == 24
    assert {script for script, _ in execute.calls} == {"train.py"}  # validation alone: nothing evaluates the test set
    assert all(given["ckpt"] == given["distill.teacher"] == str(tmp_path / "teacher") for _, given in execute.calls)
    assert not list((tmp_path / "trials").glob("cgf-*"))  # weights are removed


def test_a_round_as_long_as_the_one_before_is_taken_over_and_counts_once(tmp_path):
    """MiniLM's schedule has three epochs, so that its last round trained what the one before had trained."""
    execute = trained(quality)
    best = search(tmp_path, execute, rounds=((6, 1), (3, 10), (2, None))).carry_out()
    path = tmp_path / "toy-t-cgf.jsonl"
    before, last = ([line for line in read_lines(path)[1:] if line["round"] == number] for number in (1, 2))
    assert len(execute.calls) == 9 == finished(path)[1]
    assert [line["taken_from"] for line in last] == [1, 1] and best == last[0]
    ranked = sorted(before, key=lambda line: -line["validation"])[:2]
    assert [{**line, "round": 1} for line in last] == [{"taken_from": 1, **line} for line in ranked]
    assert finished(path)[0] == best == search(tmp_path, execute, rounds=((6, 1), (3, 10), (2, None))).carry_out()
    assert len(execute.calls) == 9 and len(read_lines(path)) == 12


@pytest.mark.parametrize("stop", [1, 6, 7, 10])
def test_a_search_that_is_killed_goes_on_to_the_same_lines_and_trains_none_twice(tmp_path, stop):
    whole, part = tmp_path / "whole", tmp_path / "part"
    whole.mkdir(), part.mkdir()
    best = search(whole, trained(quality)).carry_out()
    count = 0

    def killed(given):
        nonlocal count
        count += 1
        if count > stop:
            raise KeyboardInterrupt
        return quality(given)

    with pytest.raises(KeyboardInterrupt):
        search(part, trained(killed)).carry_out()
    rest = trained(quality)
    assert search(part, rest).carry_out() == best
    assert len(rest.calls) == 11 - stop
    both = [[{**line, "train_s": 0} for line in read_lines(f / "toy-t-cgf.jsonl")] for f in (whole, part)]
    assert both[0] == both[1]


def test_another_search_into_the_same_file_waits_its_turn_and_no_trial_counts_twice(tmp_path):
    """Two folders of trials and one file: each trained all of them, and the rows counted twice as many."""
    path = tmp_path / "toy-t-cgf.jsonl"
    one, other = search(tmp_path, trained(quality)), search(tmp_path, trained(quality))
    other.folder = tmp_path / "others"

    def meanwhile(given):
        with pytest.raises(
            UserError, match=r"another process is at work in .*toy-t-cgf\.jsonl: wait for it or stop it"
        ):
            other.carry_out()
        return quality(given)

    one.execute = trained(meanwhile)
    one.carry_out()
    assert finished(path)[1] == 11
    append_lines(path, read_lines(path)[1:])  # as two searches of before left it
    assert finished(path)[1] == 11


def test_trainings_hold_the_locks_of_their_search(tmp_path):
    """They outlive a search that is killed, which then was begun beside them."""
    first, seen = trained(quality), []

    def held(script, arguments, pass_fds):
        seen.append({os.readlink(f"/proc/self/fd/{number}").rpartition("/")[2] for number in pass_fds})
        return first(script, arguments)

    search(tmp_path, held).carry_out()
    assert seen == [{".lock", ".toy-t-cgf.jsonl.lock"}] * 11


def test_a_script_is_given_the_files_that_it_holds(tmp_path, monkeypatch):
    (tmp_path / "held.py").write_text("import os, sys\nos.fstat(int(sys.argv[1]))\n")
    monkeypatch.setattr("cgf.study.search.ROOT", tmp_path)
    with open(tmp_path / "lock", "w") as file:
        assert process("held.py", [str(file.fileno())], (file.fileno(),)) is None
        with pytest.raises(UserError, match=r"held\.py ended with code 1: OSError: .* Bad file descriptor"):
            process("held.py", [str(file.fileno())])


def test_a_file_that_cannot_be_written_is_refused_before_a_teacher_is_trained(tmp_path):
    (tmp_path / "file").write_text("")
    one = search(tmp_path, trained(quality))
    for one.path in (tmp_path / "file" / "toy-t-cgf.jsonl", Path("/proc/toy-t-cgf.jsonl")):
        with pytest.raises(UserError, match="cannot be written"):
            one.carry_out()
    assert one.execute.calls == []


def test_a_search_by_another_schedule_is_told(tmp_path):
    running = search(tmp_path, trained(quality))
    running.carry_out()
    node = {**STUDY, "name": "toy", "task": "t"}
    runs = {"cgf": {"schedule": "student", "options": ["softmax=cgf"]}}
    found = with_searches_of_study({"study": node, "runs": runs}, tmp_path)
    assert other_schedules(Study.of(found), found, ["cgf"]) == []
    own = [*STUDY["schedules"]["student"], "train.epochs=77"]
    other = {**found, "study": {**node, "schedules": {**STUDY["schedules"], "student": own}}}
    (line,) = other_schedules(Study.of(other), other, ["cgf"])
    assert line.startswith(f"{running.path}: its trainings had train.epochs=10 in place of 77, and what they found")
    assert other_schedules(Study.of(other), other, []) == []


def test_trials_side_by_side_find_the_same_and_a_bad_end_begins_no_more(tmp_path):
    one, many = tmp_path / "one", tmp_path / "many"
    one.mkdir(), many.mkdir()
    best = search(one, trained(quality)).carry_out()
    meeting = threading.Barrier(3, timeout=10)

    def together(given):
        if given["train.epochs"] == "1":
            meeting.wait()  # comes through only where three are at work at once
        return quality(given)

    assert search(many, trained(together), workers=3).carry_out() == best
    lines = [read_lines(f / "toy-t-cgf.jsonl")[1:] for f in (one, many)]
    assert sorted(map(json.dumps, lines[0])) == sorted(map(json.dumps, lines[1])) and len(lines[0]) == 11

    begun = itertools.count()

    def ends(given):
        if next(begun):  # those beside the first go on while its end is told
            time.sleep(0.5)
        return "error: the disk is full"

    (tmp_path / "bad").mkdir()
    bad = trained(ends)
    with pytest.raises(UserError, match="the disk is full"):
        search(tmp_path / "bad", bad, workers=2).carry_out()
    assert len(bad.calls) < 6 and len(read_lines(tmp_path / "bad" / "toy-t-cgf.jsonl")) == 1
    with pytest.raises(UserError, match="workers"):
        search(tmp_path / "bad", bad, workers=0)


def test_the_draw_is_its_seeds_and_another_search_is_refused(tmp_path):
    search(tmp_path, trained(quality)).carry_out()
    with pytest.raises(UserError, match="of a search with other seed, drawn"):
        search(tmp_path, trained(quality), seed=6).carry_out()
    assert Budget(((6, 1),), 5).drawn(24) == Budget(((6, 1),), 5).drawn(24) != Budget(((6, 1),), 6).drawn(24)
    assert sorted(Budget(((30, 1),), 5).drawn(24)) == list(range(24))  # the whole grid where it is smaller
    with pytest.raises(UserError, match="no more configurations than the one before"):
        Budget(((3, 1), (4, 2)), 5)


def test_numbers_that_ran_off_are_a_trial_and_another_end_stops_the_search(tmp_path):
    def some(given):
        return f"error: {said.value}" if given["penalty.weight"] == "1" else quality(given)

    with pytest.raises(UserError) as said:
        check_finite("the loss is inf at step 3", float("inf"), 1e-3)  # as train.py says it

    best = search(tmp_path, trained(some)).carry_out()
    lines = read_lines(tmp_path / "toy-t-cgf.jsonl")[1:]
    assert best["validation"] is not None and "penalty.weight=1" not in best["options"]
    assert {line["validation"] for line in lines if "penalty.weight=1" in line["options"]} == {None}
    (tmp_path / "b").mkdir()
    with pytest.raises(UserError, match="and not by numbers that ran off: error: the disk is full"):
        search(tmp_path / "b", trained(lambda given: "error: the disk is full")).carry_out()
    assert len(read_lines(tmp_path / "b" / "toy-t-cgf.jsonl")) == 1


def test_a_grid_names_every_configuration_once_and_multiplies_the_schedule():
    grid = Grid.of(NODE, "toy")
    every = [tuple(grid.at(i, ["train.lr=2.0e-3"])) for i in range(grid.size)]
    assert len(set(every)) == grid.size == 24
    assert {o for options in every for o in options if "lr" in o} == {
        "train.lr=0.001",
        "train.lr=0.002",
        "train.lr=0.004",
    }
    assert any("softmax.ceiling=null" in options for options in every)
    with pytest.raises(UserError, match=r"needs a schedule that sets train\.lr"):
        grid.at(0, [])
    with pytest.raises(UserError, match=r"axis train\.lr of grid cgf needs values that differ"):
        Grid.of({**NODE, "factors": {"train.lr": [1.0, 1.0]}}, "toy")
    other = Grid.of({**NODE, "axes_of": {"toy": {"penalty.weight": [7.0]}}}, "toy")
    rates = Grid.of({**NODE, "axes_of": {"toy": {"train.lr": [7.0e-5]}}}, "toy")  # in place of the factors
    assert rates.size == 8 and {o for i in range(8) for o in rates.at(i, []) if "lr" in o} == {"train.lr=7e-05"}
    assert other.size == 12 and Grid.of({**NODE, "axes_of": {"other": {"penalty.weight": [7.0]}}}, "toy").size == 24


def test_every_grid_of_the_configurations_holds_what_the_budget_draws_and_bpmax_the_papers():
    files = sorted((CONFIGS / "grid").glob("*.yaml"))
    grids = {path.stem: yaml.safe_load(path.read_text()) for path in files}
    assert {"exact", "cgf", "bpmax", "bpmax_calibrated"} <= set(grids)
    for name, node in grids.items():
        assert node["name"] == name and Grid.of(node, "digits").size >= 24
    for name in ("bpmax", "bpmax_calibrated"):
        whole = grids.pop(f"{name}_whole")  # of p and c alone, for each host those of the grid that is searched
        for host in ("digits", "smollm2", "stories260k", "minilm"):
            searched = Grid.of(grids[name], host).axes
            assert Grid.of(whole, host).axes == {key: searched[key] for key in ("softmax.p", "softmax.c")}
            assert whole["options"] == grids[name]["options"]
        few = Grid.of(grids[name], "vit_s14").axes  # its budget is smaller: p and c lie about the best of its trials
        assert (few["softmax.p"], few["softmax.c"]) == ((3, 5, 7), (5, 10, 20))
    vit, llama = Grid.of(grids["bpmax"], "digits").axes, Grid.of(grids["bpmax"], "smollm2").axes
    assert vit["softmax.p"] == (1, 3, 5, 7, 9) and vit["softmax.c"] == (1, 3, 5, 7, 9, 20, 40, 60)
    assert llama["softmax.p"] == (1, 3, 5, 7) and llama["softmax.c"] == (1, 3, 5, 7, 20)
    common = {key: (node["axes"]["distill.tau"], node["factors"]) for key, node in grids.items()}
    assert len({json.dumps(value) for value in common.values()}) == 1  # what is no softmax's own is the same for all


def test_rows_take_the_settings_that_were_found_and_count_the_trials(tmp_path):
    runs = {
        "cgf": {"schedule": "student", "options": ["softmax=cgf"], "plan": []},
        "bpmax": {"schedule": "student", "options": ["softmax=bpmax"], "choices": [["softmax.p=3"], ["softmax.p=5"]]},
    }
    config = {"study": STUDY, "runs": runs}
    execute = trained(quality)
    running = search(tmp_path, execute)
    running.carry_out()
    lines = read_lines(running.path)
    found = with_searches(config, tmp_path, "toy", "t")
    study = Study.of(found)
    cgf = study.run("cgf")
    assert cgf.searched == 11 and cgf.options == ("softmax=cgf",) and len(cgf.choices) == 1
    arguments = study.arguments(cgf, 0)
    assert arguments[-1].startswith("train.lr=") and arguments.count("softmax=cgf") == 1  # after the schedule's own
    assert study.run("bpmax").searched == 0 and len(study.run("bpmax").choices) == 2  # it was not searched
    node = {**config["study"], "name": "toy", "task": "t"}  # the same, of the study's own name and task
    assert with_searches_of_study({**config, "study": node}, tmp_path)["runs"] == found["runs"]
    both = with_searches_of_study({**config, "study": {**node, "searched_beside": True}}, tmp_path)
    (own, theirs), (settings,) = both["runs"]["cgf"]["choices"], found["runs"]["cgf"]["choices"]
    assert own == [] and theirs == settings and both["runs"]["cgf"]["searched"] == 11
    with pytest.raises(UserError, match=r"'searched_beside' of study must be bool \| null, and is 'yes'"):
        with_searches_of_study({**config, "study": {**node, "searched_beside": "yes"}}, tmp_path)
    with pytest.raises(UserError, match="study has no setting 'serched_beside'"):
        with_searches_of_study({**config, "study": {**node, "serched_beside": True}}, tmp_path)
    running.path.unlink()
    append_lines(running.path, lines[:-1])
    assert finished(running.path) is None  # it goes on
    for folder, task in ((tmp_path, "t"), (tmp_path, "other"), (tmp_path / "none", "t")):
        with pytest.raises(UserError, match=f"needs a finished search of toy on {task} .* and has none"):
            with_searches(config, folder, "toy", task)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("toy-t-bpmax", "named after grid bpmax, and its search is of cgf"),
        ("toy-other-cgf", "named after task other, and its search is of t"),
        ("host-t-cgf", "named after host host, and its search is of toy"),
    ],
)
def test_a_search_under_another_name_is_refused(tmp_path, name, told):
    """A run named bpmax trained CGF-softmax by the copy of its search, and stood as the yardstick."""
    running = search(tmp_path, trained(quality))
    running.carry_out()
    running.path.rename(tmp_path / f"{name}.jsonl")
    host, task, run = name.split("-")
    config = {"study": STUDY, "runs": {run: {"schedule": "student", "options": [f"softmax={run}"]}}}
    with pytest.raises(UserError, match=told):
        with_searches(config, tmp_path, host, task)


def test_a_run_of_another_softmax_than_its_search_is_refused(tmp_path):
    search(tmp_path, trained(quality)).carry_out()
    config = {"study": STUDY, "runs": {"cgf": {"schedule": "student", "options": ["softmax=taylor"], "like": "x"}}}
    with pytest.raises(
        UserError, match=r"run cgf needs softmax=cgf, as the search in .* has it, and it has softmax=ta"
    ):
        with_searches(config, tmp_path, "toy", "t")


@pytest.mark.parametrize("facts", [{"schedule": "student"}, {"schedule": "student", "options": None}])
def test_a_run_that_is_none_is_refused_where_a_search_found_settings_for_it(tmp_path, facts):
    search(tmp_path, trained(quality)).carry_out()
    with pytest.raises(UserError, match=r"run cgf needs 'options'|'options' of run cgf must be"):
        with_searches({"study": STUDY, "runs": {"cgf": facts}}, tmp_path, "toy", "t")


def test_a_finished_search_says_what_rows_take_and_needs_no_teacher(tmp_path):
    """Of equals one of before took the one that ended first, and the command named another."""
    running = search(tmp_path, trained(lambda given: 0.5))
    running.carry_out()
    head, *lines = read_lines(running.path)
    del head["ties"]
    running.path.unlink()
    append_lines(running.path, [head, *lines[:9], *reversed(lines[9:])])
    running.teacher = lambda: pytest.fail("it was trained")
    taken = finished(running.path)[0]
    assert running.carry_out() == taken == lines[-1] != lines[9]


def test_settings_found_on_another_task_are_one_more_choice(tmp_path):
    own = ["softmax=cgf", "penalty.weight=0.5"]
    runs = {"cgf": {"schedule": "student", "options": own, "choices": [["penalty.bound=8"], ["penalty.bound=4"]]}}
    search(tmp_path, trained(quality)).carry_out()

    def found(facts):
        return with_searches({"study": STUDY, "runs": {"cgf": {**runs["cgf"], **facts}}}, tmp_path, "toy", "t", True)

    cgf = Study.of(found({"searched": 4})).run("cgf")
    assert cgf.options == ("softmax=cgf",) and cgf.searched == 4 + 11
    *mine, theirs = cgf.choices
    assert mine == [("penalty.weight=0.5", "penalty.bound=8"), ("penalty.weight=0.5", "penalty.bound=4")]
    best = finished(tmp_path / "toy-t-cgf.jsonl")[0]["options"]
    assert list(theirs) == [option for option in best if option != "softmax=cgf"]
    assert len(Study.of(found({"choices": None})).run("cgf").choices) == 2
    for facts, told in (
        ({"options": ["softmax=bpmax"]}, "has softmax=bpmax"),
        ({"like": "exact"}, "takes a choice over"),
    ):
        with pytest.raises(UserError, match=told):
            found(facts)


def test_a_teacher_is_trained_by_the_studys_schedule(tmp_path):
    study, execute = Study.of({"study": STUDY, "runs": {}}), trained(lambda given: 0.9)
    assert teacher_of(study, tmp_path, 42, execute) == tmp_path / "seed-42" / "teacher" and len(execute.calls) == 1
    assert execute.calls[0][1]["softmax"] == "exact"
    with pytest.raises(UserError, match="the teacher was not trained: no"):
        teacher_of(study, tmp_path, 43, trained(lambda given: "no"))


def test_a_teacher_that_was_stopped_is_trained_to_its_end(tmp_path):
    """Its folder has a best checkpoint, the best so far: train.py alone knows whether there is more to do."""
    study, execute = Study.of({"study": STUDY, "runs": {}}), trained(lambda given: 0.9)
    (tmp_path / "seed-42" / "teacher").mkdir(parents=True)
    (tmp_path / "seed-42" / "teacher" / "best.json").write_text("{}")
    teacher_of(study, tmp_path, 42, execute)
    assert [given["run"] for _, given in execute.calls] == ["teacher"]


def test_trials_of_a_round_have_one_teacher(tmp_path):
    first, count = trained(quality), 0

    def two(script, arguments, pass_fds):
        nonlocal count
        count += 1
        told = first(script, arguments)
        given = dict(a.split("=", 1) for a in arguments)
        path = Path(given["outputs"]) / given["run"] / "ckpt-1" / "run.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "origins": {"teacher": "ab"[count > 4]}}))
        return told

    with pytest.raises(UserError, match="has trials of a round by two teachers"):
        search(tmp_path, two).carry_out()
    assert count == 6 and finished(tmp_path / "toy-t-cgf.jsonl") is None


def test_of_equals_the_one_ranked_first_is_taken_whichever_ended_first(tmp_path):
    search(tmp_path, trained(lambda given: 0.5)).carry_out()
    path = tmp_path / "toy-t-cgf.jsonl"
    head, *lines = read_lines(path)
    assert head["ties"] == "ranked first"
    path.unlink()
    append_lines(path, [head, *reversed(lines)])  # as if several at once had ended the other way round
    assert finished(path)[0]["configuration"] == head["drawn"][0]
    path.unlink()
    append_lines(path, [{k: v for k, v in head.items() if k != "ties"}, *reversed(lines)])  # of before
    assert finished(path)[0]["configuration"] == head["drawn"][1]
