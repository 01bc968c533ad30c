"""The training loop on a model of one layer, against a loop written out here."""

import gc
import math
import weakref
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from torch import nn

from cgf.distill.losses import DistillationLoss
from cgf.distill.progress import Progress, mend_best, prune
from cgf.distill.range_control import RangeControl
from cgf.distill.settings import Settings, epoch_batches
from cgf.distill.trainer import Trainer
from cgf.errors import UserError
from cgf.memory import cycle_collector
from cgf.results import read_json, read_lines, write_json


class Data(list):
    lengths = None


def data(count, seed=0):
    generator = np.random.default_rng(seed)
    return Data((generator.normal(size=3), int(generator.integers(2))) for _ in range(count))


def collate(samples):
    return {
        "x": torch.tensor(np.array([x for x, _ in samples]), dtype=torch.float32),
        "labels": torch.tensor([label for _, label in samples]),
    }


@dataclass
class Host:
    model: nn.Module
    seen: list = field(default_factory=list)
    row_kind: str = "full"

    def forward(self, model, batch):
        self.seen.append((model.training, batch["x"].numpy().copy()))
        return model(batch["x"])

    def logits(self, batch):
        return self.forward(self.model, batch)


def host(seed=1):
    torch.manual_seed(seed)
    return Host(nn.Linear(3, 2))


def trainer(tmp_path, student=None, samples=12, **options):
    saves, say = [], []
    settings = {"epochs": 2, "batch_size": 4, "lr": 0.1, "warmup": 0.0, "weight_decay": 0.05, "precision": "no"}
    own = {k: options.pop(k) for k in ("teacher", "loss", "softmaxes") if k in options}
    made = Trainer(
        student or host(),
        own.get("softmaxes", []),
        data(samples),
        data(6, 5),
        collate,
        Settings(**{**settings, **options}),
        own.get("loss", DistillationLoss()),
        RangeControl(),
        tmp_path / "run",
        7,
        save=lambda folder, progress, state: saves.append((folder.name, progress)),
        teacher=own.get("teacher"),
        say=say.append,
    )
    return made, saves, say


class Circle:
    """An object that refers to itself, as what writes JSON does."""

    def __init__(self):
        self.own = self


def test_what_an_epoch_leaves_in_circles_is_freed_at_its_end(tmp_path):
    before, circles, there = Circle(), [], []
    kept = weakref.ref(before)
    made, _, _ = trainer(tmp_path, epochs=4)
    write = made.save

    def save(folder, progress, state):
        there.append(sum(circle() is not None for circle in circles))
        circles.append(weakref.ref(Circle()))
        write(folder, progress, state)

    made.save = save
    gc.unfreeze()  # what tests/conftest.py has frozen
    gc.disable()  # of itself it would free them now and then
    try:
        made.fit()
        assert there == [0, 0, 0, 0] and gc.get_freeze_count() == 0
        del before  # what was there before is freed as ever
        gc.collect()
        assert kept() is None
    finally:
        gc.enable()
        gc.freeze()


def test_what_a_caller_has_frozen_stays_frozen():
    gc.freeze()
    with cycle_collector() as collect:
        circle = weakref.ref(Circle())
        collect()
        assert circle() is None
    assert gc.get_freeze_count() > 0


def log_softmax(z):
    return z - np.log(np.exp(z).sum(-1, keepdims=True))


