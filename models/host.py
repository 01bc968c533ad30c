"""A host model with what the rest of the project needs to know of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from cgf.data.task import Inputs


@dataclass
class Host:
    """A classifier and its surroundings.

    family        'llama', 'bert', 'vit': which adapter reads it
    forward       (model, batch) -> logits (B, classes); batch is what the task's collate returns
    inputs        tokenizer or image facts, for the task
    head_trained  whether the classification head was ever trained for these classes
    source        where the weights come from, for run.json
    attention     what the names of the attention's parameters contain, for attention-only tuning
    lora_targets  name endings of the linear layers that adapters are put on
    extras        writes what else a checkpoint's host folder is to hold; None: nothing
    """

    model: nn.Module
    name: str
    family: str
    forward: Callable[[nn.Module, dict[str, Tensor]], Tensor]
    inputs: Inputs
    num_classes: int
    head_trained: bool
    source: dict[str, Any] = field(default_factory=dict)
    attention: str = "attention"
    lora_targets: tuple[str, ...] = ()
    extras: Callable[[Path], None] | None = None

    def logits(self, batch: dict[str, Tensor]) -> Tensor:
        """Logits (B, classes) of a collated batch, on the model's device."""
        device = next(self.model.parameters()).device
        return self.forward(self.model, {k: v.to(device) for k, v in batch.items()})

    @property
    def rows(self) -> str:
        """'masked' for causal hosts, 'full' for others: texts of one length are evaluated together."""
        config = getattr(self.model, "config", None)
        return "masked" if self.family == "llama" or getattr(config, "is_decoder", False) else "full"

    def state(self) -> dict[str, Tensor]:
        """Weights under the host's own key names, adapters merged."""
        return host_state(self.model)

    def describe(self) -> dict[str, Any]:
        """What run.json must say so that models.load.from_checkpoint needs nothing else."""
        described: dict[str, Any] = {"model": self.name, "family": self.family, "num_classes": self.num_classes,
                                     "source": self.source}
        if self.inputs.image is not None:
            described["image"] = vars(self.inputs.image)
        return described

    def write_surroundings(self, folder: Path) -> None:
        """Writes the model's configuration and tokenizer, where it has them, and its extras into a folder."""
        if self.extras is not None:
            self.extras(folder)
        if self.inputs.tokenizer is None:
            return
        folder.mkdir(parents=True, exist_ok=True)
        self.model.config.save_pretrained(folder)  # type: ignore[union-attr, operator]
        self.inputs.tokenizer.save_pretrained(folder)


def host_state(model: nn.Module) -> dict[str, Tensor]:
    """The model's state under its own key names, adapters merged into the weights they adapt."""
    state = {}
    layers: dict[str, Any] = {n: m for n, m in model.named_modules() if hasattr(m, "get_delta_weight")}
    for key, value in model.state_dict().items():
        if ".lora_" in key:
            continue
        name, _, tail = key.rpartition(".base_layer.")
        if name in layers and tail == "weight":
            value = value + sum(layers[name].get_delta_weight(a) for a in layers[name].active_adapters)
        state[f"{name}.{tail}" if name else key] = value.detach()
    return state
