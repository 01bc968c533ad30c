"""A checkpoint folder is complete or absent, and a training state comes back as it went."""

import json
import os
import random
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors import SafetensorError
from torch import nn

from cgf import checkpoint
from cgf.checkpoint import TrainingState, read, resolve, save
from cgf.distill.progress import mend_best
from cgf.distill.run_folder import MARK, RunFolder, origins_of, stopped_origins
from cgf.errors import UserError
from cgf.run_checkpoints import complete_checkpoints, ended
from cgf.softmax.bpmax import BPMax
from cgf.softmax.cgf import CGF

RUN = {
    "model": "m",
    "task": "t",
    "num_classes": 2,
    "family": "vit",
    "source": {},
    "config": {"a": {"b": 1}},
    "progress": {"finished": False},
}


def measured(layers):
    softmaxes = [BPMax(p=3, c=2.5) for _ in range(layers)]
    for layer, softmax in enumerate(softmaxes):
        softmax.denominator = torch.full((2, 3, 1), layer + 0.5)
    return softmaxes


def write(folder, softmaxes=None, state=None, **changes):
    host = {"w": torch.arange(6.0).reshape(2, 3).T, "b": torch.ones(2, dtype=torch.bfloat16)}
    return save(folder, host, softmaxes or [CGF()], {**RUN, **changes}, None, state)


