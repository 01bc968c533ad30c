"""The training loss: cross-entropy, and with a teacher the divergence from its softened logits."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from cgf.errors import UserError


@dataclass(frozen=True)
class DistillationLoss:
    """(1 - alpha) CE(student, labels) + alpha tau^2 KL(teacher / tau || student / tau); CE without a teacher.

    Logits (B, C), labels (B,). tau^2 keeps the two gradients on one scale (Hinton et al. 2015). The
    CGF-softmax paper sets tau = 2, alpha = 0.5 (appendix 'Training Details').
    """

    tau: float = 2.0
    alpha: float = 0.5
    label_smoothing: float = 0.0

    def __post_init__(self) -> None:
        numbers = all(isinstance(each, int | float) for each in (self.tau, self.alpha))
        if not (numbers and 0 < self.tau < math.inf and 0 <= self.alpha <= 1):
            raise UserError(
                f"distillation needs tau > 0 and alpha in [0, 1], and has tau={self.tau}, alpha={self.alpha}"
            )

    def __call__(self, student: Tensor, labels: Tensor, teacher: Tensor | None = None) -> Tensor:
        student = student.float()
        hard = F.cross_entropy(student, labels, label_smoothing=self.label_smoothing)
        if teacher is None:
            return hard
        soft = F.kl_div(
            F.log_softmax(student / self.tau, -1),
            F.log_softmax(teacher.float() / self.tau, -1),
            reduction="batchmean",
            log_target=True,
        )
        return (1 - self.alpha) * hard + self.alpha * self.tau**2 * soft
