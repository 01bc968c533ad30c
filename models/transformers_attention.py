"""The softmax of transformers models that use the attention interface (LLaMA, BERT and their kin).

transformers is imported only where such a model is at hand: it takes seconds, and a ViT needs none of it.
"""

from __future__ import annotations

import copy
import inspect
from functools import cache, partial

import torch
from torch import Tensor, nn

from cgf.errors import UserError
from cgf.models.saving import BEFORE, settle
from cgf.softmax.slot import Slot
from cgf.types import HostConfig, Options, VendorObject

NAME = "cgf"  # under which the attention and the mask function are registered
# attributes of an attention module: its softmax, and the window that it was run with last
SLOT, WINDOW = "_cgf_softmax", "_cgf_window"
CHOOSE = "set_attn_implementation"  # transformers' method, which a model with softmaxes in place refuses
OWN = "_cgf_own_config"  # of a model that shares its configuration with no other any more

HIDDEN = -1e4  # a number of an additive mask that hides a key: -inf, the least of a type, or what half precision holds
# keywords that hosts pass and that change no weight here, with the reason
WITHOUT_EFFECT = {
    "output_attentions": "the weights are returned in any case",
    "output_hidden_states": "collected outside",
    "output_router_logits": "collected outside",
    "return_dict": "about the output's form",
    "use_cache": "keys and values come as they are to be used",
    "cache_position": "in the mask already",
    "position_ids": "in the rotary embedding or the mask already",
    "deterministic": "about flash kernels",
    "num_items_in_batch": "about the loss",
}
# keywords that change the weights, with what they do
REFUSED = {
    "softcap": "caps its scores",
    "s_aux": "adds a sink to every row",
    "sinks": "adds a sink to every row",
    "position_bias": "adds a position bias to its scores",
    "head_mask": "multiplies its weights by a head mask",
    "indices": "attends to chosen keys alone",
    "block_indices": "attends to chosen keys alone",
    "cu_seq_lens_q": "packs several texts into a row",
    "cu_seq_lens_k": "packs several texts into a row",
    "seq_idx": "packs several texts into a row",
    "cache": "reads keys and values from a paged cache",
}


def attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float | None = None,
    dropout: float = 0.0,
    is_causal: bool | None = None,
    sliding_window: int | None = None,
    **more: object,
) -> tuple[Tensor, Tensor | None]:
    """Attention with the softmax that ``install`` gave this module.

    query (B, H, Q, D), key and value (B, H_kv, K, D), attention_mask bool (B, 1, Q, K), which holds causality and a
    sliding window. Returns the output (B, Q, H, D) and the weights (B, H, Q, K), None where they stay encrypted.
    Raises UserError for whatever else a host adds to its scores or weights.
    """
    softmax: Slot | None = getattr(module, SLOT, None)
    if softmax is None:
        raise UserError(
            f"{type(module).__name__} runs the attention '{NAME}' without a softmax: use cgf.models.install"
        )
    causal = bool(getattr(module, "is_causal", False) if is_causal is None else is_causal)
    _check(module, query, key, attention_mask, causal=causal, window=sliding_window, more=more)
    object.__setattr__(module, WINDOW, sliding_window)
    groups = query.shape[1] // key.shape[1]
    if groups > 1:  # grouped queries: every key and value head serves several query heads
        key, value = key.repeat_interleave(groups, dim=1), value.repeat_interleave(groups, dim=1)
    softmax.training = module.training
    scaling = scaling if scaling is not None else query.shape[-1] ** -0.5
    drop = partial(nn.functional.dropout, p=dropout, training=module.training)
    outputs, weights = softmax.attention(query, key, value, scaling, attention_mask, drop)
    return outputs.transpose(1, 2).contiguous(), weights


