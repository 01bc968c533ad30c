"""train.py as users run it: stopped, resumed, swept, refused; on the digits, in few steps."""

import importlib.util
import json
import math
import os
import signal
import time

import pytest
import torch
from digits_checkpoint import call, spawn, started
from safetensors.torch import load_file

from cgf.distill.settings import Settings

SMALL = (
    "task.limit={train: 64, val: 32}",
    "train.batch_size=16",
    "train.log_every=1000",
    "train.lr=1e-3",
    "model.options.depth=2",
    "+model.options.proj_drop_rate=0.1",
)


def losses(run):
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [(r["step"], r["loss"]) for r in records if "loss" in r], [r for r in records if "val_accuracy" in r]


def train(outputs, name, *arguments):
    return call("train", *SMALL, f"outputs={outputs}", f"run={name}", *arguments)


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    outputs = tmp_path_factory.mktemp("teacher")
    done = train(outputs, "teacher", "softmax=exact", "train.max_steps=4")
    assert done.returncode == 0, done.stderr
    return outputs / "teacher"


@pytest.mark.parametrize("kind", ["fine-tuning", "distillation", "lora", "constants", "constants with lora"])
def test_a_killed_run_goes_on_with_the_losses_of_an_unbroken_one(kind, teacher, tmp_path):
    options = {
        "fine-tuning": ["softmax=bpmax_calibrated"],
        "distillation": [
            "softmax=cgf",
            "distill=kd",
            f"ckpt={teacher}",
            "penalty.weight=0.1",
            "penalty.bound=[2,3]",
            "penalty.row_sum.weight=1",
            "penalty.ramp=0.6",
        ],
        "lora": ["softmax=cgf", "tune=lora", f"ckpt={teacher}"],
        "constants": ["softmax=cgf_chain", "distill=kd", f"ckpt={teacher}", "train.softmax_lr=3"],
        "constants with lora": ["softmax=cgf_chain", "softmax.trainable=head", "tune=lora", f"ckpt={teacher}"],
    }[kind] + ["train.epochs=10", "train.save_every=2"]
    assert train(tmp_path, "unbroken", *options).returncode == 0
    broken = tmp_path / "broken"
    process = started("train", *SMALL, f"outputs={tmp_path}", "run=broken", *options, cwd=tmp_path)
    limit = time.time() + 120
    while not (broken / "ckpt-2" / "run.json").exists() and time.time() < limit and process.poll() is None:
        time.sleep(0.002)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    at_kill = losses(broken)[0]
    assert 2 <= len(at_kill) < 40, "the process was not killed in its middle"
    resumed = train(tmp_path, "broken", *options)
    assert resumed.returncode == 0 and "resumed" in resumed.stdout
    whole, validations = losses(tmp_path / "unbroken")
    assert len(whole) == 40 and losses(broken)[0] == whole
    assert losses(broken)[1] == validations
    last = load_file(tmp_path / "unbroken" / "ckpt-40" / "model.safetensors")
    again = load_file(broken / "ckpt-40" / "model.safetensors")
    assert last.keys() == again.keys() and all(torch.equal(last[k], again[k]) for k in last)
    assert not list(broken.glob(".*part"))
    finished = train(tmp_path, "broken", *options)
    assert finished.returncode == 0 and "finished already" in finished.stdout


def test_lora_checkpoints_hold_the_hosts_keys(teacher, tmp_path):
    # the teacher's run and the adapted one have the same keys and shapes, so either loads as the other
    assert train(tmp_path, "lora", "softmax=cgf", "tune=lora", f"ckpt={teacher}", "train.max_steps=2").returncode == 0
    before = load_file(teacher / "ckpt-4" / "model.safetensors")
    after = load_file(tmp_path / "lora" / "ckpt-2" / "model.safetensors")
    assert {k: v.shape for k, v in before.items()} == {k: v.shape for k, v in after.items()}
    changed = {k for k in before if not torch.equal(before[k], after[k])}
    assert changed and all(
        ".attn.qkv.weight" in k or ".attn.proj.weight" in k or "head" in k or "fc_norm" in k for k in changed
    )
    assert call("eval_plain", f"ckpt={tmp_path / 'lora'}", "samples=8").returncode == 0


