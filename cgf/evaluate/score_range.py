"""What the scores of a model reach, seen while it runs as it was trained: for softmaxes with fixed intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cgf.errors import UserError
from cgf.evaluate.calibrate import run
from cgf.evaluate.open_checkpoint import OpenCheckpoint
from cgf.models.install import installed
from cgf.plan.published import ScoreRange
from cgf.softmax.published.statistical import Arion
from cgf.softmax.slot import Around, Slot
from cgf.softmax.tensor import TensorRows


@dataclass
class Extremes:
    """The least and the greatest of numbers that come in parts."""

    low: float = math.inf
    high: float = -math.inf

    def add(self, values: Tensor) -> None:
        """Takes in values of any shape; none of an empty one."""
        if values.numel():
            self.low, self.high = min(self.low, float(values.min())), max(self.high, float(values.max()))

    @property
    def ends(self) -> tuple[float, float]:
        """(least, greatest)."""
        return self.low, self.high


class ScoreWatch:
    """Collects a ScoreRange from the scores of every layer; rows without a valid entry are left out.

    Where entries do not count, the range holds the score 0 too, and what ARION's shift makes of it.
    """

    def __init__(self) -> None:
        self.scores, self.maxima, self.log_sums, self.shifted, self.sums, self.entries = (Extremes() for _ in range(6))
        self.levelled, self.log_means = Extremes(), Extremes()
        self.estimate = Arion()

    def add(self, scores: Tensor, valid: Tensor | None) -> None:
        """Takes in scores (..., Q, K) where valid, which broadcasts to them."""
        scores = scores.detach().double()
        whole = torch.ones_like(scores, dtype=torch.bool) if valid is None else valid.expand(scores.shape)
        some = whole.any(-1)
        self.scores.add(scores[whole])
        valid_scores = scores.masked_fill(~whole, -math.inf)
        self.maxima.add(valid_scores.amax(-1)[some])
        log_sums, counts = valid_scores.logsumexp(-1)[some], whole.sum(-1)
        self.log_sums.add(log_sums)
        self.log_means.add(log_sums - counts[some].log())
        self.levelled.add((scores - counts.clamp(min=1).log()[..., None])[whole])
        self.entries.add(counts[some])
        shifted = self.estimate.argument(TensorRows.of(scores, valid, torch.float64)).data
        self.shifted.add(shifted[whole])
        if not bool(whole.all()):  # what does not count enters a circuit as a score of 0, and must not explode there
            self.scores.add(scores.new_zeros(1))
            self.shifted.add(shifted)
            self.levelled.add(-counts[some].log())
        self.sums.add(shifted.exp().masked_fill(~whole, 0.0).sum(-1)[some])

    def seen(self) -> ScoreRange:
        """All of it; UserError where the scores are no range."""
        low, high = self.scores.ends
        fewest, most = (int(count) if math.isfinite(count) else 0 for count in self.entries.ends)
        return ScoreRange(
            low,
            high,
            self.maxima.low,
            self.log_sums.ends,
            (fewest, most),
            self.shifted.ends,
            self.sums.ends,
            self.levelled.ends,
            self.log_means.ends,
        )


class ScoreTap(Around):
    """A slot whose scores go to a watch, and nothing else is changed."""

    def __init__(self, inner: Slot, watch: ScoreWatch) -> None:
        super().__init__(inner)
        self.watch = watch

    def weights(self, scores: Tensor, valid: Tensor | None = None) -> Tensor:
        """The inner slot's weights (B, H, Q, K)."""
        self.watch.add(scores, valid)
        return super().weights(scores, valid)


def score_range(opened: OpenCheckpoint, indices: Sequence[int], batch_size: int) -> ScoreRange:
    """What the scores of a checkpoint reach on samples of its split, texts padded to the longest of them where rows
    are masked. UserError for a softmax that is not the exact one."""
    name = opened.softmaxes[0].name
    if name != "exact":
        raise UserError(f"what approximates exact softmax goes into a model trained with it, and this one has '{name}'")
    watch = ScoreWatch()
    texts = opened.host.inputs.tokenizer is not None
    padding = "longest" if texts and opened.host.row_kind == "masked" else "none"
    with installed(opened.host.model, lambda layer: ScoreTap(opened.softmaxes[layer], watch)):
        run(opened.host, opened.dataset, opened.collate, indices, batch_size, padding)
    return watch.seen()
