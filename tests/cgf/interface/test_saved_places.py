"""Where cgf.save writes to: a place that cannot be written is refused, and weights half written have no softmax."""

import resource
from contextlib import contextmanager

import pytest
import timm
from torch import nn
from transformers import BertConfig, BertForSequenceClassification

import cgf
from cgf.errors import UserError


@pytest.fixture
def model():
    config = {"vocab_size": 50, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1}
    made = BertForSequenceClassification(BertConfig(**config, num_attention_heads=2, num_labels=3)).eval()
    cgf.install(made, "cgf")
    return made


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_place_that_is_no_folder_is_refused(model, tmp_path, place):
    (tmp_path / "file").write_text("mine")
    for save in (lambda: cgf.save(model, tmp_path / place), lambda: model.save_pretrained(tmp_path / place)):
        with pytest.raises(UserError, match=r"softmax\.json cannot be written"):
            save()
    assert (tmp_path / "file").read_text() == "mine"


def test_weights_that_a_user_tied_are_refused_before_anything_is_written(model, tmp_path):
    layer = model.bert.encoder.layer[0]
    layer.output.dense.weight = layer.intermediate.dense.weight
    for number, save in enumerate((lambda to: cgf.save(model, to), lambda to: model.save_pretrained(to))):
        with pytest.raises(UserError, match=r"has one weight as .*intermediate\.dense\.weight and .*output"):
            save(tmp_path / str(number))
        assert not (tmp_path / str(number)).exists()
    layer.output.dense.weight = nn.Parameter(layer.output.dense.weight.detach().clone())
    cgf.save(model, tmp_path / "apart")
    assert len(cgf.load(tmp_path / "apart").bert.encoder.layer) == 1


@contextmanager
def largest(size):
    """No file of this process grows beyond ``size`` bytes, as a quota has it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_save_without_room_says_so_and_leaves_no_softmax_of_before(model, tmp_path):
    cgf.save(model, tmp_path)
    assert type(cgf.load(tmp_path)) is type(model)
    with largest(2000), pytest.raises(UserError, match=r"has no room for the model .*, and it holds a part of"):
        cgf.save(model, tmp_path)
    with pytest.raises(UserError, match=r"holds no softmax\.json"):
        cgf.load(tmp_path)


def test_a_save_of_timms_without_room_leaves_what_was_there(tmp_path):
    small = {"img_size": 8, "patch_size": 4, "embed_dim": 16, "depth": 1, "num_heads": 2, "num_classes": 3}
    made = timm.create_model("vit_tiny_patch16_224", pretrained=False, **small)
    cgf.install(made, "cgf")
    cgf.save(made, tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with largest(2000), pytest.raises(UserError, match=r"has no room for the model .*, and it is as it was"):
        cgf.save(made, tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_home_is_the_same_folder_for_save_and_load(model, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    cgf.save(model, "~/kept")
    assert not (tmp_path / "~").exists() and type(cgf.load("~/kept")) is type(model)
