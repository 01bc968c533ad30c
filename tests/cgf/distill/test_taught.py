"""A teacher's logits, worked out once: the same training, and a file that is whole, checked and the teacher's own."""

import functools
import io
import os

import numpy as np
import pytest
import torch
from conftest_models import small_bert, small_llama, untrained
from digits_checkpoint import call
from transformers import BertConfig, BertForSequenceClassification

from cgf.data.text_items import TextDataset, collate_text
from cgf.distill.losses import DistillationLoss
from cgf.distill.range_control import RangeControl
from cgf.distill.settings import Settings
from cgf.distill.teacher_logits import taught
from cgf.distill.trainer import Trainer
from cgf.errors import UserError
from cgf.models import bert
from cgf.models.install import install_copies, installed_softmaxes
from cgf.results import read_lines
from cgf.softmax.cgf import CGF

COLLATE = functools.partial(collate_text, pad_id=0)


def texts(count=24, seed=0):
    rng = np.random.default_rng(seed)
    ids = [rng.integers(1, 50, rng.integers(3, 12)).tolist() for _ in range(count)]
    return TextDataset(ids, rng.integers(0, 7, count).tolist())


def trained(folder, teacher=None, cache=None):
    """Losses of three epochs of a student of ``teacher``."""
    student, train = small_llama(), texts()
    torch.manual_seed(1)
    collate = COLLATE
    if cache is not None:
        train = taught(train, teacher, [], COLLATE, str(cache), say=lambda text: None)
        collate, teacher = train.collate(COLLATE), None
    trainer = Trainer(
        student,
        install_copies(student.model, CGF()),
        train,
        texts(8, 1),
        collate,
        Settings(epochs=3, batch_size=8, lr=1e-3, precision="no"),
        DistillationLoss(),
        RangeControl(),
        folder,
        3,
        save=lambda *a: None,
        teacher=teacher,
        say=lambda text: None,
    )
    trainer.fit()
    return [row["loss"] for row in read_lines(folder / "metrics.jsonl") if "loss" in row]


def test_training_is_the_same_and_the_teacher_is_asked_once(tmp_path):
    teacher = small_bert()
    asked, forward = [], teacher.forward
    object.__setattr__(
        teacher, "forward", lambda model, batch: asked.append(len(batch["input_ids"])) or forward(model, batch)
    )
    plain = trained(tmp_path / "plain", teacher)
    assert sum(asked) == 3 * 24
    asked.clear()
    kept = trained(tmp_path / "kept", teacher, tmp_path / "cache")
    assert sum(asked) == 24
    again = trained(tmp_path / "again", teacher, tmp_path / "cache")
    assert sum(asked) == 24 and again == kept
    np.testing.assert_allclose(kept, plain, rtol=2e-4)  # other padding, other rounding
    assert not np.allclose(kept, trained(tmp_path / "without"), rtol=1e-2)


def test_the_logits_are_those_of_each_text_on_its_own(tmp_path):
    teacher, data = small_bert(), texts()
    teacher.model.eval()
    found = taught(data, teacher, [], COLLATE, str(tmp_path))
    for i in (0, 7, 23):
        alone = teacher.logits({k: v for k, v in COLLATE([data[i]]).items() if k != "labels"})
        torch.testing.assert_close(found[i]["teacher"], alone[0].detach(), rtol=1e-4, atol=1e-5)
    batch = found.collate(COLLATE)([found[3], found[5]])
    assert torch.equal(batch["teacher"], found.logits[[3, 5]]) and set(batch) == {
        "input_ids",
        "attention_mask",
        "labels",
        "teacher",
    }
    assert found.lengths == data.lengths and len(found) == 24


