"""LLaMA hosts and other decoders: right padding, a pad id that is set, a head that reads the last real token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from cgf.data.task import Inputs
from cgf.errors import UserError
from cgf.models import text
from cgf.models.host import Host, HostFacts
from cgf.models.self_check import checked

if TYPE_CHECKING:  # seconds to load, and a ViT needs none of it
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def forward(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    """Logits (B, classes) at the last token that is not padding, found by the mask.

    The host's own head looks for the last id other than the pad id, which misses where a tokenizer pads
    with a token that also occurs in text.
    """
    ids, mask = batch["input_ids"], batch["attention_mask"]
    if bool((mask[:, 1:] > mask[:, :-1]).any()):
        raise UserError("a LLaMA host needs right padding, and the batch is padded on the left")
    if not bool(mask.any(1).all()):
        raise UserError("a LLaMA host reads the last token of each text, and a text of the batch has none")
    hidden = model.base_model(  # type: ignore[operator]  # transformers has it
        input_ids=ids, attention_mask=mask, use_cache=False
    ).last_hidden_state
    last = mask.sum(1) - 1
    return model.score(hidden[torch.arange(len(ids), device=ids.device), last])  # type: ignore[operator]  # as above


def has_head(model: nn.Module) -> bool:
    """Whether a model has the linear head of transformers' decoders, which reads one token of each text."""
    return isinstance(getattr(model, "score", None), nn.Linear)


def set_padding(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """Right padding with a pad token; a tokenizer without one gets a reserved token, or its end token.

    Raises UserError where it has neither.
    """
    if tokenizer.pad_token_id is None:
        vocabulary = tokenizer.get_vocab()
        reserved = [t for t in ("<|finetune_right_pad_id|>", "<pad>", "<|pad|>") if t in vocabulary]
        tokenizer.pad_token = reserved[0] if reserved else tokenizer.eos_token
    if tokenizer.pad_token_id is None:
        raise UserError("the tokenizer has neither a pad token nor an end token to pad with")
    tokenizer.padding_side = "right"
    model.config.pad_token_id = tokenizer.pad_token_id


def host(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, about: HostFacts) -> Host:
    """A host of any decoder with a linear head ``score``, as LLaMA, Mistral, Qwen and GPT-2 of transformers have it.

    Raises UserError for a model that is none: without that head, with an encoder, or not causal.
    """
    if not has_head(model) or model.config.is_encoder_decoder:
        raise UserError(
            f"model={about.name} needs a LLaMA or another decoder with a linear head 'score', and "
            f"{type(model).__name__} is none: encoders are read by cgf.models.bert.load"
        )
    set_padding(model, tokenizer)
    made = about.host(
        model,
        Inputs(tokenizer=tokenizer),
        forward,
        family="llama",
        lora_targets=("q_proj", "k_proj", "v_proj", "o_proj"),
    )
    return checked(made, causal=True)


def load(
    name: str,
    num_classes: int,
    *,
    path: str | None = None,
    package: str | None = None,
    subfolder: str = "",
    gguf_file: str | None = None,
    data_root: str | None = None,
    hub_revision: str | None = None,
    class_names: Sequence[str] | None = None,
) -> Host:
    """A decoder with a classification head; see cgf.models.text.load. gguf_file: the name of such a file in there."""
    return text.load(
        host,
        name,
        num_classes,
        path=path,
        package=package,
        subfolder=subfolder,
        data_root=data_root,
        class_names=class_names,
        gguf_file=gguf_file,
        source={"gguf_file": gguf_file},
        hub_revision=hub_revision,
    )
