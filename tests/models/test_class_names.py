"""Heads that come with names for their classes, checkpoints that keep them, evaluations that hold them to it."""

import json

import pytest
import torch
import transformers
from conftest_models import CLASSES, batch_for, small_bert, tokenizer
from digits_checkpoint import call
from resealed import reseal
from torch import nn

from cgf.config import build, compose
from cgf.distill.start import student
from cgf.distill.teacher import teacher_of
from cgf.errors import UserError
from cgf.models import bert, pretrained
from cgf.models.host import check_classes
from cgf.results import write_json
from cgf.seal import run_content

NAMES = ["card_lost", "Card Stolen", "pin", "top-up", "fee", "limit", "transfer"]
ORDER = [3, 0, 6, 1, 5, 2, 4]  # of the head: its row i is class ORDER[i] of the task


def saved(folder, names, make=transformers.BertForSequenceClassification):
    """A folder with a model whose head names its classes so, or in nobody's words; returns (folder, model)."""
    torch.manual_seed(1)
    config = {
        "vocab_size": 50,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "pad_token_id": 0,
        "num_attention_heads": 4,
        "max_position_embeddings": 64,
        "num_labels": CLASSES,
    }
    model = make(make.config_class(**config)).eval()
    nn.init.normal_((model.classifier if hasattr(model.classifier, "bias") else model.classifier.out_proj).bias)
    if names is not None:
        model.config.id2label = dict(enumerate(names))
        model.config.label2id = {name: i for i, name in enumerate(names)}
    model.save_pretrained(folder)
    tokenizer("pad", pad_token="pad").save_pretrained(folder)
    return str(folder), model


@torch.no_grad()
@pytest.mark.parametrize(
    "make", [transformers.BertForSequenceClassification, transformers.RobertaForSequenceClassification]
)
def test_a_head_with_the_tasks_names_in_another_order_gives_logits_in_the_tasks_order(make, tmp_path):
    theirs = [NAMES[i].upper().replace("_", " ") for i in ORDER]
    where, model = saved(tmp_path / "hf", theirs, make)
    host = bert.load("tiny", CLASSES, path=where, class_names=NAMES)
    host.model.eval()
    batch = batch_for(host)
    own = model(**batch).logits
    assert host.head_trained and [host.model.config.id2label[i] for i in range(CLASSES)] == NAMES
    torch.testing.assert_close(host.logits(batch)[:, ORDER], own)
    assert not torch.allclose(host.logits(batch), own)
    assert host.describe()["class_names"] == NAMES
    again = bert.load("tiny", CLASSES, path=saved(tmp_path / "same", NAMES, make)[0], class_names=NAMES)
    torch.testing.assert_close(again.model.eval()(**batch).logits, own)


@pytest.mark.parametrize("names, trained", [(None, True), ([*NAMES[:-1], "weather"], False), (list("abcdefg"), False)])
def test_a_head_of_other_classes_counts_as_not_trained_and_keeps_its_rows(names, trained, tmp_path, capsys):
    where, model = saved(tmp_path / "hf", names)
    host = bert.load("tiny", CLASSES, path=where, class_names=NAMES)
    assert host.head_trained is trained
    host.write_surroundings(tmp_path / "kept")
    kept = json.loads((tmp_path / "kept" / "config.json").read_text())
    assert list(kept["id2label"].values()) == NAMES and kept["label2id"] == {name: i for i, name in enumerate(NAMES)}
    assert torch.equal(host.model.classifier.weight, model.classifier.weight)
    assert ("is of other classes" in capsys.readouterr().out) is not trained
    assert bert.load("tiny", CLASSES, path=where).head_trained  # told nothing of a task


def test_a_head_that_cannot_be_put_in_order_is_refused():
    model = small_bert().model
    model.config.id2label = {i: NAMES[j] for i, j in enumerate(ORDER)}
    model.second = nn.Linear(32, CLASSES)
    with pytest.raises(UserError, match=r"another order, and BertFor.* has 2 linear layers"):
        pretrained.fit_head(model, NAMES, "somewhere")


def test_a_fresh_layer_of_any_head_makes_it_untrained(tmp_path):
    """DistilBERT's head has two layers, and only one is called classifier."""
    from safetensors.torch import load_file, save_file

    torch.manual_seed(1)
    config = transformers.DistilBertConfig(
        vocab_size=50, dim=32, hidden_dim=48, n_layers=2, n_heads=4, num_labels=CLASSES, max_position_embeddings=64
    )
    transformers.DistilBertForSequenceClassification(config).save_pretrained(tmp_path)
    tokenizer("pad", pad_token="pad").save_pretrained(tmp_path)
    assert bert.load("tiny", CLASSES, path=str(tmp_path)).head_trained
    tensors = load_file(tmp_path / "model.safetensors")
    save_file(
        {k: v for k, v in tensors.items() if "pre_classifier" not in k},
        tmp_path / "model.safetensors",
        {"format": "pt"},
    )
    assert not bert.load("tiny", CLASSES, path=str(tmp_path)).head_trained


def test_classes_are_compared_in_their_order_where_both_sides_name_them():
    check_classes("a", ["x", "y"], ["x", "y"], "b")
    check_classes("a", None, ["x", "y"], "b")
    for other, says in ((["y", "x"], "class 0 is 'y' there and 'x' here"), (["x"], "class 1 is 'nothing' there")):
        with pytest.raises(UserError, match=f"a has other classes than b, or another order of them: {says}"):
            check_classes("a", other, ["x", "y"], "b")


@pytest.fixture(name="renamed")
def renamed_fixture(tmp_path):
    """A checkpoint on the digits whose classes 0 and 1 stand in the other order."""
    done = call(
        "train",
        "model=vit_digits",
        "softmax=cgf",
        "train.epochs=0",
        "task.limit={train: 16, val: 8, test: 8}",
        f"outputs={tmp_path}",
        "run=run",
    )
    assert done.returncode == 0, done.stderr
    folder = next((tmp_path / "run").glob("ckpt-*"))
    told = json.loads((folder / "run.json").read_text())
    assert told["class_names"] == [str(digit) for digit in range(10)]
    reseal(folder, class_names=["1", "0", *told["class_names"][2:]])
    return folder


def test_an_evaluation_of_a_task_with_another_order_is_refused(renamed):
    for script in ("eval_plain", "eval_he", "plan", "friendly"):
        done = call(script, f"ckpt={renamed}")
        assert done.returncode == 2 and "class 0 is '1' there and '0' here" in done.stderr, (script, done)
    told = json.loads((renamed / "run.json").read_text())
    del told["class_names"]  # as checkpoints of before
    write_json(renamed / "run.json", run_content(told))
    assert call("eval_plain", f"ckpt={renamed}", "approx=exact", "samples=8").returncode == 0


def test_students_and_teachers_of_another_order_are_refused(renamed):
    cfg = compose("train", ["model=vit_digits"])
    task = build(cfg.task)
    with pytest.raises(UserError, match="has other classes than task=digits, or another order of them: class 0"):
        student(lambda: None, str(renamed), task)
    own = build(cfg.model, num_classes=10, class_names=task.class_names)
    assert own.class_names == task.class_names
    with pytest.raises(UserError, match=r"teacher .* has other classes than the student, or another order"):
        teacher_of(str(renamed), None, own, lambda: own, build)
