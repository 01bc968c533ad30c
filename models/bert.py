"""BERT hosts, and other transformers encoders with a classification head."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import Tensor, nn

from cgf.data.task import Inputs
from cgf.data.tokens import TYPES
from cgf.errors import UserError
from cgf.models import text
from cgf.models.host import Host, HostFacts
from cgf.models.self_check import checked
from cgf.models.transformers_attention import refuse_lost_positions

if TYPE_CHECKING:  # seconds to load, and a ViT needs none of it
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def forward(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    """Logits (B, classes) of the model's own head."""
    return model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits


def forward_with_types(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    """As ``forward``, the second text of a pair told from the first by its token types, where the batch has them."""
    return model(
        input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], token_type_ids=batch.get(TYPES)
    ).logits


def reads_types(model: PreTrainedModel) -> bool:
    """Whether a model has an embedding for each of two token types, and takes them."""
    types = model.config.to_dict().get("type_vocab_size") or 0
    return types > 1 and TYPES in inspect.signature(model.forward).parameters


def host(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    about: HostFacts,
    *,
    token_types: bool | None = None,
    family: str = "bert",
) -> Host:
    """A host of an encoder.

    family: 'bert', or 'bert_tiny' for a ``cgf.models.bert_tiny.MeanPooledBert``.
    token_types: whether the second text of a pair is told from the first by token types; None: where the model has
    two of them.

    Raises UserError for a model that is no encoder (one that is causal, or has a decoder beside), and for one that was
    trained with relative positions.
    """
    if model.config.is_encoder_decoder:
        raise UserError(f"model={about.name} needs an encoder alone, and {type(model).__name__} has a decoder beside")
    refuse_lost_positions(model, f"model={about.name}")
    types = reads_types(model) if token_types is None else token_types
    made = about.host(
        model,
        Inputs(tokenizer=tokenizer, token_types=types),
        forward_with_types if types else forward,
        family=family,
        lora_targets=("query", "key", "value", "attention.output.dense"),
    )
    return checked(made, causal=False)


def load(
    name: str,
    num_classes: int,
    *,
    path: str | None = None,
    package: str | None = None,
    subfolder: str = "",
    data_root: str | None = None,
    class_names: Sequence[str] | None = None,
) -> Host:
    """An encoder with a classification head; see cgf.models.text.load."""
    return text.load(
        host,
        name,
        num_classes,
        path=path,
        package=package,
        subfolder=subfolder,
        data_root=data_root,
        class_names=class_names,
    )
