"""What a training step is made of: the module that accelerate wraps, pieces of a batch, AdamW and clipping."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from cgf.distill.settings import Settings
from cgf.errors import UserError
from cgf.types import Options

if TYPE_CHECKING:
    from accelerate import Accelerator


class Classifier(nn.Module):
    """The host's forward as a module of its own, so that accelerate can wrap it.

    What the softmaxes train is held here beside the host, whose own keys stay as they are: so it moves to the
    device with the host, and its gradients are shared between processes.
    """

    def __init__(
        self, model: nn.Module, forward: Callable[[nn.Module, dict[str, Tensor]], Tensor], constants: list[nn.Parameter]
    ) -> None:
        super().__init__()
        self.model, self._forward = model, forward
        self.constants = nn.ParameterList(constants)

    def forward(self, **batch: Tensor) -> Tensor:
        """Logits (B, classes) of a batch without its labels."""
        return self._forward(self.model, batch)


def pieces(batch: dict[str, Tensor], count: int) -> Iterator[tuple[dict[str, Tensor], float]]:
    """(piece, its share of the samples), at most ``count`` of nearly one size; each tensor is split at its samples.

    The mean over samples is the sum of share * mean over the piece, so losses that are such means, and their
    gradients, are those of the whole batch. What takes a maximum over the batch (BPMax, worst rows) sees a piece,
    and so do means over tokens or entries (matching, range penalties): samples weigh alike in them.
    """
    samples = len(next(iter(batch.values())))
    size = -(-samples // count)
    for start in range(0, samples, size):
        part = {k: v[start : start + size] for k, v in batch.items()}
        yield part, min(size, samples - start) / samples


def adamw(
    model: nn.Module, constants: list[nn.Parameter], settings: Settings, device: torch.device
) -> torch.optim.AdamW:
    """Weight decay on matrices alone; constants at ``softmax_lr`` times the rate (their group's lr_scale)."""
    trained = [p for p in model.parameters() if p.requires_grad]
    groups: list[Options] = [
        {"params": [p for p in trained if p.dim() > 1], "weight_decay": settings.weight_decay},
        {"params": [p for p in trained if p.dim() <= 1], "weight_decay": 0.0},
    ]
    if constants:
        groups.append({"params": constants, "weight_decay": 0.0, "lr_scale": settings.softmax_lr})
    # one pass over the weights instead of ten: on CPU a third of a small batch's step goes there otherwise
    return torch.optim.AdamW(groups, lr=settings.lr, fused=True if device.type == "cpu" else None)


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Gives every group the rate, times its own lr_scale."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group.get("lr_scale", 1.0)


def clip(accelerator: Accelerator, model: nn.Module, constants: nn.ParameterList, most: float) -> None:
    """Clips host and constants each by its own norm: a constant's gradient sums over every entry of a layer,
    and would leave the host next to nothing."""
    accelerator.clip_grad_norm_(model.parameters(), most)
    if len(constants):
        torch.nn.utils.clip_grad_norm_(constants, most)


def check_finite(what: str, loss: float, rate: float) -> None:
    """UserError, which begins with ``what``, for a loss that is no finite number; rate: train.lr as it is set."""
    if not math.isfinite(loss):
        raise UserError(
            f"{what}: lower train.lr (now {rate:g}) or take a softmax that stays bounded; the last complete "
            "checkpoint is untouched"
        )
