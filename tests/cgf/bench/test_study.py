"""Studies without any training: what runs in which order, from where, and how it goes on; rows and means by hand."""

import fcntl
import json
import shutil
from pathlib import Path

import pytest
import torch

from cgf.checkpoint import read, save
from cgf.config import build, compose, resolved
from cgf.errors import UserError
from cgf.report.range_table import of_means
from cgf.results import read_lines, write_json
from cgf.softmax.cgf import CGF
from cgf.study import range_rows as study_rows
from cgf.study.range_rows import check_of, results_of
from cgf.study.seed import ROOT, Seed
from cgf.study.study import Study

CONFIG = {
    "study": {
        "name": "toy",
        "common": ["model=m"],
        "schedules": {"long": ["train.epochs=3"], "short": ["train.epochs=2"]},
    },
    "runs": {
        "teacher": {"schedule": "long", "options": ["softmax=exact"]},
        "cgf": {
            "schedule": "long",
            "after": "teacher",
            "against": "exact",
            "options": ["softmax=cgf"],
            "watch": [-4.0, 1.0],
            "chain": 5,
        },
        "exact": {"schedule": "long", "after": "teacher", "options": ["softmax=exact"]},
        "power": {
            "schedule": "short",
            "after": "exact",
            "against": "exact",
            "options": ["softmax=bpmax"],
            "choices": [["p=3"], ["p=5"], ["p=7"]],
        },
        "more": {"schedule": "short", "after": "power", "options": ["softmax=bpmax"], "like": "power"},
    },
}
MODEL = {"model": "m", "task": "t", "num_classes": 2, "family": "vit", "source": {}, "config": {}}
VALIDATION = {"power-0": 0.5, "power-1": 0.75, "power-2": 0.75}
CORRECT = {"teacher": 80, "cgf": 88, "cgf-chain5": 87, "cgf-plan": 86, "exact": 90, "power": 60, "more": 70}


class Machine:
    """Stands in for the processes: writes what they would, and can be killed before or after a step's work."""

    def __init__(self, more_correct=0):
        self.calls, self.kill_at, self.more = [], None, more_correct

    def __call__(self, script, arguments):
        if self.kill_at == len(self.calls):
            self.kill_at = None
            raise KeyboardInterrupt
        options = dict(a.split("=", 1) for a in arguments)
        self.calls.append((script, options, arguments))
        if script == "train.py":
            self.train(Path(options["outputs"]) / options["run"], options)
        elif script == "eval_plain.py":
            self.evaluate(Path(options["out"]), options)

    def train(self, folder, options):
        progress = {"epoch": int(options["train.epochs"]), "seconds": 10.0, "finished": True}
        write_json(
            folder / "best.json",
            {"checkpoint": "ckpt-1", "val_accuracy": VALIDATION.get(folder.name, 0.9), "val_samples": 8},
        )
        write_json(
            folder / "ckpt-1" / "run.json",
            {
                "progress": progress,
                "git": {"commit": "a", "dirty": False},
                "versions": {},
                "hardware": {},
                "config": {"train": options["train.epochs"], "softmax": {}, "penalty": {}, "model": "left out"},
            },
        )

    def evaluate(self, out, options):
        assert not out.exists(), "of another training: eval_plain.py would not overwrite it"
        correct = CORRECT[out.stem] + self.more
        chain, own = "approx" in options, out.stem in ("cgf", "cgf-chain5")
        write_json(
            out,
            {
                **dict.fromkeys(study_rows.KEPT),
                "samples": 100,
                "correct": correct,
                "accuracy": correct / 100,
                "approx": "chain" if chain else "exact",
                "outside_domain": (2e-5 if self.more else 1e-5) if own else None,
                "watched": [-4.0, 1.0] if "domain" in options else None,
                "beyond_guard": 1 if chain else None,
                "run": {"git": {"commit": "b", "dirty": False}},
            },
        )

    def names(self):
        return [
            options.get("run") or f"{script.split('_')[0].split('/')[-1]} {Path(options['ckpt']).name}"
            for script, options, _ in self.calls
        ]


def seed(folder, machine, number=42, decides=None):
    return Seed(Study.of(CONFIG), number, folder, decides, execute=machine)


ORDER = [
    "teacher",
    "eval teacher",
    "cgf",
    "eval cgf",
    "plan.py cgf",
    "eval cgf",
    "exact",
    "eval exact",
    "power-0",
    "power-1",
    "power-2",
    "eval power-1",
    "more",
    "eval more",
]


