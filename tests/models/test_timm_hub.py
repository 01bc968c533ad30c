"""model=timm of the hub at a commit: the network is replaced by a cache folder as the hub's own client writes it."""

import pytest
import timm
import torch
from hub_cache import NEW, OLD, cached_fixture  # noqa: F401
from huggingface_hub.errors import RemoteEntryNotFoundError
from safetensors.torch import save_file

from cgf.errors import UserError
from cgf.models import vit

NAME = "vit_tiny_patch16_224"
SMALL = {"img_size": 8, "patch_size": 4, "embed_dim": 16, "depth": 2, "num_heads": 2}


def small(seed, classes=1000):
    torch.manual_seed(seed)
    return timm.create_model(NAME, num_classes=classes, **SMALL)


def weights_alone(folder, seed):
    """What a cache holds of a registered name: timm fetches no config.json of it."""
    save_file(small(seed).state_dict(), folder / "model.safetensors")


def whole(folder, seed):
    timm.models.save_for_hf(small(seed, classes=3), str(folder), safe_serialization=True)


def first_block(model):
    return model.blocks[0].attn.qkv.weight


def test_the_commit_of_a_registered_name_is_loaded_and_named(cached):
    where = timm.get_pretrained_cfg(NAME).hf_hub_id
    cached(where, weights_alone)
    assert where.startswith(f"timm/{NAME}.")
    for asked, commit, seed in ((None, NEW, 1), ("v1", OLD, 0), (OLD, OLD, 0), (NEW, NEW, 1)):
        host = vit.load("tiny", NAME, 3, options=SMALL, hub_revision=asked)
        assert torch.equal(first_block(host.model), first_block(small(seed)))
        assert not host.head_trained
        assert host.source == {"timm": NAME, "pretrained": True, "options": SMALL, "weights": where, "commit": commit}
    assert vit.load("tiny", NAME, 1000, options=SMALL).head_trained


def test_a_hub_id_is_read_as_a_folder_is_and_its_commit_named(cached):
    where = "owner/model"
    cached(where, whole)
    for asked, commit, seed in ((None, NEW, 1), ("v1", OLD, 0)):
        host = vit.load("own", None, 3, path=where, hub_revision=asked)
        assert torch.equal(host.model.head.weight, small(seed, classes=3).head.weight)
        assert host.head_trained
        assert (host.source["timm"], host.source["weights"], host.source["commit"]) == (NAME, where, commit)


def test_weights_that_no_commit_names_are_refused(cached, tmp_path, monkeypatch):
    giant = "vit_giant_patch16_gap_224.in22k_ijepa"
    with pytest.raises(UserError, match=rf"weights of {giant} lie at https://\S+, which has no commits"):
        vit.load("giant", giant, 3)
    monkeypatch.setattr("timm.get_pretrained_cfg", lambda _: None)
    with pytest.raises(UserError, match=f"timm has no weights of {NAME}: take model.path=FOLDER"):
        vit.load("tiny", NAME, 3)


def test_a_repository_with_pickles_alone_is_refused(cached, monkeypatch):
    class Response:
        headers, request, status_code = {}, None, 404

    def lacks(where, name, revision):
        raise RemoteEntryNotFoundError("404", response=Response())

    monkeypatch.setattr("cgf.models.timm_hub.hf_hub_download", lacks)
    with pytest.raises(UserError, match=r"has no model\.safetensors on the hub"):
        vit.load("tiny", NAME, 3)


def test_a_revision_that_is_not_there_or_of_no_weights_of_the_hub_is_refused(cached, tmp_path):
    where = "owner/model"
    cached(where, whole)
    with pytest.raises(UserError, match=r"owner/model at v2 could not be fetched from the hub"):
        vit.load("own", None, 3, path=where, hub_revision="v2")
    with pytest.raises(UserError, match=r"timm/\S+ at v2 could not be fetched"):
        vit.load("tiny", NAME, 3, hub_revision="v2")
    folder = tmp_path / "mine"
    folder.mkdir()
    whole(folder, 0)
    with pytest.raises(UserError, match=r"hub_revision=v1 is of a hub id .* is a folder"):
        vit.load("own", None, 3, path=str(folder), hub_revision="v1")
    with pytest.raises(UserError, match=r"model\.pretrained=false takes none"):
        vit.load("tiny", NAME, 3, pretrained=False, hub_revision="v1")


@pytest.mark.parametrize("name", ["hf-hub:owner/model", "local-dir:/somewhere", "owner/model"])
def test_a_place_where_a_name_is_needed_is_refused(name):
    with pytest.raises(UserError, match=r"model\.path=FOLDER or model\.path=OWNER/NAME takes a model by where it lies"):
        vit.load("tiny", name, 3)
