"""What a swap of norms and activations must keep: the weights, the logits, padding; and what it must refuse."""

import copy

import pytest
import torch
from conftest_models import batch_for, minilm, small_bert, small_llama, small_vit
from torch import nn

from cgf.activation.base import ExactActivations
from cgf.activation.polynomial import Polynomials, Products, Square, Squares
from cgf.errors import UserError
from cgf.models import places
from cgf.models.gradient_reach import without_gradient
from cgf.models.install import install, install_copies, installed_softmaxes, uninstall
from cgf.models.replace import parts_of, probing, replace, restore
from cgf.models.replace_check import replaced, start_from
from cgf.models.self_check import checked
from cgf.norm.base import ExactNorms
from cgf.norm.batch import BatchNorms
from cgf.norm.short import ShortNorms
from cgf.softmax.cgf import CGF

COUNTS = {  # norms, activations
    "small_llama": (7, 3),
    "small_bert": (7, 4),  # with the tanh of its pooler
    "small_vit": (7, 3),
    "stories260k": (11, 5),
    "minilm": (13, 7),
}


@torch.no_grad()
def test_a_swap_is_counted_checked_and_taken_back_bit_for_bit(host):
    batch = batch_for(host)
    before, keys = host.logits(batch), list(host.model.state_dict())
    parts = replaced(host, BatchNorms(), Squares())
    assert (len(parts.norms), len(parts.activations)) == COUNTS[host.name]
    assert set(keys) <= set(host.model.state_dict())
    with probing(parts):
        torch.testing.assert_close(host.logits(batch), before, atol=1e-4 * float(before.abs().max()), rtol=0)
    start_from(host, batch)
    changed = host.logits(batch)
    assert changed.isfinite().all() and (changed - before).abs().max() > 1e-6
    assert restore(host.model) == sum(COUNTS[host.name])
    assert list(host.model.state_dict()) == keys
    assert torch.equal(host.logits(batch), before)
    assert not parts_of(host.model).all and restore(host.model) == 0


@torch.no_grad()
def test_exact_leaves_everything_as_it_is(host):
    batch = batch_for(host)
    before, modules = host.logits(batch), list(host.model.modules())
    assert not replaced(host, ExactNorms(), ExactActivations()).all
    assert torch.equal(host.logits(batch), before) and list(host.model.modules()) == modules


@torch.no_grad()
def test_a_model_whose_replaced_parts_explode_on_random_pixels_is_still_a_host():
    """Polynomials hold on data; the check draws pixels, and a trained checkpoint could not be opened for them."""
    host = small_vit()
    host.model.eval()
    parts = replaced(host, ShortNorms(), Squares())
    start_from(host, batch_for(host))
    for part in parts.norms.values():
        part.series.mul_(1e30)  # as far from its variances: the host's own scale and shift stay
    assert not host.logits(batch_for(host)).isfinite().all()
    assert checked(host) is host and list(parts_of(host.model).norms) == list(parts.norms)
    host.model.get_parameter("head.weight")[0, 0] = float("nan")
    with pytest.raises(UserError, match="gives no finite logits of a small batch as it is: a weight of it"):
        checked(host)


@torch.no_grad()
def test_softmaxes_come_and_go_beside_them():
    host = small_vit()
    host.model.eval()
    before = host.logits(batch_for(host))
    install_copies(host.model, CGF())
    replaced(host, BatchNorms(), Squares())
    uninstall(host.model)
    replaced(host, BatchNorms(), ExactActivations())
    install_copies(host.model, CGF())
    restore(host.model)
    uninstall(host.model)
    assert torch.equal(host.logits(batch_for(host)), before)


@pytest.mark.parametrize("make", [small_bert, small_llama])
def test_padding_counts_in_no_statistic_and_no_range(make):
    """The statistics of three padded texts are those of their tokens, in texts of their own without padding."""
    host = make()
    batch = batch_for(host)
    parts = replaced(host, BatchNorms(momentum=1.0), Squares())
    first = next(part for part in parts.norms.values())
    seen = []
    first.register_forward_hook(lambda _, given, __: seen.append(given[0].detach()))
    host.model.train()
    torch.manual_seed(0)  # of dropout
    host.logits(batch)
    real = seen[0][batch["attention_mask"].bool()]
    torch.testing.assert_close(first.running_mean, real.mean(0))
    torch.testing.assert_close(first.running_var, real.var(0, unbiased=False))
    everything = seen[0].reshape(-1, real.shape[-1])
    assert (first.running_mean - everything.mean(0)).abs().max() > 1e-3
    other = copy.deepcopy(batch)
    other["input_ids"][other["attention_mask"] == 0] = 7  # what stands at padding
    means = [part.running_mean.clone() for part in parts.norms.values()]
    torch.manual_seed(0)
    host.logits(other)
    for part, mean in zip(parts.norms.values(), means, strict=True):
        torch.testing.assert_close(part.running_mean, mean, atol=1e-4, rtol=1e-4)
    bounds = []
    for each in (batch, other):
        parts = replaced(host, BatchNorms(), Squares())
        start_from(host, each)
        bounds.append([float(part.bound) for name, part in parts.activations.items() if "pooler" not in name])
    assert bounds[0] == pytest.approx(bounds[1], rel=1e-4)