def test_two_epochs_are_adamw_on_the_distillation_loss(tmp_path):
    """Gradient, clipping, schedule, decay and batches in numpy; the teacher in evaluation mode, unmoved."""
    student, teacher = host(), host(2)
    W, b = (p.detach().double().numpy().copy() for p in (student.model.weight, student.model.bias))
    V, c = (p.detach().double().numpy().copy() for p in (teacher.model.weight, teacher.model.bias))
    made, _, _ = trainer(tmp_path, student, teacher=teacher, grad_norm=0.2, loss=DistillationLoss(tau=2, alpha=0.3))
    made.fit()
    moments, step, losses = [np.zeros_like(p) for p in (W, b, W, b)], 0, []
    samples = data(12)
    for epoch in range(2):
        for batch in epoch_batches(samples, 4, 7, epoch):
            x = np.array([samples[i][0] for i in batch]).astype(np.float32).astype(float)
            hot = np.eye(2)[[samples[i][1] for i in batch]]
            z, t = x @ W.T + b, log_softmax((x @ V.T + c) / 2)
            kl = (np.exp(t) * (t - log_softmax(z / 2))).sum(-1).mean()
            losses.append(-0.7 * (hot * log_softmax(z)).sum(-1).mean() + 0.3 * 4 * kl)
            soft = np.exp(log_softmax(z / 2)) - np.exp(t)
            dz = (0.7 * (np.exp(log_softmax(z)) - hot) + 0.3 * 4 / 2 * soft) / 4
            grads = [dz.T @ x, dz.sum(0)]
            norm = math.sqrt(sum((g**2).sum() for g in grads))
            grads = [g * min(1, 0.2 / norm) for g in grads]
            lr, step = 0.1 * (1 - step / 6), step + 1
            for i, (p, g, decay) in enumerate(zip((W, b), grads, (0.05, 0.0), strict=True)):
                moments[i] = 0.9 * moments[i] + 0.1 * g
                moments[i + 2] = 0.999 * moments[i + 2] + 0.001 * g**2
                m, v = moments[i] / (1 - 0.9**step), moments[i + 2] / (1 - 0.999**step)
                p -= lr * (decay * p + m / (np.sqrt(v) + 1e-8))
    records = [r for r in read_lines(tmp_path / "run" / "metrics.jsonl") if "loss" in r]
    np.testing.assert_allclose([r["loss"] for r in records], losses, rtol=1e-4)
    np.testing.assert_allclose(student.model.weight.detach().numpy(), W, atol=2e-4)
    np.testing.assert_allclose(student.model.bias.detach().numpy(), b, atol=2e-4)
    np.testing.assert_array_equal(teacher.model.weight.detach().double().numpy(), V)
    assert not any(training for training, _ in teacher.seen) and len(teacher.seen) == 6
    assert [training for training, _ in student.seen].count(True) == 6


@pytest.mark.parametrize("row_kind, batches", [("full", [2, 1, 3]), ("masked", [4, 2])])
def test_validation_is_batched_as_evaluations_are(tmp_path, row_kind, batches):
    """Full rows are never padded: their texts are validated with those of the same length."""
    student = host()
    student.row_kind = row_kind
    made, _, _ = trainer(tmp_path, student, eval_batch_size=4)
    made.val_set.lengths = [5, 9, 9, 5, 9, 7]
    outcome = made.validate()
    assert [len(x) for _, x in student.seen] == batches and outcome.index.tolist() == list(range(6))
    with torch.no_grad():
        logits = student.model(collate(made.val_set)["x"])
    np.testing.assert_allclose(outcome.logits.numpy(), logits.numpy(), atol=1e-6)


@pytest.mark.parametrize("accumulate, passes", [(2, 2), (3, 2), (9, 4)])
def test_pieces_of_a_batch_add_up_to_it(accumulate, passes, tmp_path):
    """Batches of 4: in two pieces of 2, or four of 1; the same weights as in one."""
    ends = []
    for count in (1, accumulate):
        student, folder = host(), tmp_path / str(count)
        trainer(folder, student, teacher=host(2), grad_norm=0.2, accumulate=count)[0].fit()
        losses = [r["loss"] for r in read_lines(folder / "run" / "metrics.jsonl") if "loss" in r]
        ends.append((student.model.weight.detach().numpy(), losses, sum(t for t, _ in student.seen)))
    np.testing.assert_allclose(ends[0][0], ends[1][0], atol=1e-6)
    np.testing.assert_allclose(ends[0][1], ends[1][1], rtol=1e-5)
    assert ends[1][2] == passes * ends[0][2]


