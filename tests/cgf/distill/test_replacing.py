"""train.py with replaced norms and activations: written, opened, resumed, staged, refused; on a few digits."""

import json
import shutil

import pytest
import torch
from digits_checkpoint import call
from resealed import reseal
from safetensors.torch import load_file

from cgf.activation.polynomial import Square, Squares
from cgf.checkpoint import read
from cgf.config import task_maker
from cgf.distill.curriculum import Curriculum
from cgf.distill.inputs import InputPenalty
from cgf.distill.parts import PartsRequest, pool
from cgf.distill.range_control import RangeControl
from cgf.distill.trainer import Trainer
from cgf.ending import STOPPED
from cgf.errors import UserError
from cgf.evaluate.loop import batches_by_length, evaluate
from cgf.evaluate.open_checkpoint import open_checkpoint
from cgf.models.load import from_checkpoint
from cgf.models.replace import parts_of
from cgf.norm.batch import BatchNorm, BatchNorms
from cgf.softmax.cgf import CGF
from cgf.softmax.exact import Exact

SMALL = (
    "task.limit={train: 64, val: 32, test: 32}",
    "train.batch_size=16",
    "train.log_every=1000",
    "train.lr=1e-3",
    "model.options.depth=2",
    "model.options.embed_dim=16",
    "model.options.num_heads=2",
    "calibrate.samples=32",
)
PARTS = ("norm=batch", "activation=square", "softmax=cgf_chain")


def train(outputs, name, *arguments):
    return call("train", *SMALL, f"outputs={outputs}", f"run={name}", *arguments)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    outputs = tmp_path_factory.mktemp("replaced")
    done = train(outputs, "whole", *PARTS, "train.epochs=2", "train.save_every=1", "train.staged=0.5")
    assert done.returncode == 0, done.stderr
    assert "| activations | square at 2 places |" in (read(outputs / "whole").path / "README.md").read_text()
    assert "replaced: 5 norms by 'batch', 2 activations by 'square', started from 32 training samples" in done.stdout
    return outputs / "whole"


def test_a_checkpoint_is_opened_with_its_norms_and_activations_in_place(trained):
    opened = open_checkpoint(str(trained), "val", task_maker(None))
    parts = parts_of(opened.host.model)
    assert sorted(parts.norms) == [f"blocks.{i}.norm{j}" for i in (0, 1) for j in (1, 2)] + ["fc_norm"]
    assert sorted(parts.activations) == ["blocks.0.mlp.act", "blocks.1.mlp.act"]
    assert all(isinstance(part, BatchNorm) for part in parts.norms.values())
    assert all(isinstance(part, Square) for part in parts.activations.values())
    assert parts.norm == BatchNorms() and parts.activation == Squares()
    kept = load_file(opened.checkpoint.path / "model.safetensors")
    assert torch.equal(parts.norms["fc_norm"].running_var, kept["fc_norm.running_var"])
    outcome = evaluate(
        opened.host.model, opened.host.logits, opened.dataset, opened.collate, batches_by_length(opened.dataset, 32)
    )
    records = [json.loads(line) for line in (trained / "metrics.jsonl").read_text().splitlines()]
    step = int(opened.checkpoint.path.name[5:])
    told = [record for record in records if record["step"] == step and "val_loss" in record]
    assert float(outcome.loss) == pytest.approx(told[0]["val_loss"], rel=1e-4)  # the same model as in training


def test_eval_plain_runs_it(trained):
    done = call("eval_plain", f"ckpt={trained}", "samples=8")
    assert done.returncode == 0 and "accuracy" in done.stdout


def test_a_run_that_goes_on_ends_as_an_unbroken_one(trained, tmp_path, monkeypatch):
    """From a checkpoint in the middle of the staged replacement, when some parts still compute the host's own."""
    log = Trainer._log

    def stop(self, loss, penalty):
        log(self, loss, penalty)
        if self.progress.step == 3:
            assert any(part.waits for part in self.parts.all) and not all(part.waits for part in self.parts.all)
            raise KeyboardInterrupt

    again = [*PARTS, "train.epochs=2", "train.save_every=1", "train.staged=0.5"]
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_log", stop)
        assert train(tmp_path, "whole", *again).returncode == STOPPED
    assert read(tmp_path / "whole").path.name == "ckpt-2"
    resumed = train(tmp_path, "whole", *again)
    assert resumed.returncode == 0 and "at step 2" in resumed.stdout
    whole, last = (load_file(folder / "ckpt-8" / "model.safetensors") for folder in (trained, tmp_path / "whole"))
    assert whole.keys() == last.keys() and all(torch.equal(whole[key], last[key]) for key in whole)


def test_layers_computed_twice_are_measured_once(tmp_path):
    for name, checkpointing in (("once", "false"), ("twice", "true")):
        options = [*PARTS, "train.max_steps=2", f"train.checkpointing={checkpointing}", "penalty.inputs.weight=0.1"]
        assert train(tmp_path, name, *options, "activation.bound=0.01").returncode == 0
    once, twice = (load_file(read(tmp_path / name).path / "model.safetensors") for name in ("once", "twice"))
    assert all(torch.equal(once[key], twice[key]) for key in once)