@torch.no_grad()
def test_a_function_is_replaced_as_a_module_is():
    host = small_bert()
    host.model.eval()
    for layer in host.model.bert.encoder.layer:
        del layer.intermediate.intermediate_act_fn
        layer.intermediate.intermediate_act_fn = torch.nn.functional.gelu
    before = host.logits(batch_for(host))
    parts = replaced(host, ExactNorms(), Squares())
    assert len(parts.activations) == 4
    assert isinstance(host.model.bert.encoder.layer[0].intermediate.intermediate_act_fn, Square)
    assert restore(host.model) == 4
    assert host.model.bert.encoder.layer[0].intermediate.intermediate_act_fn is torch.nn.functional.gelu
    assert torch.equal(host.logits(batch_for(host)), before)


@torch.no_grad()
def test_it_starts_near_the_host():
    """One pass over data makes BatchNorm the nearest affine map to LayerNorm, and squares the nearest to GELU."""
    host = minilm()
    host.model.eval()
    ids = torch.randint(1000, 20000, (32, 9), generator=torch.Generator().manual_seed(0))
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}

    def pooled():
        mean = host.model.base_model(**batch).last_hidden_state.mean(1)
        return mean - mean.mean(0)

    before, near = pooled(), []
    for norm in (ExactNorms(), BatchNorms(start="fit"), BatchNorms(start="gains")):
        for activation in (Polynomials(degree=8), Squares()):
            replaced(host, norm, activation)
            start_from(host, batch)
            near.append(float(torch.cosine_similarity(pooled(), before).mean()))
    assert near[0] > 0.9 and near[1] > 0.5, near  # by a polynomial of degree 8, by squares
    assert near[2] > near[4] + 0.1, near  # the host's own scales and shifts alone are farther


def test_weights_that_no_gradient_reaches_are_named_and_the_host_stays_as_it_was():
    host = small_bert()
    assert without_gradient(host) == []
    replaced(host, BatchNorms(), Squares())
    host.model.unused = nn.Linear(2, 2)
    host.model.frozen = nn.Linear(2, 2).requires_grad_(False)
    slots, batch = install(host.model, lambda _: CGF()), batch_for(host)
    host.model.eval()
    before = host.logits(batch)
    assert without_gradient(host) == ["unused.weight", "unused.bias"]
    assert installed_softmaxes(host.model) == slots and torch.equal(host.logits(batch), before)
    assert all(weight.grad is None for weight in host.model.parameters())


def test_a_mask_given_by_place_is_seen_as_one_given_by_name():
    host = small_bert()
    parts = replaced(host, BatchNorms(), Squares())
    batch = batch_for(host)
    mask = batch["attention_mask"].clone()
    mask[:, -2:] = 0
    norm = next(iter(parts.norms.values()))
    host.model(batch["input_ids"], mask)
    assert torch.equal(norm.tokens.valid, mask.bool())
    host.model(input_ids=batch["input_ids"], attention_mask=torch.ones_like(mask))
    assert bool(norm.tokens.valid.all())


def test_what_is_kept_stays():
    host = small_bert()
    parts = replaced(host, BatchNorms(keep=("embeddings.LayerNorm",)), Squares(keep=["pooler.activation"]))
    assert (len(parts.norms), len(parts.activations)) == (6, 3)
    assert isinstance(host.model.bert.embeddings.LayerNorm, nn.LayerNorm)
    with pytest.raises(UserError, match=r"norm.keep names 'layernorm'.*bert.embeddings.LayerNorm"):
        replaced(host, BatchNorms(keep=("layernorm",)), Squares())


def test_a_gate_becomes_linear_and_its_unit_a_product_and_what_is_no_gate_is_refused():
    host = small_llama()
    parts = replaced(host, ExactNorms(), Products())
    assert all(part.coefficients().shape == (2, 48) for part in parts.activations.values())
    with pytest.raises(UserError, match=r"blocks.0.mlp.act is no gate"):
        replaced(small_vit(), ExactNorms(), Products())


class CalledByName(nn.Module):
    """An MLP that computes its activation by a function of torch's."""

    def __init__(self, own):
        super().__init__()
        self.fc1, self.fc2 = own.fc1, own.fc2

    def forward(self, x):
        return self.fc2(torch.nn.functional.gelu(self.fc1(x)))


