"""BERT hosts, and other transformers encoders with a classification head."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from cgf.data.task import Inputs
from models.host import Host
from models.pretrained import classifier, locate


def forward(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    """Logits (B, classes) of the model's own head."""
    return model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits


def host(model: nn.Module, tokenizer: Any, name: str, num_classes: int, trained: bool, source: dict[str, Any]) -> Host:
    return Host(model, name, "bert", forward, Inputs(tokenizer=tokenizer), num_classes, trained, source,
                ".attention.", ("query", "key", "value", "attention.output.dense"))


def load(name: str, num_classes: int, path: str | None = None, package: str | None = None, subfolder: str = "",
         data_root: str | None = None) -> Host:
    """An encoder with a classification head; see models.pretrained.locate for where it is looked for."""
    where = locate(name, path, package, subfolder, data_root)
    model, tokenizer, trained = classifier(where, num_classes, None, "model.path=FOLDER with its files")
    return host(model, tokenizer, name, num_classes, trained, {"weights": path or package or subfolder})
