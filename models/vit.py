"""timm vision transformers: loading, and the replacement of timm's Attention."""

from __future__ import annotations

from functools import partial
from typing import Any

import timm
import torch
from timm.layers.attention import Attention, maybe_add_mask, resolve_self_attn_mask
from torch import Tensor, nn

from cgf.data.task import ImageInput, Inputs
from cgf.errors import UserError
from models.host import Host
from models.hub import fetching


class SwappedAttention(nn.Module):
    """timm's Attention with another softmax; holds the original's own submodules under their own names.

    So the state-dict keys stay, and the original can be put back as it was, with its trained weights.
    """

    qkv: nn.Module
    q_norm: nn.Module
    k_norm: nn.Module
    norm: nn.Module
    proj: nn.Module
    attn_drop: nn.Module
    proj_drop: nn.Module
    original: Attention
    softmax: Any

    def __init__(self, original: Attention, softmax: Any) -> None:
        super().__init__()
        for name, child in original.named_children():
            self.add_module(name, child)
        self.gate = getattr(original, "gate", None)
        self.num_heads, self.head_dim = original.num_heads, original.head_dim
        self.attn_dim, self.scale = original.attn_dim, original.scale
        object.__setattr__(self, "original", original)  # not a submodule: its keys are already ours
        object.__setattr__(self, "softmax", softmax)
        self.train(original.training)

    def forward(self, x: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
        B, N, _ = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, self.head_dim).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        q, k = self.q_norm(q), self.k_norm(k)
        valid = _boolean(N, q, attn_mask, is_causal)
        self.softmax.training = self.training
        weights = self.softmax.weights(self.softmax.scores(q, k, self.scale), valid)
        weights = self.attn_drop(weights.to(v.dtype))
        out = self.norm((weights @ v).transpose(1, 2).reshape(B, N, self.attn_dim))
        if self.gate is not None:
            out = out * self.gate(x).sigmoid()
        return self.proj_drop(self.proj(out))


def _boolean(n: int, like: Tensor, attn_mask: Tensor | None, is_causal: bool) -> Tensor | None:
    """timm's mask arguments as one boolean mask: True where a key may be attended."""
    if attn_mask is None and not is_causal:
        return None
    zeros = torch.zeros(like.shape[0], 1, n, n, dtype=like.dtype, device=like.device)
    bias = maybe_add_mask(zeros, resolve_self_attn_mask(n, zeros, attn_mask, is_causal))
    return bias > torch.finfo(bias.dtype).min / 2


def find(model: nn.Module) -> list[tuple[str, nn.Module]]:
    # exactly timm's class: a subclass may compute something else in its forward
    return [(name, m) for name, m in model.named_modules() if type(m) is Attention]


def installed(model: nn.Module) -> list[Any]:
    return [m.softmax for m in model.modules() if isinstance(m, SwappedAttention)]


def heads(module: nn.Module) -> int:
    """Rows of weights that the attention has for each query."""
    return int(module.num_heads)  # type: ignore[arg-type]


def swap(model: nn.Module, name: str, module: nn.Module, softmax: Any) -> None:
    assert isinstance(module, Attention)
    _put(model, name, SwappedAttention(module, softmax))


def restore(model: nn.Module) -> int:
    swapped = [(name, m) for name, m in model.named_modules() if isinstance(m, SwappedAttention)]
    for name, module in swapped:
        for child_name, child in module.named_children():  # adapters that were put on while it was swapped
            setattr(module.original, child_name, child)
        module.original.train(module.training)
        _put(model, name, module.original)
    return len(swapped)


def _put(model: nn.Module, name: str, module: nn.Module) -> None:
    parent, _, child = name.rpartition(".")
    setattr(model.get_submodule(parent), child, module)


def load(name: str, timm_name: str, num_classes: int, pretrained: bool = True,
         options: dict[str, Any] | None = None, drop_path: float = 0.0) -> Host:
    """A timm vision transformer with a head of num_classes.

    options are further arguments of timm's; drop_path, from 0 to below 1, drops whole branches in training.

    pretrained takes the weights of the hub; with as many classes as its own head it keeps that head.
    Raises UserError for a name that timm does not know, or weights that cannot be fetched.
    """
    if not timm.is_model(timm_name):
        raise UserError(f"model '{name}' needs a timm model name, and timm does not know {timm_name!r}")
    options = {**(options or {}), **dropping(drop_path)}
    make = partial(timm.create_model, timm_name, num_classes=num_classes, **options)
    if pretrained:
        wanted = getattr(timm.get_pretrained_cfg(timm_name), "hf_hub_id", None) or f"timm/{timm_name}"
        with fetching(wanted, "model.pretrained=false, or ckpt=PATH of a trained checkpoint"):
            model = make(pretrained=True)
    else:
        model = make(pretrained=False)
    pretrained_cfg: Any = model.pretrained_cfg
    own_head = pretrained and pretrained_cfg.get("num_classes") == num_classes
    source: dict[str, Any] = {"timm": timm_name, "pretrained": pretrained, "options": options}
    return host(model, image_input(model, source["options"]), name, num_classes, own_head, source)


def dropping(drop_path: float) -> dict[str, float]:
    """timm's argument for the rate of dropped branches, none for 0. UserError for what is no rate."""
    if not isinstance(drop_path, int | float) or not 0 <= drop_path < 1:
        raise UserError(f"model.drop_path must be a rate from 0 to below 1, and {drop_path!r} was given")
    return {"drop_path_rate": float(drop_path)} if drop_path else {}


def image_input(model: nn.Module, options: dict[str, Any]) -> ImageInput:
    """The images the model takes: those of its pretrained weights, or whole ones of the size it was built for."""
    config = timm.data.resolve_model_data_config(model)
    size, crop = tuple(config["input_size"]), config["crop_pct"]
    channels = int(options.get("in_chans", size[0]))
    if "img_size" in options:
        size, crop = (channels, int(options["img_size"]), int(options["img_size"])), 1.0
    return ImageInput(size, tuple(config["mean"][:channels]), tuple(config["std"][:channels]),  # type: ignore[arg-type]
                      config["interpolation"], crop)


def host(model: nn.Module, image: ImageInput, name: str, num_classes: int, trained: bool,
         source: dict[str, Any]) -> Host:
    return Host(model, name, "vit", lambda m, batch: m(batch["pixel_values"]), Inputs(image=image), num_classes,
                trained, source, ".attn.", ("attn.qkv", "attn.proj"))
