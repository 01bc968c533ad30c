"""Folders of models whose configuration and weights do not belong together are refused by name, and never half read."""

import json

import pytest
import timm
import torch
from conftest_models import tokenizer
from safetensors.torch import load_file, save_file
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    CLIPConfig,
    CLIPForImageClassification,
    CLIPImageProcessor,
)

from cgf.errors import UserError
from cgf.interface.installing import install, uninstall
from cgf.models import hf, vit
from cgf.models.described import image_facts
from cgf.models.hf_image import image_input

BERT = {"vocab_size": 50, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2}
VIT = {"img_size": 8, "patch_size": 4, "in_chans": 1, "embed_dim": 16, "depth": 1, "num_heads": 2}
IMAGE = {"size": [1, 8, 8], "mean": [0.5], "std": [0.5]}


def change(folder, **entries):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | entries))


def change_weights(folder, changed):
    path = folder / "model.safetensors"
    save_file({key: t.contiguous() for key, t in changed(load_file(path)).items()}, path, {"format": "pt"})


@pytest.fixture
def bert(tmp_path):
    BertForSequenceClassification(BertConfig(**BERT, num_labels=3)).save_pretrained(tmp_path)
    tokenizer("pad", pad_token="pad").save_pretrained(tmp_path)
    return tmp_path


def without_head(tensors):
    return {key: t for key, t in tensors.items() if not key.startswith("classifier.")}


@pytest.mark.parametrize(
    ("stated", "changed", "says"),
    [
        ({"num_hidden_layers": 1}, dict, "holds other weights than its config.json describes: bert.encoder.layer.1."),
        ({"num_hidden_layers": 4}, without_head, "lacks weights of its model: bert.encoder.layer.3."),
        ({"hidden_size": 32}, dict, "holds other weights than its config.json describes: bert.embeddings."),
        ({"intermediate_size": 32}, without_head, "holds other weights than its config.json describes: bert.encoder."),
        ({"model_type": "roberta"}, dict, "lacks weights of its model: roberta.encoder.layer.0."),
        ({}, lambda kept: {f"module.{key}": t for key, t in kept.items()}, "lacks weights of its model: bert.encoder."),
        (
            {},
            lambda kept: {key: t.to(torch.int8) for key, t in kept.items()},
            "holds quantized weights (bert.embeddings",
        ),
        ({}, lambda kept: {key: t * float("nan") for key, t in kept.items()}, "it gives no finite logits"),
        ({"id2label": {"5": "a", "7": "b", "9": "c"}}, dict, "must name the classes 0 to 2, and is {5: 'a', "),
        ({"id2label": {"0": "a", "1": None, "2": "c"}}, dict, "must name the classes 0 to 2, and is {0: 'a', 1: None"),
    ],
)
def test_weights_that_the_configuration_does_not_describe_are_refused(bert, stated, changed, says):
    change(bert, **stated)
    change_weights(bert, changed)
    with pytest.raises(UserError) as refused:
        hf.load("own", 3, path=str(bert), class_names=["a", "b", "c"])
    assert says in str(refused.value)


def test_a_language_model_without_a_pooler_and_with_another_head_is_taken(tmp_path, capsys):
    BertForMaskedLM(BertConfig(**BERT)).save_pretrained(tmp_path)
    tokenizer("pad", pad_token="pad").save_pretrained(tmp_path)
    assert not hf.load("own", 3, path=str(tmp_path)).head_trained
    assert "lacks 2 weights, which start at random: bert.pooler" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("option", "changed", "says"),
    [
        ({"num_heads": 3}, dict, "config.json describes no model that timm can build: dim should be divisible"),
        (
            {},
            lambda kept: {k: t.to(torch.int8) for k, t in kept.items()},
            "holds quantized weights (blocks.0.attn.proj",
        ),
    ],
)
def test_a_folder_that_timm_cannot_read_is_refused(tmp_path, option, changed, says):
    timm.models.save_for_hf(
        timm.create_model("vit_tiny_patch16_224", num_classes=3, **VIT), str(tmp_path), safe_serialization=True
    )
    stated = json.loads((tmp_path / "config.json").read_text())["model_args"]
    change(tmp_path, model_args=stated | option)
    change_weights(tmp_path, changed)
    with pytest.raises(UserError) as refused:
        vit.load("own", None, 3, path=str(tmp_path))
    assert says in str(refused.value)