def test_runs_build_on_each_other_in_order(tmp_path):
    machine = Machine()
    seed(tmp_path, machine).carry_out()
    assert machine.names() == ORDER
    by_name = {options["run"]: options for script, options, _ in machine.calls if script == "train.py"}
    assert "ckpt" not in by_name["teacher"] and "distill.teacher" not in by_name["teacher"]
    starts = {
        name: (Path(o["ckpt"]).name, Path(o["distill.teacher"]).name) for name, o in by_name.items() if "ckpt" in o
    }
    assert starts == {
        "cgf": ("teacher", "teacher"),
        "exact": ("teacher", "teacher"),
        "power-0": ("exact", "teacher"),
        "power-1": ("exact", "teacher"),
        "power-2": ("exact", "teacher"),
        "more": ("power-1", "teacher"),
    }
    assert [by_name[f"power-{i}"]["p"] for i in range(3)] == ["3", "5", "7"] and by_name["more"]["p"] == "5"
    assert all(o["seed"] == "42" and o["model"] == "m" for o in by_name.values())
    assert [by_name[name]["train.epochs"] for name in ("teacher", "exact", "more")] == ["3", "3", "2"]
    evaluations = [options for script, options, _ in machine.calls if script == "eval_plain.py"]
    assert [o.get("domain") for o in evaluations[:3]] == [None, "[-4.0,1.0]", None]
    assert [o.get("approx") for o in evaluations[:3]] == [None, None, "plan"]
    assert (tmp_path / "power").resolve() == tmp_path / "power-1" and not (tmp_path / "cgf").is_symlink()


@pytest.mark.parametrize("step", range(len(ORDER)))
def test_a_killed_study_goes_on_with_the_step_that_it_was_at(step, tmp_path):
    machine = Machine()
    machine.kill_at = step
    with pytest.raises(KeyboardInterrupt):
        seed(tmp_path, machine).carry_out()
    assert machine.names() == ORDER[:step]
    seed(tmp_path, machine).carry_out()
    assert machine.names() == ORDER
    seed(tmp_path, machine).carry_out()
    assert machine.names() == ORDER  # nothing is left to do


def test_a_run_that_has_choices_now_is_refused_where_it_was_trained_without_before_anything_runs(tmp_path):
    (tmp_path / "power").mkdir()
    machine = Machine()
    with pytest.raises(UserError, match="power is a training of run power without choices, and the run has 3 now"):
        seed(tmp_path, machine).carry_out()
    assert machine.names() == [] and (tmp_path / "power").is_dir()


def test_a_step_whose_settings_changed_is_taken_again(tmp_path):
    machine = Machine()
    seed(tmp_path, machine).carry_out()
    other = seed(tmp_path, machine)
    other.root = "elsewhere"
    other.carry_out(["teacher"])
    assert machine.names() == [*ORDER, "teacher", "eval teacher"]
    assert machine.calls[-1][1]["data.root"] == "elsewhere"


def test_what_is_trained_anew_is_evaluated_anew(tmp_path):
    machine = Machine()
    seed(tmp_path, machine).carry_out()
    shutil.rmtree(tmp_path / "cgf")  # to have it once more
    seed(tmp_path, machine).carry_out()
    again = ["cgf", "eval cgf", "plan.py cgf", "eval cgf"]
    assert machine.names() == [*ORDER, *again]
    shutil.rmtree(tmp_path / "cgf")
    config = {**CONFIG, "runs": {**CONFIG["runs"], "cgf": {**CONFIG["runs"]["cgf"], "options": ["softmax=cgf", "x=1"]}}}
    Seed(Study.of(config), 42, tmp_path, execute=machine).carry_out(["teacher", "cgf"])
    assert machine.names() == [*ORDER, *again, *again]
    shutil.rmtree(tmp_path / "exact")
    seed(tmp_path, machine).carry_out(["teacher", "exact", "power", "more"])
    assert machine.names()[-8:] == [
        "exact",
        "eval exact",
        "power-0",
        "power-1",
        "power-2",
        "eval power-1",
        "more",
        "eval more",
    ]
    # train.py leaves a finished run as it is, so those that had learned from it are overwritten
    overwritten = [options["run"] for script, options, _ in machine.calls if "overwrite" in options]
    assert overwritten == ["power-0", "power-1", "power-2", "more"]


def test_results_of_other_arguments_are_not_the_studys(tmp_path):
    """A study that was changed since has no results, whatever its folder holds; nor has one of a changed start."""
    seed(tmp_path, Machine()).carry_out()
    runs = CONFIG["runs"]

    def found(**changed):
        study = Study.of({**CONFIG, "runs": {**runs, **{n: {**runs[n], "options": o} for n, o in changed.items()}}})
        return {result["run"] for result in results_of(Seed(study, 42, tmp_path))}

    everything = found()
    assert everything == set(runs)
    assert found(cgf=["softmax=cgf", "x=1"]) == {name for name in runs if name != "cgf"}
    assert found(teacher=["softmax=exact", "x=1"]) == set()


