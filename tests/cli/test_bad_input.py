"""Bad input to the entry points: one sentence with need and have, exit code 2, nothing left behind.

Most run the decorated main in this process; a handful are real processes.
"""

import errno
import gzip
import json
import os
import shutil
import tempfile
from pathlib import Path

import pytest
import torch
from digits_checkpoint import call, spawn
from resealed import reseal, reseal_softmax
from safetensors.torch import load_file, save_file


def files(folder):
    """What there is, and when files were changed; a lock that comes and goes is a change of its folder alone."""
    return {p.relative_to(folder): p.is_dir() or p.stat().st_mtime_ns for p in folder.rglob("*")}


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An empty working folder without data: where outputs would be left."""
    folder = tmp_path / "place"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.delenv("CGF_DATA_ROOT", raising=False)
    return folder


def one_sentence(done, *says):
    assert done.returncode == 2, done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("error: "), done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    for text in says:
        assert text in lines[0], lines[0]


@pytest.fixture
def refused(place, tmp_path):
    """refused(script, arguments, *says): the call is refused, and no file below the test's folder changes."""

    def check(script, arguments, *says, run=call):
        before = files(tmp_path)
        one_sentence(run(script, *arguments), *says)
        assert files(tmp_path) == before and not list(place.iterdir())

    return check


