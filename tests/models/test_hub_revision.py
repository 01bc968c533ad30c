"""model=hf of a hub id at a commit: the network is replaced by a cache folder as the hub's own client writes it."""

import json

import pytest
import torch
from conftest_models import tokenizer
from transformers import DistilBertConfig, DistilBertForSequenceClassification, ViTConfig, ViTForImageClassification

from cgf.errors import UserError
from cgf.models import hf

OLD, NEW, HUB = "a" * 40, "b" * 40, "owner/model"
TEXT = {"vocab_size": 50, "dim": 16, "n_layers": 1, "n_heads": 2, "hidden_dim": 16, "num_labels": 3}
IMAGE = {
    "image_size": 8,
    "patch_size": 4,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "num_labels": 3,
}
PREPARED = {"image_mean": [0.4] * 3, "image_std": [0.2] * 3, "size": {"height": 8, "width": 8}}


def text_model(folder, seed):
    torch.manual_seed(seed)
    DistilBertForSequenceClassification(DistilBertConfig(**TEXT)).save_pretrained(folder)
    tokenizer("pad", pad_token="pad").save_pretrained(folder)


def image_model(folder, seed):
    torch.manual_seed(seed)
    ViTForImageClassification(ViTConfig(**IMAGE)).save_pretrained(folder)
    prepared = {**PREPARED, "image_std": [0.1 * (1 + seed)] * 3}
    (folder / "preprocessor_config.json").write_text(json.dumps(prepared))


@pytest.fixture
def cached(tmp_path, monkeypatch):
    """Two commits of a model in a cache, of which main is the newer; no question reaches a network."""

    def unreachable(self, *_, **__):
        raise ConnectionError("no network here")

    monkeypatch.setattr("huggingface_hub.HfApi.model_info", unreachable)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)

    def write(make):
        repository = tmp_path / f"models--{HUB.replace('/', '--')}"
        for seed, commit in enumerate((OLD, NEW)):
            (repository / "snapshots" / commit).mkdir(parents=True)
            make(repository / "snapshots" / commit, seed)
        (repository / "refs").mkdir()
        for name, commit in (("main", NEW), ("v1", OLD)):
            (repository / "refs" / name).write_text(commit)
        return repository / "snapshots"

    return write


def all_weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


@pytest.mark.parametrize("make", [text_model, image_model], ids=["texts", "images"])
def test_the_commit_that_is_asked_for_is_loaded_and_named(cached, make):
    snapshots = cached(make)
    of = {commit: all_weights(hf.load("hf", 3, path=str(snapshots / commit)).model) for commit in (OLD, NEW)}
    assert not torch.equal(of[OLD], of[NEW])
    for asked, commit in ((None, NEW), ("v1", OLD), (OLD, OLD), (NEW, NEW)):
        host = hf.load("hf", 3, path=HUB, hub_revision=asked)
        assert host.source == {"weights": HUB, "commit": commit} == host.describe()["source"]
        assert torch.equal(all_weights(host.model), of[commit])
        if make is image_model:
            assert host.inputs.image.std[0] == pytest.approx(0.1 if commit == OLD else 0.2)


def test_a_revision_that_is_not_there_or_of_a_folder_is_refused(cached):
    snapshots = cached(text_model)
    with pytest.raises(UserError, match=r"owner/model at v2 could not be fetched from the hub"):
        hf.load("hf", 3, path=HUB, hub_revision="v2")
    folder = str(snapshots / OLD)
    with pytest.raises(UserError, match=r"hub_revision=v1 is of a hub id .* is a folder"):
        hf.load("hf", 3, path=folder, hub_revision="v1")
    with pytest.raises(UserError, match="must be a commit or a branch"):
        hf.load("hf", 3, path=HUB, hub_revision=7)
    assert hf.load("hf", 3, path=folder).source == {"weights": folder}
