"""Texts that are longer than a model can read are refused before anything is trained or evaluated on them."""

import functools

import pytest
import torch
from conftest_models import small_bert, small_llama, small_vit

from cgf.data.text_items import TextDataset, collate_text
from cgf.errors import UserError
from cgf.models.install import install_copies, installed_softmaxes
from cgf.models.samples import check_texts
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
