"""Gradient checkpointing: layers run twice, gradients and measurements are those of a run without it."""

import json
from copy import deepcopy

import pytest
import torch
from conftest_models import CLASSES, batch_for, small_bert, small_llama, small_vit
from digits_checkpoint import call

from cgf.distill.range_control import RangeControl
from cgf.distill.recompute import save_memory
from cgf.errors import UserError
from cgf.models.install import install_copies
from cgf.softmax.base import ExponentialSoftmax
from cgf.softmax.bpmax import BPMax, CalibratedBPMax
from cgf.softmax.cgf import CGF

HOSTS = {"llama": small_llama, "bert": small_bert, "vit": small_vit}


def trained(make, softmax, checkpointing, steps=2):
    """Gradients, losses and denominators of a few steps with a penalty, and how often each layer ran."""
    host = make()
    softmaxes = install_copies(host.model, softmax)
    control = RangeControl(weight=0.5, bound=2.0) if isinstance(softmax, ExponentialSoftmax) else RangeControl()
    control.watch(softmaxes)
    calls = []
    for slot in softmaxes:
        own = slot.weights
        slot.weights = lambda s, v=None, own=own: (calls.append(1), own(s, v))[1]
    if checkpointing:
        save_memory(host, softmaxes)
    host.model.train()
    torch.manual_seed(3)
    losses = []
    for _ in range(steps):
        loss = torch.nn.functional.cross_entropy(host.forward(host.model, batch_for(host)), torch.arange(3) % CLASSES)
        loss = loss + (control.take() or 0.0)
        loss.backward()
        losses.append(float(loss.detach()))
    assert not any(slot.again for slot in softmaxes)
    gradients = [p.grad for p in host.model.parameters() if p.grad is not None]
    return gradients, losses, [deepcopy(slot.tensors()) for slot in softmaxes], len(calls)


@pytest.mark.parametrize("softmax", [CGF(), BPMax(p=3), CalibratedBPMax(p=3, momentum=0.5)], ids=lambda s: s.name)
@pytest.mark.parametrize("family", HOSTS)
def test_nothing_changes_but_the_work(family, softmax):
    plain, saving = (trained(HOSTS[family], softmax, on) for on in (False, True))
    assert saving[3] == 2 * plain[3] == 12
    assert saving[1] == pytest.approx(plain[1], rel=1e-6)
    for a, b in zip(plain[0], saving[0], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-7)
    for a, b in zip(plain[2], saving[2], strict=True):
        assert a.keys() == b.keys()
        for key in a:
            torch.testing.assert_close(a[key], b[key])


def test_a_host_without_known_layers_is_refused():
    host = small_vit()
    host.model = torch.nn.Linear(1, 1)
    with pytest.raises(UserError, match="layers that can be computed again, and small_vit has none"):
        save_memory(host, [])


@pytest.mark.parametrize(
    "setting, values", [("checkpointing", ("false", "true")), ("compile", ("false", "true")), ("workers", (0, 2))]
)
def test_train_with_it_gives_what_train_gives(setting, values, tmp_path, monkeypatch):
    asked, compile_ = [], torch.compile
    monkeypatch.setattr(
        torch,
        "compile",  # its own backend takes minutes and a C++ compiler
        lambda f, **more: (asked.append(more), compile_(f, backend="eager", **more))[1],
    )
    found = []
    for value in values:
        done = call(
            "train",
            "train.max_steps=2",
            "train.batch_size=16",
            "train.precision=no",
            f"outputs={tmp_path}",
            "task.limit={train: 32, val: 16, test: 16}",
            f"train.{setting}={value}",
            f"run=as-{value}",
            "penalty.weight=1",
            "penalty.bound=4",
            "train.log_every=1",
        )
        assert done.returncode == 0, done.stderr
        lines = (tmp_path / f"as-{value}" / "metrics.jsonl").read_text().splitlines()
        found.append([json.loads(line) for line in lines])
    assert len(asked) == (setting == "compile")
    for off, on in zip(*found, strict=True):
        assert off.keys() == on.keys() and all(on[k] == pytest.approx(off[k], rel=1e-4, abs=1e-6) for k in off)
