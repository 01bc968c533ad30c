"""What a swap must keep: the weights, the logits of the exact softmax, causality, padding."""

import copy
from dataclasses import dataclass

import pytest
import torch
from conftest_models import LAYERS, batch_for

from cgf.errors import UserError
from cgf.models.install import (
    attention_blocks,
    attention_modules,
    install,
    install_copies,
    installed,
    installed_softmaxes,
    uninstall,
)
from cgf.softmax.bpmax import BPMax
from cgf.softmax.cgf import CGF
from cgf.softmax.chain_cgf import ChainCGF
from cgf.softmax.exact import Exact

CAUSAL = ["small_llama", "stories"]
TEXT = [*CAUSAL, "small_bert", "minilm"]


@dataclass(eq=False)
class TameCGF(CGF):
    """Scores a tenth as large: the cumulant series of order 3 and 4 overflows on the peaked rows of a host
    that was not trained with it."""

    def scores(self, query, key, scaling):
        return super().scores(query, key, scaling) / 10


def hidden_states(host, batch):
    """(B, L, D) of the host's last layer, before any pooling."""
    if host.family == "llama":
        return host.model.model(**batch, use_cache=False).last_hidden_state
    return host.model.base_model(**batch).last_hidden_state


def layers_of(host):
    return LAYERS.get(host.name, LAYERS.get({"stories260k": "stories"}.get(host.name, ""), 0))


@torch.no_grad()
@pytest.mark.parametrize("padded", [False, True])
def test_exact_reproduces_the_untouched_model(host, padded):
    batch = batch_for(host, padded)
    if host.family == "vit":
        for module in host.model.modules():
            if hasattr(module, "fused_attn"):
                module.fused_attn = False
    else:
        host.model.set_attn_implementation("eager")
    before, keys = host.logits(batch), list(host.model.state_dict())
    slots = install_copies(host.model, Exact())
    assert len(slots) == layers_of(host) and len({id(s) for s in slots}) == len(slots)
    assert [s.layer for s in slots] == list(range(len(slots)))
    assert list(host.model.state_dict()) == keys
    torch.testing.assert_close(host.logits(batch), before, atol=1e-5, rtol=0)
    assert uninstall(host.model) == len(slots)
    assert torch.equal(host.logits(batch), before)


@torch.no_grad()
def test_another_softmax_changes_the_logits_and_trains_in_place(host):
    batch = batch_for(host)
    before = host.logits(batch)
    install_copies(host.model, CGF())
    assert (host.logits(batch) - before).abs().max() > 1e-6
    state = {k: v.clone() for k, v in host.model.state_dict().items()}
    with torch.enable_grad():
        host.logits(batch).square().sum().backward()
    inside = [p for block in attention_blocks(host.model) for p in block.parameters()]
    assert any(p.grad is not None and p.grad.abs().sum() > 0 for p in inside)
    uninstall(host.model)
    assert all(torch.equal(v, state[k]) for k, v in host.model.state_dict().items())


