"""Losses, schedule and batches against references of their own."""

import math

import numpy as np
import pytest
import torch

from cgf.distill.losses import DistillationLoss
from cgf.distill.settings import Settings, epoch_batches
from cgf.errors import UserError


def log_softmax(x):
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def test_distillation_loss():
    generator = np.random.default_rng(0)
    student, teacher = generator.normal(size=(2, 5, 4))
    labels = np.array([0, 3, 1, 1, 2])
    ce = -log_softmax(student)[np.arange(5), labels].mean()
    t, s = log_softmax(teacher / 3), log_softmax(student / 3)
    kl = (np.exp(t) * (t - s)).sum(-1).mean()
    loss = DistillationLoss(tau=3.0, alpha=0.25)
    tensors = torch.from_numpy(student), torch.from_numpy(labels), torch.from_numpy(teacher)
    assert float(loss(*tensors)) == pytest.approx(0.75 * ce + 0.25 * 9 * kl, rel=1e-5)
    assert float(loss(*tensors[:2])) == pytest.approx(ce, rel=1e-5)
    smooth = 0.9 * np.eye(4)[labels] + 0.1 / 4
    smoothed = -(smooth * log_softmax(student)).sum(-1).mean()
    assert float(DistillationLoss(label_smoothing=0.1)(*tensors[:2])) == pytest.approx(smoothed, rel=1e-5)
    half = DistillationLoss(3.0, 0.25)(tensors[0].half(), tensors[1], tensors[2].half())
    assert half.dtype == torch.float32 and float(half) == pytest.approx(0.75 * ce + 0.25 * 9 * kl, rel=5e-3)
    for bad in (
        {"tau": 0},
        {"alpha": 1.5},
        {"alpha": math.nan},
        {"tau": math.nan},
        {"tau": math.inf},
        {"tau": None},
        {"alpha": None},
    ):
        with pytest.raises(UserError, match="distillation needs"):
            DistillationLoss(**bad)


def test_learning_rate_is_a_function_of_the_step():
    linear = Settings(lr=1.0, warmup=0.1, schedule="linear")
    assert [linear.lr_at(s, 100) for s in (0, 4, 9)] == pytest.approx([0.1, 0.5, 1.0])
    assert linear.lr_at(55, 100) == pytest.approx(0.5) and linear.lr_at(99, 100) == pytest.approx(1 / 90)
    cosine = Settings(lr=1.0, warmup=0.0, schedule="cosine")
    assert [cosine.lr_at(s, 100) for s in (0, 50)] == pytest.approx([1.0, 0.5])
    assert Settings(lr=3.0, warmup=0.0, schedule="constant").lr_at(77, 100) == 3.0


@pytest.mark.parametrize(
    "bad",
    [
        {"schedule": "step"},
        {"precision": "fp8"},
        {"epochs": -1},
        {"lr": 0.0},
        {"max_steps": "abc"},
        {"patience": 0},
        {"patience": True},
        {"max_steps": True},
        {"save_every": True},
        {"length_pool": True},
        {"epochs": True},
        {"warmup": True},
        {"length_pool": 0},
        {"lr": None},
        {"lr": math.nan},
        {"weight_decay": math.inf},
        {"warmup": 7.0},
        {"label_smoothing": 1.5},
    ],
)
def test_settings_are_checked(bad):
    with pytest.raises(UserError, match=f"train.{next(iter(bad))} must be"):
        Settings(**bad)


def test_half_precision_needs_a_gpu(monkeypatch):
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    with pytest.raises(UserError, match=r"train\.precision=fp16 needs a GPU, and there is none"):
        Settings(precision="fp16")
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    assert Settings(precision="fp16").mixed_precision() == "fp16"


class Texts(list):
    lengths = None


def padding(batches, lengths):
    """Tokens of the batches, padding included, for each real token."""
    return sum(len(b) * max(lengths[i] for i in b) for b in batches) / sum(lengths)


@pytest.mark.parametrize("pool", [None, 1, 3, 50])
@pytest.mark.parametrize("texts", [False, True])
def test_an_epoch_has_every_sample_once_and_repeats_for_its_seed(pool, texts):
    data = Texts(range(50))
    data.lengths = [i % 7 + 1 for i in data] if texts else None
    first, again, epoch, seed = (epoch_batches(data, 8, s, e, pool) for s, e in ((1, 0), (1, 0), (1, 1), (2, 0)))
    assert first == again and first not in (epoch, seed)
    assert sorted(i for b in first for i in b) == list(range(50)) and sorted(map(len, first)) == [2, 8, 8, 8, 8, 8, 8]


def test_texts_of_like_length_share_batches():
    data = Texts(range(640))
    data.lengths = [int(n) for n in np.random.default_rng(0).integers(3, 40, len(data))]
    drawn, pooled, whole = (padding(epoch_batches(data, 8, 1, 0, pool), data.lengths) for pool in (None, 10, 80))
    assert drawn > 1.5 and whole < pooled < 1.2
    assert padding(epoch_batches(data, 8, 1, 0, 1), data.lengths) == drawn
    longest = [max(data.lengths[i] for i in b) for b in epoch_batches(data, 8, 1, 0, 80)]
    assert longest != sorted(longest)  # the batches themselves come in random order
    assert epoch_batches(data, 8, 1, 0, 10) != epoch_batches(data, 8, 1, 1, 10)
