"""Queries scaled by head: what is scaled, by what, and that the softmax then begins nearer to the exact one."""

import json

import pytest
import torch
from conftest_models import small_bert, small_llama, small_vit
from digits_checkpoint import call
from safetensors.torch import load_file

from cgf.distill.temper import FACTORS, distance, temper
from cgf.errors import UserError
from cgf.models.install import install, install_copies
from cgf.softmax.bpmax import BPMax
from cgf.softmax.cgf import CGF
from cgf.softmax.exact import Exact
from cgf.softmax.slot import Around

HEADS, LENGTH = 4, 9


def peaked_vit():
    """small_vit with scores as far from Gaussian as the others'."""
    host = small_vit()
    with torch.no_grad():
        for block in host.model.blocks:
            block.attn.qkv.weight[:32].mul_(12)
    return host


def samples(host, count=6):
    """(dataset, collate): images, or texts of which the last is padded."""
    generator = torch.Generator().manual_seed(0)
    if host.family == "vit":
        pixels = torch.randn(count, 1, 8, 8, generator=generator)
        return pixels, lambda items: {"pixel_values": torch.stack(items)}
    ids = torch.randint(1, 50, (count, LENGTH), generator=generator)

    def collate(items):
        mask = torch.ones(len(items), LENGTH, dtype=torch.long)
        mask[-1, 4:] = 0
        return {"input_ids": torch.stack(items) * mask, "attention_mask": mask}

    return ids, collate


def weights_of(host, softmax, batch):
    """(weights, scores, valid) of every layer of one pass with ``softmax``."""
    seen = []

    class Record(Around):
        def weights(self, scores, valid=None):
            weights = super().weights(scores, valid)
            seen.append((weights, scores, valid))
            return weights

    install(host.model, lambda _: Record(softmax))
    host.model.eval()  # BERT's own dropout
    with torch.no_grad():
        host.logits(batch)
    return seen


@pytest.mark.parametrize("make", [small_llama, small_bert, peaked_vit])
def test_the_factors_scale_the_scores_of_their_heads_and_nothing_else(make):
    host, other = make(), make()
    dataset, collate = samples(host)
    batch = collate(list(dataset))
    scores = weights_of(other, CGF(), batch)[0][1]
    install_copies(host.model, CGF())
    before = {name: p.detach().clone() for name, p in host.model.named_parameters()}
    found = temper(host, dataset, collate, samples=6)
    assert [len(layer) for layer in found] == [HEADS] * 3
    assert {f for layer in found for f in layer} <= set(FACTORS)
    assert min(f for layer in found for f in layer) < 1  # these weights are far from Gaussian
    scaled = weights_of(host, CGF(), batch)[0][1]
    torch.testing.assert_close(scaled, scores * torch.tensor(found[0])[:, None, None], rtol=1e-4, atol=1e-4)
    changed = {name for name, p in host.model.named_parameters() if not torch.equal(p, before[name])}
    scaled_too = {name.removesuffix("weight") + "bias" for name in changed if name.endswith("weight")} & set(before)
    assert scaled_too == {name for name in changed if name.endswith("bias")}
    assert bool(scaled_too) == (host.family != "llama")
    assert all(any(part in name for part in ("q_proj", "query", "qkv")) for name in changed)
    if host.family == "vit":  # keys and values stand below the queries in one layer
        for name in changed:
            own = dict(host.model.named_parameters())[name]
            torch.testing.assert_close(own[32:], before[name][32:], rtol=0, atol=0)


@pytest.mark.parametrize("make", [small_llama, small_bert, peaked_vit])
def test_weights_come_nearer_to_exact_softmax_in_every_head_of_the_first_layer(make):
    """Later layers see other activations than before, so that theirs have nothing to compare with."""
    plain, scaled = make(), make()
    dataset, collate = samples(plain)
    batch = collate(list(dataset))
    install_copies(scaled.model, CGF())
    factors = torch.tensor(temper(scaled, dataset, collate, samples=6)[0])
    weights, scores, valid = weights_of(plain, CGF(), batch)[0]
    before = distance(weights, scores, valid)
    weights = weights_of(scaled, CGF(), batch)[0][0]
    after = distance(weights, scores, valid)
    assert (after <= before * (1 + 1e-5)).all()
    assert (after[factors != 1] < before[factors != 1]).all()
    assert float(after.sum()) < 0.8 * float(before.sum())


def test_exact_softmax_is_left_alone_and_bpmax_measures_nothing():
    host = small_vit()
    dataset, collate = samples(host)
    install_copies(host.model, Exact())
    before = {name: p.detach().clone() for name, p in host.model.named_parameters()}
    assert temper(host, dataset, collate, samples=6) == [[1.0] * HEADS] * 3
    assert all(torch.equal(p, before[name]) for name, p in host.model.named_parameters())
    softmaxes = install_copies(host.model, BPMax())
    temper(host, dataset, collate, samples=6)
    assert [softmax.denominator for softmax in softmaxes] == [None] * 3
    assert {id(m.softmax) for m in host.model.modules() if hasattr(m, "softmax")} == {id(s) for s in softmaxes}


def test_rows_of_padding_and_what_is_no_number_do_not_win():
    scores = torch.randn(2, 1, 3, 3)
    valid = torch.tensor([[True, True, False]] * 3).expand(2, 1, 3, 3)
    weights = Exact().weights(scores, valid)
    weights[:, :, 2] = 100.0
    assert float(distance(weights, scores, valid)) == 0.0
    weights[0, 0, 0, 0] = torch.nan
    assert float(distance(weights, scores, valid)) == float("inf")
    assert FACTORS[0] == 1.0  # where no factor gives a number


def test_what_cannot_be_scaled_is_refused_and_stays_as_it_was():
    host = small_vit()
    dataset, collate = samples(host)
    install_copies(host.model, CGF())
    for bad in (0, -3, 2.5, True):
        with pytest.raises(UserError, match=r"temper\.samples must be a whole number of at least 1"):
            temper(host, dataset, collate, samples=bad)
    host.model.blocks[1].attn.q_norm = torch.nn.LayerNorm(8)
    before = {name: p.detach().clone() for name, p in host.model.named_parameters()}
    with pytest.raises(UserError, match="normalised"):
        temper(host, dataset, collate, samples=4)
    assert all(torch.equal(p, before[name]) for name, p in host.model.named_parameters())


def test_a_run_scales_its_students_queries_once(tmp_path):
    own = ["model=vit_digits", "train.batch_size=16", "task.limit={train: 48, val: 16}", f"outputs={tmp_path}"]
    call("train", *own, "run=teacher", "softmax=exact", "train.epochs=1")
    # a ViT that has hardly learned has scores near 0, where CGF-softmax is exact and an even power is not
    student = [*own, f"ckpt={tmp_path}/teacher", "distill=kd", "softmax=power", "train.epochs=0"]
    assert "queries scaled" not in call("train", *student, "run=plain").stdout
    assert call("train", *student, "run=scaled", "temper.samples=32").stdout.count("queries scaled by") == 1
    weights = [load_file(next((tmp_path / run).glob("ckpt-*")) / "model.safetensors") for run in ("plain", "scaled")]
    changed = {name for name in weights[0] if not torch.equal(weights[0][name], weights[1][name])}
    assert changed and all(".attn.qkv." in name for name in changed)
    run = json.loads((next((tmp_path / "scaled").glob("ckpt-*")) / "run.json").read_text())
    assert run["config"]["temper"] == {"samples": 32}
    assert "finished already" in call("train", *student, "run=scaled", "temper.samples=32").stdout