def test_an_evaluation_of_other_weights_is_no_result(tmp_path):
    save(tmp_path / "ckpt-1", {"w": torch.zeros(1)}, [CGF()], MODEL)
    check_of({"checkpoint_sha256": read(tmp_path).digest}, tmp_path)
    with pytest.raises(UserError, match="is of other weights than are there now: remove"):
        check_of({"checkpoint_sha256": "0" * 64}, tmp_path)


def test_an_evaluation_whose_result_is_gone_is_made_again(tmp_path):
    machine = Machine()
    one = seed(tmp_path, machine)
    one.carry_out()
    results = sorted({options["out"] for script, options, _ in machine.calls if script == "eval_plain.py"})
    gone = next(path for path in results if path.endswith("exact.json"))
    Path(gone).unlink()
    seed(tmp_path, machine).carry_out()
    assert machine.names() == [*ORDER, "eval exact"] and Path(gone).is_file()


def test_what_is_planned_anew_is_evaluated_with_its_plan_anew(tmp_path):
    def run(*options):
        own = {k: v for k, v in CONFIG["runs"]["cgf"].items() if k != "chain"}
        config = {**CONFIG, "runs": {**CONFIG["runs"], "cgf": {**own, "plan": list(options)}}}
        Seed(Study.of(config), 42, tmp_path, execute=machine).carry_out(["teacher", "cgf"])

    machine = Machine()
    for _ in range(2):
        run()
    assert machine.names() == ["teacher", "eval teacher", "cgf", "eval cgf", "plan.py cgf", "eval cgf"]
    for _ in range(2):
        run("margin=2")
    assert machine.names()[6:] == ["plan.py cgf", "eval cgf"]
    assert machine.calls[-1][1]["approx"] == "plan" and machine.calls[-2][1]["margin"] == "2"
    run()
    assert machine.names()[8:] == ["plan.py cgf", "eval cgf"] and "margin" not in machine.calls[-2][1]


def test_other_seeds_take_the_choice_over(tmp_path):
    machine = Machine()
    with pytest.raises(UserError, match=r"choice of power needs .*power-0, and it is not trained"):
        seed(tmp_path / "43", machine, 43, tmp_path / "42").carry_out()
    seed(tmp_path / "42", Machine()).carry_out()
    told = tmp_path / "42" / "power-1" / "ckpt-1" / "run.json"
    whole = told.read_text()
    told.write_text(whole.replace('"finished": true', '"finished": false'))  # a best checkpoint so far decides nothing
    with pytest.raises(UserError, match=r"choice of power needs .*power-1, and it is not trained to its end"):
        seed(tmp_path / "43", machine, 43, tmp_path / "42").carry_out()
    told.write_text(whole)
    seed(tmp_path / "43", machine, 43, tmp_path / "42").carry_out()
    trained = [name for name in machine.names() if " " not in name]
    assert trained == ["teacher", "cgf", "exact", "power-1", "more"]
    assert machine.calls[-2][1]["p"] == "5" and machine.calls[-2][1]["ckpt"] == str(tmp_path / "43" / "power-1")
    assert (tmp_path / "43" / "power").resolve().name == "power-1"