@torch.no_grad()
@pytest.mark.parametrize("softmax", [CGF(), TameCGF(order=4), BPMax(), Exact()], ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("host", CAUSAL, indirect=True)
def test_causal_hosts_do_not_look_ahead(host, softmax, padded):
    batch = batch_for(host, padded)
    install_copies(host.model, softmax)
    before = hidden_states(host, batch)
    changed = copy.deepcopy(batch)
    changed["input_ids"][:, 4] = (changed["input_ids"][:, 4] + 7) % 40 + 3
    after = hidden_states(host, changed)
    torch.testing.assert_close(after[:, :4], before[:, :4], atol=1e-6, rtol=0)
    assert (after[:, 4] - before[:, 4]).abs().max() > 1e-4


@torch.no_grad()
@pytest.mark.parametrize("softmax", [CGF(), TameCGF(order=3), TameCGF(order=4), Exact()], ids=lambda s: repr(s))
@pytest.mark.parametrize("host", TEXT, indirect=True)
def test_padding_changes_nothing(host, softmax):
    install_copies(host.model, softmax)
    batch = batch_for(host)
    together = host.logits(batch)
    for row in range(3):
        length = int(batch["attention_mask"][row].sum())
        alone = host.logits({k: v[row : row + 1, :length] for k, v in batch.items()})
        torch.testing.assert_close(alone[0], together[row], atol=2e-5, rtol=1e-4)
    junk = copy.deepcopy(batch)
    junk["input_ids"][batch["attention_mask"] == 0] = 11
    torch.testing.assert_close(host.logits(junk), together, atol=2e-5, rtol=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("host", CAUSAL, indirect=True)
def test_llama_head_reads_the_last_real_token(host):
    batch = batch_for(host)
    batch["input_ids"][1, 4] = host.model.config.pad_token_id  # the pad id as a real, last token
    hidden = hidden_states(host, batch)
    last = torch.stack([hidden[i, int(m.sum()) - 1] for i, m in enumerate(batch["attention_mask"])])
    torch.testing.assert_close(host.logits(batch), host.model.score(last), atol=1e-6, rtol=0)
    left = {k: v.flip(1) for k, v in batch.items()}
    with pytest.raises(UserError, match="right padding"):
        host.logits(left)


@pytest.mark.parametrize("host", CAUSAL, indirect=True)
def test_pad_id_and_side_are_set(host):
    assert host.model.config.pad_token_id == host.inputs.tokenizer.pad_token_id is not None
    assert host.inputs.tokenizer.padding_side == "right"


def test_a_count_that_does_not_fit_changes_nothing(host):
    batch = batch_for(host)
    with torch.no_grad():
        before = host.logits(batch)
        with pytest.raises(UserError, match=f"{layers_of(host)} attentions"):
            install_copies(host.model, CGF(), expected=layers_of(host) + 1)
        assert installed_softmaxes(host.model) == [] and torch.equal(host.logits(batch), before)


def test_a_second_softmax_that_does_not_fit_leaves_the_first(host):
    first = install_copies(host.model, CGF())
    with torch.no_grad():
        before = host.logits(batch_for(host))
    sized = ChainCGF(trainable="head")
    sized.sized(97)
    with pytest.raises(UserError, match="chains of 97 heads do not fit"):
        install_copies(host.model, sized)
    with torch.no_grad():
        assert installed_softmaxes(host.model) == first and torch.equal(host.logits(batch_for(host)), before)


def test_matching_nothing_is_refused():
    with pytest.raises(UserError, match="no attention"):
        attention_modules(torch.nn.Sequential(torch.nn.Linear(2, 2)))
    with pytest.raises(UserError, match="no attention"):
        install(torch.nn.Linear(2, 2), CGF())


def test_a_with_block_puts_the_previous_softmax_back(host):
    kept = install_copies(host.model, CGF())
    with installed(host.model, lambda layer: Exact()) as inner:
        assert installed_softmaxes(host.model) == inner
    assert installed_softmaxes(host.model) == kept
    uninstall(host.model)
    with installed(host.model, lambda _: CGF()):
        pass
    assert installed_softmaxes(host.model) == []


@torch.no_grad()
def test_chains_by_head_have_the_query_heads_of_their_layer(host):
    """Grouped queries: as many as rows of weights, not as keys. What stands in training fits what is installed."""
    slots = install_copies(host.model, ChainCGF(trainable="head"))
    for slot in slots:
        seen = []
        slot.observers.append(lambda s, y, w, v, seen=seen: seen.append(y.shape[1]))
        beta = slot.parameters()[0]
        host.logits(batch_for(host, False))
        assert beta.shape == (seen[0], 1, 1)
    assert len({id(p) for slot in slots for p in slot.parameters()}) == 2 * len(slots)
    held = [p for slot in slots for p in slot.parameters()]
    with installed(host.model, lambda _: Exact()):
        pass
    assert all(
        a is b for a, b in zip(held, [p for s in installed_softmaxes(host.model) for p in s.parameters()], strict=True)
    ), "an evaluation in between must not cost an optimizer its own"
