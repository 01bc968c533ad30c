"""What may be a host: what it adds to its scores, what stays exact, what it looks at, all measured when it is made."""

import random

import numpy as np
import pytest
import torch
import transformers
from conftest_models import CLASSES, batch_for, small_bert, small_llama, tokenizer, untrained
from torch import nn

from cgf.distill import tune
from cgf.distill.temper import temper
from cgf.errors import UserError
from cgf.interface.own_model import measured
from cgf.models import bert, llama, self_check, transformers_attention, vit
from cgf.models.host import host_state
from cgf.models.install import attention_modules, install_copies, installed_softmaxes, uninstall
from cgf.models.self_check import checked
from cgf.models.transformers_attention import SLOT, attention
from cgf.softmax.cgf import CGF
from cgf.softmax.exact import Exact

SIZES = {
    "vocab_size": 50,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_labels": CLASSES,
    "pad_token_id": 0,
    "max_position_embeddings": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
GROUPED = {"num_key_value_heads": 2, "head_dim": 8}
KINDS = {
    "Mistral": {**GROUPED, "sliding_window": 3},
    "Qwen3": GROUPED,
    "Gemma2": GROUPED,
    "Phi": {"qk_layernorm": True},
    "Phi3": GROUPED,
    "OPT": {"ffn_dim": 48, "word_embed_proj_dim": 32},
    "Gemma3Text": {**GROUPED, "sliding_window": 3},
    "GPT2": {},
    "Mixtral": GROUPED,
    "Bert": {"is_decoder": True},
    "Roberta": {},
    "Albert": {},
    "DistilBert": {"dim": 32, "hidden_dim": 48, "n_layers": 2, "n_heads": 4},
}
TINY_VIT = {"img_size": 8, "patch_size": 4, "in_chans": 1, "embed_dim": 16, "depth": 2, "num_heads": 2}


def model(kind):
    """A small classifier whose attention is far from uniform, with biases that are not zero."""
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**SIZES, **KINDS[kind])
    made = transformers.AutoModelForSequenceClassification.from_config(config)
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(0, 0.1)
            elif any(part in name for part in ("q_proj", "k_proj", "query", "key", "c_attn", "q_lin", "k_lin")):
                parameter.mul_(8)
    return made


def host_of(kind, adapter=llama):
    return adapter.host(model(kind), tokenizer("pad", pad_token="pad"), untrained(kind))


def refused(says, make, *arguments, **options):
    with pytest.raises(UserError, match=says) as error:
        make(*arguments, **options)
    assert "\n" not in str(error.value) and len(str(error.value)) < 400
    return str(error.value)


# -- what a host adds to its scores ----------------------------------------------------------------------


class Module(nn.Module):
    is_causal = False


@pytest.mark.parametrize(
    "keyword, says",
    [
        ("softcap", "caps its scores"),
        ("s_aux", "adds a sink"),
        ("position_bias", "position bias"),
        ("head_mask", "head mask"),
        ("indices", "chosen keys"),
        ("cu_seq_lens_q", "packs several texts"),
        ("cache", "paged cache"),
        ("relative_bias", "not known here"),
    ],
)
def test_what_changes_the_weights_is_refused_by_name(keyword, says):
    module, x = Module(), torch.randn(1, 2, 3, 4)
    object.__setattr__(module, SLOT, Exact())
    expected, _ = attention(module, x, x, x, None, output_attentions=True, position_ids=torch.arange(3), softcap=None)
    assert expected.shape == (1, 3, 2, 4)
    assert f"({keyword})" in refused(f"Module .*{says}", attention, module, x, x, x, None, **{keyword: torch.ones(2)})


def test_masks_and_windows_that_would_be_lost_are_refused():
    module, x = Module(), torch.randn(1, 2, 3, 4)
    object.__setattr__(module, SLOT, Exact())
    refused("boolean mask, and Module gives an additive", attention, module, x, x, x, torch.zeros(1, 1, 3, 3))
    refused("boolean mask", attention, module, x, x, x, torch.ones(1, 1, 3, 3, dtype=torch.long))
    refused("from 3 to 2 tokens", attention, module, x, x[:, :, :2], x[:, :, :2], None)
    refused("windowed Module ran without a mask", attention, module, x, x, x, None, sliding_window=2)
    hidden = torch.zeros(1, 1, 3, 3).masked_fill(torch.ones(3, 3).triu(1).bool(), -torch.inf)
    refused("boolean mask, and Module gives an additive", attention, module, x, x, x, hidden)
    refused("adds a bias to its scores, as a relative position", attention, module, x, x, x, hidden + 0.5)
    refused("causal Module ran without a mask", attention, module, x, x, x, None, is_causal=True)


