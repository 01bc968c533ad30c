"""timm's vision transformers as networks."""

from __future__ import annotations

import numpy as np
from torch import nn

from cgf.approx.exponential import Exponential
from cgf.errors import UserError
from cgf.models.host import Host
from cgf.models.network import NOTHING, activation, classes_of, exponentials_of, linear, norm, numbers
from cgf.models.timm_attention import SwappedAttention
from cgf.network.inputs import Patches
from cgf.network.layers import FIRST, MEAN, Affine, Layer, Linear, Network, Pool, Positions, Residual, SelfAttention
from cgf.types import HostModule


def network_of(host: Host) -> tuple[Network, Patches]:
    """The network of a VisionTransformer, a class token and registers included, and the patches of its images.

    UserError for parts that are not handled, by name: see cgf.models.network.network_of.
    """
    from timm.models.vision_transformer import Block, VisionTransformer

    model: HostModule = host.model
    if type(model) is not VisionTransformer:
        raise UserError(f"he.scope=network reads timm's VisionTransformer, and model '{host.name}' is {type(model)}")
    patches, layers = _embedding(model)
    exponentials = exponentials_of(host)
    for index, (block, exponential) in enumerate(zip(model.blocks, exponentials, strict=True)):
        if type(block) is not Block:
            raise UserError(f"he.scope=network reads timm's Block, and blocks.{index} is {type(block).__name__}")
        layers += _block(block, f"blocks.{index}", exponential)
    layers += [*norm(model.norm, "norm"), _pool(model), *norm(model.fc_norm, "fc_norm"), linear(model.head, "head")]
    classes = classes_of(host)
    return Network(host.name, patches.features, (patches.tokens, patches.tokens), tuple(layers), classes), patches


def _embedding(model: HostModule) -> tuple[Patches, list[Layer]]:
    """Patches to tokens, with class token, registers and positions.

    A token that is no patch has features of zeros: what it holds is the constant of its place, from which the bias of
    the patches is taken off.
    """
    embed = model.patch_embed
    conv, size = embed.proj, embed.img_size
    patch = conv.kernel_size[0]
    whole = type(conv) is nn.Conv2d and conv.kernel_size == conv.stride == (patch, patch) and conv.padding == (0, 0)
    if not whole or conv.groups != 1 or model.dynamic_img_size or embed.dynamic_img_pad or size is None:
        raise UserError("he.scope=network needs patches that fill images of one size, and patch_embed has others")
    weight = numbers(conv.weight)
    bias = np.zeros(len(weight)) if conv.bias is None else numbers(conv.bias)
    prefix = model.num_prefix_tokens
    patches = Patches(conv.in_channels, size[0], size[1], patch, prefix)
    places = np.zeros((patches.tokens, len(weight)))
    own = [numbers(token)[0] for token in (model.cls_token, model.reg_token) if token is not None]
    if own:
        places[:prefix] = np.concatenate(own) - bias
    if model.pos_embed is not None:
        positions = numbers(model.pos_embed)[0]
        places[len(places) - len(positions) :] += positions  # those of patches alone, where the others have none
    if type(embed.norm) not in NOTHING:
        raise UserError("he.scope=network has no norm of patches before their positions, and patch_embed.norm is one")
    first = Linear(weight.reshape(len(weight), -1), bias)
    return patches, [first, Positions(places), *norm(model.norm_pre, "norm_pre")]


def _block(block: HostModule, where: str, exponential: Exponential) -> list[Layer]:
    from timm.layers import Mlp

    attention, mlp = block.attn, block.mlp
    if type(mlp) is not Mlp:
        raise UserError(f"he.scope=network reads timm's Mlp, and {where}.mlp is {type(mlp).__name__}")
    if type(attention) is not SwappedAttention:
        raise UserError(f"he.scope=network needs a CGF-softmax in place, and {where}.attn keeps its own")
    for name, part in (("q_norm", attention.q_norm), ("k_norm", attention.k_norm), ("norm", attention.norm)):
        if type(part) not in NOTHING:
            raise UserError(f"he.scope=network has no norm within an attention, and {where}.attn.{name} is one")
    if attention.gate is not None:
        raise UserError(f"he.scope=network has no gate of an attention, and {where}.attn has one")
    if type(mlp.norm) not in NOTHING:
        raise UserError(f"he.scope=network has no norm within an MLP, and {where}.mlp.norm is one")
    whole = linear(attention.qkv, f"{where}.attn.qkv")
    size = attention.attn_dim
    parts = [Linear(whole.weight[i : i + size], whole.bias[i : i + size]) for i in (0, size, 2 * size)]
    attend = SelfAttention(parts[0], parts[1], parts[2], attention.num_heads, float(attention.scale), exponential)
    first = [*norm(block.norm1, f"{where}.norm1"), attend, linear(attention.proj, f"{where}.attn.proj")]
    second = [
        *norm(block.norm2, f"{where}.norm2"),
        linear(mlp.fc1, f"{where}.mlp.fc1"),
        activation(mlp.act, f"{where}.mlp.act"),
        linear(mlp.fc2, f"{where}.mlp.fc2"),
    ]
    return [
        Residual((*first, *_scale(block.ls1, f"{where}.ls1"))),
        Residual((*second, *_scale(block.ls2, f"{where}.ls2"))),
    ]


def _scale(module: HostModule, where: str) -> tuple[Layer, ...]:
    """A trained scale of a branch, or none."""
    from timm.layers import LayerScale
    from timm.models.vision_transformer import LayerScale as OwnScale

    if type(module) in (LayerScale, OwnScale):
        gamma = numbers(module.gamma)
        return (Affine(gamma, np.zeros_like(gamma)),)
    return norm(module, where)


def _pool(model: HostModule) -> Pool:
    if model.attn_pool is not None or model.global_pool not in ("avg", "token"):
        raise UserError(f"he.scope=network pools by the mean or the first token, and not by {model.global_pool!r}")
    if model.global_pool == "avg" and model.num_prefix_tokens and not model.pool_include_prefix:
        raise UserError("he.scope=network takes the mean of all tokens, and the model leaves its class token out")
    return Pool(MEAN if model.global_pool == "avg" else FIRST)
