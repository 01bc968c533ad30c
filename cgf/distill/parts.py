"""Norms and activations that are replaced for a training: put in, started from training data, kept in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from cgf.activation.base import ActivationVariant, ExactActivations
from cgf.checks import whole
from cgf.data.task import Task
from cgf.distill.processes import say
from cgf.errors import UserError
from cgf.models.host import Host
from cgf.models.replace import Parts, parts_of
from cgf.models.replace_check import replaced, start_from
from cgf.models.samples import samples_of
from cgf.norm.base import ExactNorms, NormVariant
from cgf.replacement import Replacement


@dataclass
class PartsRequest:
    """The norms and activations that a run asks for; samples: of the training set, which they start from, by seed."""

    norm: NormVariant = field(default_factory=ExactNorms)
    activation: ActivationVariant = field(default_factory=ExactActivations)
    samples: int = 256
    seed: int = 0

    def __post_init__(self) -> None:
        whole("calibrate.samples", self.samples, 2)

    def put(self, host: Host, task: Task) -> None:
        """Puts them into a host whose own norms and activations are in place, and starts them; told in one line.

        A host that came with the same ones, trained already, keeps them as they are. UserError where it came with
        others.
        """
        there = parts_of(host.model)
        if there.all:
            self._check_same(there)
        elif self.norm.name != "exact" or self.activation.name != "exact":
            parts = replaced(host, self.norm, self.activation)
            dataset, collate = samples_of(task, "train", host, training=True), task.collate(host.inputs)
            order = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(self.seed))
            batch = collate([dataset[i] for i in order[: self.samples].tolist()])
            batch.pop("labels")
            start_from(host, batch)
            say(f"{parts.told()}, started from {len(next(iter(batch.values())))} training samples")

    def _check_same(self, there: Parts) -> None:
        for what, own, wanted in (("norm", there.norm, self.norm), ("activation", there.activation, self.activation)):
            if own.to_json() != wanted.to_json():
                raise UserError(
                    f"the checkpoint was trained with {what} {own.to_json()}, and the run asks for {wanted.to_json()}: "
                    "start from one whose norms and activations are the host's own, or ask for the same"
                )


def kept_tensors(parts: Parts) -> dict[str, Tensor]:
    """All tensors of replaced parts under the model's own key names, for a training state of adapters alone."""
    both = {**parts.norms, **parts.activations}
    return {f"{place}.{key}": tensor for place, part in both.items() for key, tensor in part.state_dict().items()}


def after_step(parts: Sequence[Replacement]) -> None:
    """Puts parameters back into what is allowed."""
    for part in parts:
        part.hold()


@torch.no_grad()
def pool(
    parts: Sequence[Replacement], gather: Callable[[list[list[Tensor]]], list[list[list[Tensor]]]], share: float
) -> None:
    """Running statistics averaged over processes by their shares of the batch, so that all hold the same."""
    if not any(part.measured() for part in parts):
        return
    own = [[share * tensor.cpu() for tensor in part.measured()] for part in parts]
    processes = gather(own)
    for i, part in enumerate(parts):
        for j, tensor in enumerate(part.measured()):
            tensor.copy_(torch.stack([process[i][j] for process in processes]).sum(0))
