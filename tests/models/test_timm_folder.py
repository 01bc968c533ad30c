"""model=timm model.path=FOLDER: a model that timm saved, its head in the task's order, and what is refused."""

import json

import pytest
import timm
import torch
from safetensors.torch import load_file, save_file

from cgf.checkpoint import read, save
from cgf.errors import UserError
from cgf.models import timm_folder, vit
from cgf.models.install import install_copies
from cgf.models.load import from_checkpoint
from cgf.softmax.cgf import CGF

SMALL = {"img_size": 8, "patch_size": 4, "in_chans": 1, "embed_dim": 16, "depth": 2, "num_heads": 2}

SMALL_BODY = {key: value for key, value in SMALL.items() if key != "img_size"}


def saved(folder, name="vit_tiny_patch16_224", safe=True, config=None, **options):
    torch.manual_seed(0)
    model = timm.create_model(name, num_classes=3, **{**SMALL, **options}).eval()
    with torch.no_grad():
        model.head.bias.copy_(torch.tensor([0.1, 0.2, 0.3]))
    timm.models.save_for_hf(model, str(folder), safe_serialization=safe)
    change(folder, **(config or {}))
    return model


def change(folder, **entries):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | entries))


def logits(model, images):
    with torch.no_grad():
        return model.eval()(images)


def load(folder, classes=3, name=None, **more):
    return vit.load("own", name, classes, path=str(folder), **more)


@pytest.mark.parametrize("name", ["vit_tiny_patch16_224", "deit3_small_patch16_224"])
def test_a_model_that_timm_saved_is_the_same_model(tmp_path, name):
    model = saved(tmp_path, name, config=None)
    config = json.loads((tmp_path / "config.json").read_text())["pretrained_cfg"]
    host, images = load(tmp_path, name=name), torch.randn(2, 1, 8, 8)
    assert torch.equal(logits(host.model, images), logits(model, images))
    image = host.inputs.image
    assert (image.size, image.mean, image.crop_pct) == ((1, 8, 8), tuple(config["mean"][:1]), config["crop_pct"])
    assert host.head_trained and host.source["timm"] == name and host.source["weights"] == str(tmp_path)


def test_it_comes_back_from_a_checkpoint(tmp_path):
    saved(tmp_path / "timm")
    host, images = load(tmp_path / "timm", drop_path=0.1), torch.randn(2, 1, 8, 8)
    softmaxes = install_copies(host.model, CGF())
    run = {**host.describe(), "task": "digits", "config": {}}
    save(tmp_path / "ckpt", host.state(), softmaxes, run, host.write_surroundings)
    again = from_checkpoint(read(str(tmp_path / "ckpt")))[0]
    assert torch.equal(logits(again.model, images), logits(host.model, images)) and again.describe() == host.describe()


def test_a_head_is_put_into_the_order_of_the_task_and_another_one_is_made_anew(tmp_path, capsys):
    model, images = saved(tmp_path, config={"label_names": ["dog", "Cat_one", "eel"]}), torch.randn(2, 1, 8, 8)
    ordered = load(tmp_path, class_names=["cat one", "dog", "eel"])
    assert ordered.head_trained
    assert torch.equal(logits(ordered.model, images), logits(model, images)[:, [1, 0, 2]])
    other = load(tmp_path, class_names=["cat", "dog", "eel"])
    assert not other.head_trained and "is of other classes" in capsys.readouterr().out
    assert torch.equal(other.model.blocks[1].attn.qkv.weight, model.blocks[1].attn.qkv.weight)
    more = load(tmp_path, classes=4)
    assert not more.head_trained and logits(more.model, images).shape == (2, 4)


@pytest.mark.parametrize("name", ["vit_tiny_patch16_224", "deit_tiny_distilled_patch16_224"])
def test_a_saved_model_takes_images_of_another_size(tmp_path, name):
    model = saved(tmp_path / "timm", name).eval()
    host, images = load(tmp_path / "timm", img_size=12), torch.randn(2, 1, 12, 12)
    assert host.inputs.image.size == (1, 12, 12) and host.source["options"]["img_size"] == 12
    model.set_input_size((12, 12))
    assert torch.equal(logits(host.model, images), logits(model, images))
    run = {**host.describe(), "task": "digits", "config": {}}
    save(tmp_path / "ckpt", host.state(), install_copies(host.model, CGF()), run, host.write_surroundings)
    again = from_checkpoint(read(str(tmp_path / "ckpt")))[0]
    assert torch.equal(logits(again.model, images), logits(host.model, images))