def test_options_that_timm_refuses_are_refused():
    with pytest.raises(UserError, match="model 'own' is none that timm can build: dim should be divisible"):
        vit.load("own", "vit_tiny_patch16_224", 3, pretrained=False, options={**VIT, "num_heads": 3})


@pytest.mark.parametrize(
    ("stated", "says"),
    [
        ({"mean": [0.5, 0.5, 0.5]}, "must have a mean and a std above 0 for each of 1 channels"),
        ({"std": [0]}, "must have a mean and a std above 0 for each of 1 channels"),
        ({"interpolation": "random"}, "'interpolation' of x must be one of nearest, "),
        ({"crop_pct": 0}, "'crop_pct' of x must be above 0, and is 0"),
    ],
)
def test_images_that_cannot_be_made_so_are_refused(stated, says):
    assert image_facts(IMAGE, "x").size == (1, 8, 8)
    with pytest.raises(UserError) as refused:
        image_facts(IMAGE | stated, "x")
    assert says in str(refused.value)


def test_a_processor_that_divides_by_zero_is_refused(tmp_path):
    prepared = {"image_mean": [0.4], "image_std": [0.0], "size": {"height": 8, "width": 8}}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(prepared))
    config = BertConfig(image_size=8, num_channels=1)
    with pytest.raises(UserError, match="a std above 0 for each of 1 channels"):
        image_input(config, str(tmp_path))


PART = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
TOWER = {"text_config": PART, "vision_config": {**PART, "image_size": 8, "patch_size": 4}, "num_labels": 3}


@pytest.fixture
def clip(tmp_path):
    """An image classifier of CLIP's, which holds the image tower under another name than CLIP's own."""
    CLIPForImageClassification(CLIPConfig(**TOWER)).save_pretrained(tmp_path)
    CLIPImageProcessor(size={"shortest_edge": 8}, crop_size={"height": 8, "width": 8}).save_pretrained(tmp_path)
    return tmp_path


def test_the_image_tower_of_a_model_of_images_and_texts_is_a_host(clip):
    host = hf.load("hf", 3, path=str(clip))
    assert host.head_trained and host.inputs.image.size == (3, 8, 8) and host.inputs.image.mean[0] == 0.48145466
    batch = {"pixel_values": torch.randn(2, 3, 8, 8)}
    with torch.no_grad():
        theirs = CLIPForImageClassification.from_pretrained(clip).eval()(**batch).logits
        assert torch.equal(host.forward(host.model.eval(), batch), theirs)
    model = CLIPForImageClassification.from_pretrained(clip).eval()
    install(model, "cgf")  # its text part has no attention of its own, and no model
    with torch.no_grad():
        assert not torch.equal(model(**batch).logits, theirs)
        uninstall(model)
        assert torch.equal(model(**batch).logits, theirs)


@pytest.mark.parametrize(
    ("lost", "says"),
    [
        ("vision_model.encoder.layers.0.mlp.fc1.weight", "lacks weights of its model: vision_model.encoder.layers.0."),
        ("vision_model.embeddings.class_embedding", "lacks weights of its model: vision_model.embeddings.class"),
    ],
)
def test_an_image_tower_without_a_weight_is_refused(clip, lost, says):
    change_weights(clip, lambda kept: {key: t for key, t in kept.items() if key != lost})
    with pytest.raises(UserError, match=says):
        hf.load("hf", 3, path=str(clip))


def test_relative_positions_that_transformers_lost_are_refused_where_a_softmax_is_put_in():
    config = BertConfig(**BERT, num_labels=3, position_embedding_type="relative_key")
    model = BertForSequenceClassification(config).eval()
    ids = torch.arange(6).view(1, 6)
    before = model(ids).logits
    with pytest.raises(
        UserError, match="this BertForSequenceClassification has position_embedding_type='relative_key'"
    ):
        install(model, "cgf")
    assert torch.equal(model(ids).logits, before)


def test_each_part_of_a_configuration_gets_its_own_attention_back():
    config = CLIPConfig(**TOWER)
    own = {"text_config": "sdpa", "vision_config": "eager"}
    model = CLIPForImageClassification._from_config(config, attn_implementation=own)
    install(model, "cgf")
    assert model.vision_model.config._attn_implementation == "cgf"
    uninstall(model)
    assert model.vision_model.config._attn_implementation == "eager"
    assert model.config._attn_implementation == "sdpa"
