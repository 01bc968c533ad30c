"""model=hf: any classifier of a folder, its adapter found by structure; refused with what is missing."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest_models import tokenizer
from digits_checkpoint import call
from PIL import Image
from safetensors.torch import load_file, save_file
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BitImageProcessor,
    DeiTImageProcessor,
    DistilBertConfig,
    DistilBertForSequenceClassification,
    GPT2Config,
    GPT2ForSequenceClassification,
    ViTConfig,
    ViTForImageClassification,
    ViTImageProcessor,
)

from cgf.checkpoint import read, save
from cgf.data.images import fit
from cgf.errors import UserError
from cgf.models import hf
from cgf.models.hf_image import image_input
from cgf.models.install import install_copies
from cgf.models.load import from_checkpoint
from cgf.models.samples import check_ends
from cgf.softmax.cgf import CGF

GPT2 = {"vocab_size": 50, "n_embd": 32, "n_layer": 2, "n_head": 4, "pad_token_id": 0, "num_labels": 3}
DISTIL = {"vocab_size": 50, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 32, "num_labels": 3}
VIT = {
    "image_size": 8,
    "patch_size": 4,
    "num_channels": 1,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "num_labels": 3,
}
PREPARED = {"image_mean": [0.4], "image_std": [0.2], "resample": 3, "size": {"height": 8, "width": 8}}


def saved(folder, model):
    model.save_pretrained(folder)
    tokenizer("pad", pad_token="pad").save_pretrained(folder)
    return str(folder)


def vit(folder):
    ViTForImageClassification(ViTConfig(**VIT)).save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(PREPARED))
    return str(folder)


def test_decoders_and_encoders_are_told_apart_by_what_they_have(tmp_path):
    decoder = hf.load("hf", 3, path=saved(tmp_path / "a", GPT2ForSequenceClassification(GPT2Config(**GPT2))))
    encoder = hf.load(
        "hf", 3, path=saved(tmp_path / "b", DistilBertForSequenceClassification(DistilBertConfig(**DISTIL)))
    )
    assert decoder.causal and decoder.row_kind == "masked" and decoder.head_trained
    assert not encoder.causal and encoder.row_kind == "full" and encoder.head_trained


def test_an_image_classifier_is_read_with_its_scaling_and_comes_back_from_a_checkpoint(tmp_path):
    host = hf.load("hf", 3, path=vit(tmp_path / "vit"))
    image = host.inputs.image
    assert (image.size, image.mean, image.std, image.interpolation) == ((1, 8, 8), (0.4,), (0.2,), "bicubic")
    assert not host.causal and host.head_trained and not hf.load("hf", 4, path=str(tmp_path / "vit")).head_trained
    softmaxes = install_copies(host.model, CGF())
    batch = {"pixel_values": torch.randn(2, 1, 8, 8)}
    host.model.eval()
    with torch.no_grad():
        before = host.logits(batch)
    run = {**host.describe(), "task": "digits", "config": {}}
    save(tmp_path / "ckpt", host.state(), softmaxes, run, host.write_surroundings)
    again, softmaxes = from_checkpoint(read(str(tmp_path / "ckpt")))
    again.model.eval()
    with torch.no_grad():
        assert torch.equal(again.logits(batch), before) and len(softmaxes) == 2
    assert again.describe() == host.describe()


def test_weights_that_are_missing_in_a_layer_are_refused_whatever_the_head(tmp_path):
    path = saved(tmp_path / "b", DistilBertForSequenceClassification(DistilBertConfig(**DISTIL)))
    weights = load_file(tmp_path / "b" / "model.safetensors")
    lost = "distilbert.transformer.layer.1.ffn.lin2.weight"
    del weights[lost]
    save_file(weights, tmp_path / "b" / "model.safetensors", metadata={"format": "pt"})
    for classes in (3, 5):
        with pytest.raises(UserError, match=f"lacks weights of its model: {lost}"):
            hf.load("hf", classes, path=path)


@pytest.mark.parametrize(
    "processor",
    [
        ViTImageProcessor(size={"height": 8, "width": 8}, resample=3, image_mean=[0.4] * 3, image_std=[0.2] * 3),
        DeiTImageProcessor(size={"height": 10, "width": 10}, crop_size={"height": 8, "width": 8}, resample=3),
        BitImageProcessor(size={"shortest_edge": 10}, crop_size={"height": 8, "width": 8}, resample=2),
    ],
    ids=["resized", "cropped", "shortest edge"],
)
@pytest.mark.parametrize("shape", [(32, 32), (24, 40), (40, 22)], ids=["square", "wide", "tall"])  # borders are even
def test_images_are_prepared_as_the_models_own_processor_does(tmp_path, processor, shape):
    processor.save_pretrained(tmp_path)
    image = image_input(ViTConfig(**{**VIT, "num_channels": 3}), str(tmp_path))
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 256, (*shape, 3), dtype=np.uint8))
    theirs = processor(picture, return_tensors="pt")["pixel_values"][0]
    step = 1 / 255 / min(image.std)  # they round the resized image to bytes in another place
    assert (fit(picture, image, crop=True) - theirs).abs().max() < 2.01 * step


def test_one_number_of_a_size_is_what_the_processor_takes_it_for(tmp_path):
    """The side of a square, and the shortest side for CLIP's, whose older files give a number too."""
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (24, 40, 3), dtype=np.uint8))
    config, given = ViTConfig(**{**VIT, "num_channels": 3}), {"do_center_crop": True, "crop_size": 8, "resample": 3}
    for kind, size in (
        ("ViTImageProcessor", {"height": 10, "width": 10}),
        ("CLIPImageProcessor", {"shortest_edge": 10}),
    ):
        made = []
        for each in (10, size):
            stated = {
                **PREPARED,
                "image_mean": [0.4] * 3,
                "image_std": [0.2] * 3,
                **given,
                "image_processor_type": kind,
                "size": each,
            }
            (tmp_path / "preprocessor_config.json").write_text(json.dumps(stated))
            made.append(fit(image, image_input(config, str(tmp_path)), crop=True))
        assert torch.equal(*made), kind


