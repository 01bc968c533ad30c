"""Texts that are longer than a model can read are refused before anything is trained or evaluated on them."""

import dataclasses
import functools

import numpy as np
import pytest
import torch
from conftest_models import small_bert, small_llama, small_vit
from PIL import Image

from cgf.data.own_images import OwnFolderTask
from cgf.data.text_items import TextDataset, collate_text
from cgf.errors import UserError
from cgf.models.install import install_copies, installed_softmaxes
from cgf.models.samples import check_texts, samples_of
from cgf.softmax.cgf import CGF

COLLATE = functools.partial(collate_text, pad_id=0)
POSITIONS = 64  # of small_bert


def texts(*lengths):
    return TextDataset([[1 + i % 40 for i in range(length)] for length in lengths], [0] * len(lengths))


def test_a_text_longer_than_the_positions_of_a_model_is_refused_and_one_as_long_is_read():
    host = small_bert()
    check_texts(host, texts(3, POSITIONS, 5), COLLATE, "train")
    with pytest.raises(UserError) as refused:
        check_texts(host, texts(3, POSITIONS + 1, 5), COLLATE, "val")
    said = str(refused.value)
    assert said.startswith("model small_bert cannot read the longest text of val, of 65 tokens: cut texts by a smaller")
    assert "\n" not in said


def test_positions_that_are_turned_have_no_end():
    check_texts(small_llama(), texts(3, 3000), COLLATE, "train")


def test_images_are_not_looked_at():
    check_texts(small_vit(), object(), COLLATE, "train")


def test_images_are_augmented_to_train_on_and_not_to_be_evaluated_or_planned_on(tmp_path):
    host, draw = small_vit(), np.random.default_rng(0)
    for label in ("a", "b"):
        (tmp_path / "train" / label).mkdir(parents=True)
        for i in range(6):
            Image.fromarray(draw.integers(0, 255, (12, 12, 3), dtype=np.uint8)).save(
                tmp_path / "train" / label / f"{i}.png"
            )
    task = OwnFolderTask(root=str(tmp_path), augment="pad_crop")
    trained, evaluated = samples_of(task, "train", host, training=True), samples_of(task, "train", host)
    assert trained.labels == evaluated.labels and evaluated.augment is None is not trained.augment
    pixels = [torch.stack([item["pixel_values"] for item in items]) for items in (trained, evaluated)]
    assert pixels[0].shape == pixels[1].shape and not torch.equal(*pixels)
    own = dataclasses.replace(task, augment=None)
    assert torch.equal(pixels[1], torch.stack([item["pixel_values"] for item in samples_of(own, "train", host)]))


def test_the_model_is_as_it_was():
    host = small_bert()
    softmaxes = install_copies(host.model, CGF())
    seen = []
    softmaxes[0].observers.append(lambda *given: seen.append(given))
    host.model.train()
    host.model.classifier.eval()
    modes, state = [m.training for m in host.model.modules()], torch.random.get_rng_state()
    check_texts(host, texts(9, 4), COLLATE, "train")
    assert installed_softmaxes(host.model) == softmaxes and seen == []
    assert [m.training for m in host.model.modules()] == modes and torch.equal(torch.random.get_rng_state(), state)
    with pytest.raises(UserError):
        check_texts(host, texts(POSITIONS + 1), COLLATE, "train")
    assert installed_softmaxes(host.model) == softmaxes and [m.training for m in host.model.modules()] == modes


@pytest.mark.parametrize(
    ("rope", "most"),
    [
        ({"rope_type": "dynamic", "factor": 2.0}, 16),
        ({"rope_type": "longrope", "short_factor": [1.0] * 4, "long_factor": [2.0] * 4, "factor": 2.0}, 12),
    ],
)
def test_texts_that_would_turn_the_positions_of_their_batch_are_refused(rope, most):
    """What such a host gives for a short text depended on the longest text of its batch, and no check saw it."""
    host = small_llama()
    given = {**rope, "rope_theta": 1e4, "original_max_position_embeddings": 12}
    config = host.model.config.__class__(
        **{**host.model.config.to_dict(), "max_position_embeddings": 16, "rope_parameters": given}
    )
    embedding = host.model.model.rotary_emb
    host.model.model.rotary_emb = type(embedding)(config)
    ids = torch.tensor([[3, 4, 5, 6, 7]])

    def alone_and_padded(length):
        text = torch.cat([ids, torch.zeros(1, length - 5, dtype=torch.long)], 1)
        other = torch.arange(1, length + 1)[None] % 40
        mask = torch.ones(2, length, dtype=torch.long)
        mask[0, 5:] = 0
        batch = {"input_ids": torch.cat([text, other]), "attention_mask": mask}
        with torch.no_grad():
            host.model.eval()
            beside = host.logits(batch)[0]
            alone = host.logits({"input_ids": ids, "attention_mask": torch.ones_like(ids)})[0]
        return (beside - alone).abs().max().item()

    assert alone_and_padded(most) < 1e-5 < alone_and_padded(most + 8)
    check_texts(host, texts(3, most), COLLATE, "train")
    with pytest.raises(UserError, match=rf"\({rope['rope_type']}\).* at most {most} tokens.* of val has {most + 1}"):
        check_texts(host, texts(3, most + 1), COLLATE, "val")