@pytest.mark.parametrize("pool", [None, 2])
def test_batches_are_those_of_the_settings_pool(pool, tmp_path):
    student = host()
    made, saves, _ = trainer(tmp_path, student, length_pool=pool)
    made.train_set.lengths = [9, 1, 8, 2, 7, 3, 6, 4, 5, 9, 1, 8]
    made.fit()
    batches = [b for epoch in range(2) for b in epoch_batches(made.train_set, 4, 7, epoch, pool)]
    wanted = [collate([made.train_set[i] for i in b])["x"].numpy() for b in batches]
    seen = [x for training, x in student.seen if training]
    assert len(seen) == 6 and all(np.array_equal(a, b) for a, b in zip(seen, wanted, strict=True))
    assert 0 < saves[0][1]["seconds"] < saves[1][1]["seconds"] < 60


def test_every_sample_is_seen_once_an_epoch(tmp_path):
    student = host()
    trainer(tmp_path, student, samples=10)[0].fit()
    seen = [x for training, x in student.seen if training]
    wanted = sorted(map(tuple, collate(data(10))["x"].tolist()))
    for epoch in (seen[:3], seen[3:]):
        assert sorted(map(tuple, np.concatenate(epoch).tolist())) == wanted


@pytest.mark.parametrize("save_every, steps", [(1, [1, 2, 3, 4, 5, 6]), (2, [2, 3, 4, 6]), (3, [3, 6]), (None, [3, 6])])
def test_no_step_is_saved_twice(save_every, steps, tmp_path):
    made, saves, _ = trainer(tmp_path, save_every=save_every)
    made.fit()
    assert [name for name, _ in saves] == [f"ckpt-{s}" for s in steps]
    by_step = {p["step"]: (p["epoch"], p["position"], p["finished"]) for _, p in saves}
    assert by_step[3] == (1, 0, False) and by_step[6] == (2, 0, True)
    assert by_step.get(2, (0, 2, False)) == (0, 2, False) and by_step.get(4, (1, 1, False)) == (1, 1, False)


def test_the_last_step_may_lie_within_an_epoch(tmp_path):
    made, saves, _ = trainer(tmp_path, max_steps=4)
    progress = made.fit()
    assert progress.finished and progress.step == 4 and [name for name, _ in saves] == ["ckpt-3", "ckpt-4"]
    assert read_lines(tmp_path / "run" / "metrics.jsonl")[-1]["epoch"] == pytest.approx(4 / 3)


def test_best_and_patience(tmp_path):
    made, saves, say = trainer(tmp_path, epochs=9, patience=2)
    scores = iter([0.5, 0.75, 0.25, 0.75, 1.0])

    class Outcome:
        loss = 1.0

        def __init__(self):
            self.accuracy = next(scores)

    made.validate = Outcome
    progress = made.fit()  # the fourth is no better than the second: two epochs without a better one
    assert (progress.best, progress.best_step, progress.step, progress.since_best) == (0.75, 6, 12, 2)
    assert len(saves) == 4 and read_json(tmp_path / "run" / "best.json")["checkpoint"] == "ckpt-6"
    assert "early stop" in say[-1] and "early stop" not in say[-2]


def test_the_epoch_of_least_loss_is_kept_where_that_is_asked_for(tmp_path):
    """Its accuracy is what best.json says, and early stopping waits for a lesser loss."""
    made, _, say = trainer(tmp_path, epochs=9, patience=2, keep="loss")
    seen = iter([(0.75, 0.6), (0.5, 0.4), (1.0, 0.5), (0.75, 0.4), (1.0, 0.1)])

    class Outcome:
        def __init__(self):
            self.accuracy, self.loss = next(seen)

    made.validate = Outcome
    progress = made.fit()
    assert (progress.best, progress.best_loss, progress.best_step, progress.step) == (0.5, 0.4, 6, 12)
    best = read_json(tmp_path / "run" / "best.json")
    assert (best["checkpoint"], best["val_accuracy"]) == ("ckpt-6", 0.5)
    assert say[-1].endswith("(best 0.5000 at step 6, of the least loss), early stop")
    with pytest.raises(UserError, match=r"train\.keep must be one of accuracy, loss, and 'last' was given"):
        trainer(tmp_path / "other", keep="last")
    assert not Progress(best=0.5, best_loss=0.2).judge(1.0, math.nan, "loss")