def _check(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    mask: Tensor | None,
    *,
    causal: bool,
    window: int | None,
    more: Options,
) -> None:
    """UserError for what this attention does not compute, by name."""
    name = type(module).__name__
    for keyword, given in more.items():
        if given is not None and keyword not in WITHOUT_EFFECT:
            does = REFUSED.get(keyword, "passes something that is not known here")
            raise UserError(
                f"{name} {does} ({keyword}): attention with a replaced softmax takes scaled scores and a "
                "boolean mask alone"
            )
    if query.shape[-2] != key.shape[-2]:
        raise UserError(
            f"{name} attends from {query.shape[-2]} to {key.shape[-2]} tokens (cross attention or a cache):"
            " the attention of a text with itself is needed"
        )
    if mask is not None and mask.dtype != torch.bool:
        _refuse_numbers(name, mask)
    if mask is None and (causal or window is not None) and query.shape[-2] > 1:
        kind = "causal" if causal else "windowed"
        raise UserError(f"a {kind} {name} ran without a mask: its mask function is not registered")


def _refuse_numbers(name: str, mask: Tensor) -> None:
    """UserError for a mask of numbers: it hides keys by numbers far below all scores, or adds to the scores."""
    hides = (mask == 0) | (mask <= HIDDEN) if mask.is_floating_point() else torch.ones_like(mask, dtype=torch.bool)
    if not bool(hides.all()):
        raise UserError(
            f"{name} adds a bias to its scores, as a relative position bias is: attention with a replaced softmax "
            "takes scaled scores and a boolean mask alone"
        )
    raise UserError(
        f"attention '{NAME}' needs a boolean mask, and {name} gives an additive one: mean and variance "
        "of a row that holds -inf are nonsense"
    )


def register() -> None:
    """Makes the attention and its mask known to transformers; calling it again changes nothing.

    Without a mask function of its own an attention gets no mask at all, and with sdpa's plain one none
    where nothing is padded: causality would be lost in silence. Hence the skips are switched off.
    """
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface

    AttentionInterface.register(NAME, attention)
    AttentionMaskInterface.register(NAME, _full_mask)


def _full_mask(*args: VendorObject, **kwargs: VendorObject) -> Tensor | None:
    from transformers.masking_utils import sdpa_mask

    kwargs.update(allow_is_causal_skip=False, allow_is_bidirectional_skip=False)
    return sdpa_mask(*args, **kwargs)


def refuse_lost_positions(model: nn.Module, name: str) -> None:
    """UserError, with the model's ``name``, for one trained with relative positions that transformers computes no more.

    transformers keeps the setting of older models (BERT's relative_key) and adds positions, without a word.
    """
    positions = getattr(model.config, "position_embedding_type", None)
    if str(positions).startswith("relative_key"):
        raise UserError(
            f"{name} has position_embedding_type={positions!r}, and transformers computes no relative positions of "
            f"{type(model).__name__}: take a model with absolute ones"
        )