def test_what_cannot_be_replaced_is_refused_by_name_and_the_model_is_as_it_was():
    host = small_vit()
    host.model.eval()
    host.model.blocks[1].mlp = CalledByName(host.model.blocks[1].mlp)
    before = list(host.model.modules())
    with pytest.raises(UserError, match=r"model=small_vit.*activation in CalledByName at blocks.1.mlp"):
        replaced(host, BatchNorms(), Squares())
    assert list(host.model.modules()) == before
    replaced(host, BatchNorms(), ExactActivations())  # its norms can be
    restore(host.model)
    host.model.blocks[0].norm1 = nn.GroupNorm(1, 17)
    with pytest.raises(UserError, match=r"a norm in GroupNorm at blocks.0.norm1"):
        replaced(host, BatchNorms(), ExactActivations())


class ByRoot(nn.Module):
    """A LayerNorm that divides by a root, as older code of transformers has it; it is not found as a norm."""

    def __init__(self, features):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(features)), nn.Parameter(torch.zeros(features))

    def forward(self, x):
        x = x - x.mean(-1, keepdim=True)
        return self.weight * x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) + self.bias


class BySpread(ByRoot):
    """The same by torch's deviation."""

    def forward(self, x):
        return self.weight * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-6) + self.bias


@pytest.mark.parametrize("kind", [ByRoot, BySpread])
def test_a_norm_that_is_not_found_is_refused_and_does_not_stay(kind):
    host = small_vit()
    host.model.blocks[0].norm1 = kind(32)
    with pytest.raises(UserError, match=rf"a norm in {kind.__name__} at blocks.0.norm1"):
        replaced(host, BatchNorms(), ExactActivations())


class TwoWidths(nn.Module):
    """An MLP whose activation runs before and after it is widened."""

    def __init__(self, own):
        super().__init__()
        self.fc1, self.fc2, self.act = own.fc1, own.fc2, nn.GELU()

    def forward(self, x):
        return self.fc2(self.act(self.fc1(self.act(x))))


def test_an_activation_of_two_widths_is_refused():
    host = small_vit()
    host.model.blocks[0].mlp = TwoWidths(host.model.blocks[0].mlp)
    with pytest.raises(UserError, match=r"blocks.0.mlp.act runs on values of several widths"):
        replaced(host, ExactNorms(), Squares())


def test_modules_that_stand_in_two_places_are_refused():
    host = small_vit()
    host.model.blocks[1].norm1 = host.model.blocks[0].norm1
    with pytest.raises(UserError, match=r"blocks.0.norm1 and blocks.1.norm1 of .* are one module"):
        replaced(host, BatchNorms(), ExactActivations())


class Offset(nn.Module):
    """A norm whose scale is 1 + weight, as Gemma's is."""

    def __init__(self, features):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.zeros(features)), 1e-6

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * (1 + self.weight)


def test_a_norm_that_computes_something_else_is_refused():
    host = small_vit()
    host.model.norm = Offset(32)
    with pytest.raises(UserError, match=r"the norm norm \(Offset\) computes neither a LayerNorm nor an RMSNorm"):
        replaced(host, BatchNorms(), ExactActivations())


def test_activations_are_told_by_what_they_compute():
    act = places.is_activation
    assert all(act(m) for m in (nn.GELU(), nn.SiLU(), nn.ReLU(), nn.Tanh(), nn.Hardswish(), torch.sigmoid))
    assert not any(act(m) for m in (nn.Identity(), nn.Dropout(0.5), nn.Softmax(-1), nn.Flatten(), len, print))


@pytest.mark.parametrize(
    ("norms", "activations", "message"),
    [
        ({"blocks.0.attn.qkv": 96}, {}, "no norm that can be replaced"),
        ({"blocks.0.norm1": 31}, {}, "32 features, and not 31"),
        ({}, {"blocks.0.attn.proj": 32}, "no activation that can be replaced"),
        ({}, {"blocks.0.mlp.__class__": 32}, "nothing at"),
        ({}, {"head.forward": 32}, "nothing at"),
        ({}, {"blocks.9.mlp.act": 32}, "nothing at"),
    ],
)
def test_a_place_that_a_file_names_is_checked(norms, activations, message):
    host = small_vit()
    before = list(host.model.modules())
    with pytest.raises(UserError, match=message):
        replace(host.model, BatchNorms(), Squares(), norms, activations)
    assert list(host.model.modules()) == before


def test_a_polynomial_of_higher_degree_is_nearer():
    host = small_vit()
    host.model.eval()
    batch = batch_for(host)
    before, distances = host.logits(batch), []
    for variant in (Squares(), Polynomials(degree=4), Polynomials(degree=8)):
        replaced(host, ExactNorms(), variant)
        start_from(host, batch)
        distances.append(float((host.logits(batch) - before).detach().norm()))
    assert distances[2] < 0.2 * min(distances[:2])