def test_a_bias_in_the_mask_of_timms_attention_is_refused():
    host = vit.load("tiny", "vit_tiny_patch16_224", CLASSES, pretrained=False, options=TINY_VIT)
    install_copies(host.model, Exact())
    block, x = host.model.blocks[0].attn, torch.randn(1, 5, 16)
    refused("adds a bias to its scores", block, x, attn_mask=torch.full((5, 5), 0.5))
    below = torch.full((5, 5), -torch.inf).triu(1)
    torch.testing.assert_close(block(x, attn_mask=below), block(x, is_causal=True))


@pytest.mark.parametrize("adapter", [bert, llama])
def test_soft_capped_scores_are_refused_when_the_host_is_made(adapter):
    refused("model=Gemma2 cannot .*Gemma2Attention caps its scores .softcap", host_of, "Gemma2", adapter)


# -- decoders and encoders -------------------------------------------------------------------------------


@torch.no_grad()
@pytest.mark.parametrize("kind", ["Mistral", "Qwen3", "GPT2", "Gemma3Text"])
def test_any_decoder_is_causal_with_masked_rows_and_its_own_logits(kind):
    host = host_of(kind)
    host.model.eval()
    assert host.causal and host.row_kind == "masked"
    batch = batch_for(host, padded=False)
    before = host.model(**batch).logits
    softmaxes, masks = install_copies(host.model, Exact()), []
    for softmax in softmaxes:
        own = softmax.weights
        softmax.weights = lambda x, valid, own=own: (masks.append(valid), own(x, valid))[1]
    torch.testing.assert_close(host.logits(batch), before, atol=1e-5 * float(before.abs().max()), rtol=0)
    if kind in ("Mistral", "Gemma3Text"):
        window = torch.ones(9, 9, dtype=torch.bool).tril().triu(-2)
        assert torch.equal(masks[0][0, 0], window)


def test_rows_of_encoders_are_full():
    assert [host_of(kind, bert).row_kind for kind in ("Roberta", "DistilBert")] == ["full"] * 2


def test_an_adapter_refuses_what_the_other_reads():
    refused("GPT2For.* is causal, and cgf.models.llama.load", host_of, "GPT2", bert)
    refused("BertFor.* is causal, and cgf.models.llama.load", host_of, "Bert", bert)
    refused("another decoder with a linear head 'score', and Roberta", host_of, "Roberta", llama)
    refused("2 layers, and 1 attentions were found: each layer needs one attention of its own", host_of, "Albert", bert)


def test_a_model_that_does_not_run_on_the_checks_batch_is_refused_with_the_reason():
    canine = transformers.CanineForSequenceClassification(transformers.CanineConfig(**SIZES)).eval()  # it has no ids
    refused("Canine.* does not run on a small batch .* as it is .NotImplementedError: ", measured, canine)
    broken = transformers.ViTForImageClassification(
        transformers.ViTConfig(image_size=8, patch_size=4, hidden_size=16, intermediate_size=16, num_labels=CLASSES)
    )
    broken.config.image_size = 9
    refused("ViTFor.* as it is .ValueError: ", measured, broken)
    broken.config.image_size = 8
    layer = broken.vit.layers[0].attention
    forward = layer.forward

    def wants_another_softmax(*args, **kwargs):
        if hasattr(layer, SLOT):
            raise KeyError("weights")
        return forward(*args, **kwargs)

    layer.forward = wants_another_softmax
    refused("with its softmax replaced .KeyError: 'weights'", measured, broken)


# -- what stays exact ------------------------------------------------------------------------------------


def test_a_softmax_that_would_stay_exact_is_refused_with_its_place():
    pooled = {**TINY_VIT, "global_pool": "map"}
    refused(
        "would stay exact: AttentionPoolLatent at attn_pool",
        vit.load,
        "pooled",
        "vit_tiny_patch16_224",
        CLASSES,
        pretrained=False,
        options=pooled,
    )
    refused("would stay exact: MixtralTopKRouter at model.layers.0", host_of, "Mixtral")
    host = vit.load("tiny", "vit_tiny_patch16_224", CLASSES, pretrained=False, options=TINY_VIT)
    host.model.extra = nn.MultiheadAttention(4, 2)
    refused("MultiheadAttention at extra", install_copies, host.model, CGF())
    assert installed_softmaxes(host.model) == []