def test_what_is_saved_is_read(tmp_path):
    found = read(write(tmp_path / "ckpt-3", measured(2)))
    tensors, layers = found.weights()
    assert torch.equal(tensors["w"], torch.tensor([[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]))
    assert tensors["b"].dtype == torch.bfloat16 and set(tensors) == {"w", "b"}
    assert found.softmax.params() == {"p": 3, "c": 2.5} and found.layers == 2
    assert [float(layer["denominator"].mean()) for layer in layers] == [0.5, 1.5]
    assert found.run == RUN
    assert {p.name for p in (tmp_path / "ckpt-3").iterdir()} == {"model.safetensors", "softmax.json", "run.json"}


@pytest.mark.parametrize("existing", [False, True])
def test_a_save_that_fails_leaves_nothing_of_its_own(existing, tmp_path):
    folder = tmp_path / "ckpt-3"
    if existing:
        write(folder, note="the old one")
    before = sorted(p.relative_to(tmp_path) for p in tmp_path.rglob("*"))

    def breaks(where):
        where.mkdir()
        (where / "half").write_text("written")
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        save(folder, {"w": torch.ones(1)}, [CGF()], RUN, breaks)
    assert sorted(p.relative_to(tmp_path) for p in tmp_path.rglob("*")) == before
    with pytest.raises(ValueError, match="finite"):
        write(folder, loss=float("nan"))
    assert sorted(p.relative_to(tmp_path) for p in tmp_path.rglob("*")) == before
    if existing:
        assert read(folder).run["note"] == "the old one"


def test_the_one_before_comes_back_where_the_new_one_cannot_take_its_place(tmp_path, monkeypatch):
    folder, replace = tmp_path / "ckpt-3", os.replace
    write(folder, note="the old one")

    def replaces(source, target):
        if Path(target) == folder and Path(source).name.endswith(".part"):
            raise OSError("no room")
        replace(source, target)

    monkeypatch.setattr(os, "replace", replaces)
    with pytest.raises(OSError, match="no room"):
        write(folder, note="the new one")
    assert read(folder).run["note"] == "the old one" and [p.name for p in tmp_path.iterdir()] == ["ckpt-3"]


def test_a_checkpoint_is_whole_under_its_name_until_another_takes_its_place(tmp_path, monkeypatch):
    folder, removed = tmp_path / "ckpt-3", []
    write(folder, note="the old one")
    rmtree = shutil.rmtree

    def removes(path, **options):
        removed.append((Path(path), (folder / "run.json").is_file()))
        rmtree(path, **options)

    monkeypatch.setattr(shutil, "rmtree", removes)
    write(folder, note="the new one")
    assert read(folder).run["note"] == "the new one" and folder not in {path for path, _ in removed}
    assert all(there for _, there in removed)  # a kill while one is removed leaves a whole one
    assert [p.name for p in tmp_path.iterdir()] == ["ckpt-3"]


@pytest.mark.parametrize(
    ("free", "says"),
    [(2**20, "1.0 are free; those before it are"), (2**33, "8192.0 are free, of which a quota, a limit of file sizes")],
)
def test_a_full_disk_is_one_sentence(tmp_path, monkeypatch, free, says):
    write(tmp_path / "ckpt-2", note="the old one")
    before = sorted(p.relative_to(tmp_path) for p in tmp_path.rglob("*"))

    def full(tensors, path):
        path.write_bytes(b"half")
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(checkpoint, "save_file", full)
    monkeypatch.setattr(checkpoint.shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    with pytest.raises(UserError, match=rf"ckpt-3 needs 4\.0 MiB of disk, and {re.escape(says)}"):
        save(tmp_path / "ckpt-3", {"w": torch.ones(2**20)}, [CGF()], RUN)
    assert sorted(p.relative_to(tmp_path) for p in tmp_path.rglob("*")) == before


def test_run_json_is_written_last(tmp_path, monkeypatch):
    """Whatever the moment of a kill: where run.json is, the rest is there too."""
    from cgf import checkpoint

    present = []
    original = checkpoint.write_json

    def watched(path, data):
        if path.name == "run.json":
            present.extend(p.name for p in path.parent.iterdir())
        original(path, data)

    monkeypatch.setattr(checkpoint, "write_json", watched)
    write(tmp_path / "ckpt-1", state=a_state()[0])
    assert {"model.safetensors", "softmax.json", "state"} <= set(present) and "run.json" not in present


def test_a_run_folder_stands_for_its_best_or_newest_checkpoint(tmp_path):
    for step in (2, 10, 9):
        write(tmp_path / f"ckpt-{step}")
    (tmp_path / "ckpt-11").mkdir()  # half-written by some other means
    (tmp_path / "ckpt-other").mkdir()
    assert [p.name for p in complete_checkpoints(tmp_path)] == ["ckpt-2", "ckpt-9", "ckpt-10"]
    assert resolve(tmp_path).name == "ckpt-10"
    (tmp_path / "best.json").write_text(json.dumps({"checkpoint": "ckpt-9"}))
    assert resolve(tmp_path).name == "ckpt-9" and resolve(tmp_path / "ckpt-2").name == "ckpt-2"
    with pytest.raises(UserError, match="no complete checkpoint"):
        resolve(tmp_path / "ckpt-11")


def test_the_best_is_the_newest_checkpoints_where_a_kill_came_before_best_json(tmp_path):
    for step, best in ((2, 2), (4, 4)):
        told = {"finished": step == 4, "best": 0.1 * step, "best_step": best, "step": step, "val_samples": 32}
        write(tmp_path / f"ckpt-{step}", progress=told)
        if step == 2:
            (tmp_path / "best.json").write_text(json.dumps({"checkpoint": "ckpt-2", "step": 2}))
    assert ended(tmp_path) and resolve(tmp_path).name == "ckpt-4"
    mend_best(tmp_path, tmp_path / "ckpt-4")
    assert json.loads((tmp_path / "best.json").read_text())["checkpoint"] == "ckpt-4"
    assert [path.name for path in complete_checkpoints(tmp_path)] == ["ckpt-4"]  # what the kill left is removed too
    (tmp_path / "ckpt-3").mkdir()  # one whose removal was stopped
    mend_best(tmp_path, tmp_path / "ckpt-4")
    assert not (tmp_path / "ckpt-3").exists() and resolve(tmp_path).name == "ckpt-4"


def test_a_run_has_ended_where_its_newest_checkpoint_says_so(tmp_path):
    assert not ended(tmp_path / "none")
    for step, finished in ((2, True), (4, False), (6, True)):
        write(tmp_path / f"ckpt-{step}", progress={"finished": finished})
        (tmp_path / "best.json").write_text(json.dumps({"checkpoint": "ckpt-2"}))
        assert ended(tmp_path) == finished


# -- the state of a training run ------------------------------------------------------------------------


def a_state(steps=3):
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    optimizer = torch.optim.AdamW([{"params": [model.weight], "weight_decay": 0.1}, {"params": [model.bias]}], lr=0.01)
    for _ in range(steps):
        model(torch.randn(4, 3)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return TrainingState.of({"step": steps}, optimizer, {"lora_A": torch.ones(2)}), model, optimizer


def numbers():
    return torch.rand(3).tolist(), np.random.rand(3).tolist(), [random.random() for _ in range(3)]  # noqa: NPY002


def test_optimizer_and_random_numbers_come_back(tmp_path):
    state, model, optimizer = a_state()
    state.write(tmp_path / "state")
    wanted = numbers()
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    after = model.weight.detach().clone()

    torch.manual_seed(99)
    random.seed(99)
    np.random.seed(99)  # noqa: NPY002
    _, fresh, blank = a_state()
    blank.state.clear()
    kept = TrainingState.read(tmp_path / "state")
    assert kept.restore(blank)["step"] == 3 and list(kept.trainable()) == ["lora_A"]
    assert numbers() == wanted
    assert [g["weight_decay"] for g in blank.param_groups] == [0.1, 0.01]
    fresh(torch.ones(1, 3)).sum().backward()
    blank.step()
    assert torch.equal(fresh.weight, after)


def test_the_scale_of_fp16s_loss_comes_back(tmp_path):
    """It follows the gradients from 65,536 on: begun anew, a resumed run skipped steps that the run had made."""

    def scaler():
        made = torch.amp.GradScaler("cpu", init_scale=1024.0)
        made.scale(torch.ones(1))  # torch keeps its numbers from the first loss on
        return made

    _, model, optimizer = a_state()
    used = scaler()
    for factor in (torch.inf, 1.0):  # the first overflows: its step is skipped and the scale halved
        used.scale(model(torch.ones(1, 3)).sum() * factor).backward()
        used.step(optimizer)
        used.update()
        optimizer.zero_grad()
    TrainingState.of({"step": 5}, optimizer, scaler=used).write(tmp_path / "state")
    state, fresh = TrainingState.read(tmp_path / "state"), scaler()
    assert state.restore(optimizer, fresh) == {"step": 5}
    assert fresh.get_scale() == 512.0 and fresh.state_dict() == used.state_dict()
    assert state.restore(optimizer) == {"step": 5}  # bf16 and float32 have none

    other = scaler()
    for wrong in ({"scale": "much"}, 3, {**used.state_dict(), "scale": float("inf")}):
        state.progress["loss_scale"] = wrong
        with pytest.raises(UserError, match=r"'loss_scale' of the training state needs numbers of at least 0 for sca"):
            state.restore(optimizer, other)
    assert other.get_scale() == 1024.0


def test_a_damaged_state_is_one_sentence(tmp_path):
    state = a_state()[0]
    for name in ("tensors.safetensors", "progress.json"):
        folder = tmp_path / name
        state.write(folder)
        raw = (folder / name).read_bytes()
        (folder / name).write_bytes(raw[: len(raw) // 2])
        with pytest.raises(UserError, match=name.partition(".")[0]) as error:
            TrainingState.read(folder)
        assert "\n" not in str(error.value)


# -- the folder of a run --------------------------------------------------------------------------------


def claim(tmp_path, config=None, resume=True, overwrite=False):
    return RunFolder.claim(str(tmp_path), "run", config or RUN["config"], resume, overwrite)


def test_who_may_go_on_with_a_run(tmp_path):
    assert claim(tmp_path).newest is None and not (tmp_path / "run").exists()
    write(tmp_path / "run" / "ckpt-1", state=a_state()[0])
    assert claim(tmp_path).newest == tmp_path / "run" / "ckpt-1" and not claim(tmp_path).finished
    assert claim(tmp_path, {"a": {"b": 1}, "outputs": "elsewhere", "data": {"root": "x"}}).newest is not None
    with pytest.raises(UserError, match=r"other settings \(a\.b\)"):
        claim(tmp_path, {"a": {"b": 2}})
    with pytest.raises(UserError, match="holds checkpoints already"):
        claim(tmp_path, resume=False)
    write(tmp_path / "run" / "ckpt-2")
    with pytest.raises(UserError, match="no training state"):
        claim(tmp_path)
    write(tmp_path / "run" / "ckpt-3", progress={"finished": True})
    assert claim(tmp_path).finished
    for old, new in ((None, 0), (None, False), (0, None)):  # null is a value, and none that stands for off
        write(tmp_path / "other" / "ckpt-1", progress={"finished": True}, config={"a": {"fold": old}})
        with pytest.raises(UserError, match=r"other settings \(a\.fold\)"):
            RunFolder.claim(str(tmp_path), "other", {"a": {"fold": new}}, True, False)
    anew = claim(tmp_path, {"a": {"b": 2}}, overwrite=True)
    assert anew.newest is None and (tmp_path / "run" / "ckpt-3").exists(), "claiming changes nothing"
    anew.begin()
    assert [p.name for p in (tmp_path / "run").iterdir()] == ["run.txt"]


def test_what_a_changed_checkpoint_says_of_the_best_one_removes_nothing(tmp_path):
    for step in (20, 25):
        write(tmp_path / "run" / f"ckpt-{step}", progress={"finished": step == 25, "best_step": 20})
    path = tmp_path / "run" / "ckpt-25" / "run.json"
    path.write_text(path.read_text().replace('"best_step": 20', '"best_step": 21'))
    with pytest.raises(UserError, match=r"ckpt-25/run\.json was changed after the checkpoint was saved"):
        claim(tmp_path)
    assert (tmp_path / "run" / "ckpt-20").is_dir()


@pytest.mark.parametrize("told", [[], {"config": None, "progress": {}}, {"config": {}, "progress": {"best_step": "2"}}])
def test_a_checkpoint_that_tells_nothing_of_its_run_is_refused(tmp_path, told):
    write(tmp_path / "run" / "ckpt-1", progress={"finished": True})
    write(tmp_path / "run" / "ckpt-2", progress={"finished": True})
    (tmp_path / "run" / "run.txt").write_text(MARK)
    (tmp_path / "run" / "ckpt-2" / "run.json").write_text(json.dumps(told))
    with pytest.raises(UserError, match="needs to say config and progress of a training run"):
        claim(tmp_path)


def test_a_folder_with_another_sign_for_its_number_is_no_checkpoint(tmp_path):
    write(tmp_path / "run" / "ckpt-1", progress={"finished": True})
    shutil.copytree(tmp_path / "run" / "ckpt-1", tmp_path / "run" / "ckpt-\u00b2")
    assert claim(tmp_path).newest == tmp_path / "run" / "ckpt-1"


def test_a_run_goes_on_with_the_weights_that_it_began_with(tmp_path):
    """A teacher that is trained on, or anew, in the same folder makes another student: a half of each is refused."""

    def claimed():
        return RunFolder.claim(str(tmp_path), "run", RUN["config"], True, False, origins_of(str(teacher), "self"))

    teacher = tmp_path / "teacher"
    begun = write(teacher / "ckpt-2")
    assert stopped_origins(str(teacher), "self") == [str(teacher)] and not stopped_origins(str(begun), None)
    told = claimed().origins
    assert told == {"ckpt": read(teacher).digest, "teacher": read(teacher).digest}
    write(tmp_path / "run" / "ckpt-1", state=a_state()[0], origins=told)
    assert claimed().newest is not None
    write(teacher / "ckpt-4", progress={"finished": True})
    assert not stopped_origins(str(teacher), str(teacher))
    for finished in (False, True):
        write(tmp_path / "run" / "ckpt-3", state=a_state()[0], origins=told, progress={"finished": finished})
        with pytest.raises(
            UserError, match=r"other weights of ckpt and distill\.teacher, which were trained on or anew"
        ):
            claimed()


def test_a_teacher_that_is_no_checkpoint_is_known_by_its_weights(tmp_path):
    """A folder of weights that is replaced between a start and its resume taught the rest of the training."""
    asked = []

    def teacher(weights):
        return lambda: asked.append(weights) or weights

    begun = claim(tmp_path)
    begun.keep_teacher(teacher("first"))
    assert begun.origins == {"teacher_weights": "first"}
    write(tmp_path / "run" / "ckpt-1", state=a_state()[0], origins=begun.origins)
    claim(tmp_path).keep_teacher(teacher("first"))
    with pytest.raises(UserError, match=r"was trained by a teacher of other weights, which were replaced since"):
        claim(tmp_path).keep_teacher(teacher("second"))
    write(tmp_path / "run" / "ckpt-1", state=a_state()[0], origins={})  # one of an earlier version does not say
    claim(tmp_path).keep_teacher(teacher("second"))
    asked.clear()
    of_checkpoint = RunFolder.claim(str(tmp_path), "new", RUN["config"], True, False, {"teacher": "digest"})
    of_checkpoint.keep_teacher(teacher("third"))
    assert not asked and of_checkpoint.origins == {"teacher": "digest"}


def test_what_a_training_starts_from_is_not_overwritten_by_it(tmp_path):
    write(tmp_path / "run" / "ckpt-1", state=a_state()[0])
    write(tmp_path / "run-2" / "ckpt-1")
    for start in (tmp_path / "run", tmp_path / "run" / "ckpt-1"):
        with pytest.raises(UserError, match=r"overwrite=true would remove .*, which this training starts or learns"):
            claim(tmp_path, overwrite=True).check_starts([None, str(start)])
    claim(tmp_path, overwrite=True).check_starts([str(tmp_path / "run-2"), "self", {"_target_": "x"}])
    claim(tmp_path).check_starts([str(tmp_path / "run")])
    assert (tmp_path / "run" / "ckpt-1").is_dir()


def test_other_data_of_the_same_name_are_told(tmp_path):
    made = read(write(tmp_path / "ckpt-1", data={"t/train.csv": "a", "t/test.csv": "b"}))
    made.check_data({"t/train.csv": "a", "t/test.csv": "b"})
    made.check_data({"some/hub": "commit"})  # of another name: not to be compared
    read(write(tmp_path / "ckpt-2")).check_data({"t/train.csv": "a"})  # of before
    with pytest.raises(UserError, match=r"another state of the data t/test.csv than is there now"):
        made.check_data({"t/train.csv": "a", "t/test.csv": "c"})


def test_a_failed_run_takes_only_an_empty_folder_along(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "metrics.jsonl").write_text('{"step": 1, "epoch": 0.5}\n')
    claim(tmp_path).abandon()
    assert not (tmp_path / "run").exists()
    write(tmp_path / "run" / "ckpt-1", state=a_state()[0])
    claim(tmp_path).abandon()
    assert (tmp_path / "run" / "ckpt-1" / "run.json").exists()


def test_a_failed_run_leaves_what_it_did_not_make(tmp_path):
    """Files put beside while it ran stay, and the folder remains a run's; a folder that was there before stays too."""
    folder = tmp_path / "run"
    begun = claim(tmp_path)
    begun.begin()
    for name in ("metrics.jsonl", "notes.txt"):
        (folder / name).write_text("x")
    (folder / ".ckpt-3.part").mkdir()
    begun.abandon()
    assert sorted(p.name for p in folder.iterdir()) == ["notes.txt", "run.txt"]
    claim(tmp_path)
    shutil.rmtree(folder)
    folder.mkdir()
    begun = claim(tmp_path)
    begun.begin()
    begun.abandon()
    assert folder.is_dir() and not list(folder.iterdir())


def test_overwriting_takes_what_runs_write_and_nothing_else(tmp_path):
    folder = tmp_path / "run"
    write(folder / "ckpt-1")
    write(folder / ".ckpt-1.before")  # what a kill may leave
    (folder / "ckpt-notes").mkdir()
    (folder / "notes.txt").write_text("mine")
    claim(tmp_path, overwrite=True).begin()
    assert sorted(p.name for p in folder.iterdir()) == ["ckpt-notes", "notes.txt", "run.txt"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_of_something_else_is_no_run(tmp_path, overwrite):
    folder = tmp_path / "run"
    (folder / "ckpt-1").mkdir(parents=True)
    (folder / "ckpt-1" / "run.json").write_text('{"config": {}}')  # of another project
    (folder / "a.jpg").write_text("a photo")
    with pytest.raises(UserError, match=r"is no training run of this project \(it holds a.jpg, ckpt-1\)"):
        claim(tmp_path, overwrite=overwrite)
    shutil.rmtree(folder)
    folder.mkdir()
    (folder / "metrics.jsonl").write_text('{"iter": 1}\n')  # another project's log
    with pytest.raises(UserError, match="is no training run of this project"):
        claim(tmp_path, overwrite=overwrite)
    shutil.rmtree(folder)
    folder.write_text("a file")
    with pytest.raises(UserError, match="must be a folder, and is none"):
        claim(tmp_path, overwrite=overwrite)


@pytest.mark.parametrize("name", ["", " ", ".", "..", ".hidden", "a/b", "../../x", "/abs", "a\\b", "a\nb", "a\0b"])
def test_a_name_is_one_folder(tmp_path, name):
    with pytest.raises(UserError, match=r"run must be the name of one folder .* and .* was given"):
        RunFolder.claim(str(tmp_path), name, RUN["config"], True, True)
    with pytest.raises(UserError, match="at most 240 bytes, and this one has 242"):
        RunFolder.claim(str(tmp_path), "ä" * 121, RUN["config"], True, True)


def test_a_killed_runs_folder_is_still_a_run(tmp_path):
    """Before its first checkpoint there are its mark, its log and a draft; earlier versions left no mark."""
    begun = claim(tmp_path)
    begun.begin()
    (tmp_path / "run" / ".ckpt-2.part").mkdir()
    (tmp_path / "run" / "metrics.jsonl").write_text('{"step": 1, "epoch": 0.5}\n')
    claim(tmp_path)
    (tmp_path / "run" / "run.txt").unlink()
    claim(tmp_path).begin()
    assert not (tmp_path / "run" / "metrics.jsonl").exists() and (tmp_path / "run" / "run.txt").exists()


def test_a_run_that_was_killed_while_it_marked_its_folder_begins_again(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".run.txt.4711.tmp").write_text("A train")
    claim(tmp_path).begin()
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["run.txt"]