@pytest.mark.parametrize("change", ["weight", "texts", "types", "softmax"])
def test_another_teacher_or_other_texts_are_asked_anew(tmp_path, change):
    teacher, data, softmaxes = small_bert(), texts(), []
    before = taught(data, teacher, softmaxes, COLLATE, str(tmp_path)).logits
    if change == "weight":
        with torch.no_grad():
            teacher.model.classifier.bias.add_(0.05)
    elif change == "texts":
        data = texts(seed=2)
    elif change == "types":  # of the second texts of pairs
        data = TextDataset(data.input_ids, data.labels, [[0] + [1] * (n - 1) for n in data.lengths])
    else:
        install_copies(teacher.model, CGF())
        softmaxes = installed_softmaxes(teacher.model)
    after = taught(data, teacher, softmaxes, COLLATE, str(tmp_path)).logits
    assert len(list(tmp_path.iterdir())) == 2 and not torch.allclose(before, after, atol=1e-3)


def test_a_teacher_of_the_same_weights_and_another_configuration_is_asked_anew(tmp_path):
    """Heads and activations have no weights; where the files lay is no part of a teacher."""
    data, found = texts(), []
    for changes in ({}, {"num_attention_heads": 2}, {"hidden_act": "relu"}):
        teacher = small_bert()
        config = BertConfig(**{**teacher.model.config.to_dict(), **changes})
        model = BertForSequenceClassification(config)
        model.load_state_dict(teacher.model.state_dict())
        other = bert.host(model, teacher.inputs.tokenizer, untrained("small_bert"))
        found.append(taught(data, other, [], COLLATE, str(tmp_path)).logits)
        assert len(list(tmp_path.iterdir())) == len(found)
    assert not torch.allclose(found[0], found[1], atol=1e-3) and not torch.allclose(found[0], found[2], atol=1e-3)
    teacher = small_bert()
    teacher.model.config._name_or_path = "elsewhere"
    assert torch.equal(taught(data, teacher, [], COLLATE, str(tmp_path)).logits, found[0])
    assert len(list(tmp_path.iterdir())) == 3


def kept_as(path, logits, name="logits"):
    """A file of the cache with other content."""
    np.savez(path, **{name: logits})


def as_npy(array):
    """The bytes of an array alone, as earlier versions kept it."""
    np.save(buffer := io.BytesIO(), array)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "damage",
    [
        lambda p: p.write_bytes(b""),
        lambda p: p.write_bytes(p.read_bytes()[:200]),
        lambda p: p.write_bytes(p.read_bytes()[:400] + bytes(100) + p.read_bytes()[500:]),
        lambda p: kept_as(p, np.zeros((3, 7), np.float32)),
        lambda p: kept_as(p, np.zeros((24, 3), np.float32)),
        lambda p: kept_as(p, np.full((24, 7), np.nan, np.float32)),
        lambda p: kept_as(p, np.zeros((24, 7), np.float32), "others"),
        lambda p: p.write_bytes(as_npy(np.zeros((24, 7), np.float32))),
    ],
)
def test_a_damaged_file_is_made_anew(tmp_path, damage):
    teacher, data = small_bert(), texts()
    before = taught(data, teacher, [], COLLATE, str(tmp_path)).logits
    (path,) = tmp_path.iterdir()
    damage(path)
    assert torch.equal(taught(data, teacher, [], COLLATE, str(tmp_path)).logits, before)
    assert np.array_equal(np.load(path)["logits"], before.numpy()) and list(tmp_path.iterdir()) == [path]


def test_refusals(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="must be a folder that can be written"):
        taught(texts(), small_bert(), [], COLLATE, str(tmp_path / "file"))
    outputs = tmp_path / "outputs"
    common = ["task.limit={train: 32, val: 16}", "train.max_steps=1", f"outputs={outputs}"]
    assert call("train", *common, "softmax=exact", "run=teacher").returncode == 0
    options = ["distill=kd", f"ckpt={outputs / 'teacher'}", f"distill.cache={tmp_path / 'cache'}", "run=student"]
    for more, says in (([], "needs texts"), (["distill.hidden=0.1"], "match what is inside it")):
        done = call("train", *common, *options, *more)
        assert done.returncode == 2 and says in done.stderr and done.stderr.count("\n") == 1
        assert not os.path.exists(outputs / "student") and not (tmp_path / "cache").exists()
