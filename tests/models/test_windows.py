"""Encoders with windows: local layers attend within a band, and the rows of the whole host count as masked."""

import pytest
import torch
from torch.utils.data import DataLoader

from cgf.errors import UserError
from cgf.evaluate.he_run import EncryptedEvaluation
from cgf.interface.evaluate_model import evaluate_model
from cgf.interface.installing import install
from cgf.interface.make_plan import make_plan
from cgf.interface.own_model import measured
from cgf.models import probe, self_check
from cgf.models.row_kind import AttentionInput, RowKind, band, row_kind
from scripts.repo import hosts

LOCAL = {**hosts.TEXT, "num_hidden_layers": 3, "max_position_embeddings": 128}


def modern(window):
    """A random ModernBert whose local layers see ``window`` // 2 tokens on each side."""
    return hosts.transformer("ModernBert", "Sequence", {**LOCAL, "local_attention": window})


def texts(lengths, width):
    ids = torch.randint(1, 50, (len(lengths), width), generator=torch.Generator().manual_seed(1))
    mask = (torch.arange(width) < torch.tensor(lengths)[:, None]).long()
    return {"input_ids": torch.where(mask.bool(), ids, 0), "attention_mask": mask}


@torch.no_grad()
@pytest.mark.parametrize("window", [2, 4, 40, 128])
def test_an_exact_softmax_put_in_gives_the_untouched_logits(window):
    model = modern(window)
    batch = texts([90, 30, 3], 90)
    before = model(**batch).logits
    slots, masks = install(model, "exact"), []
    for slot in slots:
        own = slot.weights
        slot.weights = lambda x, valid, own=own: (masks.append(valid), own(x, valid))[1]
    after = model(**batch).logits
    assert (after - before).abs().max() <= 1e-5 * before.abs().max()
    assert bool(masks[0][0].all())  # the first layer of three is global
    assert all(torch.equal(mask[0, 0], band(90, window // 2 + 1, causal=False)) for mask in masks[1:])
    install(model, "cgf")
    assert bool(model(**batch).logits.isfinite().all())  # rows of padding far from every real token are empty


def test_the_window_is_measured_and_makes_the_rows_masked():
    host = measured(modern(6))
    assert (host.causal, host.window, host.row_kind, host.mask) == (False, 4, "masked", "padding")
    full = measured(hosts.transformer("ModernBert", "Sequence", {**LOCAL, "global_attn_every_n_layers": 1}))
    assert (full.window, full.row_kind, full.mask) == (None, "full", "full")


def test_a_window_longer_than_the_checks_texts_is_compared_on_one_that_passes_it(monkeypatch):
    lengths = []
    compared = self_check._compared
    monkeypatch.setattr(
        self_check, "_compared", lambda host, b: (lengths.append(b["input_ids"].shape[1]), compared(host, b))[1]
    )
    measured(modern(40))
    assert lengths == [probe.LENGTH, 21 + probe.BEYOND]


def test_a_mask_that_is_not_that_of_the_window_is_refused():
    whole, near = torch.ones(1, 8, 8, dtype=torch.bool), band(8, 3, causal=False)[None]
    assert row_kind(["a", "b"], [AttentionInput(2, whole, None), AttentionInput(2, near, 3)], 2) == RowKind(False, 3)
    assert row_kind(["a"], [AttentionInput(2, band(8, 3, causal=True)[None], 3)], 2) == RowKind(True, 3)
    for mask, window in ((near, 4), (whole, 3), (None, 3)):
        with pytest.raises(UserError, match=r"b states a window of . tokens, and its mask is that of another"):
            row_kind(["a", "b"], [AttentionInput(2, whole, None), AttentionInput(2, mask, window)], 2)
    with pytest.raises(UserError, match="a looks ahead, and is masked in a text without padding"):
        row_kind(["a"], [AttentionInput(2, near, None)], 2)


@pytest.mark.parametrize("scope", ["softmax", "attention"])
def test_levels_counted_are_those_planned(scope, monkeypatch):
    model = modern(4)
    install(model, "cgf")
    items = [{**{k: v[0] for k, v in texts([n], n).items()}, "labels": torch.tensor(0)} for n in (5, 7, 8, 8)]
    loader = DataLoader(items, batch_size=1)
    plan = make_plan(model, loader, tolerance=1e-2)
    assert plan.plan.row_kind == "masked"
    if scope == "attention":
        made = EncryptedEvaluation.__init__
        monkeypatch.setattr(EncryptedEvaluation, "__init__", lambda self, **k: made(self, **k, scope=scope))
    result = evaluate_model(model, loader, plan, samples=None)
    assert result.agreement == 1.0 and result.max_error < 1e-9
    if scope == "softmax":
        assert result.levels == plan.plan.levels