class Hidden(nn.Module):
    """A softmax that the source of its forward does not show."""

    weigh = staticmethod(torch.softmax)

    def forward(self, x):
        return x * self.weigh(x, -1)


def test_a_softmax_that_only_shows_when_it_runs_is_refused_too():
    host = vit.load("tiny", "vit_tiny_patch16_224", CLASSES, pretrained=False, options=TINY_VIT)
    host.model.blocks[1].norm2 = Hidden()
    refused("would stay exact: Hidden at blocks.1.norm2", checked, host)


# -- the self-check --------------------------------------------------------------------------------------


class Mixing(nn.Module):
    """Adds the mean over tokens: what any token has reaches all."""

    def __init__(self, norm):
        super().__init__()
        self.norm = norm

    def forward(self, x):
        return self.norm(x) + x.mean(1, keepdim=True)


def test_an_attention_that_does_more_than_a_softmax_is_refused(monkeypatch):
    real = transformers_attention.attention
    monkeypatch.setattr(
        transformers_attention, "attention", lambda *a, **k: tuple(1.001 * part for part in real(*a, **k))
    )
    refused("layer.0.attention.self gives other numbers than before", small_bert)


def test_a_softmax_that_is_not_used_is_refused():
    host = small_bert()
    layer = host.model.bert.encoder.layer[1].attention
    layer.forward = lambda hidden, *_, **__: (hidden, None)
    refused("layer.1.attention.self was given a softmax and did not use it", checked, host)


def test_padding_that_reaches_real_tokens_and_later_ones_that_reach_earlier_are_refused(monkeypatch):
    encoder, decoder = small_bert(), small_llama()
    encoder.model.bert.embeddings.LayerNorm = Mixing(encoder.model.bert.embeddings.LayerNorm)
    refused("what stands at padding changes what bert.encoder.layer.0", checked, encoder)
    decoder.model.model.layers[0].input_layernorm = Mixing(decoder.model.model.layers[0].input_layernorm)
    refused("what stands at padding", checked, decoder)
    monkeypatch.setattr(self_check, "REAL", 1)  # the first token alone: its mean is its own
    decoder.model.model.layers[0].input_layernorm = Later(decoder.model.model.layers[0].input_layernorm.norm)
    refused("a later token changes what it gives at earlier ones", checked, decoder)


class Later(Mixing):
    """Adds the token after the next but one, in texts as long as the check's first."""

    def forward(self, x):
        return self.norm(x) + torch.cat([x[:, 1:2].expand(-1, 1, -1) * 0, x[:, 4:5].expand(-1, x.shape[1] - 1, -1)], 1)


def test_another_head_than_the_models_own_is_refused(monkeypatch):
    host = small_bert()
    host.forward = lambda m, batch: 2 * bert.forward(m, batch)
    refused("its logits are not those of BertForSequenceClassification", checked, host)


@pytest.mark.parametrize(
    "make",
    [
        small_llama,
        small_bert,
        lambda: vit.load("tiny", "vit_tiny_patch16_224", CLASSES, pretrained=False, options=TINY_VIT),
    ],
    ids=["llama", "bert", "vit"],
)
def test_the_check_leaves_model_and_random_numbers_as_they_were(make):
    host = make()
    host.model.train()
    next(host.model.children()).eval()
    before = {k: v.clone() for k, v in host.model.state_dict().items()}
    modes, kinds = [m.training for m in host.model.modules()], [type(m) for m in host.model.modules()]
    used = getattr(getattr(host.model, "config", None), "_attn_implementation", None)
    states = torch.get_rng_state(), random.getstate(), str(np.random.get_state())  # noqa: NPY002
    assert checked(host) is host
    assert torch.equal(torch.get_rng_state(), states[0]) and random.getstate() == states[1]
    assert str(np.random.get_state()) == states[2]  # noqa: NPY002
    assert [m.training for m in host.model.modules()] == modes and [type(m) for m in host.model.modules()] == kinds
    assert all(torch.equal(v, before[k]) for k, v in host.model.state_dict().items())
    assert not any(p.grad is not None or m._forward_hooks for m in host.model.modules() for p in m.parameters())
    assert getattr(getattr(host.model, "config", None), "_attn_implementation", None) == used != "cgf"
    assert installed_softmaxes(host.model) == []


