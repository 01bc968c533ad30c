"""Where cgf.save writes to: a place that cannot be written is refused, and weights half written have no softmax."""

import pytest
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


def test_a_save_that_ends_early_leaves_no_softmax_of_before(model, tmp_path, monkeypatch):
    cgf.save(model, tmp_path)
    assert type(cgf.load(tmp_path)) is type(model)

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(model), "save_pretrained", full)
    with pytest.raises(OSError, match="No space left"):
        cgf.save(model, tmp_path)
    with pytest.raises(UserError, match=r"holds no softmax\.json"):
        cgf.load(tmp_path)


def test_a_home_is_the_same_folder_for_save_and_load(model, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    cgf.save(model, "~/kept")
    assert not (tmp_path / "~").exists() and type(cgf.load("~/kept")) is type(model)
