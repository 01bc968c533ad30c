"""model=hf of a hub id at a commit: the network is replaced by a cache folder as the hub's own client writes it."""

import json

import pytest
import torch
from conftest_models import tokenizer
from hub_cache import NEW, OLD, cached_fixture  # noqa: F401
from transformers import DistilBertConfig, DistilBertForSequenceClassification, ViTConfig, ViTForImageClassification

from cgf.errors import UserError
from cgf.models import hf

HUB = "owner/model"
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


def all_weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


@pytest.mark.parametrize("make", [text_model, image_model], ids=["texts", "images"])
def test_the_commit_that_is_asked_for_is_loaded_and_named(cached, make):
    snapshots = cached(HUB, make)
    of = {commit: all_weights(hf.load("hf", 3, path=str(snapshots / commit)).model) for commit in (OLD, NEW)}
    assert not torch.equal(of[OLD], of[NEW])
    for asked, commit in ((None, NEW), ("v1", OLD), (OLD, OLD), (NEW, NEW)):
        host = hf.load("hf", 3, path=HUB, hub_revision=asked)
        assert host.source == {"weights": HUB, "commit": commit} == host.describe()["source"]
        assert torch.equal(all_weights(host.model), of[commit])
        if make is image_model:
            assert host.inputs.image.std[0] == pytest.approx(0.1 if commit == OLD else 0.2)


def test_a_revision_that_is_not_there_or_of_a_folder_is_refused(cached):
    snapshots = cached(HUB, text_model)
    with pytest.raises(UserError, match=r"owner/model at v2 could not be fetched from the hub"):
        hf.load("hf", 3, path=HUB, hub_revision="v2")
    folder = str(snapshots / OLD)
    with pytest.raises(UserError, match=r"hub_revision=v1 is of a hub id .* is a folder"):
        hf.load("hf", 3, path=folder, hub_revision="v1")
    with pytest.raises(UserError, match="must be a commit or a branch"):
        hf.load("hf", 3, path=HUB, hub_revision=7)
    assert hf.load("hf", 3, path=folder).source == {"weights": folder}