# -- tuning, scaling, saving -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind, adapter", [("GPT2", llama), ("Mistral", llama), ("DistilBert", bert), ("Roberta", bert)]
)
def test_tuning_attention_trains_the_attention_of_any_host(kind, adapter):
    host = host_of(kind, adapter)
    install_copies(host.model, CGF())
    tune.tune(host, "attention")
    trained = {name for name, p in host.model.named_parameters() if p.requires_grad}
    for name, module in attention_modules(host.model):
        assert {f"{name}.{own}" for own, _ in module.named_parameters()} <= trained
    heads = ("score.", "classifier.", "pre_classifier.")  # random where the head is new: none may stay so
    assert {name for name, _ in host.model.named_parameters() if name.startswith(heads)} <= trained
    beside = {name for name in trained if not name.startswith(heads)}
    mark = {"GPT2": ".attn.", "Mistral": ".self_attn."}.get(kind, ".attention.")
    assert beside == {name for name, _ in host.model.named_parameters() if mark in name}


@pytest.mark.parametrize(
    "kind, adapter",
    [("GPT2", llama), ("Phi", llama), ("Phi3", llama), ("OPT", llama), ("Mistral", llama), ("DistilBert", bert)],
)
def test_adapters_are_on_every_projection_of_any_host(kind, adapter):
    """On Phi-3 they were on the output projection alone, and on OPT on all others, without a word."""
    host = host_of(kind, adapter)
    install_copies(host.model, CGF())
    before = host_state(host.model)
    wanted = {
        name
        for block in tune.attention_blocks(host.model)
        for name, module in host.model.named_modules()
        if module in set(block.modules()) and getattr(module, "weight", torch.ones(1)).dim() == 2
    }
    tune.tune(host, "lora", rank=2)
    adapted = {name.partition(".lora_A")[0] for name, _ in host.model.named_parameters() if ".lora_A" in name}
    assert adapted == wanted and len(wanted) >= 2 * len(attention_modules(host.model))
    after = host_state(host.model)
    assert after.keys() == before.keys() and all(torch.equal(after[k], before[k]) for k in before)  # B begins at zero
    for name, parameter in host.model.named_parameters():
        if ".lora_B" in name:
            nn.init.normal_(parameter, std=0.1)
    ids = torch.tensor([[3, 4, 5, 6]])
    logits = host.model.eval()(input_ids=ids).logits
    fresh = host_of(kind, adapter)
    install_copies(fresh.model, CGF())
    fresh.model.load_state_dict(host_state(host.model))
    torch.testing.assert_close(fresh.model.eval()(input_ids=ids).logits, logits)


def test_nothing_to_tune_is_refused(monkeypatch):
    host = host_of("GPT2")
    refused(r"LoRA .* does not fit GPT2: .* \(tune\.targets=", tune.tune, host, "lora", targets=["q_proj"])
    monkeypatch.setattr(tune, "attention_blocks", lambda _: [nn.ReLU()])
    refused("needs linear layers in the attentions, and those of GPT2 have none", tune.tune, host, "lora")
    refused("needs attentions with parameters, and those of GPT2 have none", tune.tune, host, "attention")


@pytest.mark.parametrize("kind", ["Phi", "Qwen3"])
def test_queries_that_are_normalised_after_their_projection_are_not_scaled(kind):
    host = host_of(kind)
    install_copies(host.model, CGF())
    before = {k: v.clone() for k, v in host.model.state_dict().items()}
    ids = list(torch.randint(3, 50, (4, 6)))
    refused(
        "cannot be scaled: in layer 0 .*normalised",
        temper,
        host,
        ids,
        lambda items: {"input_ids": torch.stack(items), "attention_mask": torch.ones(len(items), 6, dtype=torch.long)},
        4,
    )
    assert all(torch.equal(v, before[k]) for k, v in host.model.state_dict().items())


def test_a_model_is_not_saved_without_its_softmax(tmp_path):
    host = small_bert()
    install_copies(host.model, CGF())
    for part in (host.model, host.model.bert):
        refused("without their softmax", part.save_pretrained, tmp_path / "no")
    assert not (tmp_path / "no").exists()
    host.write_surroundings(tmp_path / "host")
    assert "cgf" not in (tmp_path / "host" / "config.json").read_text()
    uninstall(host.model)
    host.model.save_pretrained(tmp_path / "yes")
    assert "cgf" not in (tmp_path / "yes" / "config.json").read_text()
