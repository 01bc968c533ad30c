"""A host model with what the rest of the project needs to know of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torch import Tensor, nn

from cgf.data.task import Inputs
from cgf.errors import UserError
from cgf.types import HostModule, Json

Forward = Callable[[nn.Module, dict[str, Tensor]], Tensor]  # a model and a batch, to logits (B, classes)


@dataclass(frozen=True, kw_only=True)
class HostFacts:
    """What is known of a host before its adapter has read the model.

    name         of the model, for run.json and messages
    trained      whether the model's head was trained for these classes
    source       where the weights come from, for run.json
    class_names  what the logits stand for, in their order; None: not told
    """

    name: str
    num_classes: int
    trained: bool
    source: Json
    class_names: Sequence[str] | None = None

    def host(
        self,
        model: nn.Module,
        inputs: Inputs,
        forward: Forward,
        *,
        family: str,
        lora_targets: tuple[str, ...],
        extras: Callable[[Path], None] | None = None,
    ) -> Host:
        """The host that an adapter makes of the model; the rest as in Host."""
        return Host(
            model=model,
            name=self.name,
            family=family,
            forward=forward,
            inputs=inputs,
            num_classes=self.num_classes,
            head_trained=self.trained,
            source=self.source,
            lora_targets=lora_targets,
            extras=extras,
            class_names=listed(self.class_names),
        )


@dataclass(kw_only=True)
class Host:
    """A classifier and its surroundings.

    family        'llama', 'bert', 'vit', 'hf_image': which adapter reads it
    forward       (model, batch) -> logits (B, classes); batch is what the task's collate returns
    inputs        tokenizer or image facts, for the task
    head_trained  whether the classification head was ever trained for these classes
    source        where the weights come from, for run.json
    lora_targets  name endings of the linear layers that adapters are put on
    extras        writes what else a checkpoint's host folder is to hold; None: nothing
    class_names   what the logits stand for, in their order; None: not told
    causal        whether no token sees a later one, as cgf.models.self_check measured
    window        tokens on each side, itself among them, that a token of its most local layer sees; None: all
    """

    model: nn.Module
    name: str
    family: str
    forward: Forward
    inputs: Inputs
    num_classes: int
    head_trained: bool
    source: Json = field(default_factory=dict)
    lora_targets: tuple[str, ...] = ()
    extras: Callable[[Path], None] | None = None
    class_names: list[str] | None = None
    causal: bool | None = None
    window: int | None = None

    def logits(self, batch: dict[str, Tensor]) -> Tensor:
        """Logits (B, classes) of a collated batch, on the model's device."""
        device = next(self.model.parameters()).device
        return self.forward(self.model, {k: v.to(device) for k, v in batch.items()})

    @property
    def row_kind(self) -> str:
        """'full' where every token sees all others, of which texts of one length are evaluated together; else 'masked'.

        A layer with a window masks rows in texts longer than it, so that all layers get the plan of masked rows.
        """
        return "full" if self.mask == "full" else "masked"

    @property
    def mask(self) -> str:
        """The kind of mask that most of its rows have in a batch, as ``cgf.plan.cost.mask_rows`` has them."""
        assert self.causal is not None, "a host is measured when it is made"
        return "causal" if self.causal else "full" if self.window is None else "padding"

    @property
    def most_tokens(self) -> int | None:
        """Tokens of a text that the model has positions for, as a transformers configuration says; None: not said."""
        most = getattr(getattr(self.model, "config", None), "max_position_embeddings", None)
        return most if isinstance(most, int) and most > 0 else None

    def state(self) -> dict[str, Tensor]:
        """Weights under the host's own key names, adapters merged."""
        return host_state(self.model)

    def describe(self) -> Json:
        """What run.json must say so that cgf.models.load.from_checkpoint needs nothing else."""
        described: Json = {
            "model": self.name,
            "family": self.family,
            "num_classes": self.num_classes,
            "source": self.source,
        }
        if self.inputs.image is not None:
            described["image"] = vars(self.inputs.image)
        if self.inputs.token_types:
            described["token_types"] = True
        if self.class_names is not None:
            described["class_names"] = self.class_names
        return described

    def write_surroundings(self, folder: Path) -> None:
        """Writes the model's configuration and tokenizer, where it has them, and its extras into a folder."""
        if self.extras is not None:
            self.extras(folder)
        if self.inputs.tokenizer is None:
            return
        folder.mkdir(parents=True, exist_ok=True)
        # mypy: a model with a tokenizer is transformers'
        self.model.config.save_pretrained(folder)  # type: ignore[union-attr, operator]
        self.inputs.tokenizer.save_pretrained(folder)


def listed(class_names: Sequence[str] | None) -> list[str] | None:
    """Class names as a checkpoint keeps them, whatever a configuration made of the list."""
    return None if class_names is None else [str(name) for name in class_names]


def check_classes(where: str, theirs: Sequence[str] | None, own: Sequence[str] | None, whose: str) -> None:
    """UserError where both name their classes, and the names or their order differ; a run of before has none."""
    if theirs is None or own is None or list(theirs) == list(own):
        return
    at = next((i for i, (a, b) in enumerate(zip(theirs, own, strict=False)) if a != b), min(len(theirs), len(own)))
    first, second = ([*names, "nothing"][min(at, len(names))] for names in (theirs, own))
    raise UserError(
        f"{where} has other classes than {whose}, or another order of them: class {at} is {first!r} there "
        f"and {second!r} here"
    )


def host_state(model: nn.Module) -> dict[str, Tensor]:
    """The model's state under its own key names, adapters merged into the weights they adapt."""
    state = {}
    layers: dict[str, HostModule] = {n: m for n, m in model.named_modules() if hasattr(m, "get_delta_weight")}
    for key, value in model.state_dict().items():
        if ".lora_" in key:
            continue
        name, _, tail = key.rpartition(".base_layer.")
        if name in layers and tail == "weight":
            value = value + sum(layers[name].get_delta_weight(a) for a in layers[name].active_adapters)
        state[f"{name}.{tail}" if name else key] = value.detach()
    return state