@pytest.mark.parametrize("tune, head", [("attention", True), ("attention_alone", False)])
def test_attention_only_tuning_freezes_the_rest(tune, head, teacher, tmp_path):
    options = ("softmax=cgf", f"tune={tune}", f"ckpt={teacher}", "train.max_steps=2")
    assert train(tmp_path, "attention", *options).returncode == 0
    before = load_file(teacher / "ckpt-4" / "model.safetensors")
    after = load_file(tmp_path / "attention" / "ckpt-2" / "model.safetensors")
    changed = {k for k in before if not torch.equal(before[k], after[k])}
    attention = {k for k in before if ".attn." in k}
    assert attention <= changed
    assert {k.split(".")[0] for k in changed - attention} == ({"head", "fc_norm"} if head else set())


def test_a_head_stays_frozen_only_where_it_was_trained(teacher, tmp_path):
    fresh = train(tmp_path, "fresh", "softmax=cgf", "tune=attention_alone", "train.max_steps=1")
    assert fresh.returncode == 2 and "needs a head that was trained" in fresh.stderr
    full = train(tmp_path, "full", "softmax=cgf", "tune=attention_alone", "tune.mode=full", f"ckpt={teacher}")
    assert full.returncode == 2 and "tune.mode=full trains every parameter" in full.stderr
    assert not list(tmp_path.iterdir())


def test_bf16_computes_in_bfloat16_and_keeps_weights_and_optimizer_in_float32(teacher, tmp_path):
    for precision in ("bf16", "no"):
        options = ("softmax=cgf", f"ckpt={teacher}", "train.max_steps=2", f"train.precision={precision}")
        assert train(tmp_path, precision, *options).returncode == 0
    found, full = (losses(tmp_path / precision)[0] for precision in ("bf16", "no"))
    assert [step for step, _ in found] == [1, 2] and all(math.isfinite(loss) for _, loss in found)
    for (_, low), (_, high) in zip(found, full, strict=True):
        assert low != high and low == pytest.approx(high, rel=0.05)  # 8 bits of mantissa, and no fewer
    before = load_file(teacher / "ckpt-4" / "model.safetensors")
    after = load_file(tmp_path / "bf16" / "ckpt-2" / "model.safetensors")
    assert {v.dtype for v in after.values()} == {torch.float32}
    assert any(not torch.equal(after[k], after[k].bfloat16().float()) for k in after)
    assert sum(not torch.equal(before[k], after[k]) for k in before) == len(before)
    state = load_file(tmp_path / "bf16" / "ckpt-2" / "state" / "tensors.safetensors")
    assert {v.dtype for k, v in state.items() if k.startswith("optimizer.")} == {torch.float32}


def test_nan_in_the_loss_is_one_sentence_and_leaves_nothing(teacher, tmp_path):
    done = train(tmp_path, "lost", "softmax=cgf", "train.lr=1e30", "train.max_steps=20", "train.grad_norm=0")
    assert done.returncode == 2 and done.stderr.startswith("error: the loss is ") and done.stderr.count("\n") == 1
    assert not (tmp_path / "lost").exists()
    # one step of that size, and it is the validation that meets it
    done = train(tmp_path, "lost", "softmax=cgf", "train.lr=1e30", "train.max_steps=1", "train.grad_norm=0")
    assert done.returncode == 2 and done.stderr.startswith("error: the validation loss is ")
    assert done.stderr.count("\n") == 1 and not (tmp_path / "lost").exists()