def test_exact_writes_no_file_and_says_nothing(tmp_path):
    done = train(tmp_path, "plain", "train.max_steps=1", "softmax=exact")
    assert done.returncode == 0 and "replaced:" not in done.stdout
    assert "calibrate.samples has no effect: no norm and no activation is replaced" in done.stdout
    folder = read(tmp_path / "plain").path
    assert not (folder / "norm.json").exists() and not (folder / "activation.json").exists()
    assert not read(folder).parts.any


@pytest.mark.parametrize("tune", ["lora", "attention"])
def test_replaced_parts_are_trained_whatever_is_tuned(tune, tmp_path):
    assert train(tmp_path, "t", *PARTS, f"tune={tune}", "train.max_steps=1").returncode == 0
    first = load_file(read(tmp_path / "t").path / "model.safetensors")
    assert train(tmp_path, "u", *PARTS, f"tune={tune}", "train.epochs=1").returncode == 0
    after = load_file(read(tmp_path / "u").path / "model.safetensors")
    moved = {key for key in first if not torch.equal(first[key], after[key])}
    assert {"blocks.0.norm1.weight", "blocks.0.norm1.running_mean", "blocks.1.mlp.act.a", "fc_norm.bias"} <= moved
    assert "blocks.0.mlp.fc1.weight" not in moved


# -- what a file says ---------------------------------------------------------------------------------------


def edited(trained, tmp_path, name, change):
    folder = shutil.copytree(read(trained).path, tmp_path / "ckpt-1", ignore=shutil.ignore_patterns("eval"))
    data = json.loads((folder / name).read_text())
    change(data)
    (folder / name).write_text(json.dumps(data))
    return folder


def test_what_was_changed_since_is_found(trained, tmp_path):
    folder = edited(trained, tmp_path, "norm.json", lambda data: data.update(momentum=0.5))
    with pytest.raises(UserError, match=r"norm.json was changed after"):
        read(folder)
    (folder / "norm.json").unlink()
    with pytest.raises(UserError, match=r"lacks norm.json"):
        read(folder)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("norm.json", lambda d: d.update(variant="os.mkdir"), "one of exact, batch, short"),
        ("norm.json", lambda d: d.update(_target_="os.mkdir"), "_target_"),
        ("norm.json", lambda d: d.update(places=[]), "list of 1 to"),
        ("norm.json", lambda d: d.update(variant="exact"), "says that nothing is replaced, and names 5 places"),
        ("norm.json", lambda d: d["places"].append({"name": "head", "features": 10}), "no norm that can be replaced"),
        ("norm.json", lambda d: d["places"].append(d["places"][0]), "name of their own"),
        ("norm.json", lambda d: d["places"][0].update(features=10**9), "from 1 to 1048576"),
        ("norm.json", lambda d: d["places"][0].update(features=17), "16 features, and not 17"),
        ("norm.json", lambda d: d["places"].pop(), "unknown"),
        ("activation.json", lambda d: d["places"][0].update(features=17), "of another shape"),
        ("activation.json", lambda d: d["places"][0].update(name="blocks.0.mlp.fc1"), "no activation that can"),
        ("activation.json", lambda d: d["places"][0].update(name="forward"), "nothing at 'forward'"),
        ("activation.json", lambda d: (d.pop("least"), d.update(variant="polynomial")), "one of them was changed"),
    ],
)
def test_what_a_file_says_is_checked(name, change, message, trained, tmp_path):
    folder = edited(trained, tmp_path, name, change)
    reseal(folder)
    with pytest.raises(UserError, match=message):
        from_checkpoint(read(folder))


def test_squares_are_held_after_the_last_step_too(tmp_path):
    assert train(tmp_path, "held", *PARTS, "activation.least=0.9", "train.max_steps=1").returncode == 0
    kept = load_file(read(tmp_path / "held").path / "model.safetensors")
    assert all(kept[f"blocks.{i}.mlp.act.a"].abs().min() >= 0.9 - 1e-7 for i in (0, 1))


def test_a_start_from_other_norms_is_refused(trained, tmp_path):
    done = train(tmp_path, "other", "softmax=cgf_chain", f"ckpt={trained}", "train.max_steps=1")
    assert done.returncode == 2 and "was trained with norm" in done.stderr and "'exact'" in done.stderr
    same = train(tmp_path, "same", *PARTS, f"ckpt={trained}", "train.max_steps=1")
    assert same.returncode == 0 and "started from" not in same.stdout


# -- what training does -------------------------------------------------------------------------------------