def test_images_of_another_size_are_refused_where_the_model_has_its_own(tmp_path):
    pit = {"patch_size": 4, "stride": 2, "base_dims": [4, 4, 4], "depth": [1, 1, 1], "heads": [1, 1, 1], "in_chans": 1}
    timm.models.save_for_hf(
        timm.create_model("pit_ti_224", num_classes=3, img_size=16, **pit), str(tmp_path), safe_serialization=True
    )
    assert load(tmp_path).inputs.image.size[0] == 1
    with pytest.raises(UserError, match=r"images of its own size alone: leave out model\.img_size"):
        load(tmp_path, img_size=24)
    with pytest.raises(UserError, match=r"option img_size of .* must be from 1 to 4096"):
        load(tmp_path, img_size=0)
    with pytest.raises(UserError, match="are the same setting: leave one of them out"):
        load(tmp_path, img_size=8, options={"img_size": 8})


def test_a_registered_name_takes_images_of_another_size():
    host = vit.load("own", "vit_tiny_patch16_224", 3, pretrained=False, img_size=12, options={**SMALL_BODY})
    assert host.inputs.image.size == (1, 12, 12) and host.source["options"]["img_size"] == 12
    assert host.model.patch_embed.num_patches == 9


def test_weights_of_another_model_are_refused(tmp_path):
    saved(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    lost = weights.pop("blocks.1.mlp.fc1.weight")
    for changed in (weights, {**weights, "blocks.1.mlp.fc1.weight": lost[:3]}):
        save_file(changed, tmp_path / "model.safetensors")
        for classes in (3, 4):
            with pytest.raises(UserError, match=r"weights of another model .*blocks\.1\.mlp\.fc1\.weight"):
                load(tmp_path, classes)


@pytest.mark.parametrize(
    "config, says",
    [
        ({"architecture": None}, "names no 'architecture' of timm"),
        ({"architecture": "local-dir:/elsewhere"}, "needs the name of a timm model"),
        ({"model_args": {"act_layer": "relu"}}, "gives timm the option 'act_layer'"),
        ({"model_args": {**SMALL, "img_size": [8, 12]}}, "img_size of .* must be"),
        ({"model_args": {**SMALL, "global_pool": ""}}, "needs one vector an image"),
        ({"model_args": 3}, "must be an object"),
        ({"num_classes": "three"}, "must say num_classes"),
        ({"pretrained_cfg": {"crop_mode": "border"}}, "images with a border"),
        ({"pretrained_cfg": {"mean": "grey"}}, "pretrained_cfg"),
    ],
)
def test_a_folder_that_is_none_is_refused(tmp_path, config, says):
    saved(tmp_path, config=config)
    with pytest.raises(UserError, match=says):
        load(tmp_path)


def test_what_is_missing_or_asked_for_twice_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"needs config\.json"):
        load(tmp_path)
    with pytest.raises(UserError, match=r"model\.timm_name=NAME, or model\.path=FOLDER"):
        vit.load("own", None, 3)
    saved(tmp_path, safe=False)
    with pytest.raises(UserError, match="pickled file"):
        load(tmp_path)
    saved(tmp_path)
    for more in ({"name": "deit_tiny_patch16_224"}, {"options": {"depth": 2}}):
        with pytest.raises(UserError, match="says itself which model it is, vit_tiny_patch16_224"):
            load(tmp_path, **more)
    assert timm_folder.read(tmp_path).options["img_size"] == 8


@pytest.mark.parametrize("options", [{"dynamic_img_size": True}, {"act_layer": "relu"}, {"checkpoint_path": "x.pth"}])
def test_an_option_that_a_checkpoint_cannot_keep_is_refused_before_training(options):
    with pytest.raises(
        UserError, match=f"model 'own' gives timm the option '{next(iter(options))}', and a checkpoint may"
    ):
        vit.load("own", "vit_tiny_patch16_224", 3, pretrained=False, options={**SMALL, **options})