UNNAMED = {"image_processor_type": None, "feature_extractor_type": None}


@pytest.mark.parametrize(
    "change, says",
    [
        ({"resample": 7}, "filter 7"),
        ({"do_rescale": False}, "must rescale bytes"),
        ({"rescale_factor": 1 / 127.5}, "must rescale bytes"),
        ({"size": {"height": 16, "width": 16}}, "without a crop, and the model takes 8 x 8"),
        ({"do_center_crop": True, "crop_size": 6}, "crops"),
        ({"size": 10, "do_center_crop": True, "crop_size": 8, **UNNAMED}, "before a crop, and names no image_proc"),
        ({"do_resize": False}, "to which size"),
        ({"do_normalize": False}, "image_mean"),
        ({"do_pad": True}, "by do_pad, which is not repeated"),
        ({"crop_pct": 0.9}, "by crop_pct, which is not repeated"),
    ],
)
def test_preparation_that_is_not_repeated_here_is_refused(tmp_path, change, says):
    path = vit(tmp_path / "vit")
    (tmp_path / "vit" / "preprocessor_config.json").write_text(json.dumps({**PREPARED, **change}))
    with pytest.raises(UserError, match=says):
        hf.load("hf", 3, path=path)


def test_a_tokenizer_that_is_not_there_or_does_not_fit_is_refused(tmp_path):
    """transformers makes an empty one where none was saved, which reads every word as unknown."""
    for number, (kind, config) in enumerate((
        (DistilBertForSequenceClassification, DistilBertConfig(**DISTIL)),
        (BertForSequenceClassification, BertConfig(vocab_size=50, hidden_size=8, num_attention_heads=2,
                                                   num_hidden_layers=1, intermediate_size=8, num_labels=3)),
        (GPT2ForSequenceClassification, GPT2Config(**GPT2)),
    )):  # fmt: skip
        folder = tmp_path / str(number)
        kind(config).save_pretrained(folder)
        with pytest.raises(UserError, match="needs the tokenizer that its model was trained with"):
            hf.load("hf", 3, path=str(folder))
    path = saved(
        tmp_path / "small", DistilBertForSequenceClassification(DistilBertConfig(**{**DISTIL, "vocab_size": 49}))
    )
    with pytest.raises(UserError, match="has a tokenizer of 50 ids, and its model embeds 49: they are no pair"):
        hf.load("hf", 3, path=path)


