"""LLaMA hosts: right padding, a pad id that is set, and a head that reads the last real token."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from cgf.data.task import Inputs
from cgf.errors import UserError
from models.host import Host
from models.pretrained import classifier, locate


def forward(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    """Logits (B, classes) at the last token that is not padding, found by the mask.

    The host's own head looks for the last id other than the pad id, which misses where a tokenizer pads
    with a token that also occurs in text.
    """
    ids, mask = batch["input_ids"], batch["attention_mask"]
    if bool((mask[:, 1:] > mask[:, :-1]).any()):
        raise UserError("a LLaMA host needs right padding, and the batch is padded on the left")
    hidden = model.model(  # type: ignore[operator]
        input_ids=ids, attention_mask=mask, use_cache=False
    ).last_hidden_state
    last = mask.sum(1) - 1
    return model.score(hidden[torch.arange(len(ids), device=ids.device), last])  # type: ignore[operator]


def set_padding(model: nn.Module, tokenizer: Any) -> None:
    """Right padding with a pad token; a tokenizer without one gets a reserved token, or its end token."""
    if tokenizer.pad_token_id is None:
        vocabulary = tokenizer.get_vocab()
        reserved = [t for t in ("<|finetune_right_pad_id|>", "<pad>", "<|pad|>") if t in vocabulary]
        tokenizer.pad_token = reserved[0] if reserved else tokenizer.eos_token
    if tokenizer.pad_token_id is None:
        raise UserError("the tokenizer has neither a pad token nor an end token to pad with")
    tokenizer.padding_side = "right"
    model.config.pad_token_id = tokenizer.pad_token_id  # type: ignore[union-attr]


def host(model: nn.Module, tokenizer: Any, name: str, num_classes: int, trained: bool, source: dict[str, Any]) -> Host:
    set_padding(model, tokenizer)
    return Host(model, name, "llama", forward, Inputs(tokenizer=tokenizer), num_classes, trained, source,
                ".self_attn.", ("q_proj", "k_proj", "v_proj", "o_proj"))


def load(name: str, num_classes: int, path: str | None = None, package: str | None = None, subfolder: str = "",
         gguf_file: str | None = None, data_root: str | None = None) -> Host:
    """A LLaMA with a classification head; see models.pretrained.locate for where it is looked for."""
    where = locate(name, path, package, subfolder, data_root)
    model, tokenizer, trained = classifier(where, num_classes, gguf_file, "model.path=FOLDER with its files")
    kind = model.config.model_type  # type: ignore[union-attr]
    if kind != "llama":
        raise UserError(f"model={name} needs a LLaMA, and {where} holds a {kind}")
    source = {"weights": path or package or subfolder, "gguf_file": gguf_file}
    return host(model, tokenizer, name, num_classes, trained, source)