def test_a_name_in_use_is_refused_and_overwritten_only_when_asked(teacher, tmp_path):
    assert train(tmp_path, "one", "softmax=cgf", "train.max_steps=2").returncode == 0
    kept = (tmp_path / "one" / "ckpt-2" / "run.json").read_bytes()
    other = train(tmp_path, "one", "softmax=cgf", "train.max_steps=3")
    assert other.returncode == 2 and "other settings (train.max_steps)" in other.stderr
    bad = train(tmp_path, "one", "softmax=cgf", "train.max_steps=3", "overwrite=true", "ckpt=nowhere")
    assert bad.returncode == 2 and (tmp_path / "one" / "ckpt-2" / "run.json").read_bytes() == kept
    assert train(tmp_path, "one", "softmax=cgf", "train.max_steps=3", "overwrite=true").returncode == 0
    assert [p.name for p in (tmp_path / "one").glob("ckpt-*")] == ["ckpt-3"]


def test_an_untrained_head_is_no_teacher(tmp_path):
    done = train(tmp_path, "student", "softmax=cgf", "distill=kd")
    assert done.returncode == 2 and "never trained" in done.stderr and not (tmp_path / "student").exists()


def test_early_stopping_and_the_best_checkpoint(tmp_path):
    done = train(tmp_path, "stop", "softmax=exact", "train.epochs=50", "train.patience=1", "train.lr=1e-9")
    assert done.returncode == 0 and "early stop" in done.stdout
    validations = losses(tmp_path / "stop")[1]
    assert len(validations) == 2
    best = json.loads((tmp_path / "stop" / "best.json").read_text())
    assert best["checkpoint"] == "ckpt-4" and best["val_accuracy"] == validations[0]["val_accuracy"]


def test_a_sweep_of_two(tmp_path):
    done = call("train", "--multirun", *SMALL, f"outputs={tmp_path}", "softmax=cgf,bpmax", "train.max_steps=2")
    assert done.returncode == 0
    runs = sorted(p.parent.parent.name for p in tmp_path.glob("*/ckpt-2/run.json"))
    assert len(runs) == 2 and "-bpmax-" in runs[0] and "-cgf-" in runs[1]


def test_jobs_of_a_sweep_do_not_overwrite_each_other(tmp_path):
    common = ("train", "--multirun", *SMALL, f"outputs={tmp_path}", "overwrite=true", "train.max_steps=1")
    done = call(*common, "softmax=cgf,bpmax", "run=one")
    assert done.returncode != 0 and not list(tmp_path.glob("*/*"))
    assert "run=one names the folder of every job of this sweep over softmax, and overwrite=true" in done.stderr
    named = call(*common, "softmax.p=3,5", "softmax=bpmax", "run='of-${softmax.p}'")
    assert named.returncode == 0, named.stderr
    assert sorted(path.name for path in tmp_path.glob("of-*")) == ["of-3", "of-5"]
    apart = call(*(a for a in common if "outputs=" not in a), f"outputs={tmp_path}/a,{tmp_path}/b", "run=one")
    assert apart.returncode == 0 and (tmp_path / "a" / "one").is_dir() and (tmp_path / "b" / "one").is_dir()


def test_a_sweep_over_starts_has_a_run_for_each(tmp_path):
    """Also where two runs in different folders, and a checkpoint of one of them, have the same name."""
    for name in ("one", "two"):
        done = train(tmp_path / name, "A", "softmax=exact", "train.max_steps=1")
        assert done.returncode == 0, done.stderr
    starts = [str(tmp_path / name) for name in ("one/A", "two/A", "one/A/ckpt-1")]
    short = ("train.max_steps=1", "softmax=cgf", "resume=false", "overwrite=true")
    done = call("train", "--multirun", *SMALL, f"outputs={tmp_path}/out", f"ckpt={','.join(starts)}", *short)
    assert done.returncode == 0, done.stderr
    runs = [p.parent.parent.name for p in (tmp_path / "out").glob("*/ckpt-1/run.json")]
    assert len(runs) == 3 and all("-ckpt=A-" in run for run in runs)


PARALLEL = importlib.util.find_spec("hydra_plugins") and importlib.util.find_spec("hydra_plugins.hydra_joblib_launcher")
needs_joblib = pytest.mark.skipif(not PARALLEL, reason="hydra_joblib_launcher is not installed: requirements.txt")


