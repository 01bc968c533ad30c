"""transformers' LLaMA with a classification head as a network: causal, rotary positions, gated units, last token."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import nn

from cgf.approx.exponential import Exponential
from cgf.errors import UserError
from cgf.models.host import Host
from cgf.models.network import classes_of, exponentials_of, gate, linear, norm, numbers
from cgf.network.inputs import Table
from cgf.network.layers import LAST, Gated, Layer, Linear, Network, Pool, Residual, Rotary, SelfAttention
from cgf.types import HostModule

MOST_TOKENS = 512  # that a description has positions for: a layer keeps a cosine and a sine for each
STATIC = ("default", "linear", "llama3", "yarn")  # rotary positions that are the same whatever a text's length


def network_of(host: Host) -> tuple[Network, Table]:
    """The network of a LlamaForSequenceClassification on texts without padding, and its table of word embeddings.

    Logits are of the last token. Heads that share keys and values get them each. UserError for parts that are not
    handled, by name: see cgf.models.network.network_of.
    """
    from transformers import LlamaForSequenceClassification

    model: HostModule = host.model
    if type(model) is not LlamaForSequenceClassification:
        raise UserError(
            f"he.scope=network reads transformers' LlamaForSequenceClassification, and model '{host.name}' is "
            f"{type(model).__name__}"
        )
    for where, module, kind in _parts(model):
        if type(module) is not kind:
            raise UserError(
                f"he.scope=network reads transformers' {kind.__name__}, and {where} is {type(module).__name__}"
            )
    rows, most = numbers(model.model.embed_tokens.weight), min(MOST_TOKENS, int(model.config.max_position_embeddings))
    rotary = _rotary(host, most)
    layers: list[Layer] = []
    for index, (layer, exponential) in enumerate(zip(model.model.layers, exponentials_of(host), strict=True)):
        layers += _layer(layer, f"model.layers.{index}", exponential, rotary)
    layers += [*norm(model.model.norm, "model.norm"), Pool(LAST), linear(model.score, "score")]
    words = Table(rows, np.zeros((most, rows.shape[1])))
    return Network(host.name, words.features, (2, most), tuple(layers), classes_of(host)), words


def _parts(model: HostModule) -> Iterator[tuple[str, nn.Module, type[nn.Module]]]:
    """(place, module, the class whose forward a description follows) of every part that has parts of its own."""
    from transformers.models.llama import modeling_llama as parts

    yield "model", model.model, parts.LlamaModel
    yield "model.rotary_emb", model.model.rotary_emb, parts.LlamaRotaryEmbedding
    for index, layer in enumerate(model.model.layers):
        where = f"model.layers.{index}"
        yield where, layer, parts.LlamaDecoderLayer
        yield f"{where}.self_attn", layer.self_attn, parts.LlamaAttention
        yield f"{where}.mlp", layer.mlp, parts.LlamaMLP


def _rotary(host: Host, tokens: int) -> Rotary:
    """Cosines and sines as the model itself makes them. UserError for positions that change with a text's length."""
    embedding: HostModule = host.model.model.rotary_emb  # type: ignore[union-attr]  # checked to be transformers'
    if embedding.rope_type not in STATIC:
        raise UserError(
            f"he.scope=network needs rotary positions of {', '.join(STATIC)}, which are the same for texts of any "
            f"length, and model '{host.name}' has {embedding.rope_type!r}"
        )
    with torch.no_grad():
        cosines, sines = embedding(torch.zeros(1, dtype=torch.float64), torch.arange(tokens)[None])
    return Rotary(numbers(cosines[0]), numbers(sines[0]))


def _layer(layer: HostModule, where: str, exponential: Exponential, rotary: Rotary) -> list[Layer]:
    own, mlp = layer.self_attn, layer.mlp
    query, key, value, out = (
        linear(getattr(own, name), f"{where}.self_attn.{name}") for name in ("q_proj", "k_proj", "v_proj", "o_proj")
    )
    groups = int(own.num_key_value_groups)
    heads = len(query.bias) // int(own.head_dim)
    key, value = (_for_each(part, heads // groups, groups) for part in (key, value))
    attend = SelfAttention(query, key, value, heads, float(own.scaling), exponential, causal=True, rotary=rotary)
    unit = Gated(
        (linear(mlp.gate_proj, f"{where}.mlp.gate_proj"), gate(mlp.act_fn, f"{where}.mlp.act_fn")),
        linear(mlp.up_proj, f"{where}.mlp.up_proj"),
    )
    first, second = (
        norm(getattr(layer, name), f"{where}.{name}") for name in ("input_layernorm", "post_attention_layernorm")
    )
    return [Residual((*first, attend, out)), Residual((*second, unit, linear(mlp.down_proj, f"{where}.mlp.down_proj")))]


def _for_each(part: Linear, heads: int, groups: int) -> Linear:
    """Keys or values of ``heads`` heads, each as often as queries share it, one after the other."""
    weight = part.weight.reshape(heads, -1, part.weight.shape[1]).repeat(groups, axis=0)
    return Linear(weight.reshape(-1, part.weight.shape[1]), part.bias.reshape(heads, -1).repeat(groups, axis=0).ravel())