def test_a_run_that_ended_before_its_best_was_named_names_it_when_it_goes_on(tmp_path):
    """The newest checkpoint knows which is the best, and best.json may be of before, or missing."""
    run, newest = tmp_path / "run", tmp_path / "run" / "ckpt-6"
    told = vars(Progress(step=6, best=0.75, best_step=6, val_samples=8))
    write_json(newest / "run.json", {"progress": told})
    wanted = {"checkpoint": "ckpt-6", "step": 6, "val_accuracy": 0.75, "val_samples": 8}
    for before in (None, {"checkpoint": "ckpt-3", "step": 3, "val_accuracy": 0.5, "val_samples": 8}, wanted):
        if before is not None:
            write_json(run / "best.json", before)
        mend_best(run, newest)
        assert read_json(run / "best.json") == wanted
    write_json(newest / "run.json", {"progress": {**told, "val_samples": 0, "best_step": 9}})  # of before
    mend_best(run, newest)
    assert read_json(run / "best.json") == wanted


def test_a_training_loss_that_is_no_number_ends_the_run_with_a_sentence(tmp_path):
    made, saves, _ = trainer(tmp_path)
    made.train_set[0] = (np.array([np.nan, 0, 0]), 0)
    with pytest.raises(UserError, match="loss is nan .*lower train.lr") as error:  # noqa: RUF043
        made.fit()
    assert "\n" not in str(error.value) and saves == []
    records = read_lines(tmp_path / "run" / "metrics.jsonl")
    assert all(math.isfinite(v) for record in records for v in record.values())


def test_validations_that_are_no_numbers_end_the_run_with_a_sentence_after_the_last(tmp_path):
    made, saves, say = trainer(tmp_path)
    made.val_set[0] = (np.array([np.nan, 0, 0]), 0)
    with pytest.raises(UserError, match="validation loss is nan after step 6.*lower train.lr") as error:  # noqa: RUF043
        made.fit()
    assert "\n" not in str(error.value)
    assert [(name, state["best_step"]) for name, state in saves] == [("ckpt-3", 0)]  # goes on, and is never the best
    assert "not counted: the validation loss is nan (no best yet)" in say[-1]
    assert not (tmp_path / "run" / "best.json").exists()
    losses = [record["val_loss"] for record in read_lines(tmp_path / "run" / "metrics.jsonl") if "val_loss" in record]
    assert losses == [None]


def test_progress_says_rate_and_time_left(tmp_path):
    made, _, say = trainer(tmp_path, log_every=2)
    made.fit()
    assert [line.split()[1] for line in say if line.startswith("step ")] == ["2/6", "4/6", "6/6"]
    assert all("samples/s" in line and line.endswith("left") for line in say if line.startswith("step "))


def test_a_checkpoint_with_evaluations_is_kept(tmp_path):
    """Whoever evaluates a run that goes on does not lose hours of it when the next checkpoint is saved."""
    made, _, _ = trainer(tmp_path)
    for step in (1, 2, 3, 4):
        (tmp_path / "run" / f"ckpt-{step}" / "state").mkdir(parents=True)
        (tmp_path / "run" / f"ckpt-{step}" / "run.json").write_text("{}")
    (tmp_path / "run" / "ckpt-2" / "eval").mkdir()
    made.progress.best_step = 3
    prune(tmp_path / "run", made.progress.best_step)
    left = sorted(str(p.relative_to(tmp_path / "run")) for p in (tmp_path / "run").glob("ckpt-*/*") if p.is_dir())
    assert left == ["ckpt-2/eval", "ckpt-4/state"]
    assert sorted(p.name for p in (tmp_path / "run").iterdir()) == ["ckpt-2", "ckpt-3", "ckpt-4"]