def test_kinds_are_replaced_in_the_configured_order():
    softmaxes, norms = [CGF(), CGF()], [BatchNorm(4, frozen=0.5) for _ in range(3)]
    activations = [Square(4) for _ in range(2)]
    curriculum = Curriculum(0.7, ["norm", "activation", "softmax"])
    slots = curriculum.watch(softmaxes, norms, activations)
    waiting = []
    for progress in (0.0, 0.3, 0.4, 0.7):
        curriculum.at(progress)
        for slot in slots:
            slot.training = True
        waiting.append([[part.waits for part in norms], [part.waits for part in activations], [s.exact for s in slots]])
    assert waiting[0] == [[False, True, True], [True, True], [True, True]]
    assert waiting[1] == [[False, False, False], [True, True], [True, True]]
    assert waiting[2] == [[False, False, False], [False, True], [True, True]]
    assert waiting[3] == [[False] * 3, [False] * 2, [False] * 2]
    assert norms[0].still  # told of the progress


def test_exact_softmaxes_take_no_turn():
    softmaxes, norms = [Exact(), Exact()], [BatchNorm(4) for _ in range(2)]
    curriculum = Curriculum(0.5)
    assert curriculum.watch(softmaxes, norms) is softmaxes
    assert curriculum.at(0.0) == 1 and [part.waits for part in norms] == [False, True]
    with pytest.raises(UserError, match="must name each of softmax, norm, activation once"):
        Curriculum(0.5, ["softmax", "norm"])


def test_the_penalty_on_inputs_is_none_inside_and_grows_outside():
    penalty = InputPenalty(1.0, 0.5)
    assert float(penalty.term(torch.tensor([0.0, 1.7, -1.7]), (-2.0, 2.0))) == 0
    excess = 4.0 / 2 - 0.85
    assert float(penalty.term(torch.tensor([0.0, 4.0]), (-2.0, 2.0))) == pytest.approx(excess**2 / 2 + 0.5 * excess)
    assert float(penalty.term(torch.tensor([11.0]), (8.0, 10.0))) == pytest.approx(1.15**2 + 0.5 * 1.15)


def test_inputs_of_replaced_activations_are_drawn_into_their_range():
    control, part = RangeControl(inputs={"weight": 3.0, "worst": 0.0}), Squares(bound=1.0).make(4)
    part.stands_for(torch.tanh)
    control.watch_parts([part])
    u = torch.full((2, 4), 2.0, requires_grad=True)
    part.train()(u)
    total = control.take()
    assert float(total.detach()) == pytest.approx(3 * 1.15**2)
    total.backward()
    assert (u.grad > 0).all()
    part.again = True
    part(u)
    assert control.take() is None  # taken already
    part.again = False
    part.eval()(u)
    assert control.take() is None
    off = RangeControl()
    off.watch_parts([other := Squares().make(4)])
    assert not other.observers
    with pytest.raises(UserError, match=r"penalty.inputs takes weight, worst"):
        RangeControl(inputs={"bound": 1.0})


def test_running_statistics_of_processes_are_averaged_by_their_shares():
    norm = BatchNorm(3)
    norm.running_mean.fill_(1.0)
    theirs = [torch.full((3,), 0.25 * 5.0), torch.full((3,), 0.25 * 2.0)]
    pool([norm, Square(3)], lambda own: [own, [theirs, []]], 0.75)
    assert norm.running_mean.tolist() == pytest.approx([0.75 + 1.25] * 3)
    assert norm.running_var.tolist() == pytest.approx([0.75 + 0.5] * 3)
    pool([Square(3)], lambda own: pytest.fail("nothing to gather"), 0.5)


def test_too_few_samples_to_start_from_are_refused():
    with pytest.raises(UserError, match=r"calibrate.samples must be a whole number of at least 2"):
        PartsRequest(samples=1)


def overflowing(monkeypatch, epochs):
    """Validations of these epochs (from 1) have a sample whose logits are no numbers."""
    own, done = Trainer.validate, []

    def validate(trainer):
        outcome = own(trainer)
        done.append(1)
        if len(done) in epochs:
            outcome.logits[0] = float("nan")
        return outcome

    monkeypatch.setattr(Trainer, "validate", validate)


def test_a_validation_that_overflows_is_never_the_best_and_training_goes_on(tmp_path, monkeypatch):
    overflowing(monkeypatch, {1, 3})
    done = train(tmp_path, "run", *PARTS, "train.epochs=3")
    assert done.returncode == 0, done.stderr
    assert "not counted: the validation loss is nan (no best yet)" in done.stdout
    records = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    losses = [record["val_loss"] for record in records if "val_loss" in record]
    assert [loss is None for loss in losses] == [True, False, True]
    best = json.loads((tmp_path / "run" / "best.json").read_text())
    assert best["step"] == [record["step"] for record in records if "val_loss" in record][1]


def test_a_training_without_one_finite_validation_ends_in_one_sentence(tmp_path, monkeypatch):
    overflowing(monkeypatch, {1, 2})
    done = train(tmp_path, "run", *PARTS, "train.epochs=2")
    assert done.returncode == 2 and done.stderr.startswith("error: the validation loss is nan after step ")
    assert done.stderr.count("\n") == 1 and not (tmp_path / "run" / "best.json").exists()