@pytest.mark.parametrize("launcher", ["basic", pytest.param("parallel", marks=[needs_joblib, pytest.mark.alone])])
def test_a_job_that_fails_does_not_end_the_sweep(tmp_path, launcher):
    """Its sentence is there, the others' checkpoints too, side by side or not, and the exit code is not 0."""
    done = spawn(
        "train",
        "--multirun",
        *SMALL,
        f"outputs={tmp_path}/out",
        "softmax=cgf,relu",
        "train.max_steps=2",
        "train.lr=-1.0,1e-3",
        *([] if launcher == "basic" else ["hydra/launcher=parallel"]),
        cwd=tmp_path,
        fresh=launcher == "parallel",  # no server beside its three processes
        PYTHONPATH=os.environ.get("PYTHONPATH", ""),
    )
    assert done.returncode != 0 and "error: train.lr" in done.stderr and "exit code 2" in done.stderr
    finished = sorted(p.parent.parent.name for p in (tmp_path / "out").glob("*/ckpt-2/run.json"))
    assert len(finished) == 2 and "cgf" in finished[0] and "relu" in finished[1]


@pytest.mark.parametrize(
    "name, arguments, says",
    [
        (".", [], "run must be the name of one folder"),
        ("../../x", [], "run must be the name of one folder"),
        ("'a/b'", [], "run must be the name of one folder"),
        ("''", [], "and '' was given"),
        ("Photos", [], "Photos is no training run of this project (it holds me.jpg, you.jpg) and is left as it is"),
        ("Photos", ["overwrite=true"], "Photos is no training run of this project (it holds me.jpg, you.jpg)"),
    ],
)
def test_what_is_no_run_is_left_as_it_is(tmp_path, name, arguments, says):
    """Before a step is made; the setting would have ended in a loss that is no number, and in removing the folder."""
    outputs = tmp_path / "outputs"
    (outputs / "Photos").mkdir(parents=True)
    for photo in ("me.jpg", "you.jpg"):
        (outputs / "Photos" / photo).write_text("a photo")
    before = sorted(tmp_path.rglob("*"))
    done = train(outputs, name, "train.lr=1e30", "train.max_steps=2", "train.grad_norm=0", *arguments)
    assert done.returncode == 2 and says in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert sorted(tmp_path.rglob("*")) == before


def test_a_default_name_is_given_back_in_quotes(tmp_path):
    done = call("train", *SMALL, f"outputs={tmp_path}", "softmax=cgf", "train.max_steps=1")
    assert done.returncode == 0, done.stderr
    (run,) = (p for p in tmp_path.iterdir() if p.is_dir())
    assert "max_steps=1" in run.name
    bare = call("eval_plain", f"ckpt={run}", "samples=2")
    quoted = f'ckpt="{run}"'
    assert bare.returncode == 2 and f"a value that holds = goes in quotes of its own: '{quoted}'" in bare.stderr
    assert call("eval_plain", quoted, "samples=2").returncode == 0


def test_a_second_training_in_the_same_folder_is_refused(teacher, tmp_path):
    """While the first is at work; one that is killed, with processes that load its data, keeps nobody out."""
    options = ["softmax=cgf", f"ckpt={teacher}", "train.epochs=10", "train.workers=1"]
    process = started("train", *SMALL, f"outputs={tmp_path}", "run=one", *options, cwd=tmp_path)
    limit = time.monotonic() + 300
    while not (tmp_path / "one" / "metrics.jsonl").exists() and process.poll() is None and time.monotonic() < limit:
        time.sleep(0.002)
    process.send_signal(signal.SIGSTOP)  # it stays where it is, and holds on
    second = train(tmp_path, "one", *options)
    held = (tmp_path / ".one.lock").exists()
    process.kill()
    process.wait()
    third = train(tmp_path, "one", *options)
    assert (
        held
        and second.returncode == 2
        and second.stderr
        == (f"error: another process trains in {tmp_path / 'one'}: wait for it, stop it, or take another run=NAME\n")
    )
    assert third.returncode == 0, third.stderr
    assert [step for step, _ in losses(tmp_path / "one")[0]] == list(range(1, 41))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["one"]


