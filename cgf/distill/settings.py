"""The settings of a training run, and what follows from them alone: learning rates and batches."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch

from cgf.checks import whole
from cgf.data.task import Items
from cgf.errors import UserError

SCHEDULES = ("linear", "cosine", "constant")
KEPT = ("accuracy", "loss")  # what decides on validation which epoch is kept
BF16 = ("avx512_bf16", "amx_bf16", "bf16")  # flags of processors that compute in it
MOST_WORKERS = 1024  # processes that load data
OPTIONAL = ("max_steps", "patience", "save_every", "length_pool")  # whole numbers, or None


@dataclass(frozen=True)
class Settings:
    """The `train` node of the configuration; see configs/train.yaml for each field."""

    epochs: int = 3
    max_steps: int | None = None
    batch_size: int = 32
    accumulate: int = 1
    length_pool: int | None = 50
    eval_batch_size: int = 128
    lr: float = 1e-4
    softmax_lr: float = 1.0
    weight_decay: float = 0.01
    warmup: float = 0.05
    schedule: str = "linear"
    grad_norm: float = 1.0
    label_smoothing: float = 0.0
    staged: float = 0.0
    order: Sequence[str] = ("softmax", "norm", "activation")
    keep: str = "accuracy"
    patience: int | None = None
    save_every: int | None = None
    log_every: int = 20
    precision: str = "auto"
    workers: int = 0
    checkpointing: bool = False
    compile: bool = False

    def __post_init__(self) -> None:
        if self.schedule not in SCHEDULES:
            raise UserError(f"train.schedule must be one of {', '.join(SCHEDULES)}, and {self.schedule!r} was given")
        if self.keep not in KEPT:
            raise UserError(f"train.keep must be one of {', '.join(KEPT)}, and {self.keep!r} was given")
        if self.precision not in ("auto", "no", "bf16", "fp16"):
            raise UserError(f"train.precision must be auto, no, bf16 or fp16, and {self.precision!r} was given")
        if self.precision == "fp16" and not torch.accelerator.is_available():  # accelerate would compute in float32
            raise UserError(
                "train.precision=fp16 needs a GPU, and there is none: auto, no and bf16 train on a processor"
            )
        for name in ("epochs", "batch_size", "accumulate", "eval_batch_size", "log_every", *OPTIONAL):
            value = getattr(self, name)
            if value is None and name in OPTIONAL:
                continue
            whole(f"train.{name}", value, 0 if name == "epochs" else 1)  # none: validated and saved as it stands
        for name in ("lr", "softmax_lr", "weight_decay", "warmup", "grad_norm", "label_smoothing", "staged"):
            value = getattr(self, name)
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if not is_number or not 0 <= value < math.inf or (name == "lr" and value == 0):
                raise UserError(
                    f"train.{name} must be a number {'above' if name == 'lr' else 'of at least'} 0, "
                    f"and {value!r} was given"
                )
        whole("train.workers", self.workers, 0, MOST_WORKERS)
        for name in ("warmup", "label_smoothing", "staged"):
            if getattr(self, name) > 1:
                raise UserError(f"train.{name} must be a share from 0 to 1, and {getattr(self, name)!r} was given")

    def mixed_precision(self) -> str:
        """precision as accelerate names it; auto: bf16 on a GPU that has it, else float32 ('no')."""
        if self.precision != "auto":
            return self.precision
        return "bf16" if torch.cuda.is_available() and torch.cuda.is_bf16_supported() else "no"

    def notes(self, flags: Collection[str]) -> list[str]:
        """What a person should know of these settings on a processor of these flags, lines."""
        slow = self.mixed_precision() == "bf16" and not torch.cuda.is_available()
        if not slow or not flags or any(flag in flags for flag in BF16):
            return []
        return [
            "train.precision=bf16 is slow here: this processor has no arithmetic of bfloat16 "
            f"({', '.join(BF16)}), and train.precision=no computes in float32"
        ]

    def lr_at(self, step: int, total: int) -> float:
        """Learning rate of the given step (from 0) of ``total``; a function of the step alone."""
        warm = max(1, round(self.warmup * total)) if self.warmup else 0
        if step < warm:
            return self.lr * (step + 1) / warm
        left = 1 - (step - warm) / max(1, total - warm)
        if self.schedule == "constant":
            return self.lr
        return self.lr * (left if self.schedule == "linear" else 0.5 * (1 - math.cos(math.pi * left)))


def epoch_batches(dataset: Items, size: int, seed: int, epoch: int, pool: int | None = 50) -> list[list[int]]:
    """Shuffled batches of an epoch, each sample once: the same for the same seed and epoch, so a run can be resumed.

    Data sets with ``lengths`` (texts) are sorted by length within pools of ``pool`` shuffled batches, then the
    batches are shuffled: little padding, and batches still differ from epoch to epoch. None or 1 keeps batches
    as drawn.
    """
    generator = torch.Generator().manual_seed(seed * 100_003 + epoch)
    order = torch.randperm(len(dataset), generator=generator).tolist()
    lengths = getattr(dataset, "lengths", None)
    if lengths is not None and pool is not None:
        pools = [order[p : p + pool * size] for p in range(0, len(order), pool * size)]
        order = [i for p in pools for i in sorted(p, key=lambda i: lengths[i])]
    batches = [order[i : i + size] for i in range(0, len(order), size)]
    shuffled = torch.randperm(len(batches), generator=generator).tolist()
    return [batches[i] for i in shuffled]
