"""BERT hosts, and other transformers encoders with a classification head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from cgf.data.task import Inputs
from cgf.errors import UserError
from cgf.models.host import Host, listed
from cgf.models.pretrained import classifier, locate
from cgf.models.self_check import checked


def forward(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    """Logits (B, classes) of the model's own head."""
    return model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits


def host(
    model: nn.Module,
    tokenizer: Any,
    name: str,
    num_classes: int,
    trained: bool,
    source: dict[str, Any],
    class_names: Sequence[str] | None = None,
) -> Host:
    """Raises UserError for a model that is no encoder: one that is causal, or has a decoder beside."""
    if model.config.is_encoder_decoder:  # type: ignore[union-attr]
        raise UserError(f"model={name} needs an encoder alone, and {type(model).__name__} has a decoder beside")
    return checked(
        Host(
            model,
            name,
            "bert",
            forward,
            Inputs(tokenizer=tokenizer),
            num_classes,
            trained,
            source,
            ("query", "key", "value", "attention.output.dense"),
            class_names=listed(class_names),
        ),
        causal=False,
    )


def load(
    name: str,
    num_classes: int,
    path: str | None = None,
    package: str | None = None,
    subfolder: str = "",
    data_root: str | None = None,
    class_names: Sequence[str] | None = None,
) -> Host:
    """An encoder with a classification head; see cgf.models.pretrained.locate for where it is looked for.

    class_names: the task's, in its order; a head that came with the weights is put into it, see cgf.models.pretrained.
    """
    where = locate(name, path, package, subfolder, data_root)
    model, tokenizer, trained = classifier(
        where, num_classes, None, "model.path=FOLDER with its files", listed(class_names)
    )
    return host(model, tokenizer, name, num_classes, trained, {"weights": path or package or subfolder}, class_names)
