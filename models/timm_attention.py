"""The replacement of timm's Attention; timm itself is not loaded here, as text hosts do without it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from cgf.errors import UserError
from cgf.softmax.slot import Slot

if TYPE_CHECKING:
    from timm.layers.attention import Attention


# where torch keeps a module's hooks
HOOKS = (
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_backward_hooks",
    "_backward_pre_hooks",
    "_is_full_backward_hook",
)


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
    softmax: Slot

    def __init__(self, original: Attention, softmax: Slot) -> None:
        super().__init__()
        for name, child in original.named_children():
            self.add_module(name, child)
        self.gate = getattr(original, "gate", None)
        self.num_heads, self.head_dim = original.num_heads, original.head_dim
        self.attn_dim, self.scale = original.attn_dim, original.scale
        object.__setattr__(self, "original", original)  # not a submodule: its keys are already ours
        object.__setattr__(self, "softmax", softmax)
        for name in HOOKS:  # the very dictionaries: what is hooked or let go at either of the two is so at both
            setattr(self, name, getattr(original, name))
        self.training = original.training

    def forward(self, x: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
        """x (B, N, C) to (B, N, C), as timm's Attention does, with the softmax that stands here."""
        B, N, _ = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, self.head_dim).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        q, k = self.q_norm(q), self.k_norm(k)
        valid = _boolean(N, q, attn_mask, is_causal)
        self.softmax.training = self.training
        outputs, _ = self.softmax.attention(q, k, v, self.scale, valid, self.attn_drop)
        out = self.norm(outputs.transpose(1, 2).reshape(B, N, self.attn_dim))
        if self.gate is not None:
            out = out * self.gate(x).sigmoid()
        return self.proj_drop(self.proj(out))


def _boolean(n: int, like: Tensor, attn_mask: Tensor | None, is_causal: bool) -> Tensor | None:
    """timm's mask arguments as one boolean mask: True where a key may be attended."""
    from timm.layers.attention import maybe_add_mask, resolve_self_attn_mask

    if attn_mask is None and not is_causal:
        return None
    zeros = torch.zeros(like.shape[0], 1, n, n, dtype=like.dtype, device=like.device)
    bias = maybe_add_mask(zeros, resolve_self_attn_mask(n, zeros, attn_mask, is_causal))
    valid = bias > torch.finfo(bias.dtype).min / 2
    if bool((bias[valid] != 0).any()):
        raise UserError(
            "timm's Attention is given a mask that adds a bias to its scores: attention with a replaced "
            "softmax takes a mask that lets pass or does not"
        )
    return valid


def find(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """The model's timm attentions with their names, replaced ones among them."""
    timm = sys.modules.get("timm.layers.attention")  # loaded by whoever made such a model; seconds for all others
    # exactly timm's class: a subclass may compute something else in its forward
    kinds = (SwappedAttention,) if timm is None else (SwappedAttention, timm.Attention)
    return [(name, m) for name, m in model.named_modules() if type(m) in kinds]


def installed(model: nn.Module) -> list[Slot]:
    """What stands at the model's softmaxes, by layer."""
    return [m.softmax for m in model.modules() if isinstance(m, SwappedAttention)]


def heads(module: nn.Module) -> int:
    """Rows of weights that the attention has for each query."""
    return int(module.num_heads)  # type: ignore[arg-type]  # timm's attention, a Tensor for nn.Module's __getattr__


def queries(model: nn.Module) -> list[tuple[nn.Linear, slice]]:
    """Of each replaced attention the linear layer that projects queries, and its rows that do, head after head."""
    swapped = [m for m in model.modules() if isinstance(m, SwappedAttention)]
    return [(m.qkv, slice(0, m.attn_dim)) for m in swapped]  # type: ignore[misc]  # SwappedAttention's layer, as above


def swap(model: nn.Module, name: str, module: nn.Module, softmax: Slot) -> None:
    """Puts an attention with this softmax in the place of ``module``."""
    _put(model, name, SwappedAttention(module, softmax))  # type: ignore[arg-type]  # one that find gave


def restore(model: nn.Module) -> int:
    """Puts the model's own attentions back; returns how many were replaced."""
    swapped = [(name, m) for name, m in model.named_modules() if isinstance(m, SwappedAttention)]
    for name, module in swapped:
        for child_name, child in module.named_children():  # adapters that were put on while it was swapped
            setattr(module.original, child_name, child)
        module.original.training = module.training
        module.original._is_full_backward_hook = module._is_full_backward_hook
        _put(model, name, module.original)
    return len(swapped)


def _put(model: nn.Module, name: str, module: nn.Module) -> None:
    parent, _, child = name.rpartition(".")
    setattr(model.get_submodule(parent), child, module)
