"""What is optimized and how: AdamW over host and softmax constants, each clipped by its own norm."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from cgf.distill.settings import Settings


def adamw(
    model: nn.Module, constants: list[nn.Parameter], settings: Settings, device: torch.device
) -> torch.optim.AdamW:
    """Weight decay on matrices alone; constants at ``softmax_lr`` times the rate (their group's lr_scale)."""
    trained = [p for p in model.parameters() if p.requires_grad]
    groups: list[dict[str, Any]] = [
        {"params": [p for p in trained if p.dim() > 1], "weight_decay": settings.weight_decay},
        {"params": [p for p in trained if p.dim() <= 1], "weight_decay": 0.0},
    ]
    if constants:
        groups.append({"params": constants, "weight_decay": 0.0, "lr_scale": settings.softmax_lr})
    # one pass over the weights instead of ten: on CPU a third of a small batch's step goes there otherwise
    return torch.optim.AdamW(groups, lr=settings.lr, fused=True if device.type == "cpu" else None)


def set_rate(optimizer: Any, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate * group.get("lr_scale", 1.0)


def clip(accelerator: Any, model: nn.Module, constants: nn.ParameterList, most: float) -> None:
    """Clips host and constants each by its own norm: a constant's gradient sums over every entry of a layer,
    and would leave the host next to nothing."""
    accelerator.clip_grad_norm_(model.parameters(), most)
    if len(constants):
        torch.nn.utils.clip_grad_norm_(constants, most)
