"""The softmax of transformers models that use the attention interface (LLaMA, BERT and their kin).

transformers is imported only where such a model is at hand: it takes seconds, and a ViT needs none of it.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from cgf.errors import UserError

NAME = "cgf"  # under which the attention and the mask function are registered
SLOT = "_cgf_softmax"  # attribute of an attention module that holds its softmax
BEFORE = "_cgf_previous_attention"  # attribute of the model: the implementation to go back to


def attention(module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None,
              scaling: float | None = None, dropout: float = 0.0, **_: Any) -> tuple[Tensor, Tensor]:
    """Attention with the softmax that ``install`` gave this module.

    query (B, H, Q, D), key and value (B, H_kv, K, D), attention_mask bool (B, 1, Q, K). Returns the output
    (B, Q, H, D) and the weights (B, H, Q, K).
    """
    softmax = getattr(module, SLOT, None)
    if softmax is None:
        raise UserError(f"{type(module).__name__} runs the attention '{NAME}' without a softmax: use models.install")
    groups = getattr(module, "num_key_value_groups", 1)
    if groups > 1:  # grouped queries: every key and value head serves several query heads
        key, value = key.repeat_interleave(groups, dim=1), value.repeat_interleave(groups, dim=1)
    if attention_mask is not None and attention_mask.dtype.is_floating_point:
        raise UserError(f"attention '{NAME}' needs a boolean mask, and got an additive one: mean and variance of a "
                        "row that holds -inf are nonsense")
    if attention_mask is None and getattr(module, "is_causal", False) and query.shape[-2] > 1:
        raise UserError(f"a causal {type(module).__name__} ran without a mask: its mask function is not registered")
    softmax.training = module.training
    scores = softmax.scores(query, key, scaling if scaling is not None else query.shape[-1] ** -0.5)
    weights = softmax.weights(scores, attention_mask).to(value.dtype)
    weights = nn.functional.dropout(weights, p=dropout, training=module.training)
    return (weights @ value).transpose(1, 2).contiguous(), weights


def register() -> None:
    """Makes the attention and its mask known to transformers; calling it again changes nothing.

    Without a mask function of its own an attention gets no mask at all, and with sdpa's plain one none
    where nothing is padded: causality would be lost in silence. Hence the skips are switched off.
    """
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface

    AttentionInterface.register(NAME, attention)
    AttentionMaskInterface.register(NAME, _full_mask)


def _full_mask(*args: Any, **kwargs: Any) -> Tensor | None:
    from transformers.masking_utils import sdpa_mask

    kwargs.update(allow_is_causal_skip=False, allow_is_bidirectional_skip=False)
    return sdpa_mask(*args, **kwargs)


def find(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """Modules that call the attention interface: they carry a scaling, is_causal and the model's config."""
    if not hasattr(model, "set_attn_implementation"):
        return []
    return [
        (name, m)
        for name, m in model.named_modules()
        if hasattr(m, "is_causal") and hasattr(m, "scaling") and hasattr(getattr(m, "config", None), "model_type")
    ]


def installed(model: nn.Module) -> list[Any]:
    return [getattr(m, SLOT) for m in model.modules() if hasattr(m, SLOT)]


def heads(module: nn.Module) -> int:
    """Rows of weights that the attention has for each query: its query heads."""
    return int(module.config.num_attention_heads)  # type: ignore[union-attr, arg-type]


def queries(model: nn.Module) -> list[tuple[nn.Linear, slice]]:
    """Of each replaced attention the linear layer that projects queries, and its rows that do, head after head."""
    found = []
    for module in (m for m in model.modules() if hasattr(m, SLOT)):
        linear = getattr(module, "q_proj", getattr(module, "query", None))
        if not isinstance(linear, nn.Linear) or hasattr(module, "q_norm"):
            raise UserError(f"{type(module).__name__} has no linear layer q_proj or query whose result goes to the "
                            "scores as it is: its queries cannot be scaled")
        found.append((linear, slice(0, linear.out_features)))
    return found


def swap(model: nn.Module, name: str, module: nn.Module, softmax: Any) -> None:
    object.__setattr__(module, SLOT, softmax)


def switch_on(model: nn.Module) -> None:
    register()
    object.__setattr__(model, BEFORE, model.config._attn_implementation)  # type: ignore[union-attr]
    model.set_attn_implementation(NAME)  # type: ignore[operator]


def restore(model: nn.Module) -> int:
    held = [m for m in model.modules() if hasattr(m, SLOT)]
    for module in held:
        object.__delattr__(module, SLOT)
    before = getattr(model, BEFORE, None)
    if before is not None:
        model.set_attn_implementation(before)  # type: ignore[operator]
        object.__delattr__(model, BEFORE)
    return len(held)