def find(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """Modules whose forward calls the attention interface, with the model's config; by structure, not by name."""
    if not hasattr(model, "set_attn_implementation"):
        return []
    return [
        (name, m)
        for name, m in model.named_modules()
        if hasattr(getattr(m, "config", None), "model_type")
        # mypy: cache forgets what a class is
        and ((hasattr(m, "is_causal") and hasattr(m, "scaling")) or _calls_interface(type(m)))  # type: ignore[arg-type]
    ]


@cache
def _calls_interface(kind: type[nn.Module]) -> bool:
    """Whether the source of a module's own forward looks an attention up in transformers' table and calls it."""
    try:
        return "ALL_ATTENTION_FUNCTIONS" in inspect.getsource(kind.forward)
    except (OSError, TypeError):  # no Python source
        return False


def installed(model: nn.Module) -> list[Slot]:
    """What stands at the model's softmaxes, by layer. UserError where another attention was put over them since."""
    held = [m for m in model.modules() if hasattr(m, SLOT)]
    for module in held:
        # mypy: asked for when it was found
        if (runs := module.config._attn_implementation) != NAME:  # type: ignore[union-attr]
            raise UserError(
                f"{type(module).__name__} runs the attention '{runs}', which was chosen after its softmax was put in "
                "and passes it by: uninstall the softmaxes, and install them again"
            )
    return [getattr(m, SLOT) for m in held]


def window(module: nn.Module) -> int | None:
    """Tokens on each side, itself among them, that an attention was run with last; None: all."""
    stated: int | None = getattr(module, WINDOW, None)
    return stated


def heads(module: nn.Module) -> int:
    """Rows of weights that the attention has for each query: its query heads."""
    own = getattr(module, "num_attention_heads", None)
    # mypy: asked for when it was found
    stated = module.config.num_attention_heads if own is None else own  # type: ignore[union-attr]
    if not isinstance(stated, int):
        raise UserError(f"{type(module).__name__} does not say how many heads it has: its configuration lists {stated}")
    return stated


def queries(model: nn.Module) -> list[tuple[nn.Linear, slice]]:
    """Of each replaced attention the linear layer that projects queries, and its rows that do, head after head."""
    projections = []
    for module in (m for m in model.modules() if hasattr(m, SLOT)):
        linear = getattr(module, "q_proj", getattr(module, "query", None))
        if not isinstance(linear, nn.Linear):
            raise UserError(
                f"{type(module).__name__} has no linear layer q_proj or query: its queries cannot be scaled"
            )
        projections.append((linear, slice(0, linear.out_features)))
    return projections


def swap(model: nn.Module, name: str, module: nn.Module, softmax: Slot) -> None:
    """Gives an attention its softmax; the model runs it once ``switch_on`` was called."""
    object.__setattr__(module, SLOT, softmax)


def switch_on(model: nn.Module) -> None:
    """The registered attention in place, and no saving of the weights alone: see cgf.models.saving."""
    refuse_lost_positions(model, f"this {type(model).__name__}")
    register()
    _own_config(model)
    before = _implementations(model.config)  # type: ignore[arg-type]  # transformers' own
    object.__setattr__(model, BEFORE, before)
    # mypy: a transformers model has it
    model.set_attn_implementation(dict.fromkeys(before, NAME))  # type: ignore[operator]  # as above
    for part in model.modules():
        if hasattr(part, CHOOSE):
            object.__setattr__(part, CHOOSE, _refuse_choice)
    settle(model)


def _refuse_choice(attention: object, *_: object, **__: object) -> None:
    raise UserError(
        f"set_attn_implementation({attention!r}) would pass the softmax by that was put in: uninstall it first"
    )


def _implementations(config: HostConfig) -> dict[str, str]:
    """The attention of a configuration, as "", and of each part that it holds, as ``set_attn_implementation`` takes.

    A part of which no model was made has none, such as the text part of an image classifier.
    """
    parts = {name: getattr(config, name, None) for name in getattr(config, "sub_configs", ())}
    held = {"": config, **{name: part for name, part in parts.items() if part is not None}}
    stated = {name: part._attn_implementation for name, part in held.items()}
    return {name: attention for name, attention in stated.items() if attention is not None}


def _own_config(model: nn.Module) -> None:
    """Gives a model a configuration of its own: another model made of the same object would run its attention too."""
    if OWN in vars(model):
        return
    copies: dict[int, object] = {}  # by the identity of what was copied, parts of a configuration among them
    copy.deepcopy(model.config, copies)
    for module in model.modules():
        if (held := vars(module).get("config")) is not None and id(held) in copies:
            module.config = copies[id(held)]  # type: ignore[assignment]  # no module, and no tensor
    object.__setattr__(model, OWN, True)


def restore(model: nn.Module) -> int:
    """Puts the model's own attention back; returns how many softmaxes stood in it."""
    held = [m for m in model.modules() if hasattr(m, SLOT)]
    for module in held:
        object.__delattr__(module, SLOT)
        if hasattr(module, WINDOW):
            object.__delattr__(module, WINDOW)
    for part in list(model.modules()):  # peft's wrapper may have been put around a model with its softmaxes in place
        if BEFORE in vars(part):
            for inner in part.modules():
                if CHOOSE in vars(inner):
                    object.__delattr__(inner, CHOOSE)
            part.set_attn_implementation(vars(part)[BEFORE])  # type: ignore[operator]  # as above
            object.__delattr__(part, BEFORE)
            object.__delattr__(part, OWN)
            settle(part)
    return len(held)
