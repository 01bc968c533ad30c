"""The one loop that every evaluation runs: batches through a model, predictions out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cgf.checks import is_whole
from cgf.data.task import Collate, Items
from cgf.errors import UserError
from cgf.models.self_check import evaluating


@dataclass(frozen=True)
class Outcome:
    """Predictions of a set of samples: logits (N, C), labels (N,), index (N,) in the split."""

    logits: Tensor
    labels: Tensor
    index: Tensor

    @property
    def predictions(self) -> Tensor:
        """The class of the largest logit (N,)."""
        return self.logits.argmax(-1)

    @property
    def finite(self) -> Tensor:
        """Whether all logits of a sample are finite numbers (N,): without that it has no prediction."""
        return self.logits.isfinite().all(-1)

    @property
    def right(self) -> Tensor:
        """Whether the prediction is the label (N,); it is not where a logit is no finite number."""
        return (self.predictions == self.labels) & self.finite

    @property
    def correct(self) -> int:
        """How many predictions are the labels."""
        return int(self.right.sum())

    @property
    def accuracy(self) -> float:
        """Share of the samples whose prediction is the label."""
        return self.correct / len(self.labels)

    @property
    def loss(self) -> float:
        """Mean cross-entropy of the logits in float32."""
        return float(F.cross_entropy(self.logits.float(), self.labels))

    def agreement(self, other: Outcome) -> float:
        """Share of samples on which two outcomes of the same samples predict the same class."""
        if not torch.equal(self.index, other.index):
            raise UserError("two outcomes can only be compared on the same samples in the same order")
        return float((self.predictions == other.predictions).double().mean())


def batches_by_length(dataset: Items, size: int, indices: Sequence[int] | None = None) -> list[list[int]]:
    """Batches of at most ``size`` indices; texts of similar length together, so that padding is small."""
    _check_size(size)
    chosen = list(range(len(dataset))) if indices is None else list(indices)
    lengths = getattr(dataset, "lengths", None)
    if lengths is not None:
        chosen.sort(key=lambda i: (lengths[i], i))
    return [chosen[i : i + size] for i in range(0, len(chosen), size)]


def batches_of_one_length(dataset: Items, size: int, indices: Sequence[int]) -> list[list[int]]:
    """Batches whose texts all have the same length: no padding, so encrypted rows are full."""
    _check_size(size)
    lengths = getattr(dataset, "lengths", None)
    if lengths is None:
        return batches_by_length(dataset, size, indices)
    groups: dict[int, list[int]] = {}
    for i in sorted(indices, key=lambda i: (lengths[i], i)):
        groups.setdefault(lengths[i], []).append(i)
    return [g[i : i + size] for g in groups.values() for i in range(0, len(g), size)]


def batches_of_rows(dataset: Items, size: int, indices: Sequence[int], masked: bool) -> list[list[int]]:
    """Batches as ciphertexts take them: of one length where rows are full (masked false), else by length.

    The plan of a host with full rows has never seen a padding token's row, whose scores may lie far beyond its guard; a
    weight that overflows there makes that token NaN, and 0 NaN reaches the real ones.
    """
    return batches_by_length(dataset, size, indices) if masked else batches_of_one_length(dataset, size, indices)


def _check_size(size: int) -> None:
    if not is_whole(size) or size < 1:
        raise UserError(f"a batch must hold a whole number of samples, at least 1, and {size!r} was given")


@torch.inference_mode()
def evaluate(
    model: nn.Module,
    logits_of: Callable[[dict[str, Tensor]], Tensor],
    dataset: Items,
    collate: Collate,
    batches: Iterable[list[int]],
    after_batch: Callable[[list[int], Tensor, Tensor], None] | None = None,
) -> Outcome:
    """Runs the batches (lists of dataset indices) in evaluation mode; results in the order of the indices.

    Every module has its own mode back afterwards.

    after_batch(indices, logits, labels) is called after each batch: progress, lines for a stopped run.
    """
    logits, labels, index = [], [], []
    with evaluating(model):
        for chosen in batches:
            batch = collate([dataset[i] for i in chosen])
            truth = batch.pop("labels")
            out = logits_of(batch).float().cpu()
            logits.append(out)
            labels.append(truth)
            index.append(torch.tensor(chosen))
            if after_batch is not None:
                after_batch(chosen, out, truth)
    if not logits:
        raise UserError("an evaluation needs at least one sample, and there is none")
    return joined([Outcome(*parts) for parts in zip(logits, labels, index, strict=True)])


def joined(parts: Sequence[Outcome]) -> Outcome:
    """One outcome of the samples of all ``parts``, in the order of their indices."""
    order = torch.cat([p.index for p in parts]).argsort()
    return Outcome(*(torch.cat([getattr(p, name) for p in parts])[order] for name in ("logits", "labels", "index")))