# -- names and keys -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "script, argument, says",
    [
        ("train", "model=nope", ["unknown model 'nope'", "vit_digits", "llama"]),
        ("train", "task=nope", ["unknown task 'nope'", "clinc150"]),
        ("train", "softmax=nope", ["unknown softmax 'nope'", "bpmax"]),
        ("train", "distill=nope", ["unknown distill 'nope'", "kd"]),
        ("train", "tune=nope", ["unknown tune 'nope'", "lora"]),
        ("train", "experiment=nope", ["unknown experiment 'nope'", "digits_teacher"]),
        ("eval_plain", "approx=nope", ["unknown approx 'nope'", "chebyshev"]),
        ("eval_he", "he=nope", ["unknown he 'nope'", "desilo", "sim"]),
        ("train", "modle=llama", ["unknown setting 'modle' for train"]),
        ("train", "train.lrr=1", ["unknown setting 'train.lrr'"]),
        ("train", "softmax.nonsense=1", ["unknown setting 'softmax.nonsense'"]),
        ("train", "+softmax.nonsense=1", ["cgf.softmax.cgf.CGF", "nonsense"]),
        ("train", "+model.nonsense=1", ["cgf.models.vit.load", "nonsense"]),
        ("eval_plain", "ckppt=x", ["unknown setting 'ckppt' for eval_plain"]),
        ("eval_he", "he.sample=3", ["unknown setting 'he.sample'"]),
        ("plan", "toleranse=1", ["unknown setting 'toleranse' for plan"]),
        ("train", "llama", ["key=value", "'llama'"]),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_unknown_names(refused, script, argument, says):
    refused(script, [argument], *says)


@pytest.mark.parametrize(
    "argument, says",
    [
        ("train.lr=-1", ["train.lr must be a number above 0, and -1"]),
        ("train.lr=abc", ["train.lr must be a number", "'abc'"]),
        ("train.epochs=-1", ["train.epochs must be a whole number of at least 0, and -1"]),
        ("train.batch_size=1.5", ["train.batch_size must be a whole number", "1.5"]),
        ("train.schedule=step", ["linear, cosine, constant", "'step'"]),
        ("train.precision=fp8", ["auto, no, bf16 or fp16", "'fp8'"]),
        ("resume=maybe", ["resume must be true or false", "'maybe'"]),
        ("seed=true", ["seed must be a whole number", "True"]),
        ("softmax.order=7", ["order 2, 3 or 4, and order=7"]),
        ("penalty.bound=x", ["penalty.bound must be a number"]),
        ("penalty.bound=[8,x]", ["penalty.bound must be a number", "'x'"]),
        ("penalty.bound=[]", ["bound > 0 (or a list of such, one a layer)"]),
        ("penalty.bound=[8,8,8]", ["one a layer (4 for this model)", "has 3"]),
        ("penalty.weight=[1]", ["penalty.weight must be a number"]),
        ("penalty.row_sum.low=1.5", ["0 < low <= 1 <= high", "low 1.5"]),
        ("+penalty.row_sum.lo=0.5", ["penalty.row_sum takes weight, low, high"]),
        ("penalty.ramp=2", ["penalty.ramp must be a share of the steps from 0 to 1, and 2"]),
        ("distill.tau=0", ["tau > 0"]),
        ("task.limit={train: -1}", ["task.limit.train needs a count of at least 1, and it is -1"]),
        ("task.limit={train: true}", ["task.limit.train needs a count of at least 1, and it is True"]),
        ("task.limit={trian: 10}", ["train, val, test", "'trian'"]),
        ("distill=kd", ["distill.teacher=self", "ckpt is not set"]),
        ("+tune.rank=3", ["unknown setting 'tune.rank' for train"]),
    ],
)
def test_bad_values_for_train(refused, argument, says):
    refused("train", ["task.augment=false", argument], *says)


def test_hidden_states_of_filled_texts_are_not_matched(refused):
    own = ["model=bert_tiny", "task=clinc150", "model.pad_to_multiple_of=16", "distill=kd", "distill.teacher=x"]
    refused("train", [*own, "distill.hidden=1"], "model.pad_to_multiple_of=16 fills texts up with others")


def test_bpmax_takes_odd_powers(refused):
    refused("train", ["softmax=bpmax", "softmax.p=4"], "odd power p, and p=4")


def test_a_sweep_is_checked_choice_by_choice(refused):
    refused("train", ["--multirun", "softmax=cgf,nope"], "unknown softmax 'nope'")


# -- checkpoints ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("script", ["eval_plain", "eval_he", "plan"])
def test_no_checkpoint(refused, tmp_path, script):
    extra = ["he=sim"] if script == "eval_he" else []
    refused(script, extra, "ckpt")
    refused(script, [f"ckpt={tmp_path / 'none'}", *extra], "needs a checkpoint or run folder", "no folder")
    (tmp_path / "run" / "ckpt-5").mkdir(parents=True)  # a run stopped before its first checkpoint was complete
    refused(script, [f"ckpt={tmp_path / 'run'}", *extra], "holds no complete checkpoint", "run.json")


def test_train_from_no_checkpoint(refused, tmp_path):
    refused("train", [f"ckpt={tmp_path / 'none'}"], "needs a checkpoint or run folder")


def without_run(folder):
    (folder / "run.json").unlink()


def truncated_run(folder):
    text = (folder / "run.json").read_text()
    (folder / "run.json").write_text(text[: len(text) // 2])


def truncated_weights(folder):
    raw = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(raw[: len(raw) // 2])


def without_weights(folder):
    (folder / "model.safetensors").unlink()


def without_softmax(folder):
    (folder / "softmax.json").unlink()


def foreign_run(folder):
    (folder / "run.json").write_text('{"name": "something else"}')


def without_config(folder):
    run = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({k: v for k, v in run.items() if k != "config"}))


def other_shapes(folder):
    tensors = load_file(folder / "model.safetensors")
    tensors["head.weight"] = tensors["head.weight"][:, :5].clone()
    save_file(tensors, folder / "model.safetensors")
    reseal(folder)


def other_keys(folder):
    tensors = load_file(folder / "model.safetensors")
    save_file({f"encoder.{k}": v for k, v in tensors.items()}, folder / "model.safetensors")
    reseal(folder)


def other_code(folder):
    described = json.loads((folder / "softmax.json").read_text())
    described["softmax"]["_target_"] = "subprocess.run"
    (folder / "softmax.json").write_text(json.dumps(described))
    reseal(folder)


def other_task_code(folder):
    config = json.loads((folder / "run.json").read_text())["config"]
    reseal(folder, config={**config, "task": {"_target_": "os.system", "command": "touch pwned"}})


def broken_plan(folder):
    (folder / "plan.json").write_text('{"exponential": {"method": "chain"}}')


@pytest.mark.parametrize(
    "damage, says",
    [
        (without_run, "run.json, which is written last"),
        (truncated_run, "damaged or half-written"),
        (truncated_weights, "model.safetensors cannot be read"),
        (without_weights, "lacks model.safetensors"),
        (without_softmax, "lacks softmax.json"),
        (foreign_run, "not a checkpoint of this project"),
        (without_config, "lacks 'config'"),
        (other_shapes, "of another model"),
        (other_keys, "of another model"),
        (other_code, "must name a softmax of this project"),
        (other_task_code, "task must be one of cgf.data.labelled.LabelledArchiveTask"),
        (broken_plan, "'alpha' must hold finite numbers"),
    ],
    ids=lambda v: getattr(v, "__name__", ""),
)
def test_a_damaged_checkpoint(refused, checkpoint, damage, says):
    damage(checkpoint)
    refused("eval_plain", [f"ckpt={checkpoint}", "approx=plan"], says)


def test_a_damaged_checkpoint_for_the_other_entry_points(refused, checkpoint):
    truncated_weights(checkpoint)
    refused("eval_he", [f"ckpt={checkpoint}", "he=sim"], "model.safetensors cannot be read")
    refused("plan", [f"ckpt={checkpoint}"], "model.safetensors cannot be read")
    refused("train", [f"ckpt={checkpoint}"], "model.safetensors cannot be read")


def table(root, task, header, records):
    (root / task).mkdir(parents=True)
    for split in ("train", "test"):
        text = "\n".join([header, *records]) + "\n"
        (root / task / f"{split}.csv.gz").write_bytes(gzip.compress(text.encode()))


def test_a_checkpoint_of_another_task(refused, checkpoint, tmp_path):
    root = tmp_path / "data"
    table(root, "banking77", "text,category", ["my card,card", "my pin,pin"] * 20)
    (root / "banking77" / "categories.json").write_text('["card", "pin"]')
    refused(
        "train",
        [f"ckpt={checkpoint}", "task=banking77", f"data.root={root}"],
        "was trained on digits with 10 classes, and task=banking77 has 2",
    )


# -- data -----------------------------------------------------------------------------------------------


def test_data_that_is_missing_or_wrong(refused, tmp_path):
    arguments = ["model=stories260k", "task=banking77"]
    refused("train", [*arguments, f"data.root={tmp_path / 'none'}"], "data.root", "no such folder")
    root = tmp_path / "data"
    root.mkdir()
    refused("train", [*arguments, f"data.root={root}"], "banking77/train.csv", "no such file")
    table(root, "banking77", "sentence,category", ["my card,card"])
    refused("train", [*arguments, f"data.root={root}"], "needs the column text", "sentence, category")


def test_clinc_that_is_no_json(refused, tmp_path):
    folder = tmp_path / "data" / "clinc150"
    folder.mkdir(parents=True)
    (folder / "data_full.json").write_text('{"train": [["hello", ')
    refused("train", ["model=stories260k", "task=clinc150", f"data.root={tmp_path / 'data'}"], "data_full.json", "JSON")


# -- choices that do not go together --------------------------------------------------------------------


def test_a_plan_never_sees_test_data(refused, checkpoint):
    refused("plan", [f"ckpt={checkpoint}", "split=test"], "never see test data", "split=train or split=val")


@pytest.mark.parametrize(
    "argument, says",
    [
        ("tolerance=-1", "must be positive"),
        ("outside=2", "from 0 to below 1, and 2"),
        ("samples=0", "at least 1, and 0"),
        ("batch_size=0", "at least 1, and 0"),
        ("split=foo", "train, val, test, and 'foo'"),
        ("approx=plan", "approx=plan is for evaluations"),
    ],
)
def test_bad_values_for_plan(refused, checkpoint, argument, says):
    refused("plan", [f"ckpt={checkpoint}", argument], says)


def test_a_plan_by_hand_whose_guard_is_too_narrow(refused, checkpoint):
    refused(
        "plan",
        [f"ckpt={checkpoint}", "samples=20", "approx=chebyshev", "approx.k=0", "approx.range=[-0.5,0]", "cache=null"],
        "guard of a plan must hold every calibrated entry",
        "chebyshev",
        "approx.k",
    )


@pytest.mark.parametrize(
    "arguments, says",
    [
        (["split=test"], ["never see test data", "split=train or split=val"]),
        (["softmax=exact"], ["'exact' has no exponent to look at", "softmax=cgf"]),
        (["softmax=bpmax"], ["'bpmax' has no exponent to look at"]),
        (["softmax=nope"], ["unknown softmax 'nope'"]),
        (["forward=both"], ["trained, softmax, and 'both'"]),
        (["padding=left"], ["auto, none, longest, and 'left'"]),
        (["tolerance=0"], ["tolerance must be positive"]),
        (["outside=1"], ["from 0 to below 1"]),
        (["margin=0.5"], ["by 1 or more, and 0.5"]),
        (["levels=0"], ["levels must be a whole number of at least 1"]),
        (["domain=[1]"], ["two numbers [lo, hi]"]),
        (["samples=0"], ["at least 1, and 0"]),
        (["split=foo"], ["'foo'"]),
        (["ckpt=nowhere"], ["needs a checkpoint or run folder"]),
        (["compare=nowhere"], ["needs a checkpoint or run folder"]),
    ],
)
def test_bad_values_for_friendly(refused, arguments, says):
    refused("friendly", arguments, *says)


def test_friendly_of_a_checkpoint_without_an_exponent(refused, checkpoint):
    with_bpmax(checkpoint)
    refused("friendly", [f"ckpt={checkpoint}"], "'bpmax' has no exponent to look at")
    refused("friendly", [f"ckpt={checkpoint}", "task=clinc150"], "and task was given beside ckpt")


def test_a_tolerance_out_of_reach(refused, checkpoint):
    refused(
        "plan",
        [f"ckpt={checkpoint}", "samples=20", "tolerance=1e-15", "approx=limit", "approx.k=null", "cache=null"],
        "no exponential reaches an error of 1e-15",
        "the best error is",
    )


@pytest.mark.parametrize("script", ["eval_plain", "eval_he"])
def test_a_plan_that_was_not_made(refused, checkpoint, script):
    (checkpoint / "plan.json").unlink()
    extra = ["he=sim"] if script == "eval_he" else []
    refused(script, [f"ckpt={checkpoint}", "approx=plan", *extra], "approx=plan needs", "plan.json", "scripts/plan.py")
    refused(script, [f"ckpt={checkpoint}", "approx=chain", "approx.k=null", *extra], "needs a range")


def test_a_full_disk(refused, checkpoint, monkeypatch):
    monkeypatch.setattr("cgf.results.write_json", lambda path, data: Path("/dev/full").write_text(json.dumps(data)))
    refused("eval_plain", [f"ckpt={checkpoint}", "samples=4"], "the disk is full", "what was finished before is whole")


@pytest.mark.parametrize(
    "arguments, says",
    [
        (["approx=limit", "approx.range=[1]"], "two numbers"),
        (["approx=limit", "approx.range=5"], "two numbers"),
        (["approx=limit", "approx.range=[0,-3]"], "lo < hi"),
        (["approx=limit", "approx.k=-1"], "from 1 to 20"),
        (["approx=chebyshev", "approx.k=abc"], "whole number"),
        (["approx=chebyshev", "approx.degree=0"], "degree"),
        (["samples=x"], "whole number"),
        (["batch_size=0"], "at least 1"),
        (["split=foo"], "'foo'"),
    ],
)
def test_bad_values_for_eval_plain(refused, checkpoint, arguments, says):
    refused("eval_plain", [f"ckpt={checkpoint}", *arguments], says)


@pytest.mark.parametrize(
    "arguments, says",
    [
        (["he.max_level=2"], ["needs an engine of", "he.max_level=2"]),
        (["he.max_level=99"], ["99", "36"]),
        (["he.max_level=abc"], ["he.max_level", "'abc'"]),
        (["he.samples=0"], ["at least 1, and 0"]),
        (["he.batch=0"], ["at least 1, and 0"]),
        (["he.circuit=fast"], ["folded, abreast, paper", "'fast'"]),
        (["he.owner.outside=foo"], ["'raise' or 'record'"]),
        (["approx=exact"], ["needs a polynomial"]),
    ],
)
def test_bad_values_for_eval_he(refused, checkpoint, arguments, says):
    refused("eval_he", [f"ckpt={checkpoint}", "he=sim", *arguments], *says)


def test_bad_mode_of_the_real_engine(refused, checkpoint):
    refused("eval_he", [f"ckpt={checkpoint}", "he=desilo", "he.owner.mode=tpu"], "cpu, parallel or gpu", "'tpu'")


def test_a_gpu_that_is_not_there(refused, checkpoint):
    """Either the wheel is the CPU's, or it finds no driver: both are said before anything is written."""
    if shutil.which("nvidia-smi"):
        pytest.skip("this machine has a GPU")
    refused("eval_he", [f"ckpt={checkpoint}", "he=desilo_gpu"], "gpu")


def with_bpmax(folder):
    """The checkpoint as if trained with BPMax, denominators of 1 measured in each of its four layers."""
    tensors = load_file(folder / "model.safetensors")
    ones = {f"softmax.{layer}.denominator": torch.ones(4, 16, 1) for layer in range(4)}
    save_file({**tensors, **ones}, folder / "model.safetensors")
    reseal_softmax(folder, _target_="cgf.softmax.bpmax.BPMax", variant="bpmax", p=5, c=5.0)


def test_bpmax_is_evaluated_as_it_was_trained(refused, checkpoint):
    with_bpmax(checkpoint)
    advice = "without softmax= it is taken as trained"
    refused("eval_plain", [f"ckpt={checkpoint}", "samples=4", "softmax=bpmax"], "denominator", advice)
    done = call("eval_plain", f"ckpt={checkpoint}", "samples=4")
    assert done.returncode == 0 and "softmax bpmax" in done.stdout, done.stderr


def test_softmaxes_without_an_exponential(refused, checkpoint):
    reseal_softmax(checkpoint, _target_="cgf.softmax.exact.Exact", variant="exact")
    refused("eval_he", [f"ckpt={checkpoint}", "he=sim", "approx=exact"], "'exact' cannot run under CKKS", "division")
    with_bpmax(checkpoint)
    for approx in ("plan", "chebyshev"):
        refused("eval_plain", [f"ckpt={checkpoint}", f"approx={approx}"], "'bpmax' has no exponential to replace")
    refused("plan", [f"ckpt={checkpoint}"], "'bpmax' has no exponential to plan")
    refused("eval_plain", [f"ckpt={checkpoint}", "domain=[-8,1]"], "'bpmax' has no exponential: leave it out")
    refused("eval_he", [f"ckpt={checkpoint}", "he=sim", "he.scope=network"], "knows CGF-softmax of two cumulants alone")


# -- real processes -------------------------------------------------------------------------------------


def run_in(place, **environment):
    return lambda script, *arguments: spawn(script, *arguments, cwd=place, **environment)


def test_real_processes(refused, place, checkpoint):
    run = run_in(place)
    refused("train", ["task=nope"], "unknown task 'nope'", run=run)
    refused("eval_he", [f"ckpt={checkpoint}", "he=sim", "he.max_level=1"], "he.max_level=1", run=run)


def test_a_hub_that_cannot_be_reached(refused, place, tmp_path):
    (tmp_path / "cache").mkdir()

    def run(script, *arguments):
        done = spawn(script, *arguments, cwd=place, fresh=True, HF_HUB_OFFLINE="1", HF_HOME=str(tmp_path / "cache"))
        shutil.rmtree(tmp_path / "cache")  # the libraries' own
        (tmp_path / "cache").mkdir()
        return done

    arguments = ["model=stories260k", "task=clinc150"]
    done = run("train", *arguments)
    one_sentence(done, "hub dataset clinc/clinc_oos", "data.root or CGF_DATA_ROOT")
    assert not list(place.iterdir())


# -- places that cannot be written ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "script, work, arguments, path",
    [
        ("eval_plain", "cgf.evaluate.plain_result.measure", ["samples=20", "out=/proc/x.json"], "/proc/x.json"),
        ("plan", "cgf.evaluate.plan_checkpoint.open_checkpoint", ["cache=/proc"], "/proc/fit.json"),
        ("friendly", "cgf.evaluate.observed_host.ObservedHost.run", ["out=/proc"], "/proc/friendly.json"),
        (
            "plan",
            "cgf.plan.planner.Planner.pareto_set",
            ["ckpt=null", "range=[-9,0]", "out=/proc"],
            "/proc/pareto.json",
        ),
    ],
)
def test_a_place_that_cannot_be_written_is_told_before_the_work(
    refused, checkpoint, monkeypatch, script, work, arguments, path
):
    monkeypatch.setattr(work, None)  # to call it fails
    refused(script, [f"ckpt={checkpoint}", *arguments], f"{path} cannot be written: ")


def test_a_plan_beside_a_checkpoint_on_a_disk_that_is_read_only(refused, checkpoint, monkeypatch):
    def read_only(dir):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(dir))

    monkeypatch.setattr(tempfile, "TemporaryFile", read_only)
    monkeypatch.setattr("cgf.evaluate.plan_checkpoint.open_checkpoint", None)
    refused("plan", [f"ckpt={checkpoint}", "cache=null"], "plan.json cannot be written: Read-only file system")