def test_a_decoder_refuses_a_text_without_a_token(tmp_path):
    host = hf.load("hf", 3, path=saved(tmp_path / "a", GPT2ForSequenceClassification(GPT2Config(**GPT2))))
    batch = {"input_ids": torch.ones(2, 3, dtype=torch.long), "attention_mask": torch.tensor([[1, 1, 0], [0, 0, 0]])}
    with pytest.raises(UserError, match="a text of the batch has none"):
        host.forward(host.model, batch)


def test_a_text_that_the_head_it_came_with_reads_at_another_token_is_refused(tmp_path):
    host = hf.load("hf", 3, path=saved(tmp_path / "a", GPT2ForSequenceClassification(GPT2Config(**GPT2))))
    pad = host.inputs.tokenizer.pad_token_id
    check_ends(host, [[pad, 5, 6], [7]], "train")
    with pytest.raises(UserError, match=rf"a text of train ends in the id of padding \({pad}\), before which the head"):
        check_ends(host, [[5, 6], [7, pad]], "train")
    check_ends(replace(host, head_trained=False), [[7, pad]], "train")


@pytest.mark.parametrize("split", ["train", "val"])
def test_a_training_refuses_such_a_text_before_it_begins(tmp_path, split):
    model = GPT2ForSequenceClassification(GPT2Config(**{**GPT2, "num_labels": 2}))
    model.save_pretrained(tmp_path / "a")
    tokenizer("pad", "good", "bad", pad_token="pad").save_pretrained(tmp_path / "a")
    texts = ["good bad,x", "bad bad,y", "bad good,x", "good,y"]
    for turn, name in enumerate(("train", "val", "test")):
        lines = ["text,label", *texts[turn:], *texts[:turn], *(["good pad,x"] if name == split else [])]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines) + "\n")
    keys = {"train": "train", "validation": "val", "test": "test"}
    files = [f"task.{key}={tmp_path / name}.csv" for key, name in keys.items()]
    given = ["task=csv", *files, "task.text=text", "task.label=label", "softmax=exact", f"outputs={tmp_path / 'out'}"]
    done = call("train", "model=hf", f"model.path={tmp_path / 'a'}", *given)
    assert done.returncode == 2 and f"a text of {split} ends in the id of padding" in done.stderr, done.stderr
    assert not (tmp_path / "out").exists()


def test_weights_that_another_class_saved_are_refused(tmp_path):
    model = DistilBertForSequenceClassification(DistilBertConfig(**DISTIL))
    path = Path(saved(tmp_path / "a", model))
    described = json.loads((path / "config.json").read_text())
    for architectures, refused in ((["OwnForSequenceClassification"], True), (None, False), ([], False)):
        (path / "config.json").write_text(json.dumps({**described, "architectures": architectures}))
        if refused:
            with pytest.raises(
                UserError, match="saved by the class OwnForSequenceClassification, which transformers does"
            ):
                hf.load("hf", 3, path=str(path))
        else:
            assert hf.load("hf", 3, path=str(path)).head_trained


def test_what_is_missing_is_told(tmp_path):
    with pytest.raises(UserError, match=r"model\.path"):
        hf.load("hf", 3)
    path = vit(tmp_path / "vit")
    (tmp_path / "vit" / "preprocessor_config.json").unlink()
    with pytest.raises(UserError, match=r"preprocessor_config\.json"):
        hf.load("hf", 3, path=path)