def records(path):
    """The records of a .wandb file: blocks of 32 KiB, in them pieces with a head of checksum, length and kind."""
    content, at, whole = path.read_bytes(), 7, b""  # after the head of the file
    while at + 7 <= len(content):
        if (left := 32768 - at % 32768) < 7:
            at += left
            continue
        length, kind = int.from_bytes(content[at + 4 : at + 6], "little"), content[at + 6]
        whole, at = whole + content[at + 7 : at + 7 + length], at + 7 + length
        if kind in (1, 4):  # whole, or the last piece of one
            yield whole
            whole = b""


def artifacts(run):
    """What an offline run of wandb keeps for its server: kind and {file: size} of each artifact by name."""
    from wandb.proto.wandb_internal_pb2 import Record

    limit, found = time.monotonic() + 60, []
    while not any(r.WhichOneof("record_type") == "exit" for r in found) and time.monotonic() < limit:
        time.sleep(0.05)  # another process writes the file
        found = [Record.FromString(content) for content in records(next(run.glob("*.wandb")))]
    kept = [r.artifact for r in found if r.WhichOneof("record_type") == "artifact"]
    return {one.name: (one.type, {entry.path: entry.size for entry in one.manifest.contents}) for one in kept}


def test_offline_wandb(tmp_path):
    """Scalars, a table with a line a layer, and the best checkpoint's card and descriptions as an artifact."""
    done = train(tmp_path, "tracked", "softmax=cgf", "train.max_steps=2", "tracker.name=wandb", "tracker.mode=offline")
    assert done.returncode == 0, done.stderr
    (run,) = (tmp_path / "tracked").glob("wandb/offline-run-*")
    steps, validations = losses(tmp_path / "tracked")
    assert [step for step, _ in steps] == [1, 2] and len(validations) == 1
    (table,) = run.glob("files/media/table/*.json")
    shown = json.loads(table.read_text())
    assert shown["columns"][:3] == ["layer", "range_min", "range_max"]
    assert [line[0] for line in shown["data"]] == list(range(len(shown["data"]))) and len(shown["data"]) > 1
    last = [
        row
        for row in map(json.loads, (tmp_path / "tracked" / "metrics.jsonl").read_text().splitlines())
        if "range_min" in row
    ][-1]
    columns = dict(zip(shown["columns"], zip(*shown["data"], strict=True), strict=True))
    assert min(columns["range_min"]) == last["range_min"] and max(columns["row_sum_max"]) == last["row_sum_max"]
    kind, files = artifacts(run)["tracked"]
    (checkpoint,) = (tmp_path / "tracked").glob("ckpt-*")
    assert kind == "model" and set(files) == {"README.md", "run.json", "softmax.json"}
    assert files == {name: (checkpoint / name).stat().st_size for name in files}


def test_an_unknown_artifact_is_refused_before_anything_is_trained(tmp_path):
    options = ["softmax=cgf", "tracker.name=wandb", "tracker.mode=offline", "tracker.artifact=weights"]
    done = train(tmp_path, "tracked", *options)
    assert done.returncode == 2 and "tracker.artifact must be one of none, card, checkpoint" in done.stderr
    assert not list(tmp_path.rglob("metrics.jsonl"))


@pytest.mark.parametrize(
    ("precision", "flags", "told"),
    [("bf16", ["avx2"], 1), ("bf16", ["avx2", "avx512_bf16"], 0), ("bf16", [], 0), ("auto", ["avx2"], 0)],
)
def test_a_processor_without_bfloat16_is_told_of(monkeypatch, precision, flags, told):
    """It takes ten times as long, and nothing else would say so."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    notes = Settings(precision=precision).notes(flags)
    assert len(notes) == told and all("train.precision=no" in note for note in notes)