def test_two_at_work_in_one_folder_are_refused(tmp_path):
    with open(tmp_path / ".lock", "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(UserError, match="another process is at work"):
            seed(tmp_path, Machine()).carry_out()
    seed(tmp_path, Machine()).carry_out(["teacher"])


def test_a_failing_process_is_one_sentence_and_no_done_step(tmp_path):
    real = Seed(Study.of(CONFIG), 1, tmp_path)  # train.py refuses model=m
    with pytest.raises(UserError, match=r"train\.py ended with code 2, its arguments: model=m softmax=exact"):
        real.carry_out()
    assert read_lines(tmp_path / "steps.jsonl") == []


FAKE = """
import json, pathlib, sys
given = dict(a.split("=", 1) for a in sys.argv[1:])
if {writes!r}:
    pathlib.Path(given["out"]).parent.mkdir(parents=True, exist_ok=True)
    pathlib.Path(given["out"]).write_text(json.dumps({{"red": {red!r}}}))
sys.exit({code})
"""


@pytest.mark.parametrize(
    "red, code, writes, goes_on",
    [
        (["3 entries lay beyond the plan's guard"], 1, True, True),
        ([], 1, True, False),
        (["3 entries lay beyond the plan's guard"], 2, True, False),
        ([], 1, False, False),
        ([], 0, True, True),
    ],
)
def test_a_red_evaluation_is_a_result_and_a_crash_is_none(tmp_path, monkeypatch, red, code, writes, goes_on):
    monkeypatch.setattr("cgf.study.seed.ROOT", tmp_path)
    (tmp_path / "eval_plain.py").write_text(FAKE.format(writes=writes, red=red, code=code))
    out = tmp_path / "eval" / "cgf.json"
    if not writes:  # what an evaluation before this one left is not the result of this one
        write_json(out, {"red": ["old"]})
    one = Seed(Study.of(CONFIG), 1, tmp_path)
    with open(tmp_path / ".lock", "w") as one._held:
        if goes_on:
            one._step("eval_plain.py", [f"out={out}"])
            assert [line.get("red", []) for line in read_lines(tmp_path / "steps.jsonl")] == [red]
        else:
            with pytest.raises(UserError, match=rf"eval_plain\.py ended with code {code}"):
                one._step("eval_plain.py", [f"out={out}"])
            assert read_lines(tmp_path / "steps.jsonl") == []


@pytest.mark.parametrize(
    "change, says",
    [
        ({"after": "later"}, "run cgf needs later to be done before it, and of the runs .*exact.* can be"),
        ({"after": "cgf"}, "run cgf needs cgf to be done before it"),
        ({"schedule": "none"}, "run cgf needs a schedule 'none', and study toy has long, short"),
    ],
)
def test_runs_that_do_not_hold_together_are_refused(change, says):
    config = json.loads(json.dumps(CONFIG))
    config["runs"]["cgf"].update(change)
    with pytest.raises(UserError, match=says):
        Study.of(config)


def test_a_run_stands_after_those_it_refers_to():
    config = json.loads(json.dumps(CONFIG))
    before = [run.name for run in Study.of(config).runs]
    assert before == list(config["runs"]) and before.index("cgf") < before.index("exact")
    config["runs"]["cgf"]["like"] = "exact"
    after = [run.name for run in Study.of(config).runs]
    assert after.index("cgf") == after.index("exact") + 1 and sorted(after) == sorted(before)


def test_a_teacher_of_its_own(tmp_path):
    config = json.loads(json.dumps(CONFIG))
    config["runs"]["cgf"]["teacher"] = "exact"
    study, machine = Study.of(config), Machine()
    Seed(study, 42, tmp_path, execute=machine).carry_out(["teacher", "cgf", "exact"])
    told = {
        o["run"]: (Path(o["ckpt"]).name, Path(o["distill.teacher"]).name)
        for script, o, _ in machine.calls
        if script == "train.py" and "ckpt" in o
    }
    assert told == {"exact": ("teacher", "teacher"), "cgf": ("teacher", "exact")} and list(told) == ["exact", "cgf"]
    assert [r.name for r in study.lineage(study.run("cgf"))] == ["cgf", "teacher", "exact", "teacher"]


def test_rows_and_means(tmp_path):
    study = Study.of(CONFIG)
    seed(tmp_path / "seed-42", Machine()).carry_out()
    seed(tmp_path / "seed-43", Machine(2), 43, tmp_path / "seed-42").carry_out(["teacher", "cgf", "exact"])
    found = study_rows.gathered(study, [42, 43, 44], tmp_path, 42)
    assert [(r["run"], r["seed"], r["epochs"]) for r in found["rows"]] == [
        ("teacher", 42, 3),
        ("cgf", 42, 3),
        ("cgf", 42, 3),
        ("exact", 42, 3),
        ("power", 42, 5),
        ("more", 42, 7),
        ("teacher", 43, 3),
        ("cgf", 43, 3),
        ("cgf", 43, 3),
        ("exact", 43, 3),
    ]
    first = found["rows"][1]
    assert (first["correct"], first["samples"], first["val_samples"], first["seconds"]) == (88, 100, 8, 10.0)
    assert first["git"]["trained"]["commit"] == "a" and first["git"]["evaluated"]["commit"] == "b"
    assert set(first["config"]) == {"train", "softmax", "penalty"}
    means = {(m["run"], m["approx"]): m for m in found["means"]}
    assert len(means) == 6
    cgf, chain, power = means["cgf", "exact"], means["cgf", "chain"], means["power", "exact"]
    assert cgf["accuracy"] == pytest.approx(0.89) and (cgf["least"], cgf["most"]) == (0.88, 0.90)
    assert cgf["points"] == pytest.approx(-2.0) and cgf["points_of_exponential"] is None
    assert chain["points"] == pytest.approx(-3.0) and chain["points_of_exponential"] == pytest.approx(-1.0)
    assert cgf["outside_domain"] == 2e-5 and chain["beyond_guard"] == 2 and cgf["beyond_guard"] is None
    assert cgf["seeds"] == [42, 43] and not cgf["complete"] and power["seeds"] == [42]
    assert power["points"] == pytest.approx(-30.0)
    assert study_rows.means(found["rows"], [42, 43])[1]["complete"]
    tries = [(t["options"], t["val_accuracy"], t["chosen"]) for t in found["trials"]]
    assert tries == [(["p=3"], 0.5, False), (["p=5"], 0.75, True), (["p=7"], 0.75, False)]
    table = of_means(found["means"])
    assert (
        "| toy | cgf | exact | – | 3 | 42, 43 (partial) | 89.00 % (88.00 to 90.00) | -2.00 | 0.0020 % of [-4, 1] |"
        in table
    )


def test_seeds_on_machines_that_share_the_result_file_alone(tmp_path):
    study = Study.of(CONFIG)
    seed(tmp_path / "one" / "seed-42", Machine()).carry_out()
    kept = study_rows.gathered(study, [42], tmp_path / "one", 42)
    known = study_rows.choices(study, kept, 42)
    assert known == {"power": 1} and study_rows.choices(study, None, 42) == {}
    machine, two = Machine(2), tmp_path / "two"
    other = Seed(study, 43, two / "seed-43", two / "seed-42", execute=machine, known=known)
    other.carry_out()
    assert [name for name in machine.names() if " " not in name] == ["teacher", "cgf", "exact", "power-1", "more"]
    both = study_rows.gathered(study, [43], two, 42, json.loads(json.dumps(kept)))
    assert [r["seed"] for r in both["rows"]] == [42] * 6 + [43] * 6 and both["trials"] == kept["trials"]
    assert both["rows"][:6] == kept["rows"]
    power = next(m for m in both["means"] if m["run"] == "power")
    assert power["seeds"] == [42, 43] and power["complete"]
    again = study_rows.gathered(study, [43], two, 42, both)  # its own rows once
    assert again == both
    # a study that trains one run otherwise keeps nothing of it, nor a choice among other options
    changed = json.loads(json.dumps(CONFIG))
    changed["runs"]["power"]["choices"][1] = ["p=6"]
    fresh = study_rows.gathered(Study.of(changed), [44], tmp_path / "three", 42, kept)
    assert [r["run"] for r in fresh["rows"]] == ["teacher", "cgf", "cgf", "exact"] and fresh["trials"] == []
    earlier = json.loads(json.dumps(CONFIG))
    earlier["runs"]["exact"]["options"] = ["softmax=other"]  # power and more start from its weights
    fewer = study_rows.gathered(Study.of(earlier), [44], tmp_path / "three", 42, kept)
    assert [r["run"] for r in fewer["rows"]] == ["teacher", "cgf", "cgf"]
    with pytest.raises(UserError, match="choice of power needs"):
        Seed(
            Study.of(changed),
            44,
            two / "seed-44",
            two / "seed-42",
            execute=Machine(),
            known=study_rows.choices(Study.of(changed), kept, 42),
        ).carry_out()


STUDIES = sorted(p.stem for p in (ROOT / "configs" / "study").glob("*.yaml"))


@pytest.mark.parametrize("name", STUDIES)
def test_softmaxes_that_are_compared_were_trained_alike(name, tmp_path):
    """The overrides of every run make a configuration of train.py, and differ from the exact one's in what they say."""
    study = Study.of(resolved(compose("range", [f"study={name}"])))
    told = {}
    for run in study.runs:
        for own in run.choices if run.like is None else study.run(run.like).choices:
            cfg = resolved(compose("train", [*study.common, *run.options, *study.schedules[run.schedule], *own]))
            assert build(cfg["softmax"]).name
            told[run.name] = {"train": cfg["train"], "distill": cfg["distill"], "model": cfg["model"]}
    for run in study.runs:
        if run.against is None:
            continue
        mine, other = run, study.run(run.against)
        while mine.name != "teacher":
            assert told[mine.name] == told[other.name]
            assert (mine.schedule, mine.teacher) == (other.schedule, other.teacher)
            assert told[mine.name]["distill"]["alpha"] == 0.5
            mine, other = study.run(mine.after), study.run(other.after)
        assert other.name == "teacher"
    assert {"teacher", "cgf", "exact", "chain3", "chain2", "bpmax_calibrated"} <= {run.name for run in study.runs}
